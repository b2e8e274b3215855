"""Read a tiktoken rank file: lines of base64 and rank.

tiktoken joins by the rank of the joined bytes and looks whole pieces up first; `_core.merges_of_ranks` finds the merge
list that gives the same ids. Its pattern and special tokens stand in code, so the caller gives them.
"""

import binascii
from collections.abc import Mapping
from itertools import pairwise

from pipeline import _core
from pipeline.base.errors import InputError, UsageError
from pipeline.merges.vocabulary import Vocabulary
from pipeline.pattern import PRESETS, CompiledPattern, compile_pattern
from pipeline.pattern.parse import first_difference
from pipeline.pattern.translate import leaves_text
from pipeline.run.ids import MAX_IDS
from pipeline.storage import Location
from pipeline.storage.bounded import MODEL_BYTES, read_bounded
from pipeline.tokenizer.model import Model


def load_ranks(file: Location, pattern: str, special_tokens: Mapping[str, int]) -> Model:
    """Load a rank file with its pattern (a name, or as tiktoken has it) and special tokens (text -> id)."""
    return model_of_ranks(file, read_ranks(file), pattern, special_tokens)


def model_of_ranks(file: Location, tokens: dict[int, bytes], pattern: str, special_tokens: Mapping[str, int]) -> Model:
    """The model of ranks that were read already; `file` is what errors name."""
    compiled = _pattern(pattern)
    for text, id_ in special_tokens.items():
        if not isinstance(text, str) or type(id_) is not int:
            raise UsageError(
                f"special_tokens has {text!r}: {id_!r}: give texts with whole numbers, such as {{'<|endoftext|>': 256}}"
            )
    for shorter, longer in pairwise(sorted(special_tokens)):
        if longer.startswith(shorter):
            raise InputError(
                f"{file}: the special token {shorter!r} begins {longer!r}, and which of the two tiktoken takes is not "
                "certain: give it other special tokens"
            )
    try:
        left, right, _ = _core.merges_of_ranks(tokens)
        merges = ((tokens[a], tokens[b]) for a, b in zip(left, right, strict=True))
        vocabulary = Vocabulary.from_tokens(tokens, merges, special_tokens)
    except (InputError, UsageError, ValueError) as reason:
        raise InputError(f"{file}: {reason}") from None
    return Model(vocabulary, compiled, whole_pieces=True)


def read_ranks(file: Location) -> dict[int, bytes]:
    """Rank -> bytes of each line, in order of ranks."""
    try:
        lines = read_bounded(file, MODEL_BYTES).splitlines()
    except FileNotFoundError:
        raise InputError(f"{file} does not exist: give a tiktoken rank file (lines of base64 and rank)") from None
    except OSError as reason:
        raise InputError(f"{file} cannot be read: {reason.strerror or reason}") from reason
    except ValueError as reason:
        raise InputError(f"{file} cannot be used: {reason}") from reason
    tokens: dict[int, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            text, digits = line.split()
            token, rank = binascii.a2b_base64(text, strict_mode=True), int(digits) if digits.isdigit() else -1
        except ValueError:
            raise InputError(f"{file}: line {number} is not a token in base64 and its rank: {line[:80]!r}") from None
        if rank < 0 or tokens.setdefault(rank, token) != token:
            raise InputError(
                f"{file}: line {number} has the rank {digits[:20].decode()!r}, which is no new whole number"
            )
        if rank >= MAX_IDS:
            raise InputError(f"{file}: line {number} has the rank {digits[:20].decode()}, above {MAX_IDS - 1}")
        if not token:
            raise InputError(f"{file}: line {number} is an empty token")
    return dict(sorted(tokens.items()))


def _pattern(pattern: str) -> CompiledPattern:
    name = next((name for name, expression in PRESETS.items() if expression == pattern), pattern)
    compiled = compile_pattern(name)
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
