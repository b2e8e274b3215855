"""`count`: count a corpus into a run directory, which then waits for `merge`."""

from bpe_pipeline.base.events import Listener
from bpe_pipeline.commands import report
from bpe_pipeline.corpus.skipped_or_altered import fail_on_loss_error, in_words
from bpe_pipeline.counts import count as counting
from bpe_pipeline.counts.chunk_statistics import CorpusFacts
from bpe_pipeline.executors import Executor
from bpe_pipeline.reports.summary import Summary
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.open_run import open_run
from bpe_pipeline.run.options import CountOptions
from bpe_pipeline.run.patterns import pattern_of, slowness
from bpe_pipeline.run.runner import Runner, opened


def run_count(options: CountOptions, executor: Executor, listener: Listener) -> Summary:
    """Count as far as the run directory does not hold it yet."""
    with opened(options, executor, listener) as (runner, directory):
        run = open_run(runner, directory, options)
        with runner.logged(directory, options, run.remove_partial):
            if runner.part is not None:
                return _part(runner, run, options)
            return report.write_summary(runner, *counting.count(runner, run, options))


def _part(runner: Runner, run: Run, options: CountOptions) -> Summary:
    """Count the chunks of a part; what all of them add up to is for the command without `--part`.

    Raises for losses as the options say.
    """
    pattern = pattern_of(options)
    runner.warn(slowness(pattern))
    done, statistics = counting.count_part(runner, run, pattern)
    losses = in_words(statistics.losses)
    if options.fail_on_loss and losses:
        raise fail_on_loss_error(losses)
    facts = CorpusFacts(0, statistics.bytes, statistics.documents, statistics.pre_tokens, 0, losses)
    return report.summary_of(runner, run, facts, part=done)
