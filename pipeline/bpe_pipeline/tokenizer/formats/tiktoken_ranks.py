"""tiktoken's rank file, written: a line "base64-of-the-bytes rank" for each token, and tiktoken_encoding.py.

tiktoken joins by the rank of the *resulting bytes* and looks whole pre-tokens up first: written is only what both ways
encode alike. The rank file does not hold pattern and special tokens; the Python file next to it defines `encoding`.
"""

import binascii
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from bpe_pipeline.pattern.translate import for_tiktoken
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats.byte_alphabet import unsaid
from bpe_pipeline.tokenizer.formats.fields import RANKS_NAME, SNIPPET_NAME, refuse_export, write_files
from bpe_pipeline.tokenizer.model import Model

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


def prefixes(special_tokens: Iterable[str]) -> list[tuple[str, str]]:
    """Return special tokens of which one begins the other; tiktoken does not take the longest."""
    return [(shorter, longer) for shorter, longer in pairwise(sorted(special_tokens)) if longer.startswith(shorter)]


def encoding_arguments(model: Model) -> dict[str, Any]:
    """Return those of `tiktoken.Encoding` without the ranks; ExportRefusedError where it would produce other ids."""
    refuse_export(_reasons_against(model))
    return {
        "name": f"bpe-pipeline-{model.pattern.name or 'custom'}-{model.vocabulary.size}",
        "pat_str": for_tiktoken(model.pattern),
        "special_tokens": model.vocabulary.special_tokens,
        "explicit_n_vocab": model.vocabulary.size if model.vocabulary.max_id < model.vocabulary.size else None,
    }


def _reasons_against(model: Model) -> Iterator[str]:
    """Yield why tiktoken would produce other ids."""
    yield from unsaid(model, "a tiktoken encoding")
    ids, special_ids = list(model.vocabulary.tokens), sorted(model.vocabulary.special_tokens.values())
    if special_ids and special_ids == list(range(ids[0])):
        yield (
            "a tiktoken rank file is not written with special_ids=first: ranks are ids there, and the first rank is 0. "
            "Train with special_ids=last"
        )
    # There may be gaps or special tokens between: tiktoken knows ids alone.
    if ids[:256] != list(range(256)) or ids[256:] != list(model.vocabulary.result):
        yield (
            "a tiktoken rank file is not written for these ids: it needs the 256 bytes first, then one token for each "
            "merge in order. Use the hf export"
        )
    if lost := model.unreachable_tokens():
        yield (
            f"a tiktoken rank file is not written: the merges never make {len(lost)} of the tokens (the first is "
            f"{model.vocabulary.tokens[lost[0]]!r}, id {lost[0]}), but tiktoken would. Use the hf export"
        )
    for shorter, longer in prefixes(model.vocabulary.special_tokens):
        yield (
            f"a tiktoken rank file is not written: the special token {shorter!r} begins {longer!r}, and tiktoken "
            "does not take the longest. Rename one of them, or use the hf export"
        )


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
