"""What a command returns: a frozen value that says once what it shows.

Its fields are its JSON. What it shows is a list of parts (`parts.py`), of which text, HTML and Markdown are made.
Advice comes with its weight: what it rests on, and the number that would change it.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from bpe_pipeline.base.printable import UNBOUNDED, columns_of
from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.executors import ClusterUse
from bpe_pipeline.merges.vocabulary import token_to_text
from bpe_pipeline.reports.parts import Part, Rows, as_text
from bpe_pipeline.storage import Remote

NOT_STORED = {"stored": False}  # metadata of a field that is no part of the JSON


@dataclass(frozen=True)
class Advice:
    """A recommendation. because: what it rests on, in one line; unless: the number that would change it; equal: what
    else would be as good; evidence: the numbers. outcome: of what was examined: "fine", "wrong" (take is the remedy),
    "advice" (it works, but may surprise) or "not checked"."""

    about: str
    take: str
    because: str
    unless: str = ""
    equal: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    outcome: str = "advice"

    def __str__(self) -> str:
        return "; ".join(part for part in (self.because, self.unless) if part)


def prices(tokens: Mapping[int, float], size: int) -> str:
    """Compare a size with its neighbours. tokens: of the same text, by vocabulary size.

    >>> prices({8000: 118.0, 16000: 105.0, 32000: 100.0}, 16000)
    '8,000 costs 12.4% more tokens, 32,000 4.8% fewer'
    """
    sizes = sorted(tokens)
    at = sizes.index(size)
    smaller, larger = sizes[max(at - 1, 0) : at], sizes[at + 1 : at + 2]
    more = [f"{one:,} costs {tokens[one] / tokens[size] - 1:.1%} more tokens" for one in smaller]
    fewer = [f"{one:,} {'' if more else 'has '}{1 - tokens[one] / tokens[size]:.1%} fewer" for one in larger]
    return ", ".join([*more, *fewer]) + ("" if more or not fewer else " tokens")


class Result:
    """What a command returns. A subclass is a frozen dataclass, which Python shows as text."""

    event: str = ""  # its name in `--log-json`

    def shown(self) -> Iterable[Part]:
        """Return what is shown of it."""
        raise NotImplementedError

    @property
    def brief(self) -> str:
        """What `--quiet` prints."""
        return ""

    @property
    def exit_code(self) -> int:
        """What the command returns."""
        return 0

    def to_json(self) -> dict[str, Any]:
        """Return its fields as plain values."""
        values: dict[str, Any] = plain(self)
        return values

    def text(self, columns: int) -> str:
        """Return what is shown as text. columns: of the terminal that it is for."""
        return as_text(self.shown(), columns)

    def __str__(self) -> str:
        return self.text(UNBOUNDED)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from bpe_pipeline.reports.html import html_of

        return html_of(*self.shown())

    def printed(self, *, quiet: bool) -> Iterator[str | bytes]:
        """Yield what the command prints: lines, or bytes as they are."""
        if text := self.brief if quiet else self.text(columns_of(sys.stdout)):
            yield text

    def __repr__(self) -> str:
        return str(self)

    def __init_subclass__(cls) -> None:
        cls.__repr__ = Result.__repr__  # type: ignore[method-assign]  # dataclass makes none where there is one


@dataclass(frozen=True)
class Facts(Result, Mapping[str, Any]):
    """Facts by name, shown as rows; a list of other facts as blocks below."""

    facts: Mapping[str, Any]
    event: str = ""
    short: str = ""  # with `--quiet`
    shown_as: Mapping[str, object] = field(default_factory=dict)  # a text or lines in place of the value

    @property
    def brief(self) -> str:
        """What `--quiet` prints."""
        return self.short

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    def shown(self) -> Iterable[Part]:
        """Return rows, and a block for each part."""
        rows, blocks = [], list[Facts]()
        for name, value in {**self.facts, **self.shown_as}.items():
            if isinstance(value, list) and value and isinstance(value[0], Facts):
                blocks += value
            else:
                rows.append((name.replace("_", " "), "none" if value in ([], None) else value))
        return [Rows(tuple(rows)), *(part for block in blocks for part in block.shown())]


_OF_JSON = {str, int, float, bool, type(None)}


def plain(value: Any) -> Any:
    """Return plain values, which JSON has, of a result: bytes in the letters of vocab.json, other things as text."""
    if type(value) in _OF_JSON:  # most are; asking for abstract types takes long
        return value
    if isinstance(value, bytes):
        return token_to_text(value)
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, Remote):
        names = (one.name for one in fields(value) if one.metadata.get("stored", True))
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def time_and_memory(
    times: Mapping[str, float | None], retries: int, peak_memory_bytes: int, cluster: ClusterUse | None
) -> str:
    """Say how long each stage took, what had to be repeated, and the most memory, in one row."""
    known = list(filter(None, times.values()))
    total = [f"total {sum(known):.2f} s"] if len(known) > 1 else []
    stages = (f"{name} {'kept' if s is None else f'{s:.2f} s'}" for name, s in times.items())
    words = [", ".join([*stages, *total])]
    if retries:
        words.append(f"repeated {format_count(retries, 'tasks')} whose process failed: log.txt says which and why")
    peak = f"{format_bytes(peak_memory_bytes)} (all processes together)"
    if cluster is not None and cluster.nodes:
        words.append(f"{format_count(cluster.nodes, 'nodes')} had work")
        peak = f"{format_bytes(cluster.peak_bytes)} (workers of a node together), {format_bytes(peak_memory_bytes)}"
        peak += " (coordinator)"
    return "; ".join([*words, f"peak memory {peak}"])
