"""The share of the chunks that one of several processes does: `--part I/N`, or that of a task of an array."""

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.units import format_count

AUTO = "auto"
_NAMED = 5  # parts that are missing
_SLURM = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_STEP")
_SGE = ("SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE")
_PBS = ("PBS_ARRAY_INDEX", "PBS_ARRAYID")  # it says a task's number alone


@dataclass(frozen=True)
class Part:
    """The chunks whose number is `index` modulo `count`; so numbers of processes may start at 0 or at 1."""

    index: int
    count: int

    def has(self, chunk: int) -> bool:
        """Return whether the part is to do a chunk."""
        return chunk % self.count == self.index % self.count

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse_part(value: object) -> str:
    """Read `I/N`, or `auto`."""
    found = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", value) if isinstance(value, str) else None
    if found and int(found[1]) <= int(found[2]) and int(found[2]):
        return f"{int(found[1])}/{int(found[2])}"
    if value != AUTO:
        raise ValueError("I/N, one of N processes counted from 0 or from 1, or auto")
    return AUTO


def part_of(text: str) -> Part:
    """Return the part that was asked for; for `auto`, `UsageError` if this is no task of an array of a range."""
    if text != AUTO:
        index, count = map(int, text.split("/"))
        return Part(index, count)
    if numbers := _numbers(_SLURM):
        task, first, count, step = numbers
        at = (task - first) // step
        if at >= count:
            raise UsageError(
                f"--part auto: {_SLURM[0]} is {task}, one of a list of {count} tasks and not of a range: submit a "
                f"range such as 0-{count - 1}; what is done already is not done again"
            )
        return Part(at, count)
    if numbers := _numbers(_SGE):
        task, first, last, step = numbers
        return Part((task - first) // step, (last - first) // step + 1)
    for name in _PBS:
        if number := os.environ.get(name):
            raise UsageError(f"--part auto: PBS does not say how many tasks an array has: give --part {number}/N")
    needed = ", ".join((*_SLURM[:3], *_SGE[:3]))
    raise UsageError(f"--part auto: this is no task of an array, since none has set {needed}: give --part I/N")


def _numbers(names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the numbers in the variables, the step 1 if it is missing; none if another one is."""
    values = [os.environ.get(name, "") for name in names]
    values[-1] = values[-1] if values[-1].isdecimal() and int(values[-1]) else "1"
    return tuple(map(int, values)) if all(value.isdecimal() for value in values) else ()


def processes(options: object) -> int:
    """Return how many processes share the work, by the options of each."""
    text = getattr(options, "part", None)
    return 1 if text is None else part_of(text).count


def missing_parts(ran: Collection[tuple[int, int]], missing: Iterable[int]) -> str:
    """Say which parts left these chunks undone; those without a log have not run. "" where there were no parts.

    ran: I and N of each part that has a log.

    >>> missing_parts([(1, 4), (3, 4)], [2, 3, 6])
    'part 2/4 has not run, part 3/4 has not finished'
    """
    chunks, said = list(missing), []
    for count in sorted({count for _, count in ran}):
        numbers = {index % count: index for index, of in ran if of == count}  # 0/N and N/N are one
        for first in sorted({chunk % count for chunk in chunks}):
            how = "finished" if first in numbers else "run"
            said.append(f"part {numbers.get(first, first or count)}/{count} has not {how}")
    return ", ".join(said[:_NAMED]) + (f" and {len(said) - _NAMED:,} more" if len(said) > _NAMED else "")


@dataclass(frozen=True)
class PartDone:
    """What a part has done. of_part: the chunks that are its; done: those of them that it did itself.

    stored, chunks: of the whole work, how many are done, by any process, and how many there are. did: the verb; unit:
    what is done, if it is not chunks. complete: what says so, once the command without `--part` has done the rest.
    """

    part: str
    of_part: int
    done: int
    stored: int
    chunks: int
    did: str = "counted"
    unit: str = "chunks"
    complete: str = ""

    def rows(self) -> list[tuple[str, object]]:
        """Return what is shown of it."""
        own = format_count(self.of_part, self.unit)
        rest = f"{self.done:,} of its {own} {self.did} here, the others before"
        what = f"all {own} of it {self.did} here" if self.done == self.of_part else rest
        whole = f"{self.stored:,} of {format_count(self.chunks, self.unit)} {self.did}"
        others = "" if self.stored == self.chunks else "the other parts, and then "
        following = f"{others}the same command without --part, which does what is missing and completes"
        return [
            ("part", f"{self.part}: {what}"),
            ("whole", whole),
            ("next", f"nothing: {self.complete}" if self.complete else following),
        ]
