"""Chat templates in Jinja: rendering as transformers does, with the text that they mark as generated.

A template may come with a downloaded model. It is sandboxed, its loops and calls are counted, and whatever it raises
becomes one error.
"""

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from bpe_pipeline.base.errors import UsageError, unfit
from bpe_pipeline.tokenizer.encode import utf8_of
from bpe_pipeline.tokenizer.model import Model

Message = Mapping[str, Any]
_PARAMETERS = ("truncation", "padding", "return_tensors", "return_assistant_tokens_mask")
REASONING = ("reasoning_content", "thinking", "reasoning")  # members that have a thought; templates read the first
_MAPPINGS = dict, Mapping  # the first is recognised fast
_CONTINUED = "\ud808"  # behind what a model continues
_PROBES = [
    [{"role": role, "content": "x"} for role in roles.split()] for roles in ("user", "user assistant", "system user")
]


def installed(name: str) -> Any:
    """Import another library; UsageError where it cannot be imported."""
    try:
        return import_module(name)
    except ImportError as reason:
        raise UsageError(f"{name} cannot be imported ({reason}): pip install {name}") from None


@dataclass
class RenderedDialog:
    """A dialog as text, while and after it is rendered. special_tokens: those that may be marked in messages.

    generated: where the text is that `{% generation %}` marks, as transformers finds it: behind the blocks before it.
    """

    special_tokens: Collection[str]
    blocks: list[str] = field(default_factory=list)
    generated: list[tuple[int, int]] = field(default_factory=list)
    _length: int = 0  # of the blocks that are measured
    _measured: int = 0

    @property
    def text(self) -> str:
        """The blocks end to end."""
        return "".join(self.blocks)

    def add_generated(self, block: str) -> None:
        """Note that the template writes this next, and that it is generated."""
        self._length += sum(map(len, self.blocks[self._measured :]))
        self._measured = len(self.blocks)
        self.generated.append((self._length, self._length + len(self.with_marks(block))))

    def with_marks(self, text: str) -> str:
        """Return a text with the marks of messages that JSON or Python have escaped, as in a dict that is printed."""
        if _ESCAPED[0] not in text:
            return text
        tokens = _any_of([*self.special_tokens, *(json.dumps(token)[1:-1] for token in self.special_tokens)])
        start, stop = map(re.escape, _ESCAPED)
        return re.sub(f"{start}({tokens}){stop}", rf"{_OPEN}\1{_CLOSE}", text)


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
    return _render(model, _normalized(messages), add_generation_prompt=add_generation_prompt, **variables).text


def render_marked(model: Model, messages: Sequence[Message], variables: Mapping[str, Any]) -> RenderedDialog:
    """Return a dialog as text, with where it has what the template marks as generated."""
    return _render(model, _normalized(messages), add_generation_prompt=False, **variables)


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
    text, mark, behind = rendered.text.rpartition(_CONTINUED)
    if not mark:
        raise UsageError(
            f"continue_final_message: the last message has no text {field!r}, or the chat template does not write it"
        )
    text = text.replace(_CONTINUED + " ", "").replace(_CONTINUED, "")  # where the template writes it more than once
    return text if behind[:1] == " " else text.rstrip()


def _normalized(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as transformers gives them to a template: without nulls, a thought by each name that it has."""
    listed = isinstance(messages, Sequence) and not isinstance(messages, str | bytes)
    if not listed or not all(isinstance(message, _MAPPINGS) for message in messages):
        raise unfit("messages", "a list of messages such as {'role': 'user', 'content': 'Hello'}", messages)
    normalized = []
    for message in messages:
        members = {name: value for name, value in message.items() if value is not None}
        if not members.keys().isdisjoint(REASONING):
            thought = next(members[name] for name in REASONING if name in members)
            members = {"thinking": thought, **members, "reasoning_content": thought}
        normalized.append(members)
    return normalized


def _render(model: Model, messages: list[dict[str, Any]], /, **variables: Any) -> RenderedDialog:
    if model.chat_template is None:
        raise UsageError(
            "the tokenizer has no chat template: train, merge or export with chat_template='chatml' (or 'llama3')"
        )
    from jinja2 import TemplateError

    from bpe_pipeline.tokenizer.jinja_environment import RENDERED, STEPS, compiled

    rendered = RenderedDialog(model.vocabulary.special_tokens)
    names = {"tools": None, "documents": None, **model.template_tokens, **variables, "messages": messages}
    names[RENDERED], names[STEPS] = rendered, [0]
    try:
        template = compiled(model.chat_template.chosen_by(names))
        for block in template.root_render_func(template.new_context(names)):
            rendered.blocks.append(rendered.with_marks(block) if _ESCAPED[0] in block else block)
        return rendered
    except Exception as error:  # of any template: also RecursionError, MemoryError, ZeroDivisionError
        kind = "" if isinstance(error, TemplateError) else f"{type(error).__name__}: "
        reason = " ".join(f"{kind}{error}".removesuffix(": ").split())
        raise UsageError(f"the chat template does not take these messages: {reason}") from None


def text_of_probes(jinja: str, model: Model) -> str:
    """Return short dialogs that a template renders with the tokens of a model, end to end.

    Raises `UsageError` for a text that is no template.
    """
    from jinja2 import TemplateSyntaxError

    from bpe_pipeline.tokenizer.jinja_environment import STEPS, compiled

    try:
        template = compiled(jinja)
    except TemplateSyntaxError as error:
        raise UsageError(f"it is not valid Jinja (line {error.lineno}: {error.message})") from None
    except Exception as error:
        raise UsageError(f"it is not valid Jinja ({type(error).__name__}: {error})") from None
    written, names = list[str](), {"eos_token": "x", **model.template_tokens}
    for messages in _PROBES:
        with contextlib.suppress(Exception):  # a template may refuse any dialog
            written.append(template.render(names, messages=messages, add_generation_prompt=True, **{STEPS: [0]}))
    return " ".join(written)


_OPEN, _CLOSE = "\ud800", "\ud801"
_ESCAPED = r"\ud800", r"\ud801"
ROLE, CONTENT = "\ud802", "\ud803"  # stand for a role and a content, of which no text is one either
BORDER = "\ud804"  # what is before it and what is behind it are encoded on their own
_SURROGATE = re.compile("[\ud800-\udfff]")
_json = json.JSONEncoder(ensure_ascii=False).encode  # in C, which reads values much faster than Python
_NO_MARKS = dict.fromkeys(map(ord, (_OPEN, _CLOSE, BORDER)))


class MessageMarks:
    """Mark what messages say, and cut rendered text at special tokens. typed: those of `special_tokens` to mark."""

    def __init__(self, special_tokens: Mapping[str, int], typed: Collection[str]) -> None:
        self._ids, marked = special_tokens, _any_of(typed)
        self._typed = re.compile(marked)
        self._typed_in_json = re.compile(_any_of([_json(text)[1:-1] for text in typed]))
        self._rendered = re.compile(f"{_OPEN}(?:{marked}){_CLOSE}|{_any_of([*special_tokens, BORDER])}")

    def says_plain_text(self, value: Any) -> bool:
        """Return whether plain values are without special tokens and surrogates; False where it would take long."""
        try:
            text = _json(value)
        except (TypeError, ValueError, RecursionError):
            return False
        return not self._typed_in_json.search(text) and (text.isascii() or not _SURROGATE.search(text))

    def marked(self, value: Any, typed: list[str] | None = None) -> Any:
        """Return plain values with their special tokens marked; `typed` gets these."""
        if isinstance(value, str):
            text = value if value.isascii() else utf8_of(value).decode()
            if not self._typed.search(text):
                return text
            if typed is not None:
                typed += self._typed.findall(text)
            return self._typed.sub(rf"{_OPEN}\g<0>{_CLOSE}", text)
        if isinstance(value, _MAPPINGS):
            return {self.marked(name, typed): self.marked(member, typed) for name, member in value.items()}
        is_list = isinstance(value, Sequence) and not isinstance(value, bytes)
        return [self.marked(member, typed) for member in value] if is_list else value

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
