"""`count`: count a corpus into a run directory, which then waits for `merge`."""

from pipeline.base.events import Listener
from pipeline.commands import report
from pipeline.corpus.skipped_or_altered import fail_on_loss_error, in_words
from pipeline.counts import count as counting
from pipeline.counts.chunk_statistics import ChunkStatistics, CorpusFacts
from pipeline.executors import Executor
from pipeline.reports.summary import Summary
from pipeline.run import manifest
from pipeline.run.manifest import Run
from pipeline.run.open_run import open_run
from pipeline.run.options import CountOptions
from pipeline.run.parts import PartDone
from pipeline.run.patterns import pattern_of, slowness
from pipeline.run.runner import Runner, opened


def run_count(options: CountOptions, executor: Executor, listener: Listener) -> Summary:
    """Count as far as the run directory does not hold it yet."""
    with opened(options, executor, listener) as (runner, directory):
        run = open_run(runner, directory, options)
        with runner.logged(directory, options, lambda: manifest.remove_partial(run)):
            if runner.part is not None:
                return _part(runner, run, options)
            return report.write_summary(runner, *counting.count(runner, run, options))


def _part(runner: Runner, run: Run, options: CountOptions) -> Summary:
    """Count the chunks of a part; what all of them add up to is for the command without `--part`."""
    pattern = pattern_of(options)
    runner.warn(slowness(pattern))
    return summary_of_part(runner, run, options, *counting.count_part(runner, run, pattern))


def summary_of_part(
    runner: Runner, run: Run, options: CountOptions, done: PartDone, statistics: ChunkStatistics
) -> Summary:
    """Return the result of a part that counts. Raises for losses as the options say."""
    losses = in_words(statistics.losses)
    if options.fail_on_loss and losses:
        raise fail_on_loss_error(losses)
    facts = CorpusFacts(0, statistics.bytes, statistics.documents, statistics.pieces, 0, losses)
    return report.summary_of(runner, run, facts, part=done)
