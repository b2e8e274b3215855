"""Tasks on the nodes of a Ray cluster, each where the cores and the memory that it needs are free.

The package has to be installed on every node, in the same version. Tasks, their small results, progress and log records
go through the coordinator, but nothing that grows with the corpus: at most two tasks per core of the cluster are handed
out at the same time. A task whose worker or node is lost is tried again on any node that can run it.

Ray's own retries are off, since they are neither counted nor reported. Progress and log records come through an actor:
Ray's client (`ray://`) supports no other stream from a running task. Ray prints what happens on its nodes into a
program's own output, and has no option against it: its messages go to the log, or, if the logger `pipeline` is set to
DEBUG, as by `--debug`, are printed.
"""

import contextlib
import itertools
import logging
import os
import signal
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from bpe_pipeline import __version__
from bpe_pipeline.base import log
from bpe_pipeline.base.errors import UsageError, WorkerError
from bpe_pipeline.executors import DEFAULT_SETUP, ONE_CORE, Broadcast, ClusterUse, Executor, Need, Node, WorkerSetup
from bpe_pipeline.executors.ray_task import Mailbox, Message, prepare, work

_log = logging.getLogger(__name__)
_CONNECT_S, _ANSWER_S = 10.0, 20.0
# How a client of gRPC starts, with an empty SETTINGS frame; a server answers with its own, whose type is 4.
_GRPC_HELLO, _SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), b"\4"
_POLL_S = 0.5  # between questions to the mailbox
_NODES_S = 2.0  # for which the list of nodes is reused
_NOTICE_S = 60.0  # between notices that no node can run a task
_STARTING_S = 5.0  # that workers may take to start
_MAX_PREPARED = 64  # workers that are started before there are tasks
_AHEAD = 2  # tasks handed out for each that can run: no core waits for the coordinator


class RayExecutor(Executor):
    """Runs tasks on a Ray cluster; connects when the context is entered, unless the process is connected already.

    address: as `ray.init` takes it; auto: `RAY_ADDRESS`, or the cluster that this machine is part of. workers: limit of
    active tasks.
    """

    def __init__(self, address: str, workers: int | None, setup: WorkerSetup = DEFAULT_SETUP) -> None:
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
        self._connected = _connect(self._address)
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
            nodes = [
                Node(node["NodeName"], int(node["Resources"].get("CPU", 0)), int(node["Resources"].get("memory", 0)))
                for node in self._ray.nodes()
                if node["Alive"]
            ]
            self._nodes = now, sorted((node for node in nodes if node.cores > 0), key=lambda node: node.name)
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
        references = list(numbers)
        try:
            ended, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
            ended = ended or self._ray.wait(references, timeout=_POLL_S)[0]
            messages = self._take_mail() + [(numbers[reference], self._answer(reference)) for reference in ended]
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise WorkerError(
                f"the Ray cluster does not answer any more ({_last_line(error)}); what is finished is kept: run the "
                "same command again when there is one"
            ) from None
        for reference in ended:
            del self._attempts[numbers[reference]]
        for number, message in messages:
            yield from ((number, "log", record) for record in message.records)
            yield number, "progress", message.progress
            if message.kind != "progress":
                yield number, message.kind, message.value

    def _stop(self, handle: int) -> None:
        with contextlib.suppress(KeyError, self._ray.exceptions.RayError):
            self._ray.cancel(self._attempts.pop(handle), force=True)

    def _answer(self, reference: Any) -> Message:
        """Return the answer of a task that ended or was lost."""
        try:
            answer: Message = self._ray.get(reference)
        except (self._ray.exceptions.RayError, ImportError) as error:
            return Message("failed", _last_line(error))
        if answer.node:
            self._peaks.setdefault(answer.node, {})[answer.process] = answer.peak_bytes
        return answer

    def _take_mail(self) -> list[tuple[int, Message]]:
        """Return what has arrived in the mailbox, without waiting: nothing while its process starts or moves."""
        if self._mailbox is None:
            if not self._peaks and time.monotonic() - self._entered_at < _STARTING_S:
                return []
            options = {"name": self._mailbox_name, "num_cpus": 0, "max_restarts": -1}
            self._mailbox = self._ray.remote(Mailbox).options(**options).remote()
        messages: list[tuple[int, Message]] = []
        with contextlib.suppress(self._ray.exceptions.RayError):
            if self._mail is not None:
                if not self._ray.wait([self._mail], timeout=0)[0]:
                    return []
                messages = self._ray.get(self._mail)
        self._mail = self._mailbox.take.remote()
        return messages


def _connect(address: str) -> bool:
    """Connect this process to a cluster; return False if it is connected already. Raises `UsageError`."""
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise UsageError("running on Ray needs its package: pip install 'bpe-pipeline[ray]'") from None
    if ray.is_initialized():
        return False
    verbose = logging.getLogger(log.ROOT).isEnabledFor(logging.DEBUG)
    named, job = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address, {}
    if "://" not in named:
        # Otherwise Ray's workers look for modules in the current directory first, and in the project's own directory
        # they find the package's source without its core. Ray's client (`ray://`) has no such setting.
        job = {"job_config": import_module("ray.job_config").JobConfig(_client_job=True)}
    try:
        _require_answer(named)
        with _own_sigterm(), contextlib.nullcontext() if verbose else _warnings_to_log():
            ray.init(
                address=address,
                log_to_driver=verbose,
                logging_level=logging.INFO if verbose else logging.ERROR,
                **job,
            )
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        remedy = "start one with `ray start --head`, or name one: --ray HOST:PORT"
        if "Initialization failure from server" in str(error):
            # The server of Ray's client sometimes dies when it forks next to gRPC's threads (ray-project/ray, issue
            # 63202), with this message and empty logs.
            remedy = "run the same command again, or start Ray with GRPC_ENABLE_FORK_SUPPORT=0 in its environment"
        raise UsageError(f"no Ray cluster at {named or 'this machine'} ({_last_line(error)}); {remedy}") from None
    if not verbose:
        _log_messages_of_ray()
    return True


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep what the program does with SIGTERM, in place of which `ray.init` puts an exit without a word."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _require_answer(address: str) -> None:
    """Raise OSError unless Ray's server answers at HOST:PORT within 30 s: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    host = host.strip("[]")
    where = host
    if host in ("localhost", "127.0.0.1", "::1") and "://" not in address:
        where = import_module("ray.util").get_node_ip_address()  # as Ray does
    at = f"{where}, where Ray looks for {host}," if where != host else where
    try:
        with socket.create_connection((where, int(port)), _CONNECT_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0") not in ("0", ""):
                return
            connection.settimeout(_ANSWER_S)
            connection.sendall(_GRPC_HELLO)
            answer = connection.makefile("rb").read(4)
    except TimeoutError:
        raise ConnectionError(f"{at} does not answer on port {port}") from None
    except OSError as error:
        raise ConnectionError(f"{at} cannot be reached on port {port}: {error.strerror or error}") from None
    if answer[3:] != _SETTINGS:
        raise ConnectionError(f"what listens at {at} on port {port} is not Ray")


@contextlib.contextmanager
def _warnings_to_log() -> Iterator[None]:
    """Send to the log what Ray's native code writes to standard error: it has no option against that."""
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
            file.seek(0)
            for line in file:
                _log.info("Ray: %s", line.decode(errors="replace").strip())


def _last_line(error: Exception) -> str:
    """Return the type and the last line of an error of Ray."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no reason given'}"


def _log_messages_of_ray() -> None:
    """Send what Ray would print to the log: messages of a direct connection, and those that its client receives."""

    def write(data: Mapping[str, Any], **_: object) -> None:
        for text in data.get("lines", ()):
            _log.info("Ray: %s", str(text).strip())

    with contextlib.suppress(ImportError, AttributeError):  # internals of Ray: if they change, its messages are printed
        worker: Any = import_module("ray._private.worker")
        worker.print_to_stdstream = write
    with contextlib.suppress(ImportError, AttributeError):
        client: Any = import_module("ray.util.client").ray.get_context().client_worker.log_client
        client.stdstream = lambda level, msg: write({"lines": [msg]})  # noqa: ARG005 - Ray passes keywords
