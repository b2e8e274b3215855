"""A task on a node of a Ray cluster: what it returns, and how it reports meanwhile."""

import logging
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from bpe_pipeline import __version__
from bpe_pipeline.base.errors import PipelineError, WorkerError
from bpe_pipeline.executors import Importing, worker

_POST_S = 0.5  # between messages of a task to the mailbox


@dataclass(frozen=True)
class Message:
    """What `worker.answer` returned (kind `progress`: not yet), all progress, new log records, and the process."""

    kind: str
    value: Any
    progress: int = 0
    records: Sequence[logging.LogRecord] = ()
    node: str = ""
    process: int = 0
    peak_bytes: int = 0


class Mailbox:
    """The actor that keeps the messages of active tasks until the coordinator asks for them."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, Message]] = []

    def post(self, attempt: int, message: Message) -> None:
        """Keep a message of an attempt."""
        self._messages.append((attempt, message))

    def take(self) -> list[tuple[int, Message]]:
        """Return all messages since the last call."""
        messages, self._messages = self._messages, []
        return messages


@dataclass
class _Post:
    """Collects what a task reports and sends it twice a second at most; the rest goes with its answer."""

    mailbox: str
    attempt: int
    progress: int = 0
    records: list[logging.LogRecord] = field(default_factory=list)  # not sent yet
    posted_at: float = field(default_factory=time.monotonic)

    def __call__(self, kind: str, value: Any) -> None:
        if kind == "progress":
            self.progress = value
        else:
            self.records.append(value)
        if time.monotonic() - self.posted_at < _POST_S:
            return
        self.posted_at = time.monotonic()
        with suppress(ValueError):  # the mailbox has not started yet
            message = Message("progress", self.progress, self.progress, self.records)
            import_module("ray").get_actor(self.mailbox).post.remote(self.attempt, message)
            self.records = []


def work(
    function: Callable[[Any], object],
    task: object,
    version: str,
    mailbox: str,
    attempt: int,
    environment: Mapping[str, str],
) -> Message:
    """Do a task on a node."""
    post = _Post(mailbox, attempt)
    worker.post_with(post)

    def prepared(task: object) -> object:
        prepare((), environment, version)
        return function(task)

    kind, value = worker.answer(prepared, task)
    if isinstance(value, PipelineError):
        value.args = (f"{value} (on node {platform.node()})",)
    node = import_module("ray").get_runtime_context().get_node_id()
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
    return Message(kind, value, post.progress, post.records, node, os.getpid(), peak_bytes)


def prepare(needed: Sequence[Importing], environment: Mapping[str, str], version: str = __version__) -> None:
    """Set variables that the environment does not have, and import what tasks need.

    Raises `WorkerError` if the coordinator has another version.
    """
    if version != __version__:
        raise WorkerError(f"bpe-pipeline {__version__} is installed, not {version}: install the same on all nodes")
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    arrow = sys.modules.get("pyarrow")  # Ray has imported it already: it needs a call
    if arrow is not None and os.environ.get("ARROW_DEFAULT_MEMORY_POOL") == "system":
        arrow.set_memory_pool(arrow.system_memory_pool())
    worker.preload(needed)
