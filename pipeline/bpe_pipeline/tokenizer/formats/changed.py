"""Write a changed vocabulary into the files of the tokenizer it came from: all else in them stays as it is.

Entries and merges keep their order and spelling; what is new comes last. Where ids move, they move in the added tokens,
the post-processor, the padding and the settings too. generation_config.json may also name ids of tokens that are
removed: these are left out, as nothing generates them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bpe_pipeline.base.errors import ExportRefusedError, InputError
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats import huggingface, settings_files
from bpe_pipeline.tokenizer.formats.added_tokens import check_numbering, unlisted_tokens
from bpe_pipeline.tokenizer.formats.fields import Field, read_bytes, read_json, write_files
from bpe_pipeline.tokenizer.formats.files import document_of, tokenizer_home
from bpe_pipeline.tokenizer.formats.read_huggingface import load_huggingface
from bpe_pipeline.tokenizer.model import Model

_PLAIN_MARK = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
_OF_AN_ID = ("_id", "_token", "_token_index")  # how other names end that may name the id of a token
CHANGED_NAMES = (*huggingface.EDITABLE, settings_files.TEMPLATE_NAME, huggingface.MODEL_NAME)


def require_listed(base: Location, model: Model) -> None:
    """Raise `InputError` if only settings name an added token: where new ids are, tokenizer.json has to list it."""
    file = document_of(base)
    if file is not None and (unlisted := unlisted_tokens(file, model.vocabulary.special_tokens)):
        raise InputError(
            f"{file} lacks {unlisted[0]!r}, which the settings next to it make a token: list it there with "
            f"`bpe-pipeline export {base} --output NEW`, and change that tokenizer"
        )


def write_changed(base: Location, model: Model, new_of: Mapping[int, int] | None, directory: Location) -> Model:
    """Write the files at `base` with the vocabulary of `model`, ids moved by `new_of`; returns the model as read."""
    home = tokenizer_home(base)
    file = document_of(base)
    if file is not None:
        document = read_json(file).read(dict)
        moved = new_of is not None and any(old != new for old, new in new_of.items())
        marks = {} if moved else _marks(document.get("added_tokens") or [], model.vocabulary)
        names = [name for name in CHANGED_NAMES[:-1] if (home / name).exists()]
        names += settings_files.named_templates(home)
        contents = {name: _settings(home / name, new_of, marks) for name in names}
        write_files(
            directory, contents | {huggingface.MODEL_NAME: _document(document, file, model.vocabulary, new_of, marks)}
        )
    else:
        huggingface.write_model(model, directory)
    written = load_huggingface(directory / huggingface.MODEL_NAME)
    if written.vocabulary != model.vocabulary:
        raise ExportRefusedError(
            f"{file or base} cannot hold this vocabulary: another one is read from what was written"
        )
    return written


Marks = Mapping[int, tuple[str | None, str]]
"""Special tokens that are added, by id: the text of a reserved one that each replaces, and its own."""


def _marks(added: Sequence[Mapping[str, Any]], vocabulary: Vocabulary) -> Marks:
    """Return the special tokens of a vocabulary that the added tokens of a file lack."""
    old = {token["id"]: token["content"] for token in added}
    return {id_: (old.get(id_), text) for text, id_ in vocabulary.special_tokens.items() if old.get(id_) != text}


def _document(
    document: Any, file: Location, vocabulary: Vocabulary, new_of: Mapping[int, int] | None, marks: Marks
) -> str:
    """Return tokenizer.json with this vocabulary."""
    old_vocab, merges = document["model"]["vocab"], document["model"]["merges"]
    ordinary = {text: id_ for id_, text in vocabulary.texts.items()}
    ids = vocabulary.special_tokens | ordinary
    renamed, added = dict(marks.values()), document.get("added_tokens") or []
    for token in added:
        token["content"] = renamed.get(token["content"], token["content"])
    added += [{"id": id_, "content": text, **_PLAIN_MARK} for id_, (old, text) in marks.items() if old is None]
    entries = {text: ids[text] for text in (renamed.get(text, text) for text in old_vocab) if text in ids} | ordinary
    pairs = [[vocabulary.texts[id_] for id_ in pair] for pair in zip(vocabulary.left, vocabulary.right, strict=True)]
    merges = [" ".join(pair) for pair in pairs] if merges and isinstance(merges[0], str) else pairs
    if new_of is not None:
        for token in added:
            token["id"] = new_of[token["id"]]
        _move_ids(document.get("post_processor"), new_of, file)
        if isinstance(padding := document.get("padding"), dict) and "pad_id" in padding:
            padding["pad_id"] = _moved(padding["pad_id"], new_of, file)
    document["model"] |= {"vocab": entries, "merges": merges}
    if marks:
        document["added_tokens"] = added
    try:
        check_numbering(Field(added, file), Field(entries, file))
    except InputError:  # a reader takes the ids of the vocabulary for those that it lists
        entries |= {token["content"]: token["id"] for token in added}
    return json.dumps(document, ensure_ascii=False, indent=2)


def _moved(id_: Any, new_of: Mapping[int, int], file: Location) -> int:
    """Return the new id of a token that a file names; `ExportRefusedError` if it has none."""
    try:
        return new_of[int(id_)]
    except (KeyError, TypeError, ValueError):
        raise ExportRefusedError(
            f"{file} names the token id {id_!r}, which no token has that stays: protect its token with --protect, or "
            "take it out of the file"
        ) from None


def _move_ids(processor: Any, new_of: Mapping[int, int], file: Location) -> None:
    """Move the ids of tokens that a post-processor puts around a text."""
    if not isinstance(processor, dict):
        return
    for step in processor.get("processors", ()):
        _move_ids(step, new_of, file)
    special = processor.get("special_tokens")
    for entry in special.values() if isinstance(special, dict) else ():
        entry["ids"] = [_moved(id_, new_of, file) for id_ in entry["ids"]]
    for name in ("sep", "cls"):
        if isinstance(processor.get(name), list):
            text, id_ = processor[name]
            processor[name] = [text, _moved(id_, new_of, file)]


def _settings(file: Location, new_of: Mapping[int, int] | None, marks: Marks) -> str | bytes:
    """Return a file of settings with the ids that it names moved, or with more special tokens where it lists all."""
    if (new_of is None and not marks) or not file.name.endswith(".json"):
        return read_bytes(file)
    document = read_json(file).read(dict)
    if isinstance(decoder := document.get("added_tokens_decoder"), dict):
        for id_, (_, text) in marks.items():
            decoder[str(id_)] = {**decoder.get(str(id_), _PLAIN_MARK), "content": text}
        if new_of is not None:
            document["added_tokens_decoder"] = {str(_moved(id_, new_of, file)): entry for id_, entry in decoder.items()}
    if marks and isinstance(tokens := document.get("additional_special_tokens"), list):
        gone = {old for old, _ in marks.values()}
        other_tokens = [token for token in tokens if settings_files.text_of(token) not in gone]
        document["additional_special_tokens"] = other_tokens + [text for _, text in marks.values()]
    if new_of is not None:
        document = _generating(document, new_of, file, [])
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def ids_left_out(base: Location, new_of: Mapping[int, int]) -> dict[str, list[int]]:
    """Return the ids of removed tokens that the generation_config.json of a base names, by member."""
    file, listed = tokenizer_home(base) / settings_files.GENERATION_NAME, list[tuple[str, int]]()
    if document_of(base) is not None and file.exists():
        _generating(read_json(file).read(dict), new_of, file, listed)
    names = dict.fromkeys(name for name, _ in listed)
    return {name: list(dict.fromkeys(id_ for member, id_ in listed if member == name)) for name in names}


def _generating(
    document: Mapping[str, Any], new_of: Mapping[int, int], file: Location, left_out: list[tuple[str, int]]
) -> dict[str, Any]:
    """Return settings with the ids that they name moved, and without those of removed tokens, which are appended.

    A member that ends in _token_id must have an id that stays. A row of ids with one that is removed goes as a whole.
    A member of another name that may be one id is refused, if this one moves.
    """

    def row(name: str, ids: Sequence[Any]) -> list[Any]:
        gone = [id_ for id_ in ids if _is_id(id_) and id_ not in new_of]
        left_out.extend((name, id_) for id_ in gone)
        return [] if gone else [new_of[id_] if _is_id(id_) else _no_id(id_) for id_ in ids]

    def rows(name: str, value: list[Any]) -> list[Any]:
        nested = any(isinstance(element, list) for element in value)
        return [members for element in value if (members := rows(name, element))] if nested else row(name, value)

    def moved(name: str, value: Any) -> Any:
        if name.endswith("_token_id"):
            ids = [_moved(id_, new_of, file) if _is_id(id_) else _no_id(id_) for id_ in _listed(value)]
            if any(isinstance(id_, str) for id_ in ids):
                raise TypeError(value)
            return ids if isinstance(value, list) else ids[0]
        if name == "sequence_bias":  # rows of ids, each with a number; as keys they are written in parentheses
            pairs = value.items() if isinstance(value, dict) else value
            parsed = ((map(int, re.findall(r"\d+", key)) if isinstance(key, str) else key, bias) for key, bias in pairs)
            return [[ids, bias] for listed, bias in parsed if (ids := row(name, [*listed]))]
        if isinstance(value, dict):
            to_id = name.endswith("_to_id")
            members = {
                key: [*row(name, [element])] if to_id else [moved(key, element)] for key, element in value.items()
            }
            return {key: element[0] for key, element in members.items() if element}
        if isinstance(value, list) and any(isinstance(element, dict) for element in value):
            return [moved(name, element) for element in value]
        if isinstance(value, list) and name == "forced_decoder_ids":  # positions and ids
            return [[at, *ids] for at, *row_ids in value if (ids := row(name, row_ids))]
        if _is_id(value) and name.endswith(_OF_AN_ID) and new_of.get(value) != value:
            raise TypeError(name)
        if isinstance(value, list) and name.endswith(("_ids", "_tokens")):
            nested = any(isinstance(element, list) for element in value)
            return rows(name, value) if nested else [id_ for element in value for id_ in row(name, [element])]
        return value

    changed = dict[str, Any]()
    for name, value in document.items():
        try:
            changed[name] = moved(name, value)
        except (TypeError, ValueError, AttributeError):
            raise ExportRefusedError(
                f"{file}: {name} names ids in a form that is not known, and its tokens may get other ids: take it out "
                "of the file, and add it to the new one by id-map.parquet"
            ) from None
    return changed


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _no_id(value: Any) -> Any:
    """Return what names no token by its id: null, a text, a negative number; raise `TypeError` for anything else."""
    if value is None or isinstance(value, str) or (type(value) is int and value < 0):
        return value
    raise TypeError(value)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
