"""What this guest brings."""

from pipeline.run.guests import Guest

GUEST = Guest()
