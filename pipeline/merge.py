"""The story of `merge`: learn the merge list from the combined counter and keep it with its counts.

`merges.parquet` holds what each merge joined and how often the pair stood there at that moment. One list serves every
smaller vocabulary; a larger one is learned anew from the counter, never from the corpus.
"""

import logging
import time
from dataclasses import dataclass
from pathlib import Path

from pipeline import _core
from pipeline.atomic import whole_file
from pipeline.config import Options
from pipeline.counters import Columns
from pipeline.errors import RunDirectoryError, TrainingError
from pipeline.events import Advanced, Listener, StageEnded, StageStarted
from pipeline.vocabulary import Vocabulary

_log = logging.getLogger(__name__)
STAGE = "merging"
_FINGERPRINT, _STOPPED, _BYTES = b"fingerprint", b"stopped", b"bytes"


@dataclass(frozen=True)
class MergeList:
    """Pairs of token bytes in order of rank, each with its count; `exhausted` where no further pair is left.

    joined: for each merge, the occurrences that became one token: its count, less overlaps as in `aaa`.
    bytes: of all pieces, each as often as it was found; the tokens before the first merge.
    """

    pairs: list[tuple[bytes, bytes]]
    counts: list[int]
    joined: list[int]
    bytes: int
    exhausted: bool

    @property
    def tokens(self) -> int:
        """Tokens that all pieces of the corpus have after these merges."""
        return self.bytes - sum(self.joined)

    def serves(self, merges: int) -> bool:
        """Whether a vocabulary with this many merges can be cut from the list."""
        return self.exhausted or len(self.pairs) >= merges

    def first(self, merges: int) -> "MergeList":
        """The list as it was after so many merges."""
        if merges >= len(self.pairs):
            return self
        return MergeList(self.pairs[:merges], self.counts[:merges], self.joined[:merges], self.bytes, exhausted=False)


def learn(batches: list[Columns], merges: int, options: Options, threads: int, listener: Listener) -> MergeList:
    """Train on counted pieces until there are `merges` merges or no pair is frequent enough.

    Empties `batches` once the engine has taken them in, to give their memory back. Raises `TrainingError` where the
    counts are beyond what 64 bits hold. Ctrl-C is answered within a fraction of a second.
    """
    started = time.monotonic()
    listener(StageStarted(STAGE, merges, "merges"))
    engine = _core.MergeEngine()
    while batches:
        engine.add(*batches.pop())
    done = 0

    def progress(now: int, _total: int, _best_count: int) -> None:
        nonlocal done
        if now > done:
            listener(Advanced(STAGE, now - done))
            done = now

    try:
        result = engine.run(
            merges,
            min_frequency=options.min_frequency,
            max_token_bytes=options.max_token_bytes,
            tie_break=options.tie_break,
            threads=threads,
            progress=progress,
        )
    except (OverflowError, ValueError) as error:
        raise TrainingError(f"merging cannot go on: {error}; train on a part of the corpus") from None
    vocabulary = Vocabulary.from_id_pairs(result.left, result.right)
    learned = MergeList(
        vocabulary.merges(),
        result.counts.tolist(),
        result.joined.tolist(),
        result.bytes,
        exhausted=result.stop == "min-frequency",
    )
    elapsed_s = time.monotonic() - started
    _log.info("%d merges in %.2f s, %d phases", len(learned.pairs), elapsed_s, result.phases)
    listener(StageEnded(STAGE, elapsed_s))
    return learned


def save(merges: MergeList, path: Path, fingerprint: str) -> None:
    """Write `merges.parquet`: left, right (large_binary), count and joined (uint64), a row a merge."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "left": pa.array([left for left, _ in merges.pairs], pa.large_binary()),
        "right": pa.array([right for _, right in merges.pairs], pa.large_binary()),
        "count": pa.array(merges.counts, pa.uint64()),
        "joined": pa.array(merges.joined, pa.uint64()),
    }
    stopped = b"exhausted" if merges.exhausted else b"limit"
    metadata = {_FINGERPRINT: fingerprint.encode(), _STOPPED: stopped, _BYTES: b"%d" % merges.bytes}
    table = pa.table(columns).replace_schema_metadata(metadata)
    with whole_file(path) as partial:
        pq.write_table(table, partial, compression="zstd", write_page_checksum=True)


def load(path: Path, fingerprint: str) -> MergeList | None:
    """The merge list at `path`, or None where there is none with this fingerprint.

    Raises `RunDirectoryError` where the file is damaged.
    """
    if not path.exists():
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
        if metadata.get(_FINGERPRINT) != fingerprint.encode():
            return None
        table = pq.read_table(path, page_checksum_verification=True)
        pairs = list(zip(table["left"].to_pylist(), table["right"].to_pylist(), strict=True))
        counts, joined = table["count"].to_pylist(), table["joined"].to_pylist()
        return MergeList(pairs, counts, joined, int(metadata[_BYTES]), exhausted=metadata[_STOPPED] == b"exhausted")
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise RunDirectoryError(f"{path} is damaged ({reason}); remove it, and it is learned again") from None
