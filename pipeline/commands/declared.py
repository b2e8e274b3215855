"""The package's own commands, in the order of the help."""

from pipeline.commands.public import counts, inspect, train, use

COMMANDS = (*train.COMMANDS, *use.COMMANDS, *inspect.COMMANDS, *counts.COMMANDS)
