"""Lists of ranks, read: tiktoken's rank files, and Mistral's tekken.json.

tiktoken joins by the rank of the *resulting bytes* and looks whole pre-tokens up first: reading finds the merge list
that produces the same ids. tekken.json says its pattern and special tokens. For a rank file the caller names them, or
known_ranks.json has, by the SHA-256 of the file, what the code says that its publisher ships with it: for Meta's
`tokenizer.model`, `qwen.tiktoken` and OpenAI's encodings. Llama 3 and 3.1 have the same file; its special tokens have
the names of 3.1, where Llama 3 has reserved ones with the same ids.
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

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, OtherKindError, UsageError, unfit
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.parse import first_difference
from bpe_pipeline.pattern.presets import PRESETS, name_of, resolve
from bpe_pipeline.pattern.token_rules import Preparation
from bpe_pipeline.pattern.translate import leaves_text
from bpe_pipeline.run.ids import MAX_IDS, Roles
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats.byte_alphabet import vocabulary_of
from bpe_pipeline.tokenizer.formats.fields import Field, read_bytes, read_json
from bpe_pipeline.tokenizer.formats.tiktoken_ranks import prefixes
from bpe_pipeline.tokenizer.model import Model

_LINE = re.compile(rb"[A-Za-z0-9+/]+=* [0-9]+\r?\n")
_FILLER = "<SPECIAL_{}>"  # tekken's special tokens without a name


def is_rank_file(file: Location) -> bool:
    """Whether a file starts with a token in base64 and its rank, as SentencePiece's `.model` does not."""
    return _LINE.match(read_bytes(file)) is not None


def model_of_ranks(file: Location, tokens: dict[int, bytes], pattern: str, special_tokens: Mapping[str, int]) -> Model:
    """Make a model of the ranks in a file, a pattern (a name, or tiktoken's spelling) and special tokens."""
    if not isinstance(pattern, str):
        raise unfit("pattern", "a name, or the expression as tiktoken spells it", pattern)
    if not isinstance(special_tokens, Mapping):
        raise unfit("special_tokens", "a mapping text -> id", special_tokens)
    compiled = _pattern(pattern)
    for text, id_ in special_tokens.items():
        if not isinstance(text, str) or type(id_) is not int:
            raise UsageError(
                f"special_tokens has {text!r}: {id_!r}: give texts with whole numbers, such as {{'<|endoftext|>': 256}}"
            )
    for shorter, longer in prefixes(special_tokens):
        raise InputError(
            f"{file}: the special token {shorter!r} begins {longer!r}, and which of the two tiktoken takes is not "
            "certain: give it other special tokens"
        )
    try:
        left, right, _ = _core.merges_of_ranks(tokens)
    except ValueError as reason:
        raise InputError(f"{file}: {reason}") from None
    merges = ((tokens[a], tokens[b]) for a, b in zip(left, right, strict=True))
    return Model(vocabulary_of(file, tokens, merges, special_tokens), compiled, whole_pre_tokens=True)


def read_ranks(file: Location) -> dict[int, bytes]:
    """Read rank -> bytes of each line, in order of ranks."""
    tokens: dict[int, bytes] = {}
    lines = read_bytes(file, "a tiktoken rank file (lines of base64 and rank)").splitlines()
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            text, digits = line.split()
            token, rank = binascii.a2b_base64(text, strict_mode=True), int(digits) if digits.isdigit() else -1
        except ValueError:
            raise InputError(f"{file}: line {number} is not a token in base64 and its rank: {line[:80]!r}") from None
        shown = digits[:20].decode(errors="replace")
        if rank < 0 or tokens.setdefault(rank, token) != token:
            raise InputError(f"{file}: line {number} has the rank {shown!r}, which is no new whole number")
        if rank >= MAX_IDS:
            raise InputError(f"{file}: line {number} has the rank {shown}, above {MAX_IDS - 1}")
    return dict(sorted(tokens.items()))


def _pattern(pattern: str) -> CompiledPattern:
    compiled = compile_pattern(name_of(pattern) or resolve(pattern))
    if compiled.name is not None:
        return compiled
    difference = compiled.refusal or first_difference(pattern)
    if difference:
        raise UsageError(
            f"the pattern {pattern!r} may mean something else to tiktoken, because of {difference}: give one of "
            f"{', '.join(PRESETS)}, or an expression without it"
        )
    if leaves_text(compiled):
        raise UsageError(
            f"the pattern {pattern!r} does not match every text, and tiktoken drops what is not matched: add a last "
            r"branch, such as |[\s\S]"
        )
    return compiled


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
    known: dict[str, Any] = json.loads(Path(__file__).with_name("known_ranks.json").read_bytes())
    return known
