"""Children of a fork, and the end of Python, while other threads work: no one waits for a thread that is not there."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import pytest
from merge_cases import arrays

from bpe_pipeline import _core
from bpe_pipeline.base import log, system
from bpe_pipeline.merges.rules import MergeRules

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

TEXT = "lower newest widest " * 2000
LOWER = arrays({b"lower": 9, b"low": 9})
THREADS = 16  # each starts with caches of its own


def ended(work: Callable[[], object], wait_s: float = 20) -> int:
    """Call `work` in a child of a fork; return its exit code, 0 when it has returned, -SIGALRM when it waits."""
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, wait_s)
        with suppress(BaseException):
            work()
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_threads_of_a_merge_are_not_waited_for_in_a_child() -> None:
    languages = [lambda: [LOWER], lambda: [LOWER]]
    made = [_core.ParityTraining(9, MergeRules(), languages, threads=2)]

    def use() -> None:
        made[0].merge(1)

    assert ended(made.clear) == 0

    def refuses() -> None:
        with pytest.raises(RuntimeError, match="in the process that forked: make another one here"):
            use()

    assert ended(refuses) == 0
    use()


def test_the_lock_of_the_log_is_free_in_a_child() -> None:
    with log._lock:
        assert ended(lambda: log._lock.acquire(timeout=0) or os._exit(2)) == 0


def test_a_child_computes_what_a_thread_of_its_parent_is_computing() -> None:
    started, finish = Event(), Event()

    class Slow:
        @system.cached_property
        def value(self) -> bool:
            started.set()
            return finish.wait() if self is slow else True

    slow = Slow()
    with ThreadPoolExecutor(1) as pool:
        value = pool.submit(lambda: slow.value)
        started.wait()
        try:
            assert ended(lambda: Slow().value) == 0
        finally:
            finish.set()
        assert value.result()


@pytest.mark.parametrize(
    "work",
    [
        "tokenizer.encode_batch([text] * 9)",
        "tokenizer.encode(text * 10)",
        "cutter.cut(text.encode())",
        "merged()",
    ],
)
def test_python_ends_with_its_own_exit_code_while_a_daemon_thread_works(work: str) -> None:
    program = f"""
import sys, threading, time
from array import array
from bpe_pipeline import Tokenizer, _core
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.pattern.compiler import compile_pattern
tokenizer, cutter = Tokenizer.from_merges([]), compile_pattern("gpt2").automaton
text, columns = "low " * 99, (array("q", range(0, 1_024_001, 256)), bytes(range(256)) * 4000, array("Q", [1]) * 4000)
def merged():
    engine = _core.MergeEngine()
    engine.add(*columns)
    engine.run(9999, MergeRules(), progress=lambda *_: None)
def work():
    while True:
        {work}
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.03)
sys.exit(7)
"""
    result = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (7, "")
