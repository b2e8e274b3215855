"""The merge list with its counts, and `merges.parquet`, which stores it: what each merge joined, as bytes.

One list serves every smaller vocabulary; a larger one is learned again from the counter, never from the corpus.
"""

import json
from array import array
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any

from bpe_pipeline.base.errors import InputError, RunDirectoryError, TrainingError
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.base.units import format_count
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.run.ids import SpecialTokens
from bpe_pipeline.storage import Location, sealed_parquet
from bpe_pipeline.storage.atomic import whole_file

LEAST_SAVING = 0.05  # of the tokens, by a doubling
LEAST_COUNT, MOST_RARE = 20, 0.05  # a rarer merge is a name or a typing error; the share of these that is accepted
_COLUMNS = {"left": "large_binary", "right": "large_binary", "count": "uint64", "joined": "uint64"}
_FINGERPRINT, _STOPPED, _BYTES = b"fingerprint", b"stopped", b"bytes"
_LEFT_OUT = b"left_out"  # different pre-tokens and their bytes
_CHOICES = b"choices"
_NULL = (1 << 32) - 1  # in a column of choices


@dataclass(frozen=True)
class Choices:
    """What an extension that chooses the merges adds to their list: columns with a value for each merge, and its
    state."""

    columns: "dict[str, array[int]]"  # by name, "I" arrays; 2^32 - 1 is null in the file
    state: dict[str, Any]  # what the next choice depends on, as JSON has it


@dataclass(frozen=True)
class MergeList:
    """What each merge joins, in order of rank, in the merge engine's numbering, each with its count.

    Ids are "I" arrays: 0..255 the bytes in GPT-2 order, then one for each merge; counts are "Q" arrays.
    """

    left: "array[int]"
    right: "array[int]"
    counts: "array[int]"  # of the pair when it was merged
    joined: "array[int]"  # occurrences that became one token: the count, less overlaps as in `aaa`
    bytes: int  # of all merged pre-tokens with repetitions: the tokens before the first merge
    exhausted: bool  # no further pair is left
    left_out_pre_tokens: int = 0  # different ones, rarer than `min_pre_token_count`
    left_out_bytes: int = 0  # of these, with repetitions
    choices: Choices | None = None  # of an extension that chose the merges

    def __len__(self) -> int:
        return len(self.left)

    @property
    def tokens(self) -> int:
        """Tokens that all pre-tokens of the corpus have after these merges."""
        return self.bytes - sum(self.joined)

    @cached_property
    def token_bytes(self) -> int:
        """Bytes of all tokens that the merges make."""
        lengths = [1] * 256
        for left, right in zip(self.left, self.right, strict=True):
            lengths.append(lengths[left] + lengths[right])
        return sum(lengths)

    def serves(self, merges: int) -> bool:
        """Whether the list is long enough for a vocabulary with this many merges."""
        return self.exhausted or len(self) >= merges

    def first(self, merges: int) -> "MergeList":
        """The list up to a number of merges."""
        if merges >= len(self):
            return self
        columns = {name: getattr(self, name)[:merges] for name in ("left", "right", "counts", "joined")}
        return replace(self, **columns, exhausted=False, choices=None)


def rare_share(occurrences: Sequence[int]) -> float:
    """Return the share of merges that occur fewer than 20 times. occurrences: of each merge in the text, not weighted.

    >>> rare_share([100, 20, 19, 3])
    0.5
    """
    return sum(times < LEAST_COUNT for times in occurrences) / max(len(occurrences), 1)


def enough_from(savings: Sequence[float], least: float) -> int | None:
    """Return the position from which on every saving is too small; None if the last one is not.

    >>> enough_from([0.2, 0.04, 0.09, 0.03, 0.01], 0.05)
    3
    """
    worthwhile = (position for position in reversed(range(len(savings))) if savings[position] >= least)
    first = next(worthwhile, -1) + 1
    return first if first < len(savings) else None


def size_that_repays(learned: MergeList, special: SpecialTokens, most: int, saving: float) -> tuple[int, str]:
    """Return the vocabulary size to stop at (at most `most`) and the reason as text.

    Uses the corpus's exact token count at every size.
    """
    tokens = [learned.bytes, *(learned.bytes - joined for joined in accumulate(learned.joined))]
    return number_that_repays(
        tokens, most, saving, least=most - special.merge_budget(most), all_known=learned.exhausted
    )


def number_that_repays(
    tokens: Sequence[int], most: int, saving: float, *, least: int, all_known: bool
) -> tuple[int, str]:
    """Return the smallest size from which doubling never saves more than `saving`, and the reason as text.

    Returns `most` if the list is too short to tell. tokens[n]: of the corpus with a vocabulary of `least` + n. Savings
    need not fall: where an extension chooses the merges, a later doubling may save more.
    """
    end = len(tokens) - 1

    def saved(size: int) -> float:
        return 1 - tokens[min(2 * size - least, end)] / tokens[min(size - least, end)]

    last = most if all_known else (least + end) // 2  # of which it is known what doubling saves
    if (first := enough_from([saved(size) for size in range(least, last + 1)], saving)) is not None:
        size = least + first
        if first:
            why = f"doubling them would save less than {saving:.2%} of the tokens"
            return size, f"{format_count(size, 'tokens')}: {why}"
        best = max(range(least, last + 1), key=saved)
        known = f"the largest saving is {saved(best):.2%}, from {best:,} to {min(2 * best, least + end):,} tokens"
        return size, f"{format_count(size, 'tokens')}: no doubling saves {saving:.2%} of the tokens; {known}"
    known = f"doubling {last:,} saves {saved(last):.2%}" if last >= least else "too few to know what doubling saves"
    return most, f"{most:,} tokens, the most allowed: {known}"


def save(merges: MergeList, path: Location, fingerprint: str) -> None:
    """Write `merges.parquet`: left, right (large_binary), count and joined (uint64), a row a merge."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pairs = Vocabulary.from_id_pairs(merges.left, merges.right).merges()
    columns = {
        "left": pa.array([left for left, _ in pairs], pa.large_binary()),
        "right": pa.array([right for _, right in pairs], pa.large_binary()),
        "count": pa.array(merges.counts.tolist(), pa.uint64()),
        "joined": pa.array(merges.joined.tolist(), pa.uint64()),
    }
    stopped = b"exhausted" if merges.exhausted else b"limit"
    metadata = {_FINGERPRINT: fingerprint.encode(), _STOPPED: stopped, _BYTES: b"%d" % merges.bytes}
    metadata[_LEFT_OUT] = b"%d %d" % (merges.left_out_pre_tokens, merges.left_out_bytes)
    if (choices := merges.choices) is not None:
        for name, values in choices.columns.items():
            columns[name] = pa.array([None if value == _NULL else value for value in values], pa.uint32())
        metadata[_CHOICES] = json.dumps({"columns": list(choices.columns), "state": choices.state}).encode()
    table = pa.table(columns).replace_schema_metadata(metadata)
    with whole_file(path) as partial:
        with pq.ParquetWriter(partial, table.schema, **sealed_parquet.WRITE_OPTIONS) as writer:
            writer.write_table(table, row_group_size=max(len(merges), 1))
            writer.add_key_value_metadata(sealed_parquet.seals([_checksum(pairs, merges)]))
        sealed_parquet.seal(partial)


def _checksum(pairs: Sequence[tuple[bytes, bytes]], merges: MergeList) -> str:
    ends = array("Q", [len(left) << 32 | len(right) for left, right in pairs])
    added = merges.choices.columns.values() if merges.choices is not None else ()
    return sealed_parquet.checksum(ends, b"".join(chain.from_iterable(pairs)), merges.counts, merges.joined, *added)


def load(path: Location, fingerprint: str) -> MergeList | None:
    """Read the merge list at `path`; None if there is none with this fingerprint."""
    try:
        if not path.exists():
            return None
        columns = dict(_COLUMNS)

        def add_columns(metadata: Mapping[bytes, bytes]) -> None:
            if _CHOICES in metadata:
                columns.update(dict.fromkeys(json.loads(metadata[_CHOICES])["columns"], "uint32"))

        file, checksums = sealed_parquet.open_sealed(path, columns, add_columns)
        with ExitStack() as closing:
            closing.callback(file.close, force=True)
            metadata = file.metadata.metadata
            if metadata.get(_FINGERPRINT) != fingerprint.encode():
                return None
            table = file.read()
        pairs = list(zip(table["left"].to_pylist(), table["right"].to_pylist(), strict=True))
        ids = Vocabulary.from_merges(pairs)
        counts, joined = (array("Q", table[name].to_pylist()) for name in ("count", "joined"))
        exhausted, (rare, rare_bytes) = metadata[_STOPPED] == b"exhausted", map(int, metadata[_LEFT_OUT].split())
        merges = MergeList(ids.left, ids.right, counts, joined, int(metadata[_BYTES]), exhausted, rare, rare_bytes)
        if _CHOICES in metadata:
            added = {name: table[name].to_pylist() for name in columns if name not in _COLUMNS}
            arrays = {name: array("I", (_NULL if one is None else one for one in added[name])) for name in added}
            merges = replace(merges, choices=Choices(arrays, json.loads(metadata[_CHOICES])["state"]))
        if checksums != [_checksum(pairs, merges)] or merges.tokens < 1:
            raise ValueError("its merges are not those that were written")
        return merges
    except (*sealed_parquet.DAMAGE, OverflowError, InputError, TrainingError) as error:
        sealed_parquet.require_damage(path, error)
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RunDirectoryError(f"{path} is damaged ({reason}); remove it, and it is learned again") from None
