"""The stages of a command, the one runner that does them, and the directory that they work in, opened and locked.

A stage says what is to be done, not where: one that was interrupted is the same stage with fewer outputs missing.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from bpe_pipeline.base import machine
from bpe_pipeline.base.errors import refuse_if
from bpe_pipeline.base.events import Advanced, Listener, Notice, StageEnded, StageStarted
from bpe_pipeline.base.log import log_to
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.base.printable import without_secrets
from bpe_pipeline.base.units import format_apart, format_bytes, format_count
from bpe_pipeline.executors import ONE_CORE, Executor, Need, Node
from bpe_pipeline.run.directory import LOG, RUN, Directory, Kind, new_directory
from bpe_pipeline.run.memory import LEAST_WORK_BYTES, Broker
from bpe_pipeline.run.options import OutputOptions, PartOptions, Values, WorkOptions
from bpe_pipeline.run.parts import Part, missing_parts, part_of
from bpe_pipeline.run.workers import thread_count, worker_count
from bpe_pipeline.storage.atomic import appendable

_EASE_OF_PARTS = 4  # of measuring memory, which as many processes do as there are parts
OF_SUPERWORDS = " superwords"  # what the names of stages end with that learn them
_log = logging.getLogger(__name__)
Advance = Callable[[int], None]
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Stage(Generic[Task, Result]):
    """The tasks of one step of a command, each with an output that is complete or absent.

    do: what a worker does; it reports its progress in the unit of the stage. weights: the units of each task.
    done: the tasks whose outputs exist, by index. begun: the units that unfinished outputs of the others hold. kept:
    the verb in the message after an interruption, as in "3 of 8 chunks are *counted*". grant: the workers; need: of one
    task, if it is not the memory of a worker.
    """

    name: str
    unit: str
    do: Callable[[Task], Result]
    tasks: Sequence[Task]
    weights: Sequence[int]
    done: Collection[int] = ()
    begun: int = 0
    kept: str = ""
    grant: Grant | None = None
    need: Need | None = None


@dataclass
class Runner:
    """Where stages run and who listens, and what they took.

    workers: how many were asked for. times: seconds of each stage so far, None if its output was there already;
    suffix: of the names of stages. kept: what an interruption would leave, in words; None if nothing was changed yet.
    part: the share of the tasks of each stage that is done here; None: all. parts_that_ran: I and N of those with logs.
    """

    executor: Executor
    listener: Listener
    watch: machine.MemoryWatch
    broker: Broker
    workers: int | None = None
    times: dict[str, float | None] = field(default_factory=dict)
    kept: str | None = ""
    suffix: str = ""
    part: Part | None = None
    parts_that_ran: Sequence[tuple[int, int]] = ()

    @property
    def nodes(self) -> Sequence[Node]:
        """The machines of the cluster as they are now; none if tasks run on this one."""
        return self.executor.nodes()

    @property
    def threads(self) -> int:
        """The threads of a task that is the only one."""
        return thread_count(self.workers, self.nodes)

    def reserve(
        self,
        tasks: int | None = 1,
        minimum: int = LEAST_WORK_BYTES,
        wanted: int | None = None,
        what: str = "any work",
    ) -> Grant:
        """Reserve memory for the workers that were asked for, at most one a task, as `Broker.reserve` does."""
        nodes = self.nodes
        return self.broker.reserve(minimum, wanted, what, asked=worker_count(self.workers, tasks, nodes), nodes=nodes)

    def run(self, stage: Stage[Task, Result]) -> list[Result]:
        """Do the tasks whose outputs are missing, or the part's of them; return their results in order."""
        return [result for _, result in sorted(self.each(stage), key=lambda found: found[0])]

    def each(self, stage: Stage[Task, Result]) -> Iterator[tuple[int, Result]]:
        """Do the tasks whose outputs are missing; yield the result of each by its index as it is done."""
        own = [index for index in range(len(stage.tasks)) if self.part is None or self.part.has(index)]
        missing = [index for index in own if index not in stage.done]
        _log.info("%s: %d tasks, %d to do", stage.name, len(own), len(missing))
        if not missing:
            self.skip(stage.name)
            return
        tasks, total = [stage.tasks[index] for index in missing], sum(stage.weights[index] for index in own)
        done = total - sum(stage.weights[index] for index in missing)
        grant = stage.grant
        at_once, worker = (grant.at_once, Need(memory_bytes=grant.need_bytes)) if grant else (None, ONE_CORE)
        if stage.kept and (parts := missing_parts(self.parts_that_ran, missing)):
            self.inform(f"{format_count(len(missing), 'chunks')} are {stage.kept} here: {parts}")
        with self.reporting(stage.name, total, stage.unit, done + stage.begun) as advance:
            self.note(stage.kept, done, total)
            running = self.executor.run(stage.do, tasks, advance, at_once=at_once, need=stage.need or worker)
            for position, result in running:
                done += stage.weights[missing[position]]
                self.note(stage.kept, done, total)
                yield missing[position], result

    def note(self, kept: str, done: int, total: int) -> None:
        """Note what an interruption would leave of a stage. kept: the verb, as in a `Stage`; "": nothing to say."""
        if kept:
            self.kept = f"{format_bytes(done)} of {format_bytes(total)} {kept}"

    @contextlib.contextmanager
    def reporting(self, name: str, total: int, unit: str, done: int = 0, kept: str = "") -> Iterator[Advance]:
        """Report the start and end of a stage, and note its time and memory; yields what reports its progress.

        kept: as for a `Stage`, if all progress is.
        """
        stage = name + self.suffix
        started = time.monotonic()

        def advance(amount: int) -> None:
            nonlocal done
            done += amount
            self.listener(Advanced(stage, amount))
            self.note(kept, done, total)

        with self.timed(name):
            self.listener(StageStarted(stage, total, unit, done))
            self.note(kept, done, total)
            yield advance
        self.listener(StageEnded(stage, time.monotonic() - started))

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Note the time and memory of a stage; of one that runs several times the sum."""
        stage = name + self.suffix
        self.watch.begin(stage)
        started = time.monotonic()
        yield
        self.times[stage] = (self.times.get(stage) or 0.0) + time.monotonic() - started

    @contextlib.contextmanager
    def naming(self, suffix: str) -> Iterator[None]:
        """Add a suffix to the names of stages during the block."""
        self.suffix = suffix
        try:
            yield
        finally:
            self.suffix = ""

    def skip(self, name: str) -> None:
        """Note that the output of a stage was there already."""
        self.times.setdefault(name + self.suffix, None)

    def inform(self, text: str) -> None:
        """Report something worth knowing, if there is a text."""
        if text:
            self.listener(Notice("info", text))

    def warn(self, text: str) -> None:
        """Report something that may be wrong, if there is a text."""
        if text:
            self.listener(Notice("warning", text))

    @contextlib.contextmanager
    def logged(self, directory: Directory, options: Values, remove_partial: Callable[[], None]) -> Iterator[None]:
        """Write what happens into the directory's log.

        `remove_partial`, which deletes what killed processes left, is called before and, if attempts failed, after it.
        """
        log = directory / LOG
        if self.part is None:
            remove_partial()
            self.parts_that_ran = directory.parts_that_ran()
        else:  # others write at the same time
            log = directory.log_of_part(str(self.part))
        directory.separate_log(log)
        with appendable(log) as path, log_to(path):
            if self.part is None:
                with path.open("ab") as file:
                    file.writelines(directory.take_logs_of_parts())
            _log.info("%s", without_secrets(str(options)))
            try:
                yield
            except BaseException as error:
                _log.error("stopped: %s: %s", type(error).__name__, error)
                raise
        if self.executor.retries and self.part is None:
            remove_partial()


@contextlib.contextmanager
def watched(
    options: WorkOptions,
    executor: Executor,
    listener: Listener,
    broker: Broker | None = None,
    part: Part | None = None,
) -> Iterator[Runner]:
    """Run stages while memory is watched; warn at the end, also if the block raises, when the limit was passed."""
    executor.on_notice = lambda text: listener(Notice("warning", text))
    watch = machine.MemoryWatch(options.memory_limit, ease=1 if part is None else _EASE_OF_PARTS)
    try:
        with watch:
            broker = broker or Broker.of(options.memory_limit)
            yield Runner(executor, listener, watch, broker, options.workers, part=part)
    finally:
        if watch.exceeded:
            peak, limit = format_apart(watch.peak_bytes, options.memory_limit or 0)
            listener(Notice("warning", f"memory passed the limit of {limit}: all processes together took {peak}"))


@contextlib.contextmanager
def opened(
    options: OutputOptions,
    executor: Executor,
    listener: Listener,
    broker: Broker | None = None,
    *,
    kind: Kind = RUN,
    resumable: bool = True,
) -> Iterator[tuple[Runner, Directory]]:
    """Work in the options' directory, or a new one, alone or as a part; an interruption says what resumes.

    If the command cannot be resumed, `merge` continues after it.
    """
    part = _part_of(options)
    broker = broker or Broker.of(options.memory_limit)
    broker.reserve()  # refuses a limit that is too small for any work
    output = options.output or new_directory()
    if isinstance(output, Path) and executor.nodes():
        output = output.absolute()  # the workers of a cluster have other current directories
    directory = Directory(output, kind)
    runner = None
    try:
        with directory.locked(str(part or "")), watched(options, executor, listener, broker, part) as runner:
            yield runner, directory
    except KeyboardInterrupt:
        kept = "" if runner is None else runner.kept
        if kept is None:
            raise KeyboardInterrupt("interrupted; nothing was changed: start again") from None
        where = f" with --output {directory}" if options.output is None else ""
        without = ", without --overwrite," if options.overwrite else ""
        again = f"the same command{where}{without}" if resumable else f"merge of {directory}"
        shown = f" ({kept})" if kept else ""
        raise KeyboardInterrupt(f"interrupted; what is finished is kept{shown}: {again} resumes") from None


def _part_of(options: OutputOptions) -> Part | None:
    """Return the part that the options ask for; `UsageError` for what parts cannot do."""
    if not isinstance(options, PartOptions) or options.part is None:
        return None
    refuse_if(
        (options.output is None, "--part: every process would make a run of its own; give --output"),
        (options.overwrite, "--part with --overwrite: every process would start again; remove the directory instead"),
    )
    return part_of(options.part)
