"""The package's own commands and public functions: what each takes and says. Each imports its work when called."""
