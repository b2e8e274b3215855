"""Chat templates as data: `templates.yaml`, or a file of the same form that a person names."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.base.errors import UsageError, unfit
from pipeline.run.ids import marks_in
from pipeline.run.options import ChatOptions
from pipeline.run.stored import stored
from pipeline.run.values import TOOL_FORMATS
from pipeline.storage import CONFIG_BYTES, Location, named, read_bounded
from pipeline.tokenizer.model import Model

CONTENT, TURN = "{{content}}", "{{idx}}"
NO_TOOLS = "none"  # the tool format of a template that has none
BOS, EOS = "{{bos}}", "{{eos}}"  # slots that are ids
Slots = tuple[str, ...]
_KINDS = ("plain", "system_in_user", "reasoning")
_SLOTS = ("user", "assistant", "observation", "function", "system", "prefix")


@dataclass(frozen=True, kw_only=True)
class Template:
    """One template; `templates.yaml` says what the fields mean."""

    name: str
    user: Slots = (CONTENT,)
    assistant: Slots = (CONTENT, EOS)
    observation: Slots = ()
    function: Slots = ()
    system: Slots = (CONTENT,)
    prefix: Slots = ()
    default_system: str = ""
    stop_words: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    thought_words: tuple[str, ...] = ("<think>\n", "\n</think>\n\n")
    tools: str = NO_TOOLS
    kind: str = "plain"
    efficient_eos: bool = False
    replace_eos: bool = False

    @property
    def eos(self) -> str | None:
        """The token that becomes the end of text, if one does."""
        return self.stop_words[0] if self.replace_eos else None

    @property
    def starts_with_bos(self) -> bool:
        """Whether a conversation starts with the beginning of text."""
        return self.prefix[:1] == (BOS,)


def template_named(name: str) -> Template:
    """Return a template by its name, or read it from a file; raises `UsageError`."""
    if not isinstance(name, str):
        raise unfit("template", "the name of a template, or a file", name)
    known = _known()
    if "/" in name or "." in name:
        path = named(name)
        return _template(path.name.partition(".")[0], _entry(_read(path), known, str(path)), f"template file {path}")
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        raise UsageError(f"template {name!r} is unknown; {hint}, or name a file such as template.yaml")
    return _template(name, _entry(known[name], known, name), name)


def with_tool_format(template: Template, name: str) -> Template:
    """Return a template whose tools and calls become text in another way, as LLaMA-Factory's `tool_format` does."""
    return replace(template, tools=name, function=(CONTENT,) if template.efficient_eos else (CONTENT, EOS))


def eos_of(template: Template, model: Model) -> str | None:
    """Return the end of text of conversations: the template's, or else the tokenizer's."""
    return template.eos or model.eos_token


def missing_marks(template: Template, model: Model) -> list[str]:
    """Return the marks of a template, named or written in its slots, that a vocabulary has not as special tokens."""
    written = " ".join(slot for name in _SLOTS for slot in getattr(template, name))
    needed = [*template.marks, *([template.eos] if template.eos else []), *marks_in(written)]
    return [text for text in dict.fromkeys(needed) if text not in model.vocabulary.special_tokens]


def require_fitting(template: Template, model: Model, options: ChatOptions) -> None:
    """Raise `UsageError` for missing marks, for no end of text where one is needed, and where questions are learned
    though answers share one, or history is masked."""
    if options.train_on_prompt and (template.efficient_eos or options.mask_history):
        other = f"template {template.name}, whose turns share one end of text"
        raise UsageError(f"--train-on-prompt excludes {'--mask-history' if options.mask_history else other}")
    if missing := missing_marks(template, model):
        raise UsageError(
            f"template {template.name}: the vocabulary has no special token {' '.join(missing)}; add "
            f"{' '.join(f'--special-token {text!r}' for text in missing)} with `merge` or `export --output`, or choose "
            "another --template"
        )
    needs_eos = template.efficient_eos or any(EOS in getattr(template, name) for name in _SLOTS)
    if needs_eos and eos_of(template, model) is None:
        raise UsageError(f"template {template.name} ends answers with the end of text, and the tokenizer has none")


@cache
def _known() -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML has its C library
    return dict(yaml.load((Path(__file__).parent / "templates.yaml").read_text(encoding="utf-8"), loader))  # noqa: S506


def _read(path: Location) -> Any:
    import yaml

    try:
        return yaml.safe_load(read_bounded(path, CONFIG_BYTES).decode("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise UsageError(f"template file {path} cannot be read: {reason}") from None


def _entry(entry: Any, known: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the fields of an entry, with those of the entry that it is like."""
    if not isinstance(entry, dict):
        raise UsageError(f"{where} must hold the fields of one template, such as user and assistant")
    like = entry.get("like")
    if like is not None and like not in known:
        raise UsageError(f"{where}: it is like {like!r}, which is unknown; known are {', '.join(known)}")
    base = {} if like is None else _entry(known[like], known, like)
    return {**base, **{name: value for name, value in entry.items() if name != "like"}}


def _template(name: str, entry: Mapping[str, Any], where: str) -> Template:
    """Check the fields of an entry; raises `UsageError` naming the first wrong one."""
    allowed = [field.name for field in fields(Template) if field.name != "name"]
    if unknown := [key for key in entry if key not in allowed]:
        raise UsageError(f"{where}: the field {unknown[0]!r} is unknown; known are {', '.join(allowed)}")
    try:
        template = stored(Template, {**entry, "name": name})
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    for key in filter(entry.__contains__, _SLOTS):
        if any(CONTENT in slot for slot in getattr(template, key)) == (key == "prefix"):
            needed = "must not have" if key == "prefix" else "needs a text with"
            raise UsageError(f"{where}: {key} {needed} {CONTENT}")
    for key, one_of in (("kind", _KINDS), ("tools", (*TOOL_FORMATS, NO_TOOLS))):
        if getattr(template, key) not in one_of:
            raise UsageError(f"{where}: {key} must be one of {', '.join(one_of)}")
    if (template.replace_eos and not template.stop_words) or len(template.thought_words) != 2:
        raise UsageError(f"{where}: replace_eos needs stop_words, and there are two thought_words")
    return replace(
        template,
        observation=template.observation or template.user,
        function=template.function or template.assistant,
    )
