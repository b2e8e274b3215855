"""The package's own commands and public functions: what each takes and says; their stories are imported when told."""

from pipeline.commands.public import counts, inspect, train, use

COMMANDS = (*train.COMMANDS, *use.COMMANDS, *inspect.COMMANDS, *counts.COMMANDS)
