"""Listeners that show a run: bars on a terminal, plain lines elsewhere, JSON lines for machines, or only warnings.

Progress and notices go to standard error, so that what a command was asked for can be piped; JSON lines are what was
asked for and go to standard output.
"""

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from pipeline.errors import PipelineError
from pipeline.events import Advanced, Event, Listener, Notice, StageEnded, StageStarted
from pipeline.values import format_bytes, format_count

_LINE_EVERY_S = 5.0


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
    elif sys.stderr.isatty():
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


class _Lines:
    """Plain lines: one where a stage begins, one every few seconds, one where it ends."""

    def __init__(self) -> None:
        self._started = StageStarted("", 0, "")
        self._done = 0
        self._next_s = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._started, self._done = event, event.done
            self._next_s = time.monotonic() + _LINE_EVERY_S
            kept = f" ({_amount(event.done, event.unit)} kept from before)" if event.done else ""
            write_error(f"{event.stage}: {_amount(event.total, event.unit)}{kept}")
        elif isinstance(event, Advanced):
            self._done += event.amount
            if time.monotonic() >= self._next_s:
                self._next_s = time.monotonic() + _LINE_EVERY_S
                total, unit = self._started.total, self._started.unit
                share = f", {self._done / total:.0%}" if total else ""
                write_error(f"{event.stage}: {_amount(self._done, unit)}{share}")
        elif isinstance(event, StageEnded):
            write_error(f"{event.stage}: done in {event.elapsed_s:.2f} s")
        else:
            mark = "warning: " if event.level == "warning" else ""
            write_error(f"{mark}{event.text}")


@contextlib.contextmanager
def _bars() -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[shown]}"),
    )
    with Progress(*columns, TimeRemainingColumn(elapsed_when_finished=True), console=console) as progress:
        tasks: dict[str, TaskID] = {}
        started: dict[str, StageStarted] = {}

        def listen(event: Event) -> None:
            if isinstance(event, Notice):
                style = "yellow" if event.level == "warning" else None
                progress.console.print(event.text, style=style, markup=False, highlight=False)
            elif isinstance(event, StageStarted):
                started[event.stage] = event
                shown = _amount(event.total, event.unit)
                tasks[event.stage] = progress.add_task(
                    event.stage, total=event.total or None, completed=event.done, shown=shown
                )
            elif isinstance(event, Advanced):
                progress.advance(tasks[event.stage], event.amount)
            else:
                stage = started[event.stage]
                progress.update(tasks[event.stage], total=stage.total or 1, completed=stage.total or 1)

        yield listen
