"""Listeners that show a run: bars on a terminal, plain lines elsewhere, JSON lines for machines, or only warnings.

Where a stage is, is told with its rate since it began, the time that the rest takes at this rate, and the memory of all
processes. Colour is for terminals alone, and there not where NO_COLOR is set. Progress and notices go to standard
error, so that what a command was asked for can be piped; JSON lines are what was asked for and go to standard output.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from pipeline.base import machine
from pipeline.base.errors import PipelineError
from pipeline.base.events import Advanced, Event, Listener, Notice, StageEnded, StageStarted
from pipeline.base.units import format_bytes, format_count

_LINE_EVERY_S = 5.0
_MEMORY_EVERY_S = 1.0  # looking at all processes is work
_RATE_AFTER_S = 1.0  # before that a rate says nothing


def write(text: str) -> None:
    """Print what the command was asked for."""
    with _to_stdout():
        sys.stdout.write(text + "\n")


def write_bytes(data: bytes) -> None:
    """Print bytes as they are."""
    with _to_stdout():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def write_error(text: str) -> None:
    """Print one line for the person, beside the output; where that cannot be, the work goes on."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")


def write_json(name: str, values: Mapping[str, object]) -> None:
    """Print one event of `--log-json`."""
    with _to_stdout():
        sys.stdout.write(json.dumps({"event": name, "time": round(time.time(), 3), **values}, default=str) + "\n")
        sys.stdout.flush()


@contextlib.contextmanager
def _to_stdout() -> Iterator[None]:
    """Name standard output where it cannot be written; a reader that left is left to the caller."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise PipelineError(f"standard output cannot be written: {reason}; write it somewhere else") from None


@contextlib.contextmanager
def listener(*, quiet: bool, log_json: bool) -> Iterator[Listener]:
    """The listener that fits the options and the terminal."""
    if log_json:
        yield _json
    elif quiet:
        yield _warnings
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _bars() as bars:
            yield bars
    else:
        yield _Lines()


def _amount(count: int, unit: str) -> str:
    return format_bytes(count) if unit == "bytes" else format_count(count, unit)


def _json(event: Event) -> None:
    name = {StageStarted: "stage_started", Advanced: "advanced", StageEnded: "stage_ended", Notice: "notice"}[
        type(event)
    ]
    write_json(name, asdict(event))


def _warnings(event: Event) -> None:
    if isinstance(event, Notice) and event.level == "warning":
        write_error(f"bpe-pipeline: warning: {event.text}")


def _duration(seconds: float) -> str:
    """A time to wait, as roughly as it is known."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class _Progress:
    """Where a stage is, in words."""

    def __init__(self, started: StageStarted) -> None:
        self._started, self.done = started, started.done
        self._began_s = time.monotonic()
        self._looked_s = 0.0
        self._memory = ""

    def shown(self) -> str:
        """How much is done, at which rate, how long the rest takes at this rate, and the memory taken now."""
        total, unit = self._started.total, self._started.unit
        now_s = time.monotonic()
        words = [_amount(self.done, unit)]
        if total:
            done = _amount(self.done, unit) if unit == "bytes" else f"{self.done:,}"
            words = [f"{done} of {_amount(total, unit)}, {self.done / total:.0%}"]
        elapsed_s = now_s - self._began_s
        fresh = self.done - self._started.done  # what was kept from before says nothing of the rate
        if elapsed_s >= _RATE_AFTER_S and fresh > 0:
            rate = fresh / elapsed_s
            words.append(f"{_amount(round(rate), unit) if unit == 'bytes' or rate >= 10 else f'{rate:.1f} {unit}'}/s")
            if total > self.done:
                words.append(f"about {_duration((total - self.done) * elapsed_s / fresh)} left")
        if now_s - self._looked_s >= _MEMORY_EVERY_S:
            self._looked_s = now_s
            with contextlib.suppress(OSError):
                self._memory = f"memory {format_bytes(machine.process_tree_memory())}"
        return ", ".join([*words, *filter(None, [self._memory])])


class _Lines:
    """Plain lines: one where a stage begins, one every few seconds, one where it ends."""

    def __init__(self) -> None:
        self._progress = _Progress(StageStarted("", 0, ""))
        self._next_s = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._progress = _Progress(event)
            self._next_s = time.monotonic() + _LINE_EVERY_S
            kept = f" ({_amount(event.done, event.unit)} kept from before)" if event.done else ""
            write_error(f"{event.stage}: {_amount(event.total, event.unit)}{kept}")
        elif isinstance(event, Advanced):
            self._progress.done += event.amount
            if time.monotonic() >= self._next_s:
                self._next_s = time.monotonic() + _LINE_EVERY_S
                write_error(f"{event.stage}: {self._progress.shown()}")
        elif isinstance(event, StageEnded):
            write_error(f"{event.stage}: done in {event.elapsed_s:.2f} s")
        else:
            mark = "warning: " if event.level == "warning" else ""
            write_error(f"{mark}{event.text}")


@contextlib.contextmanager
def _bars() -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<10}"), BarColumn(bar_width=20), TextColumn("{task.fields[shown]}"))
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}
        stages: dict[str, tuple[StageStarted, _Progress]] = {}

        def listen(event: Event) -> None:
            if isinstance(event, Notice):
                style = "yellow" if event.level == "warning" else None
                bars.console.print(event.text, style=style, markup=False, highlight=False)
            elif isinstance(event, StageStarted):
                stages[event.stage] = event, _Progress(event)
                shown = _amount(event.total, event.unit)
                tasks[event.stage] = bars.add_task(
                    event.stage, total=event.total or None, completed=event.done, shown=shown
                )
            elif isinstance(event, Advanced):
                _, progress = stages[event.stage]
                progress.done += event.amount
                bars.update(tasks[event.stage], advance=event.amount, shown=progress.shown())
            else:
                started, _ = stages[event.stage]
                shown = f"{_amount(started.total, started.unit)} in {event.elapsed_s:.2f} s"
                bars.update(tasks[event.stage], total=started.total or 1, completed=started.total or 1, shown=shown)

        yield listen
