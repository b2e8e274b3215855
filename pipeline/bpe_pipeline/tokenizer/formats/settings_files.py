"""What a tokenizer's directory says besides ids: chat templates, where generation stops, and names of special tokens.

Templates are read as transformers does: files of their own are taken, else what tokenizer_config.json holds, which may
be a text, or a list or an object of several. What a base has is written again in its own form.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.storage import Location, existing, names_in
from bpe_pipeline.tokenizer.formats.fields import Field, read_bytes, read_json
from bpe_pipeline.tokenizer.model import ChatTemplate, Model

CONFIG_NAME, MAP_NAME = "tokenizer_config.json", "special_tokens_map.json"
GENERATION_NAME = "generation_config.json"
TEMPLATE_NAME, TEMPLATES = "chat_template.jinja", "additional_chat_templates"
_ENDING = ".jinja"
_DEFAULT = "default"


def kept_names(home: Location) -> list[str]:
    """Return the names of these files that a tokenizer's directory has, templates with the name of theirs."""
    names = [MAP_NAME, GENERATION_NAME, TEMPLATE_NAME]
    here = [name for name, exists in zip(names, existing([home / name for name in names]), strict=True) if exists]
    return here + named_templates(home)


def template_names(home: Location) -> list[str]:
    """Return the names of the files in a directory from which transformers reads templates."""
    return [name for name in kept_names(home) if name.endswith(_ENDING)]


def named_templates(home: Location) -> list[str]:
    """Return the names of the files in a directory that hold one more template each."""
    try:
        names = names_in(home / TEMPLATES)
    except NotADirectoryError:
        return []
    return [f"{TEMPLATES}/{name}" for name in names if name.endswith(_ENDING)]


def read_files(home: Location) -> dict[str, bytes]:
    """Return the content of these files by name."""
    return {name: read_bytes(home / name) for name in kept_names(home)}


def read_template(config: Field, files: Mapping[str, bytes]) -> ChatTemplate | None:
    """Return the template named default, and the others, of tokenizer_config.json and the files next to it."""
    home, templates = config.file.parent, dict[str, str]()
    for name, data in files.items():
        if name.endswith(_ENDING):
            try:
                templates[_name_of(name)] = data.decode()
            except UnicodeDecodeError as reason:
                raise InputError(f"{home / name} is not UTF-8 (byte {reason.start})") from reason
    member = config.member("chat_template")
    if not templates and isinstance(member.value, list):
        entries = member.elements()
        templates = {entry.member("name").read(str): entry.member("template").read(str) for entry in entries}
    elif not templates and isinstance(member.value, dict):
        templates = {name: member.member(name).read(str) for name in member.value}
    elif not templates and isinstance(member.value, str):
        templates = {_DEFAULT: member.value}
    default = templates.pop(_DEFAULT, None)
    return None if default is None else ChatTemplate(default, templates)


def chat_template_of(directory: Location) -> ChatTemplate | None:
    """Return the chat template of a directory, if it has one."""
    config = directory / CONFIG_NAME
    return read_template(read_json(config), read_files(directory)) if config.exists() else None


def _name_of(path: str) -> str:
    return _DEFAULT if path == TEMPLATE_NAME else path.removeprefix(f"{TEMPLATES}/").removesuffix(_ENDING)


def template_contents(model: Model) -> tuple[Any, dict[str, bytes]]:
    """Return what tokenizer_config.json holds of a model's templates, and the files of templates next to it."""
    member = model.settings.get("chat_template")  # of several
    files = {name: data for name, data in model.files.items() if name.endswith(_ENDING)}
    if model.chat_template is None:
        return member, files
    jinja = model.chat_template.jinja
    if files:
        files[TEMPLATE_NAME] = jinja.encode()
    if isinstance(member, list):
        named = {entry["name"]: entry["template"] for entry in member} | {_DEFAULT: jinja}
        return [{"name": name, "template": text} for name, text in named.items()], files
    return (member | {_DEFAULT: jinja} if isinstance(member, dict) else jinja), files


def generation_of(model: Model) -> dict[str, Any]:
    """Return the ids of a model's roles by the names of generation_config.json; texts end at the end of a turn, too."""
    ids = model.vocabulary.special_tokens
    named = {"bos": model.bos_token, "eos": model.eos_token, "pad": model.pad_token}
    ends = [ids[text] for text in dict.fromkeys([model.eos_token, *_turn_ends(model)]) if text in ids]
    return {f"{role}_token_id": ids[text] for role, text in named.items() if text is not None} | {"eos_token_id": ends}


def _turn_ends(model: Model) -> list[str]:
    ends = model.chat_template.writes("turn end") if model.chat_template else []
    return [text for text in ends if text in model.vocabulary.special_tokens]


def generation_content(model: Model) -> str | bytes | None:
    """Return generation_config.json: that of the base, else for a model that writes the end of a turn."""
    if GENERATION_NAME in model.files:
        return model.files[GENERATION_NAME]
    return _written(generation_of(model)) if _turn_ends(model) else None


def map_content(model: Model, named: Mapping[str, str]) -> str:
    """Return special_tokens_map.json: these roles, and what else the base names."""
    base = _object(model.files.get(MAP_NAME))
    same = {name for name, text in named.items() if text_of(base.get(name)) == text}
    ours = {name: text for name, text in named.items() if name not in same}
    return _written(existing_only(base, model) | ours)


def existing_only(settings: Mapping[str, Any], model: Model) -> dict[str, Any]:
    """Return settings whose lists of special tokens have only those that the model has."""
    changed = dict(settings)
    for name in ("additional_special_tokens", "extra_special_tokens"):  # without those that have another name now
        if isinstance(listed := changed.get(name), list):
            changed[name] = [token for token in listed if text_of(token) in model.vocabulary.special_tokens]
    return changed


def text_of(token: Any) -> Any:
    """Return the text of a token that is named by its text or by an object that holds it."""
    return token.get("content") if isinstance(token, dict) else token


def following(before: Model, after: Model) -> Model:
    """Return the changed model whose base's generation_config.json says the ids of roles and turn ends that changed."""
    old, new = generation_of(before), generation_of(after)
    changed = {name: id_ for name, id_ in new.items() if old.get(name) != id_}
    if not changed or GENERATION_NAME not in after.files:
        return after
    document = _object(after.files[GENERATION_NAME])
    if "eos_token_id" in changed:
        ends = document.get("eos_token_id")
        present = [id_ for id_ in (ends if isinstance(ends, list) else [ends]) if id_ is not None]
        added = [id_ for id_ in new["eos_token_id"] if id_ not in [*old["eos_token_id"], *present]]
        gone = {*old["eos_token_id"]} - {*new["eos_token_id"]}
        changed["eos_token_id"] = [*added, *(id_ for id_ in present if id_ not in gone)]
    return replace(after, files={**after.files, GENERATION_NAME: _written(document | changed).encode()})


def _object(data: bytes | None) -> dict[str, Any]:
    """Return the object in a file of settings; an empty one for a file that holds none, which `doctor` reports."""
    try:
        document = json.loads(data or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _written(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
