"""What is counted of a chunk so far, kept on disk: parts of its counter, and the position that they reach.

A part is a counter file, `.NAME.*.kept` next to the chunk's own; `.NAME.checkpoint.kept` lists the parts that belong
together. A resumed run counts from there. The chunk's counter replaces them all.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bpe_pipeline.base.errors import PipelineError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.counter_file import PartPath
from bpe_pipeline.run.stored import stored
from bpe_pipeline.storage import Location, existing, read_json, remove
from bpe_pipeline.storage.atomic import write_json
from bpe_pipeline.storage.scratch import own_mark

_INTERVAL_S = 60.0
_LEAST_SHARE = 20  # of the time: writing takes one second in that many


@dataclass(frozen=True)
class Checkpoint:
    """The text before byte `offset` of a span's text, and all spans before, are counted in `parts`, names of files."""

    span: int = 0
    offset: int = 0
    parts: tuple[str, ...] = ()
    statistics: ChunkStatistics = ChunkStatistics()


class Checkpoints:
    """The parts of one chunk, whose counter is `output`, the last checkpoint, and when the next is due.

    temporary: the names of parts that no other process uses; then there are no checkpoints.
    """

    def __init__(self, output: Location, fingerprint: str, temporary: PartPath | None) -> None:
        self._output, self._fingerprint, self._temporary = output, fingerprint, temporary
        self.part_fingerprint = f"{fingerprint}, a part"  # of every part
        self._path = output.with_name(f".{output.name}.checkpoint.kept")
        self._interval_s = float(os.environ.get("BPE_PIPELINE_CHECKPOINT_S", _INTERVAL_S))
        self.last = self._load() if temporary is None else Checkpoint()
        self._due_s = time.monotonic() + self._interval_s

    def part_path(self, number: int) -> Location:
        """Return where to write a part; only this process, of all machines of a cluster, writes it."""
        if self._temporary is not None:
            return self._temporary(number)
        return self._output.with_name(f".{self._output.name}.{own_mark()}.{number:06d}.kept")

    def located(self, names: tuple[str, ...]) -> list[Location]:
        """Return the paths of parts."""
        return [self._output.with_name(name) for name in names]

    def due(self) -> bool:
        """Whether it is time for another checkpoint."""
        return self._temporary is None and time.monotonic() >= self._due_s

    def save(self, checkpoint: Checkpoint, started_s: float) -> None:
        """Make this the last checkpoint; its parts are on disk. started_s: when writing them started."""
        write_json(self._path, {"fingerprint": self._fingerprint, **asdict(checkpoint)})
        self.last = checkpoint
        now = time.monotonic()
        self._due_s = now + max(self._interval_s, _LEAST_SHARE * (now - started_s))

    def remove(self, parts: Sequence[Location]) -> None:
        """Delete the parts, and the last checkpoint."""
        for path in [*parts, *([self._path] if self.last != Checkpoint() else [])]:
            with contextlib.suppress(OSError):
                remove(path)

    def _load(self) -> Checkpoint:
        """Read the last checkpoint; one that is damaged, of other text, or without its parts is none."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, PipelineError):
            document = read_json(self._path)
            last = stored(Checkpoint, document)
            if document["fingerprint"] == self._fingerprint and all(existing(self.located(last.parts))):
                return last
        return Checkpoint()
