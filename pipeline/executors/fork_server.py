"""The parent of this machine's worker processes: an interpreter with their imports done, which forks.

It has one thread and imports nothing that starts another, so its forks are whole; forking the coordinator would copy
its threads, and Arrow's, half-alive. A worker is so there within milliseconds, and what was imported lies in memory
once, however many workers there are.

Requests come over a socket, one at a time: a byte with a pipe's descriptor asks for a worker that serves this pipe and
is answered by its process id; a process id asks for that worker's end and is answered by its exit status (negative:
the signal). Every number is 8 bytes. The socket's end ends this process; workers end with their own pipes.
"""

import contextlib
import gc
import os
import socket
import sys
from collections.abc import Sequence
from importlib import import_module

from pipeline.executors import worker

NUMBER_BYTES = 8
FORK = b"f"


def main(descriptor: int, preload: Sequence[str], absent: Sequence[str]) -> None:
    """Serve the socket with this descriptor.

    preload: modules to import first; one that fails is left to the task that needs it. absent: optional modules that
    workers are to do without.
    """
    control = socket.socket(fileno=descriptor)
    for module in absent:
        sys.modules[module] = None  # type: ignore[assignment]  # importing it fails at once
    for module in preload:
        with contextlib.suppress(Exception):
            import_module(module)
    gc.freeze()  # the collector of a worker would write into pages that all workers share
    with contextlib.suppress(ConnectionError):  # the coordinator is gone while it is answered
        while _answer(control):
            pass
    os._exit(0)


def _answer(control: socket.socket) -> bool:
    """Do what the next request asks; False after the last."""
    request, descriptors, _, _ = socket.recv_fds(control, NUMBER_BYTES, 1)
    if not request:
        return False
    if descriptors:
        answer = _fork(control, descriptors[0])
    else:
        answer = os.waitstatus_to_exitcode(os.waitpid(int.from_bytes(request), 0)[1])
    control.sendall(answer.to_bytes(NUMBER_BYTES, signed=True))
    return True


def _fork(control: socket.socket, pipe: int) -> int:
    """A new worker's process id, or the negative error number where the system gives none."""
    try:
        process = os.fork()
    except OSError as error:
        process = -(error.errno or 1)
    if process != 0:
        os.close(pipe)
        return process
    control.close()
    worker.main(pipe)
    raise AssertionError("unreachable")
