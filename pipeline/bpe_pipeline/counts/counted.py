"""What a run has counted: its combined counter, with the facts of its corpus, and the counters that it adds up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bpe_pipeline.base.errors import InputError, RunDirectoryError
from bpe_pipeline.corpus.skipped_or_altered import KindTally, Tallies, add_up, fail_on_loss_error, in_words
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics, CorpusFacts, NotTaken
from bpe_pipeline.counts.counter_file import Counter, CounterFacts, Sum, Term, counters_of, look_at
from bpe_pipeline.executors import Executor
from bpe_pipeline.run import manifest
from bpe_pipeline.run.manifest import Manifest, Run
from bpe_pipeline.run.parts import missing_parts
from bpe_pipeline.run.texts import described
from bpe_pipeline.storage import Location, named

_NO_FIELD = {"records_without_field", "records_not_text"}
_HINTS = {
    "count": "; is --text-field right?",
    "encode": "; name the field with --text-field; for chat data, use encode-chat",
}


@dataclass(frozen=True)
class Counted:
    """A combined counter that is complete on the disk, with what was found in all files of the plan."""

    path: Location
    fingerprint: str
    facts: CorpusFacts
    statistics: ChunkStatistics


def find_counted(run: Run, executor: Executor) -> Counted | None:
    """Return the combined counter of a run, if it is complete, and each chunk has its counter.

    One of weight 0 is not in the combined counter.
    """
    if not run.manifest.counted_in and len(run.chunks_there()) < len(run.manifest.plan.chunks):
        return None
    [facts] = look_at([run.counter], executor)
    return None if facts is None else as_counted(run, facts)


def require_counted(run: Run, executor: Executor) -> Counted:
    """Return the combined counter of a run; `RunDirectoryError` with the remedy if it is not complete."""
    complete = find_counted(run, executor)
    if complete is None:
        again = "`count` or `train`" if run.manifest.source is None else "command"
        missing = {*range(len(run.manifest.plan.chunks))} - run.chunks_there()
        parts = missing_parts(run.directory.parts_that_ran(), missing)
        what = f"{run.directory} is not completely counted{f' ({parts})' if parts else ''}"
        raise RunDirectoryError(f"{what}; run the {again} that started it again, then continue")
    return complete


def as_counted(run: Run, counter: CounterFacts) -> Counted:
    """Describe the combined counter of a run."""
    stored, plan, source = run.manifest, run.manifest.plan, run.manifest.source
    losses = add_up([plan.files_without_text(), counter.statistics.losses])
    statistics = replace(counter.statistics, files=counter.statistics.files or len(plan.files), losses=losses)
    facts = CorpusFacts(
        files=statistics.files,
        bytes=statistics.bytes,
        documents=statistics.documents,
        pre_tokens=statistics.pre_tokens,
        different_pre_tokens=counter.rows,
        losses=in_words(losses),
        concerned_characters=statistics.concerned_characters,
        source=source.description if source is not None else "",
        weights=weights_of(stored),
        weighted=stored.weighted,
        not_taken=statistics.not_taken,
        mixture=str(stored.mixture) if stored.mixture else "",
        texts=stored.mixed_texts,
    )
    return Counted(*run.counter, facts, statistics)


def weights_of(stored: Manifest) -> str:
    """Describe the weights of the inputs of a corpus, if they have any."""
    of_inputs = stored.source is None and stored.weighted
    return described([text.name for text in stored.texts], stored.texts) if of_inputs else ""


def no_text_error(verb: str, losses: Tallies, not_taken: NotTaken, nothing: str = "all of it is empty") -> InputError:
    """Return the error for a corpus without text to count or encode. nothing: why, where no input was skipped."""
    if not_taken.left_out_documents:
        return InputError(f"the sample is empty: {not_taken}; give a larger --sample, or another --seed")
    hint = _HINTS[verb] if losses.keys() & _NO_FIELD else ""
    return InputError(f"the corpus holds no text to {verb}: {', '.join(map(str, in_words(losses))) or nothing}{hint}")


def check_facts(facts: CorpusFacts, *, fail_on_loss: bool) -> None:
    """Raise `InputError` if nothing was counted, or (`fail_on_loss`) input was skipped or altered."""
    if facts.pre_tokens == 0:
        nothing = "there is nothing but special tokens" if facts.bytes else "all of it is empty"
        losses = {loss.kind: KindTally(count=loss.count, examples=[*loss.examples]) for loss in facts.losses}
        not_taken = NotTaken() if facts.documents else facts.not_taken
        raise no_text_error("count", losses, not_taken, nothing)
    if fail_on_loss and facts.losses:
        raise fail_on_loss_error(facts.losses)


def terms_of(run: Run) -> list[Term]:
    """Return the terms whose sum a run is; foreign counts and those of an iterator are nowhere but in the sum."""
    stored = run.manifest
    if stored.source is None:
        return [Term(run.chunk_counters(chunks), weight) for chunks, weight in stored.chunks_of_terms()]
    if not stored.texts or not all(text.is_run for text in stored.texts):
        return [Term([run.counter])]
    return [Term([(named(text.name) / run.counter_path.name, text.key)], text.weight) for text in stored.texts]


def statistics_of(counters: Sequence[Counter], executor: Executor) -> list[ChunkStatistics]:
    """Return the statistics of counters; `RunDirectoryError` if one is missing."""
    found = look_at(counters, executor)
    if None in found:
        path, _ = counters[found.index(None)]
        raise RunDirectoryError(f"the counter {path} is missing or damaged; remove it and count again, there")
    return [facts.statistics for facts in found if facts]


def sum_of(terms: Sequence[Term], executor: Executor) -> Sum:
    """Return terms with their statistics; `RunDirectoryError` if a counter is missing."""
    return Sum(terms, sum(statistics_of(counters_of(terms), executor), ChunkStatistics()))


def text_counters(run: Run) -> list[Counter]:
    """Return the counters that add up to the text of a run, without any weights; raises for a run that is gone."""
    stored = run.manifest
    if not stored.weighted:
        return [run.counter]
    if stored.source is None:
        return counters_of(terms_of(run))
    counters = list[Counter]()
    for text in stored.texts:
        if not text.is_run:
            raise RunDirectoryError(f"{text.name} has no counter of its own, only the sum in {run.directory}")
        part = manifest.require(named(text.name))
        if part.manifest.counter_fingerprint != text.key:
            raise RunDirectoryError(f"{part.directory} has other counts than those that were combined")
        counters += text_counters(part)
    return counters
