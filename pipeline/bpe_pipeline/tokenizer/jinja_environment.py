"""The environment of chat templates in Jinja: sandboxed, with its loops and calls counted, and what transformers adds.

It is apart from what uses it, since importing jinja2 takes time.
"""

import json
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import TemplateError, nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.sandbox import ImmutableSandboxedEnvironment

STEPS = "__steps"  # the variable that counts: a list of one number
RENDERED = "__rendered"  # the variable with a method `add_generated`, which gets the text of each generation
_OF_DICTS = frozenset(dir(dict))
_MOST_STEPS = 1_000_000  # rounds of loops and calls in rendering one dialog
_MOST_REPEATED = 1 << 26  # characters of a repeated text, bits of a power


@pass_context
def _counted(context: Any, rounds: Any) -> Any:
    """Return what a loop iterates over, with its rounds counted: at once if it is known how many there are."""
    steps = context.get(STEPS)
    if not isinstance(rounds, list | tuple | dict):
        return _each_counted(steps, rounds)
    _count(steps, len(rounds))
    return rounds


def _each_counted(steps: list[int] | None, rounds: Any) -> Any:
    for member in rounds:
        _count(steps)
        yield member


def _count(steps: list[int] | None, rounds: int = 1) -> None:
    if steps is None:
        return
    steps[0] += rounds
    if steps[0] > _MOST_STEPS:
        raise RuntimeError(f"it takes more than {_MOST_STEPS:,} steps: does a loop or a macro of it end?")


def _count_rounds(parsed: Any) -> None:
    """Have the loops of a parsed template count their rounds."""
    for loop in parsed.find_all(nodes.For):
        loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.iter.lineno)


@pass_context
def _selectattr(context: Any, members: Any, *how: Any, **more: Any) -> Any:
    """Select as Jinja does, but faster the dicts in which a member is there, and true."""
    if len(how) != 1 or more or how[0] in _OF_DICTS or not _are_dicts(members) or "." in str(how[0]):
        return FILTERS["selectattr"](context, members, *how, **more)
    return (member for member in members if member.get(how[0]))


def _are_dicts(members: Any) -> bool:
    return isinstance(members, list) and all(type(member) is dict for member in members)


class _Environment(ImmutableSandboxedEnvironment):
    """Count rounds of loops, calls, and how large repeated texts and powers become."""

    intercepted_binops = frozenset(("*", "**"))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        for value, times in ((left, right), (right, left)) if operator == "*" else ((left, right),):
            size = len(value) if isinstance(value, str | list | tuple) else 0
            size = value.bit_length() if operator == "**" and isinstance(value, int) else size
            if isinstance(times, int) and size * times > _MOST_REPEATED:
                raise OverflowError(f"a result of {operator} is too large")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, called: Any, /, *arguments: Any, **keywords: Any) -> Any:
        _count(context.get(STEPS))
        return super().call(context, called, *arguments, **keywords)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is dict and attribute not in _OF_DICTS:  # as there, but without exceptions
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


class _Generation(Extension):
    """`{% generation %}` marks what the assistant wrote; as in transformers, its block has a scope of its own."""

    tags = {"generation"}  # noqa: RUF012 - as its class has it

    def parse(self, parser: Any) -> Any:
        """Parse the block as one with a filter that gets its text, which takes less time than a call."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.FilterBlock(body, nodes.Filter(None, "_generated", [], [], None, None)).set_lineno(line)


@pass_context
def _generated(context: Any, text: str) -> str:
    if rendered := context.get(RENDERED):
        rendered.add_generated(text)
    return text


@cache
def compiled(jinja: str) -> Any:
    """Return a template that is ready to be rendered; raises what jinja2 raises for a text that is none."""

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, **how: Any) -> str:
        return json.dumps(value, **({"ensure_ascii": False} | how))

    environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters |= {"_counted": _counted, "_generated": _generated}
    environment.filters |= {"selectattr": _selectattr, "tojson": to_json}
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    parsed = environment.parse(jinja)
    _count_rounds(parsed)
    return environment.template_class.from_code(environment, environment.compile(parsed), dict(environment.globals))
