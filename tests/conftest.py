"""What every test can rely on, however the suite was started."""

import signal

# Started in the background by a shell, we would inherit an ignored Ctrl-C, and so would the commands under test.
signal.signal(signal.SIGINT, signal.default_int_handler)
