"""One file a command: its story in one screen."""
