"""Tasks on the nodes of a Ray cluster, each where the cores and the memory that it needs are free.

The package has to be installed on every node, in the same version. Tasks, their small results, progress and log records
go through the coordinator, but nothing that grows with the corpus: at most two tasks per core of the cluster are handed
out at the same time. A task whose worker or node is lost is tried again on any node that can run it.

Ray's own retries are off, since they are neither counted nor reported. Progress and log records come through an actor:
Ray's client (`ray://`) supports no other stream from a running task.
"""

import itertools
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from pipeline import __version__
from pipeline.base.errors import WorkerError
from pipeline.executors import DEFAULT_SETUP, ONE_CORE, Broadcast, ClusterUse, Executor, Need, Node, WorkerSetup
from pipeline.executors.ray_connect import connect, last_line
from pipeline.executors.ray_task import Answer, Mailbox, prepare, work

_log = logging.getLogger(__name__)
_POLL_S = 0.5  # between questions to the mailbox
_NODES_S = 2.0  # for which the list of nodes is reused
_NOTICE_S = 60.0  # between notices that no node can run a task
_STARTING_S = 5.0  # that workers may take to start
_MAX_PREPARED = 64  # workers that are started before there are tasks
_AHEAD = 2  # tasks handed out for each that can run: no core waits for the coordinator


class RayExecutor(Executor):
    """Runs tasks on a Ray cluster; connects when the context is entered.

    address: as `ray.init` takes it (`auto`, `ray://HOST:PORT`, `HOST:PORT`); None: `RAY_ADDRESS`, or the cluster that
    this machine is part of. workers: limit of active tasks; None: as many as there are cores. If the process is
    connected already (`ray.init` was called), that connection is used and kept.
    """

    def __init__(self, address: str | None, workers: int | None, setup: WorkerSetup = DEFAULT_SETUP) -> None:
        super().__init__()
        self._address, self._workers, self._setup = address, workers, setup
        self._attempts: dict[int, Any] = {}  # number of an active attempt -> Ray's reference
        self._numbers = itertools.count()
        self._nodes: tuple[float, list[Node]] | None = None
        self._noticed_at = -_NOTICE_S
        self._mailbox: Any = None  # started when it is first asked
        self._mail: Any = None  # reference to its next answer
        self._mailbox_name = f"bpe-pipeline-{uuid.uuid4().hex}"
        self._peaks: dict[str, dict[int, int]] = {}  # node -> process -> bytes

    def __enter__(self) -> "RayExecutor":
        self._connected = connect(self._address)
        self._ray: Any = import_module("ray")
        remote = self._ray.remote(max_retries=0, scheduling_strategy="SPREAD")
        self._work, start = remote(work), remote(prepare).remote
        cores = sum(node.cores for node in self.living())
        for _ in range(min(cores, self._workers or cores, _MAX_PREPARED)):  # they start while the coordinator continues
            start(tuple(self._setup.preload), dict(self._setup.environment))
        self._entered_at = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if self._mailbox is not None:
            self._ray.kill(self._mailbox)
        if self._connected:
            self._ray.shutdown()

    def nodes(self) -> list[Node]:
        """See `Executor.nodes`; wait for a node with cores, since nothing can be planned without one."""
        if not self.living():
            request = self._start(bool, 0, ONE_CORE)  # lets a cluster grow that can
            try:
                while not self.living():
                    self._notice(ONE_CORE)
                    time.sleep(_POLL_S)
            finally:
                self._stop(request)
        return self.living()

    def living(self) -> list[Node]:
        """Return the living nodes with cores, as of at most two seconds ago."""
        now = time.monotonic()
        if self._nodes is None or now - self._nodes[0] > _NODES_S:
            found = [
                Node(node["NodeName"], int(node["Resources"].get("CPU", 0)), int(node["Resources"].get("memory", 0)))
                for node in self._ray.nodes()
                if node["Alive"]
            ]
            self._nodes = now, sorted((node for node in found if node.cores > 0), key=lambda node: node.name)
        return self._nodes[1]

    def used(self) -> ClusterUse:
        """See `Executor.used`."""
        return ClusterUse(len(self._peaks), max((sum(node.values()) for node in self._peaks.values()), default=0))

    def broadcast(self, data: bytes) -> Broadcast:
        """See `Executor.broadcast`."""
        return Broadcast(reference=self._ray.put(data))

    def _slots(self, at_most: int, need: Need) -> int:
        slots = sum(node.slots(need) for node in self.living())
        if slots == 0:
            self._notice(need)
        return min(max(_AHEAD * slots, 1), at_most, self._workers or at_most)

    def _notice(self, need: Need) -> None:
        """Report, once a minute, that no node can run a task; one may join."""
        if time.monotonic() - self._noticed_at > _NOTICE_S:
            self._noticed_at = time.monotonic()
            nodes = "; ".join(map(str, self.living())) or "none with cores"
            notice = f"no node of the cluster has {need}: waiting for one that joins. Nodes: {nodes}"
            _log.warning("%s", notice)
            self.on_notice(notice)

    def _start(self, function: Callable[[Any], object], task: object, need: Need, *, again: bool = False) -> int:  # noqa: ARG002
        number = next(self._numbers)
        self._attempts[number] = self._work.options(num_cpus=need.cores, memory=need.memory_bytes or None).remote(
            function, task, __version__, self._mailbox_name, number, dict(self._setup.environment)
        )
        return number

    def _messages(self, active: Sequence[int]) -> Iterator[tuple[int, str, Any]]:
        numbers = {self._attempts[number]: number for number in active}
        ended = self._ended(list(numbers))
        for number, progress, records in self._take_mail():
            yield from ((number, "log", record) for record in records)
            yield number, "progress", progress
        for reference in ended:
            number = numbers[reference]
            answer = self._result(reference)
            del self._attempts[number]
            yield from ((number, "log", record) for record in answer.records)
            yield number, "progress", answer.progress
            yield number, answer.kind, answer.value

    def _stop(self, handle: int) -> None:
        if handle in self._attempts:
            with suppress(self._ray.exceptions.RayError):
                self._ray.cancel(self._attempts.pop(handle), force=True)

    def _ended(self, references: list[Any]) -> list[Any]:
        """Return the tasks that ended; if none did, wait a moment for one."""
        try:
            ended, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
            return list(ended or self._ray.wait(references, timeout=_POLL_S)[0])
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise _cluster_lost(error) from None

    def _result(self, reference: Any) -> Answer:
        """Return the answer of a task that ended or was lost."""
        try:
            answer: Answer = self._ray.get(reference)
        except (self._ray.exceptions.RayError, ImportError) as error:
            return Answer("lost", last_line(error))
        except ConnectionError as error:
            raise _cluster_lost(error) from None
        if answer.node:
            self._peaks.setdefault(answer.node, {})[answer.process] = answer.peak_bytes
        return answer

    def _take_mail(self) -> list[tuple[int, int, Sequence[logging.LogRecord]]]:
        """Return what has arrived in the mailbox, without waiting: nothing while its process starts or moves.

        The mailbox starts after the workers, which use the cores first.
        """
        if self._mailbox is None:
            if not self._peaks and time.monotonic() - self._entered_at < _STARTING_S:
                return []
            options = {"name": self._mailbox_name, "num_cpus": 0, "max_restarts": -1}
            self._mailbox = self._ray.remote(Mailbox).options(**options).remote()
        messages: list[tuple[int, int, Sequence[logging.LogRecord]]] = []
        with suppress(self._ray.exceptions.RayError):
            if self._mail is not None:
                if not self._ray.wait([self._mail], timeout=0)[0]:
                    return []
                messages = self._ray.get(self._mail)
        self._mail = self._mailbox.take.remote()
        return messages


def _cluster_lost(error: Exception) -> WorkerError:
    return WorkerError(
        f"the Ray cluster does not answer any more ({last_line(error)}); what is finished is kept: run the same "
        "command again when there is one"
    )
