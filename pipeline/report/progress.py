"""Standard output and error of the command, and listeners that show a run's progress.

There is one listener for each style of output: bars on a terminal, plain lines elsewhere, JSON lines for machines, and
only warnings. Bars and lines show a stage's rate since it started, the time left at this rate, and the memory of all
processes. Colour is only for terminals, and not if NO_COLOR is set. Progress and notices go to standard error, so that
results can be piped; JSON lines are the result that was asked for and go to standard output.
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
_MEMORY_EVERY_S = 1.0  # looking at all processes takes time
_RATE_AFTER_S = 1.0  # an earlier rate means nothing
_NAMES = {StageStarted: "stage_started", Advanced: "advanced", StageEnded: "stage_ended", Notice: "notice"}


def write(output: str | bytes) -> None:
    """Print a line, or bytes as they are.

    Raises `PipelineError` if standard output cannot be written, and `BrokenPipeError` if its reader has left.
    """
    try:
        if isinstance(output, str):
            sys.stdout.write(output + "\n")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(output)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise PipelineError(f"standard output cannot be written: {reason}; write it somewhere else") from None


def write_json(name: str, values: Mapping[str, object]) -> None:
    """Print one event of `--log-json`."""
    line = json.dumps({"event": name, "time": round(time.time(), 3), **values}, default=str)
    write(f"{line}\n".encode())


def write_error(text: str) -> None:
    """Print a line on standard error; if that fails, the work continues."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")


@contextlib.contextmanager
def listener(*, quiet: bool, log_json: bool) -> Iterator[Listener]:
    """Choose the listener that suits the options and the terminal."""
    if log_json:
        yield lambda event: write_json(_NAMES[type(event)], asdict(event))
    elif quiet:
        yield _warnings
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _bars() as bars:
            yield bars
    else:
        yield _Lines()


def _warnings(event: Event) -> None:
    if isinstance(event, Notice) and event.level == "warning":
        write_error(f"bpe-pipeline: warning: {event.text}")


class _Stage:
    """How far a stage is, in words."""

    def __init__(self, started: StageStarted) -> None:
        self.started, self.done = started, started.done
        self._start_s, self._memory_s, self._memory = time.monotonic(), 0.0, ""

    def amount(self, count: float) -> str:
        unit = self.started.unit
        return format_bytes(count) if unit == "bytes" else format_count(round(count), unit)

    def text(self) -> str:
        """Say how much is done, the rate, the time left at this rate, and the memory in use."""
        total, unit = self.started.total, self.started.unit
        now_s = time.monotonic()
        words = [self.amount(self.done)]
        if total:
            done = words[0] if unit == "bytes" else f"{self.done:,}"
            words = [f"{done} of {self.amount(total)}, {self.done / total:.0%}"]
        elapsed_s = now_s - self._start_s
        new = self.done - self.started.done  # what an earlier run did says nothing about the rate
        if elapsed_s >= _RATE_AFTER_S and new > 0:
            rate = new / elapsed_s
            words.append(f"{self.amount(rate) if unit == 'bytes' or rate >= 10 else f'{rate:.1f} {unit}'}/s")
            if total > self.done:
                words.append(f"about {_duration((total - self.done) / rate)} left")
        if now_s - self._memory_s >= _MEMORY_EVERY_S:
            self._memory_s = now_s
            with contextlib.suppress(OSError):
                self._memory = f"memory {format_bytes(machine.process_tree_memory())}"
        return ", ".join(filter(None, [*words, self._memory]))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class _Lines:
    """Plain lines: at the start of a stage, every few seconds, and at its end."""

    def __init__(self) -> None:
        self._stages: dict[str, _Stage] = {}
        self._next_s = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            stage = self._stages[event.stage] = _Stage(event)
            self._next_s = time.monotonic() + _LINE_EVERY_S
            kept = f" ({stage.amount(event.done)} kept from before)" if event.done else ""
            write_error(f"{event.stage}: {stage.amount(event.total)}{kept}")
        elif isinstance(event, Advanced):
            stage = self._stages[event.stage]
            stage.done += event.amount
            if time.monotonic() >= self._next_s:
                self._next_s = time.monotonic() + _LINE_EVERY_S
                write_error(f"{event.stage}: {stage.text()}")
        elif isinstance(event, StageEnded):
            write_error(f"{event.stage}: done in {event.elapsed_s:.2f} s")
        else:
            write_error(f"{'warning: ' if event.level == 'warning' else ''}{event.text}")


@contextlib.contextmanager
def _bars() -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn

    columns = (TextColumn("{task.description:<10}"), BarColumn(bar_width=20), TextColumn("{task.fields[text]}"))
    with Progress(*columns, console=Console(stderr=True)) as bars:
        stages: dict[str, tuple[_Stage, TaskID]] = {}

        def listen(event: Event) -> None:
            if isinstance(event, Notice):
                style = "yellow" if event.level == "warning" else None
                bars.console.print(event.text, style=style, markup=False, highlight=False)
            elif isinstance(event, StageStarted):
                stage, total = _Stage(event), event.total or None
                task = bars.add_task(event.stage, total=total, completed=event.done, text=stage.amount(event.total))
                stages[event.stage] = stage, task
            elif isinstance(event, Advanced):
                stage, task = stages[event.stage]
                stage.done += event.amount
                bars.update(task, advance=event.amount, text=stage.text())
            else:
                stage, task = stages[event.stage]
                total = stage.started.total
                text = f"{stage.amount(total)} in {event.elapsed_s:.2f} s"
                bars.update(task, total=total or 1, completed=total or 1, text=text)

        yield listen
