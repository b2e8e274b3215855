"""Chat templates by name, for the rows of chat data and for exported files: slots or Jinja.

Slots are data: `named_templates.yaml`, or a file of the same form that a person names. `jinja_of` writes the Jinja that
renders what the slots encode. Any other file has a template in Jinja, and `tokenizer` is the tokenizer's own.
"""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import UsageError, refuse_if, unfit
from bpe_pipeline.run.ids import marks_in
from bpe_pipeline.run.stored import stored
from bpe_pipeline.run.values import TOOL_FORMATS
from bpe_pipeline.storage import CONFIG_BYTES, Location, named, read_bounded
from bpe_pipeline.tokenizer.chat_templates import CHAT_TEMPLATES, marks_written
from bpe_pipeline.tokenizer.formats.fields import read_text
from bpe_pipeline.tokenizer.model import ChatTemplate, Model

CONTENT, TURN = "{{content}}", "{{idx}}"
OWN = "tokenizer"  # the name of the tokenizer's own template
NO_TOOLS = "none"  # the tool format of a template that has none
BOS, EOS = "{{bos}}", "{{eos}}"  # slots that are ids
Slots = tuple[str, ...]
_KINDS = ("plain", "system_in_user", "reasoning")
_SLOT_FILES = (".yaml", ".yml", ".json")
_SLOTS = ("user", "assistant", "observation", "function", "system", "prefix")


@dataclass(frozen=True, kw_only=True)
class Template:
    """One template; `named_templates.yaml` says what the fields mean. jinja: in place of slots."""

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
    jinja: str | None = None

    @property
    def eos(self) -> str | None:
        """The token that becomes the end of text, if one does."""
        return self.stop_words[0] if self.replace_eos else None

    def of(self, model: Model) -> ChatTemplate:
        """Return the template in Jinja, the tokenizer's own with all that it has."""
        return model.chat_template if self.name == OWN and model.chat_template else ChatTemplate(self.jinja or "")

    @property
    def starts_with_bos(self) -> bool:
        """Whether a conversation starts with the beginning of text."""
        return self.prefix[:1] == (BOS,)


def template_named(name: str, model: Model) -> Template:
    """Return a template by its name, or read it from a file; raises `UsageError`."""
    if not isinstance(name, str):
        raise unfit("template", "the name of a template, or a file", name)
    known = _known()
    if name == OWN:
        if model.chat_template is None:
            raise UsageError(f"template {OWN}: the tokenizer has no chat template; name one, such as chatml")
        return Template(name=OWN, jinja=model.chat_template.jinja)
    if "/" in name or "." in name:
        path = named(name)
        if path.suffix not in _SLOT_FILES:
            return Template(name=path.name, jinja=read_text(path))
        return _template(path.name.partition(".")[0], _entry(_read(path), known, str(path)), f"template file {path}")
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}, {OWN}"
        raise UsageError(f"template {name!r} is neither known nor a file such as own.jinja or own.yaml: {hint}")
    return _template(name, _entry(known[name], known, name), name)


def with_tool_format(template: Template, name: str) -> Template:
    """Return a template whose tools and calls become text in another way, as LLaMA-Factory's `tool_format` does."""
    return replace(template, tools=name, function=(CONTENT,) if template.efficient_eos else (CONTENT, EOS))


def eos_of(template: Template, model: Model) -> str | None:
    """Return the end of text of conversations: the template's, or else the tokenizer's."""
    return template.eos or model.eos_token


def missing_marks(template: Template, model: Model) -> list[str]:
    """Return the marks of a template, named or written in it, that a vocabulary has not as special tokens.

    The tokenizer's own needs none. Raises `UsageError` for a file that is not valid Jinja.
    """
    special = model.vocabulary.special_tokens
    if template.jinja is not None:
        try:
            listed = [*ChatTemplate(template.jinja).missing(special), *marks_written(template.jinja)]
        except UsageError as error:
            raise UsageError(f"the chat template {template.name}: {error}; fix it, or choose another") from None
        return [] if template.name == OWN else [text for text in dict.fromkeys(listed) if text not in special]
    written = " ".join(slot for name in _SLOTS for slot in getattr(template, name))
    needed = [*template.marks, *([template.eos] if template.eos else []), *marks_in(written)]
    return [text for text in dict.fromkeys(needed) if text not in special]


def needs_eos(template: Template) -> bool:
    """Return whether conversations have an end of text, which the template takes from the tokenizer."""
    slots = template.efficient_eos or any(EOS in getattr(template, name) for name in _SLOTS)
    return slots and template.jinja is None


def chat_template_named(name: str, model: Model) -> ChatTemplate:
    """Return what exported files have of a template; raises `UsageError` for one that the vocabulary does not fit."""
    template = template_named(name, model)
    if missing := missing_marks(template, model):
        raise UsageError(
            f"the chat template {name} needs {', '.join(missing)}, which this vocabulary lacks: add "
            f"{' '.join(f'--special-token {text!r}' for text in missing)}, or choose another template"
        )
    if template.name in CHAT_TEMPLATES and name == template.name:
        return CHAT_TEMPLATES[name]
    return ChatTemplate(jinja_of(template) if template.jinja is None else template.jinja)


def jinja_of(template: Template) -> str:
    """Return the Jinja that writes what the slots encode, answers as generated text. It writes no tools or calls."""
    user, answer, observation, system, prefix = (
        "".join(getattr(template, name)) for name in ("user", "assistant", "observation", "system", "prefix")
    )
    header, end = "", answer.partition(CONTENT)[2]
    after = user.partition(CONTENT)[2].removeprefix(end)
    if end and user.endswith(end + after) and observation.endswith(end + after):  # what starts an answer
        header = after
        user, observation = user.removesuffix(header), observation.removesuffix(header)
    said = f"{{% set said = {json.dumps(template.default_system, ensure_ascii=False)} %}}"
    in_user = template.kind == "system_in_user"
    first = f"{{% if loop.first and said %}}{{% set content = {_expression(system, 'said')} + content %}}{{% endif %}}"
    start, stop = template.thought_words
    thoughtless = " and ".join(f"{json.dumps(word.strip())} not in content" for word in (start, stop))
    thought = f"{{% if {thoughtless} %}}{_output(start + stop)}{{% endif %}}" if template.kind == "reasoning" else ""
    about = f"{{% if said %}}{_output(system, template, 'said')}{{% endif %}}"
    last = f"{{% if loop.last %}}{_output(EOS, template)}{{% endif %}}" if template.efficient_eos else ""
    return (
        f"{said}{{% set rest = messages %}}{{% if messages and messages[0]['role'] == 'system' %}}"
        "{% set said = messages[0]['content'] or said %}{% set rest = messages[1:] %}{% endif %}"
        f"{_output(prefix)}{'' if in_user else about}"
        "{% for message in rest %}{% set content = message['content'] %}{% if message['role'] == 'assistant' %}"
        f"{_output(header)}{{% generation %}}{thought}{_output(answer, template)}{last}{{% endgeneration %}}"
        f"{{% elif message['role'] == 'tool' %}}{_output(observation, template)}"
        f"{{% else %}}{first if in_user else ''}{_output(user, template)}{{% endif %}}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{_output(header)}{{% endif %}}"
    )


def _expression(slots: str, content: str = "content", eos: str | None = None) -> str:
    """Return slots as an expression of Jinja. content: the name of its variable; eos: what a mark replaces it by."""
    values = {CONTENT: content, BOS: "(bos_token or '')", EOS: json.dumps(eos) if eos else "(eos_token or '')"}
    values[TURN] = "(loop.index0 // 2) | string"
    parts = filter(None, re.split("(" + "|".join(map(re.escape, values)) + ")", slots))
    return " + ".join(values.get(part) or json.dumps(part, ensure_ascii=False) for part in parts)


def _output(slots: str, template: Template | None = None, content: str = "content") -> str:
    return f"{{{{ {_expression(slots, content, template.eos if template else None)} }}}}" if slots else ""


@cache
def _known() -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML has its C library
    return dict(yaml.load((Path(__file__).parent / "named_templates.yaml").read_text(encoding="utf-8"), loader))  # noqa: S506


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
    allowed = [field.name for field in fields(Template) if field.name not in ("name", "jinja")]
    if unknown := [key for key in entry if key not in allowed]:
        raise UsageError(f"{where}: the field {unknown[0]!r} is unknown; known are {', '.join(allowed)}")
    try:
        template = stored(Template, {**entry, "name": name})
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    with_content = {key: any(CONTENT in slot for slot in getattr(template, key)) for key in _SLOTS if key in entry}
    known = {"kind": _KINDS, "tools": (*TOOL_FORMATS, NO_TOOLS)}
    refuse_if(
        (with_content.pop("prefix", False), f"{where}: prefix must not have {CONTENT}"),
        *((not has, f"{where}: {key} needs a text with {CONTENT}") for key, has in with_content.items()),
        *(
            (getattr(template, key) not in values, f"{where}: {key} must be one of {', '.join(values)}")
            for key, values in known.items()
        ),
        (
            (template.replace_eos and not template.stop_words) or len(template.thought_words) != 2,
            f"{where}: replace_eos needs stop_words, and there are two thought_words",
        ),
    )
    return replace(
        template, observation=template.observation or template.user, function=template.function or template.assistant
    )
