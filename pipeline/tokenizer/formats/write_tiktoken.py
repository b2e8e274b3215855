"""A tiktoken rank file and the Python text that makes an encoding of it.

tokenizer.tiktoken has a line "base64-of-the-bytes rank" a token; tiktoken_encoding.py beside it runs as it is and
defines `encoding`. tiktoken merges by the rank of the *resulting bytes* and looks whole pieces up first, which is
byte-pair encoding only where ranks are ids in order of merging and every token is reachable; anything else is refused.
"""

from binascii import b2a_base64
from itertools import pairwise

from pipeline.base.errors import ExportRefusedError
from pipeline.pattern.translate import for_tiktoken
from pipeline.storage import Location
from pipeline.storage.atomic import make_directory, write_whole
from pipeline.tokenizer.formats.byte_alphabet import refuse_preparation
from pipeline.tokenizer.model import Model

RANKS_NAME = "tokenizer.tiktoken"
SNIPPET_NAME = "tiktoken_encoding.py"

_SNIPPET = '''\
"""A tiktoken encoding, written by bpe-pipeline. Needs tiktoken, and {ranks_name} beside this file."""

import base64
from pathlib import Path

import tiktoken

RANKS_PATH = Path(__file__).with_name("{ranks_name}")


def read_ranks(path: Path) -> dict[bytes, int]:
    """Read the bytes and the rank of each token."""
    lines = path.read_bytes().splitlines()
    return {{base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}}


encoding = tiktoken.Encoding(
    name={name!r},
    pat_str={pattern!r},
    mergeable_ranks=read_ranks(RANKS_PATH),
    special_tokens={{{specials}}},
    explicit_n_vocab={size},
)
'''


def export_tiktoken(model: Model, directory: Location) -> list[Location]:
    """Write the rank file and the Python text; ExportRefusedError where tiktoken would give other ids."""
    refuse_preparation(model, "a tiktoken rank file")
    _check_ids(model)
    _check_special_tokens(model)
    pattern = for_tiktoken(model.pattern)
    specials = "".join(f"\n        {text!r}: {id_}," for text, id_ in model.vocabulary.special_tokens.items())
    snippet = _SNIPPET.format(
        ranks_name=RANKS_NAME,
        name=f"bpe-pipeline-{model.pattern.name or 'custom'}-{model.vocabulary.size}",
        pattern=pattern,
        specials=specials + "\n    " if specials else "",
        size=model.vocabulary.size,
    )
    tokens = model.vocabulary.tokens.items()
    ranks = b"".join([b"%b %d\n" % (b2a_base64(token, newline=False), id_) for id_, token in tokens])
    make_directory(directory)
    ranks_path, snippet_path = directory / RANKS_NAME, directory / SNIPPET_NAME
    write_whole(ranks_path, ranks)
    write_whole(snippet_path, snippet)
    return [ranks_path, snippet_path]


def _check_ids(model: Model) -> None:
    layout = model.vocabulary.layout()
    if layout == "first":
        raise ExportRefusedError(
            "a tiktoken rank file is not written with special_ids=first: ranks are ids there, and the first rank is 0. "
            "Train with special_ids=last"
        )
    if layout is None:
        raise ExportRefusedError(
            "a tiktoken rank file is not written for these ids: it needs the 256 bytes first, then one token for each "
            "merge in order, then the special tokens. Use the hf export"
        )
    lost = model.unreachable_tokens()
    if lost:
        raise ExportRefusedError(
            f"a tiktoken rank file is not written: the merges never make {len(lost)} of the tokens (the first is "
            f"{model.vocabulary.tokens[lost[0]]!r}, id {lost[0]}), but tiktoken would. Use the hf export"
        )


def _check_special_tokens(model: Model) -> None:
    listed = sorted(model.vocabulary.special_tokens)
    for shorter, longer in pairwise(listed):
        if longer.startswith(shorter):
            raise ExportRefusedError(
                f"a tiktoken rank file is not written: the special token {shorter!r} begins {longer!r}, and tiktoken "
                "does not take the longest. Rename one of them, or use the hf export"
            )
