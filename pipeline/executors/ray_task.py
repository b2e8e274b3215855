"""A task on a node of a Ray cluster: what it gives, and how it is heard of meanwhile."""

import logging
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pipeline import __version__
from pipeline.base.errors import PipelineError, WorkerError
from pipeline.executors.worker import answer, post_with

_POST_S = 0.5  # between two messages of a task about its progress


@dataclass(frozen=True)
class InObjectStore:
    """Bytes in the cluster's memory, which a node fetches when the first of its tasks asks for them."""

    reference: Any

    def get(self) -> bytes:
        """See `executors.Shared.get`."""
        data: bytes = import_module("ray").get(self.reference)
        return data


class Mailbox:
    """The actor that keeps what tasks say while they are at work, until the coordinator asks."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, str, object]] = []

    def post(self, attempt: int, kind: str, value: object) -> None:
        """Keep a message of an attempt."""
        self._messages.append((attempt, kind, value))

    def take(self) -> list[tuple[int, str, object]]:
        """Everything since the last time."""
        messages, self._messages = self._messages, []
        return messages


class _Post:
    """A task's way to the coordinator: what it says is gathered, so that a thousand tasks do not drown the mailbox.

    What was not sent when the task ends goes with its answer; a short task has no need of the mailbox.
    """

    def __init__(self, mailbox: str, attempt: int) -> None:
        self._mailbox, self._attempt = mailbox, attempt
        self._gathered, self._posted_at = 0, time.monotonic()
        self.total = 0
        self.records: list[logging.LogRecord] = []  # those that were not sent

    def __call__(self, kind: str, value: Any) -> None:
        if kind == "progress":
            self.total += value
            self._gathered += value
        else:
            self.records.append(value)
        if time.monotonic() - self._posted_at >= _POST_S:
            self._posted_at = time.monotonic()
            self._send()

    def _send(self) -> None:
        try:
            post = import_module("ray").get_actor(self._mailbox).post
        except ValueError:  # it is not there yet
            return
        post.remote(self._attempt, "progress", self._gathered)
        for record in self.records:
            post.remote(self._attempt, "log", record)
        self._gathered, self.records = 0, []


@dataclass(frozen=True)
class Answer:
    """What a task gave: what `answer` gives, how much progress it made in all, and the process that did it.

    records: what it logged and did not send before.
    """

    kind: str
    value: Any
    progress: int = 0
    records: Sequence[logging.LogRecord] = ()
    node: str = ""
    process: int = 0
    peak_bytes: int = 0


def work(
    function: Callable[[Any], object],
    task: object,
    version: str,
    mailbox: str,
    attempt: int,
    environment: Mapping[str, str],
) -> Answer:
    """Do a task on a node."""
    _surround(environment)
    if version != __version__:
        here = f"node {platform.node()} has bpe-pipeline {__version__}, the coordinator {version}"
        return Answer("error", WorkerError(f"{here}; install the same version on all nodes"))
    post = _Post(mailbox, attempt)
    post_with(post)
    kind, value = answer(function, task)
    if isinstance(value, PipelineError):
        value.args = (f"{value} (on node {platform.node()})",)
    node = import_module("ray").get_runtime_context().get_node_id()
    return Answer(kind, value, post.total, post.records, node, os.getpid(), _peak_bytes())


def prepare(modules: Sequence[str], environment: Mapping[str, str]) -> None:
    """Import modules that tasks need, in their environment; one that fails is left to the task that needs it."""
    _surround(environment)
    for module in modules:
        with suppress(Exception):
            import_module(module)


def _surround(environment: Mapping[str, str]) -> None:
    """Set the variables that a worker's environment lacks; for Arrow, which Ray imported, it is too late for that."""
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and os.environ.get("ARROW_DEFAULT_MEMORY_POOL") == "system":
        arrow.set_memory_pool(arrow.system_memory_pool())


def _peak_bytes() -> int:
    """The most memory that this process had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
