"""Shards read: back to text, in bounded memory, and for training, their ids as one sequence in arrays that are mapped
into memory.
"""

import hashlib
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpe_pipeline.base.errors import InputError, UsageError, unfit
from bpe_pipeline.base.units import format_count
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.values import shard_formats
from bpe_pipeline.shards.encoded_corpus import RESULT, EncodedCorpus, checksum, find_result
from bpe_pipeline.shards.formats import BLOCK_IDS, IDS, Block, ShardFacts, shard_format
from bpe_pipeline.shards.manifest import SHARDS, load, tokenizer_fingerprint
from bpe_pipeline.storage import Location, Remote, named
from bpe_pipeline.tokenizer.decode import tokens_of
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(eq=False, repr=False)
class Shards(Sequence[Any]):
    """The ids of a set of shards, or of several sets; a sequence that can be pickled.

    `shards[5]` is an id, `shards[5:9]` an array, a view of the file where one shard has them all. `vocab_size`: all ids
    are below it; `row_tokens`: of each row, if the shards were made with `sequence_length`.
    """

    files: Sequence[tuple[Path, int, int]]
    dtype: str
    vocab_size: int
    row_tokens: int | None
    sets: "tuple[Shards, ...]" = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self._firsts = list(accumulate((tokens for _, _, tokens in self.files), initial=0))
        self._arrays: dict[int, Any] = {}

    def __len__(self) -> int:
        """Return the number of ids."""
        return self._firsts[-1]

    def __repr__(self) -> str:
        rows = "" if self.row_tokens is None else f", rows of {self.row_tokens:,}"
        sets = f"{len(self.sets):,} sets, " if self.sets else ""
        files = format_count(len(self.files), "files")
        return f"<Shards: {len(self):,} ids below {self.vocab_size:,} in {sets}{files}{rows}>"

    def __getitem__(self, index: Any) -> Any:
        """Return an id, or an array of the ids of a slice."""
        import numpy as np

        if not isinstance(index, slice):
            at = range(len(self))[index]
            return int(self[at : at + 1][0])
        start, stop, step = index.indices(len(self))
        if step != 1:
            return self[0 : len(self)][index]
        arrays = []
        while start < stop:
            shard = bisect_right(self._firsts, start) - 1
            last = min(stop, self._firsts[shard + 1])
            arrays.append(self._array(shard)[start - self._firsts[shard] : last - self._firsts[shard]])
            start = last
        return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, self.dtype), *arrays])

    def windows(self, tokens: int, *, count: int | None = None, seed: int = 0) -> "Arrays":
        """Return windows of that many ids at random positions; the same for the same seed, in any process.

        Of several sets, each window is of one, which its weight decides.

        Args:
            tokens: ids in each window; for inputs and targets one more than the model takes.
            count: how many windows there are; default: as many as would hold all ids once.
            seed: decides the positions.

        Returns:
            A sequence of int64 arrays that a `torch.utils.data.DataLoader` takes as a data set.

        Raises:
            UsageError: `tokens` is not from 1 to the number of ids, or `count` or `seed` is no such number.
        """
        if count is not None and (type(count) is not int or not 0 <= count <= sys.maxsize):
            raise unfit("count", "a number of windows", count)
        if type(seed) is not int:
            raise unfit("seed", "a whole number", seed)
        sets, weights = self.sets or (self,), self.weights or (1.0,)
        least, total = min(map(len, sets)), sum(weights)
        if type(tokens) is not int or not 1 <= tokens <= least:
            raise UsageError(f"windows of {tokens!r} ids: give a number from 1 to the {least:,} ids that there are")
        limits = [*accumulate(weight / total for weight in weights)]
        place = partial(_place_of_window, sets, limits, tokens, seed)
        return Arrays(tokens, len(self) // tokens if count is None else count, place)

    def rows(self) -> "Arrays":
        """Return the rows of shards that were made with `sequence_length`, as a sequence of int64 arrays."""
        if self.row_tokens is None:
            raise UsageError("these shards have no rows: make them with --sequence-length, or take windows")
        return Arrays(self.row_tokens, len(self) // self.row_tokens, partial(_place_of_row, self, self.row_tokens))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_arrays": {}}  # files are mapped again where they are used

    def _array(self, shard: int) -> "NDArray[Any]":
        if shard not in self._arrays:
            import numpy as np

            path, start, tokens = self.files[shard]
            try:
                self._arrays[shard] = np.memmap(path, self.dtype, "r", start, (tokens,))
            except (OSError, ValueError) as error:
                raise InputError(f"{path} cannot be mapped: {error}; restore it, or encode the corpus again") from None
        mapped: NDArray[Any] = self._arrays[shard]
        return mapped


@dataclass(frozen=True)
class Arrays(Sequence[Any]):
    """Arrays of as many ids each, by their numbers. place: returns the shards and the first id of one."""

    tokens: int
    number: int
    place: Callable[[int], tuple[Shards, int]]

    def __len__(self) -> int:
        """Return the number of arrays."""
        return self.number

    def __getitem__(self, index: Any) -> Any:
        """Return an array as embeddings take ids, or a list of those of a slice.

        PyTorch has next to no operations on uint16 and uint32.
        """
        import numpy as np

        numbers = range(self.number)[index]
        if isinstance(numbers, range):
            return [self[number] for number in numbers]
        shards, start = self.place(numbers)
        return np.array(shards[start : start + self.tokens], np.int64)


def _place_of_row(shards: Shards, tokens: int, number: int) -> tuple[Shards, int]:
    return shards, number * tokens


def _place_of_window(
    sets: Sequence[Shards], limits: Sequence[float], tokens: int, seed: int, number: int
) -> tuple[Shards, int]:
    """Return where a window is, which depends on the seed and its number alone. limits: of the share of each set."""
    digest = hashlib.blake2b(f"{seed} {number}".encode(), digest_size=16).digest()
    which, where = (int.from_bytes(half, "little") / 2**64 for half in (digest[:8], digest[8:]))
    shards = sets[min(bisect_right(limits, which), len(sets) - 1)]
    places = len(shards) - tokens + 1
    return shards, min(int(where * places), places - 1)


def open_shards(
    path: str | PathLike[str] | Remote | Sequence[str | PathLike[str] | Remote],
    weights: Sequence[float] | None = None,
) -> Shards:
    """Open shards that `encode --output` wrote in the formats npy, bin and megatron, for training.

    >>> encoded = bpe_pipeline.encode("corpus", tokenizer, "data", single=True, workers=1)
    >>> shards = bpe_pipeline.open_shards("data/train.npy")
    >>> len(shards), shards[1:4].tolist(), [len(window) for window in shards.windows(3, count=2)]
    (5, [258, 259, 257], [3, 3])

    Args:
        path: a directory of shards, its `validation/`, or one shard such as `data/train.bin`; or several.
        weights: of several: how often windows are taken of each; default: by the number of their ids.

    Returns:
        The ids as one sequence, the sets one after the other; `windows(n)` is a data set of random windows.

    Raises:
        InputError: there are no shards, or of a format that cannot be mapped.
        UsageError: the weights do not fit, or numpy is missing.
    """
    paths = path if isinstance(path, Sequence) and not isinstance(path, str) else [path]
    sets = [_open(named(where)) for where in paths]
    if weights is not None and not _fit(weights, len(sets)):
        raise unfit("weights", f"{len(sets)} numbers from 0 up with a finite sum that is not 0", weights)
    return sets[0] if len(sets) == 1 else _together(sets, weights)


def _fit(weights: object, count: int) -> bool:
    """Return whether these are that many weights."""
    most = sys.float_info.max
    if not isinstance(weights, list | tuple) or len(weights) != count:
        return False
    are_numbers = all(isinstance(weight, int | float) and 0 <= weight <= most for weight in weights)
    return are_numbers and 0 < sum(map(float, weights)) <= most


def _together(sets: Sequence[Shards], weights: Sequence[float] | None) -> Shards:
    """Return several sets as one."""
    if len({shards.dtype for shards in sets}) > 1:
        raise InputError("the sets have ids of different types: encode them with one tokenizer")
    rows = {shards.row_tokens for shards in sets}
    files = [file for shards in sets for file in shards.files]
    vocab_size = max(shards.vocab_size for shards in sets)
    row_tokens, shares = rows.pop() if len(rows) == 1 else None, tuple(map(float, weights or map(len, sets)))
    return Shards(files, sets[0].dtype, vocab_size, row_tokens, tuple(sets), shares)


def _open(where: Location) -> Shards:
    """Open one set."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise UsageError("open_shards needs numpy: pip install numpy") from None
    result = None if isinstance(where, Remote) else find_result(where)
    if result is None:
        raise InputError(f"{where} is no local directory of shards, nor one of them: name what `encode --output` wrote")
    home, corpus, shards = result
    layout = corpus.layout()
    header = shard_format(corpus.format).header(layout, 0)
    if header is None:
        mapped = ", ".join(name for name in shard_formats() if shard_format(name).header(layout, 0) is not None)
        raise InputError(
            f"{where} is of the format {corpus.format}, whose own reader reads it; open_shards maps {mapped}: encode "
            "with one of these --shard-format"
        )
    chosen = [shard for shard in shards if shard.tokens and (home != where or shard.split is None)]
    files = [(Path(str(home / shard.name)).absolute(), len(header), shard.tokens) for shard in chosen]
    return Shards(files, corpus.dtype, corpus.vocab_size, corpus.row_tokens)


def decode(shards: str | PathLike[str] | Remote, tokenizer: Tokenizer) -> Iterator[bytes]:
    """Decode a directory of shards, or one shard in it, to the text that was encoded.

    The separator follows each document, also if offsets separate documents. Each shard is checked against its CRC-32
    before any of its text is yielded.

    >>> encoded = bpe_pipeline.encode("corpus", tokenizer, "shards", workers=1)
    >>> b"".join(bpe_pipeline.decode("shards", tokenizer))
    b'lower<|endoftext|>low<|endoftext|>'

    Args:
        shards: path or URI of the directory, or of a shard in it.
        tokenizer: the tokenizer that encoded them.

    Yields:
        The text as UTF-8, block by block.

    Raises:
        InputError: shards are missing or damaged, or another tokenizer or encoding made them.
        RunDirectoryError: `encoding.json` was altered.
        StorageError: the directory cannot be read.
    """
    if not isinstance(tokenizer, Tokenizer):
        raise unfit("tokenizer", "a Tokenizer (bpe_pipeline.load reads one)", tokenizer)
    directory, corpus, facts = shards_of(named(shards, "shards"), tokenizer)
    by_offsets = corpus.layout().offsets
    added = tokenizer.model.behind[-1:] == (corpus.separator,)  # to each document, as the tokenizer's files say
    separator = b"" if corpus.separator is None or added else corpus.separator.encode()
    for shard in facts:
        first = 0
        for ids, ends in blocks_of(directory, corpus, shard):
            tokens = tokens_of(tokenizer.vocab, ids)
            text: list[bytes] = []
            at = 0
            for end in ends if by_offsets else ():
                text += [*tokens[at : end - first], separator]
                at = end - first
            yield b"".join([*text, *tokens[at:]])
            first += len(ids)


def shards_of(where: Location, tokenizer: Tokenizer) -> tuple[Location, EncodedCorpus, tuple[ShardFacts, ...]]:
    """Return the directory, the result and the shards that a path names; raises as `decode` does."""
    result = find_result(where)
    if result is None:
        raise InputError(
            f"{where} is neither a directory of shards nor one of them ({RESULT} is missing); if encoding was stopped, "
            "run the same command again to resume"
        )
    directory, corpus, shards = result
    stored = load(Directory(directory, SHARDS))
    if stored is not None and stored.fingerprint() != corpus.encoding:
        raise InputError(
            f"{directory / RESULT} is of another encoding than {SHARDS.manifest} next to it: run the last command that "
            "encoded there again, which completes the shards"
        )
    made_by = tokenizer_fingerprint(tokenizer.model)
    if made_by != corpus.tokenizer:
        raise InputError(
            f"{directory} was made by another tokenizer ({corpus.tokenizer}, this one is {made_by}): name that one"
        )
    if not shards and corpus.shards:
        raise InputError(f"{where} is not among the shards of {directory}: name one that {RESULT} has")
    return result


def blocks_of(directory: Location, corpus: EncodedCorpus, shard: ShardFacts, column: str = IDS) -> Iterator[Block]:
    """Yield the blocks of a shard, with the values of a column; `InputError` if it is damaged or cannot be read."""
    where = directory / shard.name
    offsets = None if shard.offsets is None else directory / shard.offsets
    tokens, layout = 0, corpus.layout()
    layout = replace(layout, columns={column: layout.columns[column]})
    try:
        for file, crc32, what in (
            (where, shard.crc32, "its CRC-32"),
            (offsets, shard.offsets_crc32, f"the CRC-32 of its offsets, {shard.offsets},"),
        ):
            if file is not None and checksum(file)[1] != crc32:
                raise ValueError(f"{what} is not the one in {RESULT}")
        for values, ends in shard_format(corpus.format).read(where, offsets, layout, shard):
            done = 0
            for first in range(0, max(len(values), 1), BLOCK_IDS):
                block = values[first : first + BLOCK_IDS]
                tokens += len(block)
                upto = bisect_right(ends, tokens, done)
                yield block, ends[done:upto]
                done = upto
        if tokens != shard.tokens:
            raise ValueError(f"it holds {tokens:,} tokens, not {shard.tokens:,}")
    except (OSError, ValueError) as error:
        wrong = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else f"is damaged: {error}"
        raise InputError(f"{where} {wrong}; restore it, or encode the corpus again") from None
