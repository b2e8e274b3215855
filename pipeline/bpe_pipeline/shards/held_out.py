"""Which documents are validation's, where that is decided by a hash of their ids, in the order of the corpus."""

from array import array
from itertools import groupby
from pathlib import Path
from tempfile import SpooledTemporaryFile

from bpe_pipeline import _core
from bpe_pipeline.shards.formats.shard_format import BLOCK_IDS, ID_CODES
from bpe_pipeline.shards.split_writer import NO_ENDS, SplitWriter

_IN_MEMORY_BYTES = 16 << 20  # of a document that has not ended


class HeldOut:
    """Passes on documents, when they have ended, for training or validation.

    directory: where a large document waits.
    """

    def __init__(self, id_bytes: int, directory: Path, *, train: SplitWriter, validation: SplitWriter) -> None:
        self._train, self._validation = train, validation
        self._id_bytes, self._state = id_bytes, 0
        self._begun = SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(directory))  # noqa: SIM115 - a document without its end

    def add(self, ids: memoryview, ends: memoryview, first: int, below: int) -> None:
        """Take what follows; `ends`, where documents end, are counted as `first` is, the position of the first id.

        below: hashes of documents that are below it are validation's.
        """
        hashes, self._state = _core.hash_documents(ids, ends, self._id_bytes, first, self._state)
        done = start = 0
        for is_held_out, documents in groupby(map(below.__gt__, hashes)):
            upto = done + sum(1 for _ in documents)
            stop = ends[upto - 1] - first
            self._pass_on(
                self._validation if is_held_out else self._train, ids[start:stop], ends[done:upto], first + start
            )
            done, start = upto, stop
        self._begun.write(ids[start:])

    def _pass_on(self, split: SplitWriter, ids: memoryview, ends: memoryview, first: int) -> None:
        if self._begun.tell():
            self._begun.seek(0)
            while data := self._begun.read(BLOCK_IDS * self._id_bytes):
                split.add(memoryview(data).cast(ID_CODES[self._id_bytes]), NO_ENDS, 0)
            self._begun.seek(0)
            self._begun.truncate()
        split.add(ids, ends, first)

    def close(self) -> None:
        """Drop a document that has not ended."""
        self._begun.close()

    def end(self, below: int) -> None:
        """Pass on a document that has no end."""
        ids = self._begun.tell() // self._id_bytes
        [hash_] = _core.hash_documents(b"", array("Q", [ids]), self._id_bytes, ids, self._state)[0]
        if ids:
            self._pass_on(self._validation if hash_ < below else self._train, NO_ENDS[:0], NO_ENDS, 0)
