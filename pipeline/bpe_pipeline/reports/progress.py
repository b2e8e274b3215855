"""Standard output and error of the command, and listeners that show a run's progress.

Bars on a terminal, plain lines elsewhere, or only warnings go to standard error, so that results can be piped. JSON
lines for machines are the result that was asked for and go to standard output.
"""

import contextlib
import functools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bpe_pipeline.base.errors import PipelineError, unfit
from bpe_pipeline.base.events import Advanced, Event, Listener, Notice, StageEnded, StageStarted, warn_of
from bpe_pipeline.base.printable import PROGRAM, UNBOUNDED, printable, printable_lines, write_error
from bpe_pipeline.base.units import format_bytes, format_count

if TYPE_CHECKING:
    from rich.progress import Progress

_LINE_EVERY_S = 5.0
_RATE_AFTER_S = 1.0  # an earlier rate means nothing
_BAR_COLUMNS = 10
_FIRST_MERGES = 10  # merges take time by how often their pairs occur: the n-th one as 1 / (n + 10), about
_StageEvent = StageStarted | Advanced | StageEnded
_MARKS = {"warning": "warning: ", "info": ""}
_NAMES = {StageStarted: "stage_started", Advanced: "advanced", StageEnded: "stage_ended", Notice: "notice"}


def write(output: str | bytes) -> None:
    """Print lines without controls, or bytes as they are.

    Raises `PipelineError` if standard output cannot be written, and `BrokenPipeError` if its reader has left.
    """
    try:
        if isinstance(output, str):
            sys.stdout.write(printable_lines(output.split("\n")) + "\n")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(output)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise PipelineError(f"standard output cannot be written: {reason}; write it somewhere else") from None


def write_json(name: str, values: Mapping[str, object], to: Callable[[str], None] = write) -> None:
    """Print one event of `--log-json`."""
    to(json.dumps({"event": name, "time": round(time.time(), 3), **values}, default=str))


@contextlib.contextmanager
def listener(*, quiet: bool, log_json: bool, apart: bool = False) -> Iterator[Listener]:
    """Choose the listener that suits the options and the terminal. apart: standard output is the result's alone."""
    if log_json:
        to = functools.partial(write_error, whole=True) if apart else write
        yield lambda event: None if _is_summary(event) else write_json(_NAMES[type(event)], asdict(event), to)
    elif quiet:
        yield _warnings
    elif _in_notebook() or (sys.stderr.isatty() and os.environ.get("TERM") != "dumb"):
        with _bars() as bars:
            yield bars
    else:
        yield _follow_stages(_show_line, lambda notice: write_error(f"{_MARKS[notice.level]}{notice.text}"))


@contextlib.contextmanager
def for_python(progress: bool) -> Iterator[Listener]:
    """Issue warnings as Python warnings; with `progress`, also show how far the work is, and the summary at the end."""
    if not isinstance(progress, bool):
        raise unfit("progress", "True or False", progress)
    lines: list[Event] = []
    with listener(quiet=False, log_json=False) if progress else contextlib.nullcontext(warn_of) as shown:

        def listen(event: Event) -> None:
            is_warning = isinstance(event, Notice) and event.level == "warning"
            (warn_of if is_warning else lines.append if _is_summary(event) else shown)(event)

        yield listen
    for line in (line for event in lines if progress for line in getattr(event, "text", "").splitlines()):
        write_error(line)


def _is_summary(event: Event) -> bool:
    return isinstance(event, Notice) and event.level == "summary"


def _warnings(event: Event) -> None:
    if isinstance(event, Notice) and event.level == "warning":
        write_error(f"{PROGRAM}: warning: {event.text}")


def _in_notebook() -> bool:
    """Whether rich can draw into a notebook: this is one, and it has widgets."""
    if "ipykernel" not in sys.modules or find_spec("ipywidgets") is None:
        return False
    from rich.console import Console

    return Console().is_jupyter


class _Stage:
    """How far a stage is, in words. next_s: when its next line is due; bar: its task in a rich progress display."""

    def __init__(self, started: StageStarted) -> None:
        self.total, self.unit, self.done = started.total, started.unit, started.done
        self._merges = started.unit == "merges" and started.stage.startswith("merging")  # of superwords, too
        self.next_s = 0.0
        self.bar: Any = None
        self._earlier = started.done  # it says nothing about the rate
        self._start_s = time.monotonic()
        self._reading_s = 0.0  # of the pre-tokens, before the first merge

    def advance(self, amount: int) -> None:
        """Note that more is done."""
        if self._merges and self.done == self._earlier:
            self._reading_s = time.monotonic() - self._start_s
        self.done += amount

    def amount(self, count: float) -> str:
        return format_bytes(count) if self.unit == "bytes" else format_count(round(count), self.unit)

    def _left_s(self, elapsed_s: float) -> float | None:
        """Estimate the seconds left from those since the start; None if it is too early to know, or done."""
        if self.total <= self.done or (self._merges and self.done - self._earlier < _FIRST_MERGES):
            return None
        done, total = (self._work(count - self._earlier) for count in (self.done, self.total))
        return (elapsed_s - self._reading_s / 2) * (total - done) / done

    def _work(self, count: float) -> float:
        return math.log1p(count / _FIRST_MERGES) if self._merges else count

    def text(self, columns: int = UNBOUNDED) -> str:
        """Say how much is done, the time left, and the rate since it started: what fits into some columns."""
        words = [self.amount(self.done)]
        if self.total:
            done = words[0] if self.unit == "bytes" and self.done else f"{self.done:,}"
            words = [f"{done} of {self.amount(self.total)}", *([f"{self.done / self.total:.0%}"] if self.done else [])]
        elapsed_s, new = time.monotonic() - self._start_s, self.done - self._earlier
        if elapsed_s >= _RATE_AFTER_S and new > 0:
            if (left_s := self._left_s(elapsed_s)) is not None:
                words.append(f"about {duration(left_s)} left")
            if not self._merges:  # the first merges take the longest
                rate = new / elapsed_s
                shown = self.amount(rate) if self.unit == "bytes" or rate >= 10 else f"{rate:.1f} {self.unit}"
                words.append(f"{shown}/s")
        while len(words) > 1 and len(", ".join(words)) > columns:
            words.pop()
        return ", ".join(words)


def duration(seconds: float) -> str:
    """Write a time for people: 89 -> `89 s`, 600 -> `10 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _follow_stages(show: Callable[[_StageEvent, _Stage], None], notify: Callable[[Notice], None]) -> Listener:
    """Make a listener that shows each event of a stage with how far the stage is."""
    stages: dict[str, _Stage] = {}

    def listen(event: Event) -> None:
        if isinstance(event, Notice):
            if not _is_summary(event):
                notify(event)
            return
        if isinstance(event, StageStarted):
            stages[event.stage] = _Stage(event)
        elif isinstance(event, Advanced):
            stages[event.stage].advance(event.amount)
        show(event, stages[event.stage])

    return listen


def _show_line(event: _StageEvent, stage: _Stage) -> None:
    """Print a line when a stage starts, every few seconds, and when it ends."""
    if isinstance(event, StageStarted):
        text = stage.amount(event.total) + (f" ({stage.amount(event.done)} kept from before)" if event.done else "")
    elif isinstance(event, StageEnded):
        text = f"done in {event.elapsed_s:.2f} s"
    elif time.monotonic() < stage.next_s:
        return
    else:
        text = stage.text()
    stage.next_s = time.monotonic() + _LINE_EVERY_S
    write_error(f"{event.stage}: {text}")


@contextlib.contextmanager
def _bars() -> Iterator[Listener]:
    """Draw bars from the first event on: a command that reports nothing draws nothing."""
    with contextlib.ExitStack() as drawn:

        @functools.cache
        def bars() -> "Progress":
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn
            from rich.table import Column

            console, fixed = Console(stderr=True), Column(no_wrap=True)
            name = TextColumn("{task.description:<10}")
            text = TextColumn("{task.fields[text]}", table_column=Column())
            bar = BarColumn(_BAR_COLUMNS, table_column=fixed)
            return drawn.enter_context(Progress(name, bar, text, console=console))

        def notify(notice: Notice) -> None:
            style = "yellow" if notice.level == "warning" else None
            bars().console.print(printable(notice.text), style=style, markup=False, highlight=False)

        def show(event: _StageEvent, stage: _Stage) -> None:
            total, names = stage.total or 1, [event.stage, *(task.description for task in bars().tasks)]
            text = stage.text(bars().console.width - max(10, *map(len, names)) - _BAR_COLUMNS - 2)
            if isinstance(event, StageStarted):
                stage.bar = bars().add_task(event.stage, total=stage.total or None, completed=stage.done, text=text)
            elif isinstance(event, Advanced):
                bars().update(stage.bar, completed=stage.done, text=text)
            else:
                text = f"{stage.amount(stage.total)} in {event.elapsed_s:.2f} s"
                bars().update(stage.bar, total=total, completed=total, text=text)

        yield _follow_stages(show, notify)
