"""tiktoken's rank files: a line "base64-of-the-bytes rank" for each token, read and written.

tiktoken joins by the rank of the *resulting bytes* and looks whole pieces up first. Reading finds the merge list that
produces the same ids; written is only what both ways encode alike. Pattern and special tokens are not in the file: the
caller names them, and an export adds tiktoken_encoding.py, which defines `encoding`.
"""

import binascii
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from pipeline import _core
from pipeline.base.errors import ExportRefusedError, InputError, UsageError, unfit
from pipeline.pattern.compiled import CompiledPattern
from pipeline.pattern.compiler import compile_pattern
from pipeline.pattern.parse import first_difference
from pipeline.pattern.presets import PRESETS, resolve
from pipeline.pattern.translate import for_tiktoken, leaves_text
from pipeline.run.ids import MAX_IDS
from pipeline.storage import Location
from pipeline.tokenizer.formats.byte_alphabet import refuse_preparation, vocabulary_of
from pipeline.tokenizer.formats.fields import RANKS_NAME, SNIPPET_NAME, read_bytes, write_files
from pipeline.tokenizer.model import Model

_SNIPPET = '''\
"""A tiktoken encoding, written by bpe-pipeline. Needs tiktoken, and {ranks_name} beside this file."""

import base64
{imports}from pathlib import Path

import tiktoken

RANKS_PATH = Path(__file__).with_name("{ranks_name}")


def read_ranks(path: Path) -> dict[bytes, int]:
    """Read the bytes and the rank of each token."""
    lines = path.read_bytes().splitlines()
    return {{base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}}


{before}encoding = {kind}(
    name={name!r},
    pat_str={pat_str!r},
    mergeable_ranks=read_ranks(RANKS_PATH),
    special_tokens={{{special_tokens}}},
    explicit_n_vocab={explicit_n_vocab},
)
'''


_NFC_IMPORTS = "import re\nimport unicodedata\n"
_NFC = '''\
def normalized(encode):
    """Put text into NFC, as the tokenizer needs it, each stretch between special tokens; then encode it."""

    def encode_normalized(self, text, *, allowed_special=frozenset(), **other):
        special = self.special_tokens_set if allowed_special == "all" else allowed_special
        found = "|".join(map(re.escape, sorted(special, key=len, reverse=True)))
        parts = re.split(f"({found})", text) if found else [text]
        text = "".join(part if part in special else unicodedata.normalize("NFC", part) for part in parts)
        return encode(self, text, allowed_special=allowed_special, **other)

    return encode_normalized


class NormalizedEncoding(tiktoken.Encoding):
    """Puts text into NFC."""

    encode = normalized(tiktoken.Encoding.encode)
    encode_to_numpy = normalized(tiktoken.Encoding.encode_to_numpy)
    encode_with_unstable = normalized(tiktoken.Encoding.encode_with_unstable)

    def encode_ordinary(self, text):
        return super().encode_ordinary(unicodedata.normalize("NFC", text))


'''


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
    for shorter, longer in _prefixes(special_tokens):
        raise InputError(
            f"{file}: the special token {shorter!r} begins {longer!r}, and which of the two tiktoken takes is not "
            "certain: give it other special tokens"
        )
    try:
        left, right, _ = _core.merges_of_ranks(tokens)
    except ValueError as reason:
        raise InputError(f"{file}: {reason}") from None
    merges = ((tokens[a], tokens[b]) for a, b in zip(left, right, strict=True))
    return Model(vocabulary_of(file, tokens, merges, special_tokens), compiled, whole_pieces=True)


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
    name = next((name for name, preset in PRESETS.items() if preset.expression == pattern), None)
    compiled = compile_pattern(name or resolve(pattern))
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


def _prefixes(special_tokens: Iterable[str]) -> list[tuple[str, str]]:
    """Return special tokens of which one begins the other; tiktoken does not take the longest."""
    return [(one, other) for one, other in pairwise(sorted(special_tokens)) if other.startswith(one)]


def encoding_arguments(model: Model) -> dict[str, Any]:
    """Return those of `tiktoken.Encoding` without the ranks; ExportRefusedError where it would produce other ids."""
    refuse_preparation(model, "a tiktoken encoding")
    ids, special_ids = list(model.vocabulary.tokens), sorted(model.vocabulary.special_tokens.values())
    if special_ids and special_ids == list(range(ids[0])):
        raise ExportRefusedError(
            "a tiktoken rank file is not written with special_ids=first: ranks are ids there, and the first rank is 0. "
            "Train with special_ids=last"
        )
    # There may be gaps or special tokens between: tiktoken knows ids alone.
    if ids[:256] != list(range(256)) or ids[256:] != list(model.vocabulary.result):
        raise ExportRefusedError(
            "a tiktoken rank file is not written for these ids: it needs the 256 bytes first, then one token for each "
            "merge in order. Use the hf export"
        )
    lost = model.unreachable_tokens()
    if lost:
        raise ExportRefusedError(
            f"a tiktoken rank file is not written: the merges never make {len(lost)} of the tokens (the first is "
            f"{model.vocabulary.tokens[lost[0]]!r}, id {lost[0]}), but tiktoken would. Use the hf export"
        )
    for shorter, longer in _prefixes(model.vocabulary.special_tokens):
        raise ExportRefusedError(
            f"a tiktoken rank file is not written: the special token {shorter!r} begins {longer!r}, and tiktoken "
            "does not take the longest. Rename one of them, or use the hf export"
        )
    return {
        "name": f"bpe-pipeline-{model.pattern.name or 'custom'}-{model.vocabulary.size}",
        "pat_str": for_tiktoken(model.pattern),
        "special_tokens": model.vocabulary.special_tokens,
        "explicit_n_vocab": model.vocabulary.size if model.vocabulary.max_id < model.vocabulary.size else None,
    }


def export(model: Model, directory: Location) -> list[Location]:
    """Write the rank file and the Python text; ExportRefusedError where tiktoken would produce other ids."""
    arguments = encoding_arguments(model.without_nfc)
    specials = "".join(f"\n        {text!r}: {id_}," for text, id_ in model.vocabulary.special_tokens.items())
    arguments["special_tokens"] = specials + "\n    " if specials else ""
    kind = "NormalizedEncoding" if model.preparation.nfc else "tiktoken.Encoding"
    imports, before = (_NFC_IMPORTS, _NFC) if model.preparation.nfc else ("", "")
    snippet = _SNIPPET.format(ranks_name=RANKS_NAME, kind=kind, imports=imports, before=before, **arguments)
    tokens = model.vocabulary.tokens.items()
    ranks = b"".join([b"%b %d\n" % (binascii.b2a_base64(token, newline=False), id_) for id_, token in tokens])
    return write_files(directory, {RANKS_NAME: ranks, SNIPPET_NAME: snippet})
