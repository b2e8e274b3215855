"""Parts of counters in this process, some of which are lost now and then."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipeline import _core
from pipeline.executors.ray_held import Call
from pipeline.merges.rules import MergeRules


class PartsHere:
    """Parts with a training's merges made. lost: returns the indices of parts to lose before or while they answer."""

    def __init__(
        self, columns: Sequence[Any], training: Any, rules: MergeRules, lost: Callable[[], Sequence[int]], **tuning: Any
    ) -> None:
        self.exchanges = self.remade = 0
        self._columns, self._training, self._rules, self._lost, self._tuning = columns, training, rules, lost, tuning
        self._parts = [self._make(index) for index in range(len(columns))]

    def _make(self, index: int) -> Any:
        known = bytes(self._training.merges())
        columns = self._columns[index]
        return _core.Part(self._rules, lambda: [columns], memoryview(columns[1]).nbytes, known, **self._tuning)

    def ask(self, method: str, *arguments: object, catch_up: Callable[[], Call] | None = None) -> Iterator[Any]:
        """Ask all parts, as `Parts` does."""
        self.exchanges += 1
        for index in self._lost():
            self.remade += 1
            if index % 2:  # its answer is lost too
                getattr(self._parts[index], method)(*arguments)
            self._parts[index] = self._make(index)
            if catch_up:
                name, before = catch_up()
                getattr(self._parts[index], name)(*before)
        if self._lost():  # an answer is lost, its part is not
            getattr(self._parts[0], method)(*arguments)
        yield from [getattr(part, method)(*arguments) for part in self._parts]
