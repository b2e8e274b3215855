"""The package's own commands, in the order of the help, and its functions of Python."""

from bpe_pipeline.commands.public import counts, inspect, python, train, use

_DECLARED = (*train.COMMANDS, *python.FUNCTIONS, *use.COMMANDS, *inspect.COMMANDS, *counts.COMMANDS)
COMMANDS = tuple(one for one in _DECLARED if one.name)
FUNCTIONS = tuple(one for one in _DECLARED if one.python)
