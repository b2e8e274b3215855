"""Extension: several vocabulary sizes and mixtures of runs, tried and compared."""
