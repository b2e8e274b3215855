"""The parent of this machine's worker processes: an interpreter that has imported their modules, and forks.

It has one thread and imports nothing that starts another, so its forks are complete; a fork of the coordinator would
copy locks that its threads, and Arrow's, hold. A worker is ready within milliseconds and shares the imported modules'
memory with the others.

Requests come over a socket, one at a time. A byte with a pipe's descriptor asks for a worker that serves this pipe; the
answer is its process id. A process id asks for that worker's end; the answer is its exit status (negative: the signal).
Every number has 8 bytes. The end of the socket ends this process; workers end with their own pipes.
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
    """Serve the socket with this descriptor. preload, absent: modules, as in `WorkerSetup`."""
    control = socket.socket(fileno=descriptor)
    for module in absent:
        sys.modules[module] = None  # type: ignore[assignment]  # importing it fails at once
    for module in preload:
        with contextlib.suppress(Exception):  # the task that needs it will report the failure
            import_module(module)
    gc.freeze()  # a worker's garbage collector would write to pages that all workers share
    with contextlib.suppress(ConnectionError):  # the coordinator ended before it had its answer
        while _answer(control):
            pass
    os._exit(0)


def _answer(control: socket.socket) -> bool:
    """Answer the next request; return False if there is none."""
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
    """Return a new worker's process id, or the negative error number if the system refuses."""
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
