"""What a tokenizer's directory says besides ids: chat templates, where generation stops, and names of special tokens.

Templates are read as transformers does: files of their own are taken, else what tokenizer_config.json holds, which may
be a text, or a list or an object of several. They are written in tokenizer_config.json.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bpe_pipeline.storage import Location, names_in
from bpe_pipeline.tokenizer.formats.fields import Field, read_json, read_text
from bpe_pipeline.tokenizer.model import NAMED, ChatTemplate, Model, text_of

CONFIG_NAME, MAP_NAME = "tokenizer_config.json", "special_tokens_map.json"
GENERATION_NAME = "generation_config.json"
TEMPLATE_NAME, TEMPLATES = "chat_template.jinja", "additional_chat_templates"
TOKEN_LISTS = ("extra_special_tokens", "additional_special_tokens", NAMED)
"""Members that list special tokens, or have them by name."""

_ENDING = ".jinja"
_DEFAULT = "default"


def template_files(home: Location) -> dict[str, str]:
    """Return the names of the files in a directory from which transformers reads templates, by those of templates."""
    try:
        names = names_in(home / TEMPLATES)
    except NotADirectoryError:
        names = []
    default = {_DEFAULT: TEMPLATE_NAME} if (home / TEMPLATE_NAME).exists() else {}
    return default | {name.removesuffix(_ENDING): f"{TEMPLATES}/{name}" for name in names if name.endswith(_ENDING)}


def read_templates(config: Field) -> dict[str, str]:
    """Return the templates of tokenizer_config.json and of the files next to it, by name."""
    home = config.file.parent
    if files := template_files(home):
        return {name: read_text(home / file) for name, file in files.items()}
    member = config.member("chat_template")
    if isinstance(member.value, list):
        return {entry.member("name").read(str): entry.member("template").read(str) for entry in member.elements()}
    if isinstance(member.value, dict):
        return {name: member.member(name).read(str) for name in member.value}
    return {_DEFAULT: member.value} if isinstance(member.value, str) else {}


def chosen_template(templates: Mapping[str, str]) -> ChatTemplate | None:
    """Return the template named default, with the others; None if there is none of that name."""
    others = {name: text for name, text in templates.items() if name != _DEFAULT}
    return ChatTemplate(templates[_DEFAULT], others) if _DEFAULT in templates else None


def chat_template_of(directory: Location) -> ChatTemplate | None:
    """Return the chat template of a directory, if it has one."""
    config = directory / CONFIG_NAME
    return chosen_template(read_templates(read_json(config))) if config.exists() else None


def written_templates(templates: Mapping[str, str]) -> Any:
    """Return what tokenizer_config.json holds of templates: one as a text, several as a list."""
    if [*templates] == [_DEFAULT]:
        return templates[_DEFAULT]
    return [{"name": name, "template": text} for name, text in templates.items()]


def templates_of(model: Model) -> dict[str, str]:
    """Return the templates of a model by name; those of its base stay, also without a default one."""
    template, kept = model.chat_template, model.settings.get("chat_template")
    named = {entry["name"]: entry["template"] for entry in kept} if isinstance(kept, list) else {}
    return {**named, **template.named, _DEFAULT: template.jinja} if template else named


def roles_of_generation(model: Model) -> dict[str, Any]:
    """Return the ids of a model's roles by the names of generation_config.json; texts end at the end of a turn, too."""
    ids = model.vocabulary.special_tokens
    named = {"bos": model.bos_token, "eos": model.eos_token, "pad": model.pad_token}
    ends = [ids[text] for text in dict.fromkeys([model.eos_token, *_turn_ends(model)]) if text in ids]
    return {f"{role}_token_id": ids[text] for role, text in named.items() if text is not None} | {"eos_token_id": ends}


def _turn_ends(model: Model) -> list[str]:
    ends = model.chat_template.writes("turn end") if model.chat_template else []
    return [text for text in ends if text in model.vocabulary.special_tokens]


def _made_generation(model: Model) -> bytes:
    return written(roles_of_generation(model)).encode() if _turn_ends(model) else b""


def generation_content(model: Model) -> bytes:
    """Return generation_config.json: that of the base, else for a model that writes the end of a turn; or nothing."""
    return model.generation or _made_generation(model)


def with_own_generation(before: Model, after: Model) -> Model:
    """Return the changed model, whose generation_config.json is made again if it was made here."""
    return replace(after, generation=b"") if after.generation == _made_generation(before) else after


def generation_note(before: Model, after: Model) -> str:
    """Say what a person has to change in a generation_config.json that is kept; empty if that is nothing."""
    old, new = roles_of_generation(before), roles_of_generation(after)
    changed = {name: id_ for name, id_ in new.items() if old.get(name) != id_}
    if not after.generation or not changed:
        return ""
    says = ", ".join(f"{name} {json.dumps(id_)}" for name, id_ in changed.items())
    return f"{GENERATION_NAME} is kept as it is: change it by hand for the new roles ({says})"


def existing_only(settings: Mapping[str, Any], model: Model) -> dict[str, Any]:
    """Return settings without special tokens that the model does not have: those that have another name now."""
    special = model.vocabulary.special_tokens

    def exists(token: Any) -> bool:
        text = text_of(token)
        return not isinstance(text, str) or not text or text in special

    kept = {name: value for name, value in settings.items() if not name.endswith("_token") or exists(value)}
    for name in TOKEN_LISTS:
        if isinstance(listed := kept.get(name), list):
            kept[name] = list(filter(exists, listed))
        elif isinstance(listed, dict):
            kept[name] = {key: token for key, token in listed.items() if exists(token)}
    return kept


def written(document: Mapping[str, Any]) -> str:
    """Return a file of settings."""
    return json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
