"""Objects that a task on a Ray cluster keeps on the nodes, each in a process of its own, and asks again and again.

An object that is lost with its process or node is made again, on any node with the memory for it.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from pipeline import __version__
from pipeline.base.errors import WorkerError
from pipeline.executors import MAX_ATTEMPTS

_PASSED_ON = ("ARROW_DEFAULT_MEMORY_POOL",)  # variables that the executor set for this task
_log = logging.getLogger(__name__)

Call = tuple[str, tuple[object, ...]]  # a method and its arguments


class Holder:
    """The actor that holds one object."""

    def make(
        self,
        function: Callable[[Any], Any],
        task: object,
        version: str,
        environment: dict[str, str],
        calls: Sequence[Call],
    ) -> Any:
        """Make the object; return its answer to the last of the calls."""
        from pipeline.executors.ray_task import prepare  # which no other machine needs to have

        prepare((), environment, version)
        self._object = function(task)
        return self.ask(calls)

    def ask(self, calls: Sequence[Call]) -> Any:
        """Make the calls; return the answer to the last one."""
        answer = None
        for method, arguments in calls:
            answer = getattr(self._object, method)(*arguments)
        return _plain(answer)


def _plain(value: Any) -> Any:
    """Make a value of memoryviews one that can be sent."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return bytes(value) if isinstance(value, memoryview) else value


class Held:
    """That many objects on the nodes, as many on each as can be; a context manager, on whose end they are gone.

    `function(task_of(index))` makes one; memory_bytes: what the process of each takes.
    """

    def __init__(
        self, function: Callable[[Any], Any], task_of: Callable[[int], object], count: int, memory_bytes: int
    ) -> None:
        self._ray: Any = import_module("ray")
        self._function, self._task_of, self._memory_bytes = function, task_of, memory_bytes
        nodes = [one["NodeID"] for one in self._ray.nodes() if one["Alive"] and one["Resources"].get("CPU", 0)]
        self._actors: list[Any] = []
        made = [self._start(index, nodes[index % len(nodes)], []) for index in range(count)]
        for index, reference in enumerate(made):
            self._until_answered(index, reference, list)

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors:
            self._ray.kill(actor)

    def ask(self, method: str, *arguments: object, catch_up: Callable[[], Call] | None = None) -> Iterator[Any]:
        """Call a method of all objects at the same time; yield their answers in order.

        catch_up: returns a call to make before this one in an object that was lost and made again.
        """
        asked = [actor.ask.remote([(method, arguments)]) for actor in self._actors]
        for index, reference in enumerate(asked):
            yield self._until_answered(
                index, reference, lambda: [*([catch_up()] if catch_up else []), (method, arguments)]
            )

    def _start(self, index: int, node: str | None, calls: Sequence[Call]) -> Any:
        """Start a process for an object, if possible on `node`; return a reference to the answer to the last call."""
        strategies = import_module("ray.util.scheduling_strategies")
        on = strategies.NodeAffinitySchedulingStrategy(node, soft=True) if node else "SPREAD"
        # No cores: the task that asks waits meanwhile, and an object may have to share the node with another one.
        remote = self._ray.remote(num_cpus=0, memory=self._memory_bytes, scheduling_strategy=on)
        actor = remote(Holder).remote()
        self._actors[index : index + 1] = [actor]
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return actor.make.remote(self._function, self._task_of(index), __version__, environment, calls)

    def _until_answered(self, index: int, reference: Any, calls: Callable[[], Sequence[Call]]) -> Any:
        """Return an answer; if the object is lost, make it again, with these calls."""
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                reference = self._start(index, None, calls())
            try:
                return self._ray.get(reference)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self._ray.exceptions.RayError as error:
                _log.warning("part %d is made again, since it was lost: %s", index, str(error).splitlines()[0])
        raise WorkerError(f"what a node held was lost {MAX_ATTEMPTS} times; run the same command again to resume")
