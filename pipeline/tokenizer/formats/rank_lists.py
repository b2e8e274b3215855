"""Rank lists whose pattern and special tokens are known: a rank file by its content's hash, tekken.json by itself.

known_ranks.json lists, by the SHA-256 of a rank file, what the code that its publisher ships with it says. Meta's
`tokenizer.model` and `qwen.tiktoken` are such files, as are those of OpenAI's encodings. Llama 3 and 3.1 have the same
file; its special tokens have the names of 3.1, where Llama 3 has reserved ones with the same ids.
"""

import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.base.errors import InputError, OtherKindError, UsageError
from pipeline.pattern.token_rules import Preparation
from pipeline.run.ids import Roles
from pipeline.storage import Location
from pipeline.tokenizer.formats.fields import Field, read_bytes, read_json
from pipeline.tokenizer.formats.tiktoken_ranks import model_of_ranks, read_ranks
from pipeline.tokenizer.model import Model

_LINE = re.compile(rb"[A-Za-z0-9+/]+=* [0-9]+\r?\n")
_FILLER = "<SPECIAL_{}>"  # tekken's special tokens without a name


def is_rank_file(file: Location) -> bool:
    """Whether a file starts with a token in base64 and its rank, as SentencePiece's `.model` does not."""
    return _LINE.match(read_bytes(file)) is not None


def load_ranks(file: Location) -> Model:
    """Load tekken.json or a rank file; OtherKindError for one whose content is not known."""
    if file.suffix == ".json":
        return _load_tekken(read_json(file))
    known = _known().get(hashlib.sha256(read_bytes(file)).hexdigest())
    if known is None:
        raise OtherKindError(
            f"{file} is a tiktoken rank file, which does not say its pattern and special tokens, and its content is "
            f"none of those known here: `bpe-pipeline export {file} --pattern NAME --special-token TEXT --output DIR` "
            "makes a tokenizer of it that every command reads, in Python Tokenizer.from_tiktoken_file"
        )
    model = model_of_ranks(file, read_ranks(file), known["pattern"], special_tokens_of(known["special_tokens"]))
    return replace(model, roles=Roles(**known["roles"]), preparation=Preparation(nfc=known.get("nfc", False)))


def load_ranks_by(file: Location, pattern: str, special_tokens: Sequence[str]) -> Model:
    """Load a rank file whose pattern and special tokens, in order of the ids after its ranks, the caller names."""
    tokens = read_ranks(file)
    first = max(tokens, default=-1) + 1
    if not special_tokens:
        raise UsageError(
            f"{file} does not say its special tokens: name them in order of ids, from {first} on, with --special-token"
        )
    return model_of_ranks(file, tokens, pattern, {text: first + at for at, text in enumerate(special_tokens)})


def _load_tekken(document: Field) -> Model:
    """Load tekken.json: its special tokens first, then as many ranks as its configuration says."""
    config, listed = document.member("config"), document.member("special_tokens")
    size, special = (config.member(f"default_{name}").read(int) for name in ("vocab_size", "num_special_tokens"))
    ranks = document.member("vocab").read(list)
    if not 0 <= special <= size <= len(ranks) + special:
        config.refuse(f"asks for {size:,} ids with {special:,} special tokens, and there are {len(ranks):,} ranks")
    texts = {_FILLER.format(id_): id_ for id_ in range(special)}
    entries = [] if listed.value is None else listed.elements()
    named = {entry.member("rank").read(int): entry.member("token_str").read(str) for entry in entries}
    if listed.value is None:  # older files leave them to the code that reads them
        named = {id_: text for text, id_ in special_tokens_of(_known()["tekken"]["special_tokens"]).items()}
    texts = {named.get(id_, text): id_ for text, id_ in texts.items()}
    tokens = {}
    for rank, entry in enumerate(ranks[: size - special]):
        try:
            tokens[special + rank] = binascii.a2b_base64(entry["token_bytes"], strict_mode=True)
        except (TypeError, KeyError, ValueError):
            raise InputError(f"{document.file}: vocab[{rank}] has no token_bytes in base64") from None
        if entry.get("rank") != rank:
            raise InputError(f"{document.file}: vocab[{rank}] has the rank {entry.get('rank')!r}, not {rank}")
    roles = {role: text for role, text in (("bos", "<s>"), ("eos", "</s>"), ("pad", "<pad>")) if text in texts}
    model = model_of_ranks(document.file, tokens, config.member("pattern").read(str), texts)
    return replace(model, roles=Roles(**roles))


def special_tokens_of(listed: Mapping[str, Sequence[Any]]) -> dict[str, int]:
    """Return text -> id of what known_ranks.json has: first id -> texts, and texts with a number from .. to."""
    return {text: int(first) + at for first, texts in listed.items() for at, text in enumerate(_spelled(texts))}


def _spelled(texts: Sequence[Any]) -> Iterator[str]:
    for text in texts:
        if isinstance(text, str):
            yield text
        else:
            yield from (text[0].format(number) for number in range(*text[1:]))


@cache
def _known() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("known_ranks.json").read_bytes())
    return found
