"""Chat templates (Jinja): those that have names, rendering as transformers does, and what messages say in the result.

A template may come with a downloaded model. It is sandboxed, its loops and calls are counted, and whatever it raises
becomes one error.
"""

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from itertools import accumulate, count
from typing import Any

from bpe_pipeline.base.errors import UsageError, unfit
from bpe_pipeline.run.ids import marks_in
from bpe_pipeline.tokenizer.encode import utf8_of
from bpe_pipeline.tokenizer.formats.settings_files import NAMED
from bpe_pipeline.tokenizer.model import ChatTemplate, Model

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
_PARAMETERS = ("truncation", "padding", "return_tensors", "return_assistant_tokens_mask")
_TOKENS = ("unk_token", "sep_token", "cls_token", "mask_token")
REASONING = ("reasoning_content", "thinking", "reasoning")  # members that have a thought; templates read the first
_GENERATED, _AFTER = "\ud805", "\ud806"  # around what `{% generation %}` marks, in texts of `render_traced`
_MESSAGE = "\ud807"  # around the number of a message, where a loop over messages comes to it
_CONTINUED = "\ud808"  # behind what a model continues
_TRACES = re.compile(f"[{_GENERATED}{_AFTER}]|{_MESSAGE}[0-9]+{_MESSAGE}")
_NUMBERS = "__numbers"
_MARKED = {"__generated": _GENERATED, "__after": _AFTER}  # elsewhere these names are undefined, and write nothing
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


@dataclass(frozen=True)
class TracedText:
    """A rendered dialog. generated: what `{% generation %}` marks; starts: of the messages, None where unknown."""

    text: str
    generated: list[tuple[int, int]]
    starts: list[int | None]


def require_variables(variables: Mapping[str, Any]) -> None:
    """Raise `UsageError` for parameters that transformers has, and for tools that are no list of objects."""
    if refused := next((name for name in _PARAMETERS if variables.get(name)), None):
        raise UsageError(
            f"apply_chat_template takes no {refused}: export the tokenizer, and use transformers' apply_chat_template"
        )
    for name in ("tools", "documents"):
        listed = variables.get(name) or ()
        if not isinstance(listed, list | tuple) or not all(isinstance(member, Mapping) for member in listed):
            raise unfit(name, "a list of objects", listed)


def render(model: Model, messages: Sequence[Message], /, *, add_generation_prompt: bool, **variables: Any) -> str:
    """Return the text of a dialog by the model's chat template; `UsageError` if it has none, or refuses the dialog."""
    return _render(model, _normalized(messages), add_generation_prompt=add_generation_prompt, **variables)


def render_traced(model: Model, messages: Sequence[Message], variables: Mapping[str, Any]) -> TracedText:
    """Return the text of a dialog, what the template marks, and where its loops over the messages wrote each one."""
    listed = _normalized(messages)
    numbers = {_NUMBERS: {id(message): number for number, message in enumerate(listed)}}
    traced = _render(model, listed, add_generation_prompt=False, **variables, **_MARKED, **numbers)
    parts, marks = _TRACES.split(traced), _TRACES.findall(traced)
    text, ends = "".join(parts), list(accumulate(map(len, parts)))[:-1]
    borders = [end for end, mark in zip(ends, marks, strict=True) if mark in (_GENERATED, _AFTER)]
    starts: list[int | None] = [None] * len(listed)
    after = len(marks)
    for number in reversed(range(len(listed))):  # other loops may look back, or forward
        places = (at for at in reversed(range(after)) if marks[at] == f"{_MESSAGE}{number}{_MESSAGE}")
        if (at := next(places, None)) is not None:
            starts[number], after = ends[at], at
    return TracedText(text, list(zip(borders[::2], borders[1::2], strict=False)), starts)


def render_continued(model: Model, messages: Sequence[Message], field: str, **variables: Any) -> str:
    """Return the text of a dialog up to where this member of its last message ends, for a model to continue it."""
    *before, last = _normalized(messages) or [{}]
    value, tag = last.get(field), _CONTINUED + " "
    if isinstance(value, list):
        parts = [at for at, part in enumerate(value) if isinstance(part, Mapping) and "text" in part]
        tagged: Any = [
            {**part, "text": part["text"] + tag} if [at] == parts[-1:] else part for at, part in enumerate(value)
        ]
    else:
        tagged = value + tag if isinstance(value, str) else None
    same = REASONING if field in REASONING else (field,)  # a template may read any of these
    last |= {name: tagged for name in same if last.get(name) == value}
    rendered = _render(model, [*before, last], add_generation_prompt=False, **variables)
    text, mark, behind = rendered.rpartition(_CONTINUED)
    if not mark:
        raise UsageError(
            f"continue_final_message: the last message has no text {field!r}, or the chat template does not write it"
        )
    text = text.replace(_CONTINUED + " ", "").replace(_CONTINUED, "")  # where the template writes it more than once
    return text if behind[:1] == " " else text.rstrip()


def _normalized(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as transformers gives them to a template: without nulls, a thought by each name that it has."""
    listed = isinstance(messages, Sequence) and not isinstance(messages, str | bytes)
    if not listed or not all(isinstance(message, Mapping) for message in messages):
        raise unfit("messages", "a list of messages such as {'role': 'user', 'content': 'Hello'}", messages)
    normalized = []
    for message in messages:
        members = {name: value for name, value in message.items() if value is not None}
        if thoughts := [members[name] for name in REASONING if name in members]:
            members = {"thinking": thoughts[0], **members, "reasoning_content": thoughts[0]}
        normalized.append(members)
    return normalized


def _render(model: Model, messages: list[dict[str, Any]], /, **variables: Any) -> str:
    if model.chat_template is None:
        raise UsageError(
            "the tokenizer has no chat template: train, merge or export with chat_template='chatml' (or 'llama3')"
        )
    template_error = installed("jinja2").TemplateError
    names = {"tools": None, "documents": None, **_tokens_of(model), **variables, "messages": messages}
    try:
        text = str(_compiled(model.chat_template.chosen_by(names)).render(names, **{_STEPS: count()}))
        return _with_marks(text, model.vocabulary.special_tokens) if _ESCAPED[0] in text else text
    except Exception as error:  # of any template: also RecursionError, MemoryError, ZeroDivisionError
        kind = "" if isinstance(error, template_error) else f"{type(error).__name__}: "
        reason = " ".join(f"{kind}{error}".removesuffix(": ").split())
        raise UsageError(f"the chat template does not take these messages: {reason}") from None


def _with_marks(text: str, special_tokens: Collection[str]) -> str:
    """Return a text with the marks of messages that JSON or Python have escaped, as in a dict that is printed."""
    tokens = _any_of([*special_tokens, *(json.dumps(token)[1:-1] for token in special_tokens)])
    start, stop = map(re.escape, _ESCAPED)
    return re.sub(f"{start}({tokens}){stop}", rf"{_OPEN}\1{_CLOSE}", text)


def _tokens_of(model: Model) -> dict[str, str]:
    """Return the special tokens that a template may name, such as unk_token, by their names."""
    settings, roles = model.settings, model.roles
    named = {name: token for name, token in settings.items() if name.endswith("_token")}
    more = settings.get("extra_special_tokens")
    if not isinstance(more, Mapping) and named.keys() <= {*_TOKENS}:  # as transformers 5 reads them
        more = settings.get(NAMED)
    named |= more if isinstance(more, Mapping) else {}
    texts = {name: token.get("content") if isinstance(token, Mapping) else token for name, token in named.items()}
    texts |= {"bos_token": model.bos_token, "eos_token": roles.eos or roles.separator, "pad_token": model.pad_token}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


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
    for member in rounds:
        _count(context)
        yield member


def _numbered(context: Any, value: Any) -> str:
    """Return a mark with the number of a message, in texts of `render_traced`."""
    number = context.get(_NUMBERS, {}).get(id(value))
    return "" if number is None else f"{_MESSAGE}{number}{_MESSAGE}"


def _count(context: Any) -> None:
    steps = context.get(_STEPS)
    if steps and next(steps) >= _MOST_STEPS:
        raise RuntimeError(f"it takes more than {_MOST_STEPS:,} steps: does a loop or a macro of it end?")


def _count_and_number(parsed: Any) -> None:
    """Have the loops of a parsed template count their rounds, and write which message each is about."""
    from jinja2 import nodes

    def filtered(value: Any, name: str) -> Any:
        return nodes.Filter(value, name, [], [], None, None, lineno=value.lineno)

    for loop in parsed.find_all(nodes.For):
        loop.iter = filtered(loop.iter, "_counted")
        if isinstance(loop.target, nodes.Name):
            message = nodes.Name(loop.target.name, "load", lineno=loop.lineno)
            loop.body.insert(0, nodes.Output([filtered(message, "_numbered")], lineno=loop.lineno))


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
    of_loops = {"_counted": pass_context(_counted), "_numbered": pass_context(_numbered)}
    environment.filters |= {**of_loops, "tojson": to_json}
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    parsed = environment.parse(jinja)
    _count_and_number(parsed)
    return environment.template_class.from_code(
        environment, environment.compile(parsed), environment.make_globals(None)
    )


_OPEN, _CLOSE = "\ud800", "\ud801"
_ESCAPED = r"\ud800", r"\ud801"
ROLE, CONTENT = "\ud802", "\ud803"  # stand for a role and a content, of which no text is one either
BORDER = "\ud804"  # what is before it and what is behind it are encoded on their own
_NO_MARKS = dict.fromkeys(map(ord, (_OPEN, _CLOSE, BORDER)))


class MessageMarks:
    """Mark what messages say, and cut rendered text at special tokens. typed: those of `special_tokens` to mark."""

    def __init__(self, special_tokens: Mapping[str, int], typed: Collection[str]) -> None:
        self._ids, marked = special_tokens, _any_of(typed)
        self._typed = re.compile(marked)
        self._rendered = re.compile(f"{_OPEN}(?:{marked}){_CLOSE}|{_any_of([*special_tokens, BORDER])}")

    def marked(self, value: Any, kept: Collection[str] = (), typed: list[str] | None = None) -> Any:
        """Return plain values with their special tokens marked, except those that are kept; `typed` gets the others."""

        def mark(match: re.Match[str]) -> str:
            if match[0] in kept:
                return match[0]
            if typed is not None:
                typed.append(match[0])
            return _OPEN + match[0] + _CLOSE

        if isinstance(value, str):
            return self._typed.sub(mark, value if value.isascii() else utf8_of(value).decode())
        if isinstance(value, Mapping):
            return {self.marked(name, kept, typed): self.marked(member, kept, typed) for name, member in value.items()}
        is_list = isinstance(value, Sequence) and not isinstance(value, bytes)
        return [self.marked(member, kept, typed) for member in value] if is_list else value

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
