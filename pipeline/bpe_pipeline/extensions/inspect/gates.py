"""Gates: the worst values of numbers with which a tokenizer may be released, and which of them it passes.

A file of gates holds the names of numbers with their worst values; `languages` holds the same for languages by name, or
for `every` one of them:

    bytes_per_token: 3.5
    long_tokens: 10
    languages:
      every: {round_trip: 1}
      sw: {fertility: 2.4}

Whether a value is the least or the most follows from the number: more bytes per token are better, fewer long tokens.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.corpus.sampling import Choice, read_chosen
from bpe_pipeline.reports.compared import cached, load_compared
from bpe_pipeline.reports.definitions import NUMBERS, TEXT
from bpe_pipeline.reports.measure import TokenizerMeasures, measure
from bpe_pipeline.reports.numbers_worker import sample_text
from bpe_pipeline.reports.parts import Note, Part, Table
from bpe_pipeline.run.config_file import read_config
from bpe_pipeline.storage import Location, parse_location
from bpe_pipeline.tokenizer.formats.files import tokenizer_path

RELEASE = "release"
"""The name of the set of gates that the package brings."""
EVERY, _LANGUAGES = "every", "languages"
_OF_TEXT = {number.name for number in TEXT}


@dataclass(frozen=True)
class Gate:
    """A number with the worst value that passes. of: a language, or `every` one; empty: the whole sample, or the
    vocabulary."""

    number: str
    of: str
    worst: float

    @property
    def bound(self) -> str:
        """The worst value in words."""
        number = NUMBERS[self.number]
        return f"at {'least' if number.better > 0 else 'most'} {number.shown(self.worst)}"

    def passes(self, value: float | None) -> bool:
        """Whether a value is as good as the worst one, or better; what was not measured is not."""
        better = NUMBERS[self.number].better
        return value is not None and (value - self.worst) * better >= 0


@dataclass(frozen=True)
class GateResult:
    """What a gate measured. value: None if the sample does not say; of: where, which is the worst language of `every`
    one."""

    number: str
    of: str
    value: float | None
    bound: str
    passed: bool


def read_gates(path: Location) -> tuple[Gate, ...]:
    """Read a file of gates; `UsageError` for names that are no numbers, and for values that are none."""
    name = str(path)
    path = parse_location(Path(__file__).with_name("release.yaml")) if name == RELEASE else path
    document = read_config(path)
    languages = document.pop(_LANGUAGES, {})
    parts = {"": document, **(languages if isinstance(languages, dict) else {"": None})}
    gates = tuple(gate for of, values in parts.items() for gate in _gates(name, str(of), values))
    if not gates:
        raise UsageError(f"--gates {name}: no number in it; give one with the worst value, such as 'fertility: 1.5'")
    return gates


def _gates(name: str, of: str, values: Any) -> Iterator[Gate]:
    if not isinstance(values, dict):
        raise UsageError(f"--gates {name}: languages holds numbers by language, such as 'sw: {{fertility: 2.4}}'")
    known = sorted(one.name for one in NUMBERS.values() if one.better and (not of or one.name in _OF_TEXT))
    for number, worst in values.items():
        if number not in known:
            where = f" of the language {of}" if of else ""
            raise UsageError(f"--gates {name}: {number!r} is no number{where}: give one of {', '.join(known)}")
        if type(worst) not in (int, float) or math.isnan(worst):
            raise UsageError(f"--gates {name}: {number} is {worst!r}: give a number, the worst that passes")
        yield Gate(number, of, worst)


def pass_gates(
    gates: Sequence[Gate], tokenizer: Location, other: Location | None, choice: Choice, text_field: str
) -> tuple[GateResult, ...]:
    """Measure a tokenizer and say which gates it passes. other: one to compare with."""
    named = [("this tokenizer", load_compared(tokenizer))]
    if other is not None:
        there = not isinstance(other, Path) or other.exists()
        named.append(("the other one", load_compared(tokenizer_path(other) if there else cached(str(other)))))
    drawn = read_chosen(choice.chosen, text_field, skip_changed=False)
    first, *others = measure(named, sample_text(choice, drawn)[0])
    found = {**first.whole.numbers, **first.languages, **first.vocabulary}
    if others and (against := others[0].against) is not None and "" in against.nsl:
        found["nsl"] = against.nsl[""]
    return tuple(_result(gate, found, first) for gate in gates)


def _result(gate: Gate, found: Mapping[str, float], measured: TokenizerMeasures) -> GateResult:
    """Compare a gate with what was found."""
    of, value = gate.of, found.get(gate.number)
    if of:
        by_language = {one.name: one.numbers.get(gate.number) for one in measured.sources if one.name in measured.costs}
        value = by_language.get(of)
        if of == EVERY:
            better = NUMBERS[gate.number].better
            known = {name: one for name, one in by_language.items() if one is not None}
            of = min(known, key=lambda name: known[name] * better, default=EVERY)
            value = known.get(of)
    return GateResult(gate.number, of, value, gate.bound, gate.passes(value))


def gates_parts(results: Sequence[GateResult]) -> Iterator[Part]:
    """Say which gates a tokenizer passes: those that it does not are last."""
    rows = tuple(
        (
            one.number,
            one.of or None,
            "not measured" if one.value is None else NUMBERS[one.number].shown(one.value),
            one.bound,
            "passed" if one.passed else "FAILED",
        )
        for one in sorted(results, key=lambda one: not one.passed)
    )
    yield Table("Gates", ("number", "of", "value", "passes", "result"), rows, whole="--json")
    if any(one.value is None for one in results):
        remedy = "give text that has it with --sample FILE, NAME=FILE for languages, or --compare TOKENIZER for nsl"
        yield Note("Not measured", f"{remedy}.")
