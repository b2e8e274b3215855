"""Look-ahead of any length: what the characters from a position on say, as one more property of the first of them.

All look-aheads of a pattern are run at once from a position on until each has matched or cannot: a small automaton.
What they say is a verdict. A class of characters that does not decide it alone is open, and becomes one class for each
verdict that is possible, its variants; the pattern's automaton then treats look-ahead as a condition on the class
of the next character, as it does with `(?!\\S)`. The native core finds the verdicts of an open stretch of text from its
end to its start (text/ahead.hpp), so a character is read twice, never more often.

Not every sequence of variants can occur: of a digit, "a multiple of three digits follows" holds for every third only.
The futures (what the text after a position makes of each state) are few, and `follow` carries those still possible
along, so that the tables hold nothing impossible.
"""

from collections.abc import Callable, Iterator
from functools import cache

from bpe_pipeline.pattern.classes import MAX_CLASSES, Refusal

DECIDED = 128  # entries from here on are verdicts
MAX_STATES = 64
MAX_FUTURES = 200
UNUSED_CLASSES = 4  # numbers that the core needs for other purposes

Threads = tuple[int, ...]
Row = list[tuple[Threads, bool]]
Future = tuple[int, ...]  # per state the verdict


class LookAhead:
    """The look-aheads that start at the given instructions, over `classes` classes, the last of them the end.

    `table`: per state and class the next state, or DECIDED + verdict. `verdicts`: which of the look-aheads match.
    `variants`: per open class and verdict the class that stands for both; they follow the others but the end.
    """

    def __init__(self, row: Callable[[Threads], Row], starts: list[int], classes: int) -> None:
        self.end = classes - 1
        self.verdicts: list[tuple[bool, ...]] = []
        self.table: list[list[int]] = []
        begin: tuple[Threads | bool, ...] = tuple((start,) for start in starts)
        numbers = {begin: 0}
        for state in (order := [begin]):
            line = []
            for cls in range(classes):
                after = tuple(part if isinstance(part, bool) else _after(row, part, cls) for part in state)
                verdict = tuple(outcome for outcome in after if isinstance(outcome, bool))
                if len(verdict) == len(after):
                    if verdict not in self.verdicts:
                        self.verdicts.append(verdict)
                    line.append(DECIDED + self.verdicts.index(verdict))
                    continue
                if after not in numbers:
                    numbers[after] = len(order)
                    order.append(after)
                line.append(numbers[after])
            self.table.append(line)
            if len(order) > MAX_STATES or len(self.verdicts) >= DECIDED - 1:
                raise Refusal("a look-ahead that takes more states than there are", 0)
        self.before = cache(self._before)
        self.futures = self._all_futures()
        self.anything = frozenset(self.futures)
        self.variants: dict[tuple[int, int], int] = {}
        for cls in range(self.end):
            self._add_variants(cls)
        if self.classes >= MAX_CLASSES - UNUSED_CLASSES:
            raise Refusal("too many classes of characters once each has what look-aheads say", 0)
        self.follow = cache(self._follow)

    @property
    def classes(self) -> int:
        """The number of classes with the variants and the end, which is the last."""
        return self.end + len(self.variants) + 1

    def _before(self, future: Future, cls: int) -> Future:
        """Return the future before a character, given the one after it."""
        return tuple(line[cls] - DECIDED if line[cls] >= DECIDED else future[line[cls]] for line in self.table)

    def _all_futures(self) -> list[Future]:
        futures = [tuple(line[self.end] - DECIDED for line in self.table)]
        for future in futures:
            futures += {self.before(future, cls): None for cls in range(self.end)}.keys() - futures
            if len(futures) > MAX_FUTURES:
                raise Refusal("a look-ahead with too many outcomes", 0)
        return futures

    def _add_variants(self, cls: int) -> None:
        entry = self.table[0][cls]
        if entry < DECIDED:
            for verdict in sorted({future[entry] for future in self.futures}):
                self.variants[cls, verdict] = self.end + len(self.variants)

    def meanings(self) -> Iterator[tuple[int, int, int]]:
        """Yield each class with the one of characters that it stands for (an open one: itself) and its verdict."""
        for cls in range(self.end):
            entry = self.table[0][cls]
            yield cls, cls, entry - DECIDED if entry >= DECIDED else next(v for c, v in self.variants if c == cls)
        for (cls, verdict), number in self.variants.items():
            yield number, cls, verdict
        yield self.classes - 1, self.end, self.table[0][self.end] - DECIDED

    def _follow(self, futures: frozenset[Future], number: int) -> frozenset[Future]:
        """Return the futures that are possible after a character of a class, given those before; none: impossible."""
        cls, verdict = next((key for key, value in self.variants.items() if value == number), (number, None))
        if number == self.classes - 1:
            return futures & {self.futures[0]}
        entry = self.table[0][cls]
        if verdict is None and entry < DECIDED:
            return frozenset()  # only its variants occur
        return frozenset(
            future
            for future in self.futures
            if self.before(future, cls) in futures and (verdict is None or future[entry] == verdict)
        )

    def variant_table(self) -> bytes:
        """Return per class of characters and verdict the variant, 255 where there is none."""
        verdicts = range(len(self.verdicts))
        return bytes(self.variants.get((cls, verdict), 255) for cls in range(self.end) for verdict in verdicts)

    def independent(self, first: int, second: int) -> bool:
        """Return whether ending the text between two classes of characters changes no verdict before."""
        if max(first, second) >= self.end:
            return False
        after = {line[first] for line in self.table if line[first] < DECIDED}
        return all(self.table[state][second] == self.table[state][self.end] for state in after)

    def kinds(self, cls: int) -> list[int]:
        """Return the classes that stand for a class of characters: its variants, or itself."""
        return [number for (of, _), number in self.variants.items() if of == cls] or [cls]


def _after(row: Callable[[Threads], Row], threads: Threads, cls: int) -> Threads | bool:
    """Return the threads after a character; True once a match is certain, False once there is none."""
    after, matched = row(threads)[cls]
    certain = matched or (bool(after) and all(ended for _, ended in row(after)))
    return certain or tuple(sorted(after)) or False
