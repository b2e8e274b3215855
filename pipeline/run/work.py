"""The work in hand: what was asked, what cuts, where tasks run, who listens, and the directory that is worked in."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.base import machine
from pipeline.base.events import Advanced, Listener, Notice, StageEnded, StageStarted
from pipeline.base.log import log_to
from pipeline.base.printable import without_secrets
from pipeline.base.units import format_apart, format_bytes
from pipeline.executors import Executor, Node
from pipeline.pattern.compiled import CompiledPattern
from pipeline.pattern.translate import not_in_tokenizers_1
from pipeline.run.directory import LOG, Directory, Kind, new_directory
from pipeline.run.files import RUN
from pipeline.run.memory import Broker
from pipeline.run.options import Options
from pipeline.run.standard_input import removed_if_refused
from pipeline.run.superwords import coarse_pattern
from pipeline.run.workers import as_workers_know
from pipeline.storage.atomic import appendable

_log = logging.getLogger(__name__)
Advance = Callable[[int], None]


@dataclass
class Work:
    """A command at work.

    untouched: whether nothing in the directory has changed yet. kept: what an interruption would leave, in words.
    times: seconds of each stage so far, None if its output was there already.
    """

    options: Options
    pattern: CompiledPattern
    executor: Executor
    listener: Listener
    directory: Directory
    watch: machine.MemoryWatch
    broker: Broker
    untouched: bool = False
    kept: str = ""
    times: dict[str, float | None] = field(default_factory=dict)

    @property
    def nodes(self) -> Sequence[Node]:
        """The machines of the cluster as they are now; none if tasks run on this one."""
        return self.executor.nodes()

    @contextlib.contextmanager
    def stage(self, name: str, total: int, unit: str, done: int = 0) -> Iterator[Advance]:
        """Report the start and end of a stage, and note its time and memory; yields what reports its progress."""
        with self.timed(name):
            self.listener(StageStarted(name, total, unit, done))
            yield lambda amount: self.listener(Advanced(name, amount))
        self.listener(StageEnded(name, self.times[name] or 0.0))

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Note the time and memory of a stage."""
        self.watch.begin(name)
        started = time.monotonic()
        yield
        self.times[name] = time.monotonic() - started

    def keeps(self, done: str, finished_bytes: int, total_bytes: int) -> None:
        """Note what an interruption would leave of a stage. done: a participle."""
        self.kept = f"{format_bytes(finished_bytes)} of {format_bytes(total_bytes)} {done}"

    def inform(self, text: str) -> None:
        """Report something worth knowing."""
        self.listener(Notice("info", text))

    def warn(self, text: str) -> None:
        """Report something that may be wrong."""
        self.listener(Notice("warning", text))

    def warn_of_regex(self) -> None:
        """Warn if the pattern has no automaton."""
        if on_regex(self.pattern):
            self.warn(f"the pattern runs on the regex package, slower: {self.pattern.refusal}")

    @contextlib.contextmanager
    def logged(self, remove_partial: Callable[[], None]) -> Iterator[None]:
        """Write what happens into the directory's log; delete a copy of standard input whose text the block refuses.

        `remove_partial`, which deletes what killed processes left, is called before and, if attempts failed, after it.
        """
        remove_partial()
        self.directory.separate_log()
        with appendable(self.directory / LOG) as path, log_to(path), removed_if_refused(self.directory):
            _log.info("%s", without_secrets(str(self.options)))
            try:
                yield
            except BaseException as error:
                _log.error("stopped: %s: %s", type(error).__name__, error)
                raise
        if self.executor.retries:
            remove_partial()


def on_regex(pattern: CompiledPattern) -> bool:
    """Return whether the `regex` package cuts by this pattern: it has no automaton, and is no sequence of patterns."""
    return pattern.refusal is not None and not hasattr(pattern, "steps")


@contextlib.contextmanager
def watched(memory_limit: int | None, listener: Listener) -> Iterator[machine.MemoryWatch]:
    """Watch memory during the block; warn at its end, also if it raises, when the limit was passed."""
    watch = machine.MemoryWatch(memory_limit)
    try:
        with watch:
            yield watch
    finally:
        if watch.exceeded:
            peak, limit = format_apart(watch.peak_bytes, memory_limit or 0)
            listener(Notice("warning", f"memory passed the limit of {limit}: all processes together took {peak}"))


@contextlib.contextmanager
def open_work(
    options: Options,
    pattern: CompiledPattern,
    executor: Executor,
    listener: Listener,
    *,
    broker: Broker | None = None,
    kind: Kind = RUN,
    resumable: bool = True,
) -> Iterator[Work]:
    """Work alone in the options' directory, or a new one, and watch memory; an interruption says how to resume."""
    broker = broker or Broker.of(options.memory_limit)
    broker.reserve()  # refuses a limit that is too small for any work
    directory = Directory(as_workers_know(options.output or new_directory(), options), kind)
    work = None
    executor.on_notice = lambda text: listener(Notice("warning", text))
    try:
        with directory.locked(), watched(options.memory_limit, listener) as watch:
            work = Work(options, pattern, executor, listener, directory, watch, broker)
            cuts = coarse_pattern(options) or pattern
            if kind is RUN and "hf" in (options.export or ("hf",)) and (note := not_in_tokenizers_1(cuts)):
                work.inform(note)
            yield work
    except KeyboardInterrupt:
        again = f"the same command with --output {directory}" if options.output is None else "the same command"
        without = ", without --overwrite," if options.overwrite else ""
        kept = f" ({work.kept})" if work is not None and work.kept else ""
        message = f"what is finished is kept{kept}: {again}{without} resumes"
        if not resumable:
            message = (
                f"an iterator cannot be read again: if {directory} was counted to its end, merge_run resumes, "
                "otherwise nothing was changed: start again"
            )
        elif work is not None and work.untouched:
            message = "nothing was changed: start again"
        raise KeyboardInterrupt(f"interrupted; {message}") from None
