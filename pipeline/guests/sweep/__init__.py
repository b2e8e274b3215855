"""Guest: several vocabulary sizes and mixtures of runs, tried and compared."""

from pipeline.run.guests import Guest

GUEST = Guest()
