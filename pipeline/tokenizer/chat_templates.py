"""Chat templates (Jinja): those that have names, rendering as transformers does, and what messages say in the result.

A template may come with a downloaded model. It is sandboxed, its loops and calls are counted, and whatever it raises
becomes one error.
"""

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib import import_module
from itertools import accumulate, count
from typing import Any

from pipeline.base.errors import UsageError, unfit
from pipeline.run.ids import marks_in
from pipeline.tokenizer.encode import utf8_of
from pipeline.tokenizer.model import ChatTemplate, Model

_LLAMA3 = (
    "{{ '<|begin_of_text|>' }}{% for message in messages %}"
    "{% set role = 'ipython' if message['role'] == 'tool' else message['role'] %}"
    "{{ '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' }}"
    "{% if role == 'assistant' %}{% generation %}{{ message['content'] + '<|eot_id|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|eot_id|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
_CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

CHAT_TEMPLATES = {"llama3": ChatTemplate(_LLAMA3), "chatml": ChatTemplate(_CHATML)}


Message = Mapping[str, Any]
_MOST_STEPS = 1_000_000  # rounds of loops and calls in rendering one dialog
_MOST_REPEATED = 1 << 26  # characters of a repeated text, bits of a power
_STEPS = "__steps"
_LEARNED, _AFTER = "\ud805", "\ud806"  # around what `{% generation %}` marks, in texts of `render_learned`
_MARKED = {"__learned": _LEARNED, "__after": _AFTER}  # elsewhere these names are undefined, and write nothing
_PROBES = [
    [{"role": role, "content": "x"} for role in roles.split()] for roles in ("user", "user assistant", "system user")
]


def installed(name: str) -> Any:
    """Import another library; UsageError where it cannot be imported."""
    try:
        return import_module(name)
    except ImportError as reason:
        extra = " (it is in the extra [chat])" if name == "jinja2" else ""
        raise UsageError(f"{name} cannot be imported ({reason}): pip install {name}{extra}") from None


def render(model: Model, messages: Sequence[Message], *, add_generation_prompt: bool, **variables: Any) -> str:
    """Return the text of a dialog by the model's chat template; `UsageError` if it has none, or refuses the dialog."""
    if model.chat_template is None:
        raise UsageError(
            "the tokenizer has no chat template: train, merge or export with chat_template='chatml' (or 'llama3')"
        )
    listed = isinstance(messages, Sequence) and not isinstance(messages, str | bytes)
    if not listed or not all(isinstance(one, Mapping) for one in messages):
        raise unfit("messages", "a list of messages such as {'role': 'user', 'content': 'Hello'}", messages)
    tokens = {"bos_token": model.bos_token, "eos_token": model.eos_token, "pad_token": model.pad_token}
    names = {"tools": None, "documents": None} | {name: text for name, text in tokens.items() if text is not None}
    template_error = installed("jinja2").TemplateError
    values = {"messages": list(messages), "add_generation_prompt": add_generation_prompt, _STEPS: count()}
    try:
        return str(_compiled(model.chat_template.jinja).render(**(names | variables), **values))
    except Exception as error:  # of any template: also RecursionError, MemoryError, ZeroDivisionError
        kind = "" if isinstance(error, template_error) else f"{type(error).__name__}: "
        reason = " ".join(f"{kind}{error}".removesuffix(": ").split())
        raise UsageError(f"the chat template does not take these messages: {reason}") from None


def render_learned(model: Model, messages: Sequence[Message], variables: Mapping[str, Any]) -> tuple[str, list[int]]:
    """Return the text of a dialog, and where what `{% generation %}` marks starts and stops, in turn."""
    parts = re.split(
        f"[{_LEARNED}{_AFTER}]", render(model, messages, add_generation_prompt=False, **variables, **_MARKED)
    )
    return "".join(parts), list(accumulate(map(len, parts)))[:-1]


def marks_written(jinja: str) -> list[str]:
    """Return what looks like a special token in a template or in short dialogs that it renders.

    Raises `UsageError` for a text that is no template.
    """
    written = [jinja]
    try:
        template = _compiled(jinja)
    except installed("jinja2").TemplateSyntaxError as error:
        raise UsageError(f"it is not valid Jinja (line {error.lineno}: {error.message})") from None
    except Exception as error:
        raise UsageError(f"it is not valid Jinja ({type(error).__name__}: {error})") from None
    for messages in _PROBES:
        with contextlib.suppress(Exception):  # a template may refuse any dialog
            written.append(template.render(messages=messages, add_generation_prompt=True, **{_STEPS: count()}))
    return marks_in(" ".join(written))


def _counted(context: Any, rounds: Any) -> Any:
    """Iterate as a loop does, and count its rounds."""
    for one in rounds:
        _count(context)
        yield one


def _count(context: Any) -> None:
    steps = context.get(_STEPS)
    if steps and next(steps) >= _MOST_STEPS:
        raise RuntimeError(f"it takes more than {_MOST_STEPS:,} steps: does a loop or a macro of it end?")


@cache
def _compiled(jinja: str) -> Any:
    from jinja2 import TemplateError, nodes, pass_context
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
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
            _count(context)
            return super().call(context, called, *arguments, **keywords)

    class Generation(Extension):
        """`{% generation %}` marks what the assistant wrote; the text is the same without it, but for `_MARKED`."""

        tags = {"generation"}  # noqa: RUF012 - as its class has it

        def parse(self, parser: Any) -> Any:
            """Parse the block as if its marks were not there, between the two names."""
            line = next(parser.stream).lineno
            start, stop = (nodes.Output([nodes.Name(name, "load")], lineno=line) for name in _MARKED)
            return [start, *parser.parse_statements(("name:endgeneration",), drop_needle=True), stop]

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, **how: Any) -> str:
        return json.dumps(value, **({"ensure_ascii": False} | how))

    environment = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters |= {"_counted": pass_context(_counted), "tojson": to_json}
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    parsed = environment.parse(jinja)
    for loop in parsed.find_all(nodes.For):
        loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
    return environment.template_class.from_code(
        environment, environment.compile(parsed), environment.make_globals(None)
    )


_OPEN, _CLOSE = "\ud800", "\ud801"
ROLE, CONTENT = "\ud802", "\ud803"  # stand for a role and a content, of which no text is one either
BORDER = "\ud804"  # what is before it and what is behind it are encoded on their own
_NO_MARKS = dict.fromkeys(map(ord, (_OPEN, _CLOSE, BORDER)))


class MessageMarks:
    """Mark what messages say, and cut rendered text at special tokens. typed: those of `special_tokens` to mark."""

    def __init__(self, special_tokens: Mapping[str, int], typed: Collection[str]) -> None:
        self._ids, marked = special_tokens, _any_of(typed)
        self._typed = re.compile(marked)
        self._rendered = re.compile(f"{_OPEN}(?:{marked}){_CLOSE}|{_any_of([*special_tokens, BORDER])}")

    def marked(self, value: Any, kept: Collection[str] = (), found: list[str] | None = None) -> Any:
        """Return plain values with their special tokens marked, except those that are kept; `found` gets the others."""

        def mark(match: re.Match[str]) -> str:
            if match[0] in kept:
                return match[0]
            if found is not None:
                found.append(match[0])
            return _OPEN + match[0] + _CLOSE

        if isinstance(value, str):
            return self._typed.sub(mark, value if value.isascii() else utf8_of(value).decode())
        if isinstance(value, Mapping):
            return {self.marked(name, kept, found): self.marked(one, kept, found) for name, one in value.items()}
        is_list = isinstance(value, Sequence) and not isinstance(value, bytes)
        return [self.marked(one, kept, found) for one in value] if is_list else value

    def stretches(self, text: str) -> Iterator[tuple[str, int | None]]:
        """Yield the stretches of a rendered text without marks, and the ids of the special tokens between them."""
        done = 0
        for match in self._rendered.finditer(text):
            if match[0][0] != _OPEN:
                yield unmarked(text[done : match.start()]), None
                if match[0] != BORDER:
                    yield match[0], self._ids[match[0]]
                done = match.end()
        yield unmarked(text[done:]), None


def has_marks(text: str) -> bool:
    """Return whether a rendered text contains special tokens of messages, or borders."""
    return _OPEN in text or _CLOSE in text or BORDER in text


def unmarked(text: str) -> str:
    """Return a text without marks and borders."""
    return text.translate(_NO_MARKS) if has_marks(text) else text


def _any_of(texts: Collection[str]) -> str:
    """Return the expression of the longest of these texts, by their first characters: `re` looks for these first."""
    rests: dict[str, list[str]] = {}
    for text in sorted(texts, key=len, reverse=True):
        rests.setdefault(text[0], []).append(re.escape(text[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in rests.items()) or "(?!)"
