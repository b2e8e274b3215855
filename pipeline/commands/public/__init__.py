"""The package's own commands and public functions: what each takes and says; their stories are imported when told."""
