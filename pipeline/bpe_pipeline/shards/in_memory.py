"""A corpus to ids in memory: those that `encode` writes as shards, by threads of this process, without files."""

from array import array
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from bpe_pipeline.base.events import Notice, warn_of
from bpe_pipeline.corpus.skipped_or_altered import Tallies, fail_on_loss_error, in_words, warnings_of
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.counted import no_text_error
from bpe_pipeline.run.memory import Broker
from bpe_pipeline.run.options import EncodeFilesOptions
from bpe_pipeline.run.patterns import on_regex, slowness
from bpe_pipeline.run.plan import Plan, list_corpus, with_share
from bpe_pipeline.shards import plan as planning
from bpe_pipeline.shards.blocks import SourceItem
from bpe_pipeline.shards.encode_worker import IdsTask
from bpe_pipeline.shards.encoding_tasks import dtype_of, encoding_workers, ids_by_threads, task_of
from bpe_pipeline.shards.formats import ID_BYTES, ID_CODES
from bpe_pipeline.tokenizer.model import Model


@dataclass(frozen=True)
class EncodedFiles(Sequence[memoryview]):
    """The ids of a corpus; a sequence of documents, each with its ids.

    ids: of all documents, uint16 or uint32; `numpy.asarray` takes them without a copy. A document's separator, if there
    is one, is its last id. ends: where each document ends in `ids`, uint64. text_bytes: of text without special tokens.
    losses: skipped or altered input: kind -> count and first locations.
    """

    ids: memoryview
    ends: memoryview
    text_bytes: int
    losses: Tallies = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ends)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        whole = self.ids.tobytes(), self.ids.format, self.ends.tobytes()
        return _restored, (*whole, self.text_bytes, self.losses)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        at = range(len(self))[index]
        return self.ids[self.ends[at - 1] if at else 0 : self.ends[at]]

    def __iter__(self) -> Iterator[memoryview]:
        start = 0
        for end in self.ends:
            yield self.ids[start:end]
            start = end


def _restored(ids: bytes, code: Any, ends: bytes, *rest: Any) -> EncodedFiles:
    return EncodedFiles(memoryview(ids).cast(code), memoryview(ends).cast("Q"), *rest)


def encode_in_memory(model: Model, values: EncodeFilesOptions) -> EncodedFiles:
    """Encode a corpus in memory; raises as `encode` does."""
    planning.require_one_search(model, values)
    if warning := slowness(model.pattern):
        warn_of(Notice("warning", warning))
    listing = list_corpus(values, warn_of)
    values = values.replace(sample=with_share(values.values, listing.files)["sample"])
    id_bytes = ID_BYTES[dtype_of(model)]
    plan = planning.cut_corpus(listing, model, values)
    ids, ends = bytearray(), array("Q")
    first, total = 0, ChunkStatistics(losses=plan.files_without_text())
    with closing(_encoded(model, values, plan)) as made:
        for block in made:
            if isinstance(block, ChunkStatistics):
                first, total = len(ids) // id_bytes, total + block
                continue
            ids += block[0]
            ends.extend(first + end for end in block[1])
    if values.fail_on_loss and total.losses:
        raise fail_on_loss_error(in_words(total.losses))
    if not ends:
        raise no_text_error("encode", total.losses, total.not_taken)
    for warning in (*warnings_of(total.losses), *planning.warnings_of(model, values, total, len(ends), plan)):
        warn_of(Notice("warning", warning))
    whole = memoryview(ids).cast(ID_CODES[id_bytes])
    return EncodedFiles(whole.toreadonly(), memoryview(ends).toreadonly(), total.text_bytes, total.losses)


def _encoded(model: Model, options: EncodeFilesOptions, plan: Plan) -> Generator[SourceItem, None, None]:
    if on_regex(model.pattern):
        options = options.replace(workers=1)
    workers = encoding_workers(Broker.of(options.memory_limit), options.workers, model, len(plan.chunks)).in_order()
    return ids_by_threads(model, task_of(IdsTask, model, options, workers), plan, workers)
