"""Tasks on the nodes of a Ray cluster, each where the cores and the memory that it needs are free.

The package has to be installed on every node, in the same version. Through the coordinator go tasks, their small
results, how far they came and what they log; nothing that grows with the corpus: at most a few tasks for every core of
the cluster are handed over at the same time. A task whose worker or whole node is lost, or that raised something that
is not a `PipelineError`, is tried again wherever there is room.

Ray's own retries are off: those would be neither counted nor told. Progress and log records come through an actor, as
Ray's client (`ray://`) knows no other stream from a task that is at work.
"""

import itertools
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pipeline import __version__
from pipeline.base import log
from pipeline.base.errors import PipelineError, WorkerError
from pipeline.executors import (
    DEFAULT_SETUP,
    ONE_CORE,
    ClusterUse,
    Need,
    Node,
    Result,
    Task,
    WorkerSetup,
    ignore_notice,
    ignore_progress,
)
from pipeline.executors.attempts import Attempts
from pipeline.executors.ray_connect import connect, in_a_line
from pipeline.executors.ray_task import Answer, InObjectStore, Mailbox, prepare, work

_log = logging.getLogger(__name__)
_POLL_S = 0.5  # between looks at the mail
_NODES_S = 2.0  # for which what is known of the nodes is believed
_COMPLAIN_S = 60.0  # between complaints that a task finds no node
_STARTING_S = 10.0  # that workers may take to start
_PREPARED = 64  # workers that are started before there is work
_AHEAD = 2  # tasks handed over for every one that can be at work: no core waits for the coordinator


@dataclass(eq=False)
class _Attempt:
    number: int  # of all attempts of the executor
    task: int  # its index
    progress: int = 0  # how much of it was told


class RayExecutor:
    """Runs tasks on a Ray cluster; a context manager, which connects and leaves.

    address: as `ray.init` takes it (`auto`, `ray://HOST:PORT`, `HOST:PORT`); None: `RAY_ADDRESS`, or the cluster that
    this machine is part of. workers: tasks at the same time at most; None: as many as there are cores. A connection
    that the process has already (`ray.init` was called) is used and kept.
    """

    def __init__(self, address: str | None, workers: int | None, setup: WorkerSetup = DEFAULT_SETUP) -> None:
        self._address, self._workers, self._setup = address, workers, setup
        self._retries = 0
        self.on_notice: Callable[[str], None] = ignore_notice
        self._numbers = itertools.count()
        self._nodes: tuple[float, list[Node]] | None = None
        self._complained_at = -_COMPLAIN_S
        self._mailbox: Any = None  # made when it is first asked
        self._asked: Any = None  # what it is to answer
        self._mailbox_name = f"bpe-pipeline-{uuid.uuid4().hex}"
        self._peaks: dict[str, dict[int, int]] = {}  # by node, then by process

    @property
    def retries(self) -> int:
        """See `Executor.retries`."""
        return self._retries

    def __enter__(self) -> "RayExecutor":
        self._connected = connect(self._address)
        self._ray: Any = import_module("ray")
        self._ready = self._prepare()
        self._entered_at = time.monotonic()
        self._work = self._ray.remote(max_retries=0, scheduling_strategy="SPREAD")(work)
        return self

    def _prepare(self) -> list[Any]:
        """Let workers start, and import what their tasks need, beside whatever the coordinator does next."""
        cores = sum(node.cores for node in self.living())
        start = self._ray.remote(max_retries=0, scheduling_strategy="SPREAD")(prepare).remote
        workers = min(cores, self._workers or cores, _PREPARED)
        return [start(tuple(self._setup.preload), dict(self._setup.environment)) for _ in range(workers)]

    def __exit__(self, *_: object) -> None:
        if self._mailbox is not None:
            self._ray.kill(self._mailbox)
        if self._connected:
            self._ray.shutdown()

    def nodes(self) -> list[Node]:
        """See `Executor.nodes`: waits where none of the cluster has cores, as nothing could be planned for it."""
        if not self.living():
            wish = self._start(bool, 0, next(self._numbers), ONE_CORE)  # what lets a cluster grow that can
            try:
                while not self.living():
                    self._complain(ONE_CORE)
                    time.sleep(_POLL_S)
            finally:
                self._ray.cancel(wish)
        return self.living()

    def living(self) -> list[Node]:
        """The nodes with cores that live, as they were some seconds ago at most."""
        now = time.monotonic()
        if self._nodes is None or now - self._nodes[0] > _NODES_S:
            found = [
                Node(node["NodeName"], int(node["Resources"].get("CPU", 0)), int(node["Resources"].get("memory", 0)))
                for node in self._ray.nodes()
                if node["Alive"]
            ]
            self._nodes = now, sorted((node for node in found if node.cores > 0), key=lambda node: node.name)
        return self._nodes[1]

    def used(self) -> ClusterUse | None:
        """See `Executor.used`."""
        return ClusterUse(len(self._peaks), max((sum(node.values()) for node in self._peaks.values()), default=0))

    def share(self, data: bytes) -> InObjectStore:
        """See `Executor.share`."""
        return InObjectStore(self._ray.put(data))

    def run(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        on_progress: Callable[[int], None] = ignore_progress,
        *,
        at_once: int | None = None,
        need: Need = ONE_CORE,
    ) -> Iterator[tuple[int, Result]]:
        """See `Executor.run`. Leaving the iteration early stops the tasks that are at work."""
        waiting = deque(range(len(tasks)))
        attempts = Attempts(tasks)
        flying: dict[Any, _Attempt] = {}

        def hand_over() -> None:
            most = self._most_at_once(at_once, need)
            while waiting and len(flying) < most:
                attempt = _Attempt(next(self._numbers), waiting.popleft())
                flying[self._start(function, tasks[attempt.task], attempt.number, need)] = attempt

        def told(attempt: _Attempt, amount: int) -> None:
            attempt.progress += amount
            on_progress(amount)

        try:
            hand_over()
            while waiting or flying:
                ended = self._ended(list(flying))
                by_number = {attempt.number: attempt for attempt in flying.values()}
                for number, kind, value in self._mail():
                    if kind == "log":
                        log.relay(value)
                    elif number in by_number:
                        told(by_number[number], value)
                for reference in ended:
                    attempt = flying.pop(reference)
                    answered = self._result(reference)
                    told(attempt, answered.progress - attempt.progress)
                    if answered.kind == "done":
                        hand_over()  # before the result is looked at: no core waits for the coordinator
                        yield attempt.task, answered.value
                    elif answered.kind == "error":
                        error: PipelineError = answered.value
                        raise error
                    else:
                        attempts.failed(attempt.task, answered.value)
                        self._retries += 1
                        waiting.append(attempt.task)
                hand_over()
        finally:
            for reference in flying:
                with suppress(self._ray.exceptions.RayError):
                    self._ray.cancel(reference, force=True)

    def _start(self, function: Callable[[Any], object], task: object, number: int, need: Need) -> Any:
        return self._work.options(num_cpus=need.cores, memory=need.memory_bytes or None).remote(
            function, task, __version__, self._mailbox_name, number, dict(self._setup.environment)
        )

    def _most_at_once(self, at_once: int | None, need: Need) -> int:
        """How many tasks the cluster has room for, and some more that wait for it; fewer where fewer are allowed."""
        room = sum(need.times(node.cores, node.memory_bytes) for node in self.living())
        if room == 0:
            self._complain(need)
        allowed = [number for number in (at_once, self._workers) if number is not None]
        return min([max(_AHEAD * room, 1), *allowed])

    def _complain(self, need: Need) -> None:
        """Say, now and then, that nothing can begin: a node may join."""
        if time.monotonic() - self._complained_at > _COMPLAIN_S:
            self._complained_at = time.monotonic()
            nodes = "; ".join(map(str, self.living())) or "none with cores"
            notice = f"no node of the cluster has {need}: waiting for one that joins. Nodes: {nodes}"
            _log.warning("%s", notice)
            self.on_notice(notice)

    def _ended(self, references: list[Any]) -> list[Any]:
        """Those of the tasks that ended, after waiting a moment for one to do so."""
        try:
            ended, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
            return list(ended or self._ray.wait(references, timeout=_POLL_S)[0])
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise self._lost(error) from None

    def _result(self, reference: Any) -> Answer:
        """What a task that ended gave; of one that was lost, why, as of one that crashed."""
        try:
            answered: Answer = self._ray.get(reference)
        except (self._ray.exceptions.RayError, ImportError) as error:
            return Answer("crash", in_a_line(error))
        except ConnectionError as error:
            raise self._lost(error) from None
        for record in answered.records:
            log.relay(record)
        if answered.node:
            self._peaks.setdefault(answered.node, {})[answered.process] = answered.peak_bytes
        if answered.kind == "crash":
            _log.error("a task raised:\n%s", answered.value)
            return Answer("crash", answered.value.strip().splitlines()[-1])
        return answered

    def _mail(self) -> list[tuple[int, str, Any]]:
        """What tasks said until the last question; nothing where the node that keeps it is gone, until it is elsewhere.

        Nobody waits for it. Its process starts after those of the workers, which have the first use of the cores.
        """
        if self._mailbox is None:
            if self._is_starting():
                return []
            options = {"name": self._mailbox_name, "num_cpus": 0, "max_restarts": -1}
            self._mailbox = self._ray.remote(Mailbox).options(**options).remote()
        messages: list[tuple[int, str, Any]] = []
        with suppress(self._ray.exceptions.RayError):
            if self._asked is not None:
                if not self._ray.wait([self._asked], timeout=0)[0]:
                    return []
                messages = self._ray.get(self._asked)
        self._asked = self._mailbox.take.remote()
        return messages

    def _is_starting(self) -> bool:
        """Whether workers are still on their way; on a cluster at work for others nobody waits for that."""
        if not self._ready or time.monotonic() - self._entered_at > _STARTING_S:
            return False
        return len(self._ray.wait(self._ready, num_returns=len(self._ready), timeout=0)[0]) < len(self._ready)

    def _lost(self, error: Exception) -> WorkerError:
        return WorkerError(
            f"the Ray cluster does not answer any more ({in_a_line(error)}); what is finished is kept: run the same "
            "command again when there is one"
        )
