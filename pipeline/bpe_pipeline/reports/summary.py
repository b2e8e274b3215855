"""The results of commands that train or encode: what was read, learned and written, and how long it took.

A report is a summary with the numbers of the tokenizer: report.json stores it; text, page and model card show it.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bpe_pipeline.base.printable import printable_lines
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.corpus.skipped_or_altered import in_one_line
from bpe_pipeline.counts.chunk_statistics import CorpusFacts
from bpe_pipeline.executors import ClusterUse
from bpe_pipeline.reports.figure import Figure
from bpe_pipeline.reports.numbers import Numbers
from bpe_pipeline.reports.parts import Part, Rows, Table, as_text
from bpe_pipeline.reports.result import NOT_STORED, Advice, Result, plain, time_and_memory
from bpe_pipeline.reports.tables import Chapter, chapters, mixture_table
from bpe_pipeline.reports.verdict import recommended_size, verdict
from bpe_pipeline.run.manifest import Manifest
from bpe_pipeline.run.parts import PartDone
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.export import AT_SIZE, VocabularyFacts


@dataclass(frozen=True)
class OtherSize:
    """One more vocabulary cut from the same merge list."""

    vocabulary: VocabularyFacts
    tokenizer_directory: Location
    written: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """What an extension adds to a report: facts and tables, of which the terminal shows the first, and numbers for
    JSON.

    verdict: question -> answer, in place of the report's own.
    """

    rows: tuple[tuple[str, str], ...] = ()
    numbers: dict[str, Any] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    advice: tuple[Advice, ...] = ()
    verdict: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary(Result):
    """One run of a command. Of several vocabulary sizes, `vocabulary` is the first that was asked for."""

    directory: Location
    pattern: str
    corpus: CorpusFacts
    vocabulary: VocabularyFacts | None = None
    tokenizer_directory: Location | None = None
    written: tuple[str, ...] = ()  # names of the files in the tokenizer directory
    refused: dict[str, str] = field(default_factory=dict)  # export format -> reason
    stages: dict[str, float | None] = field(default_factory=dict)  # name -> seconds; None: kept from an earlier run
    peak_memory_bytes: int = 0
    nodes: int = 0  # cluster nodes that had work; 0: this machine alone
    peak_node_bytes: int = 0  # of all workers of the fullest node together
    retries: int = 0  # tasks repeated because their worker process failed
    other_sizes: tuple[OtherSize, ...] = ()
    stage_peak_bytes: dict[str, int] = field(default_factory=dict)  # of all processes together during a stage
    report: str = ""  # path of the report, with a hint if it lacks plots
    sections: tuple[Section, ...] = ()
    changed_ids: dict[str, str] = field(default_factory=dict)  # of tokenizers that were replaced, in words
    removed: tuple[str, ...] = ()  # directories of tokenizers that were not made again
    part: PartDone | None = None  # of a command with --part: the corpus is then what its chunks hold

    @property
    def tokenizer_directories(self) -> tuple[Location, ...]:
        """Every tokenizer written, in the order in which the sizes were asked for."""
        first = () if self.tokenizer_directory is None else (self.tokenizer_directory,)
        return first + tuple(other.tokenizer_directory for other in self.other_sizes)

    event = "summary"

    @property
    def brief(self) -> str:
        """The tokenizer directories, or the run directory if there are none."""
        return printable_lines(self.tokenizer_directories or [self.directory])

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `--log-json` and report.json."""
        rate = None if self.vocabulary is None else self.vocabulary.bytes_per_token
        return {**super().to_json(), "bytes_per_token": rate}

    def shown(self) -> Iterable[Part]:
        """Return at most eight rows; `rows(whole=True)` has more."""
        yield Rows(self.rows())
        yield from mixture_table(self.corpus)
        yield from (table for section in self.sections for table in section.tables[:1])

    def rows(self, *, whole: bool = False) -> tuple[tuple[str, object], ...]:
        """Return what was done and the next command; whole: all that the report says, a fact a row."""
        corpus, vocabulary = self.corpus, self.vocabulary
        if self.part is not None:
            return self._rows_of_part(self.part)
        pre_tokens = f"{corpus.pre_tokens:,} pre-tokens, {corpus.different_pre_tokens:,} unique"
        return (
            ("run", self.directory if whole else ""),
            ("corpus", "; ".join([*_read(corpus), f"{pre_tokens} (pattern {self.pattern})"])),
            ("left out", str(corpus.not_taken)),
            ("skipped/altered", corpus.losses if whole else in_one_line(corpus.losses, "report.txt")),
            ("newer characters", corpus.newer_characters() if whole else ""),
            ("vocabulary", "" if vocabulary is None else _kinds(vocabulary, corpus)),
            ("bytes per token", "" if vocabulary is None else "; ".join(_rates(vocabulary, corpus))),
            *(row for section in self.sections for row in section.rows[: None if whole else 1]),
            ("time", self._time() if self.stages else ""),
            ("run", self.directory if vocabulary is None and not whole else ""),
            *self._written(whole=whole),
            ("ids changed", [f"{name}: {text}" for name, text in self.changed_ids.items()]),
            ("removed", ", ".join(self.removed)),
            *((f"no {name} files", reason) for name, reason in self.refused.items() if whole),
            ("report", "" if whole else self.report),
            ("next", self._next_commands()[: None if whole else 1]),
        )

    def _rows_of_part(self, part: PartDone) -> tuple[tuple[str, object], ...]:
        of_part = f"{format_bytes(self.corpus.bytes)}, {format_count(self.corpus.documents, 'documents')}"
        return (
            ("run", self.directory),
            ("text of the part" if part.unit == "chunks" else "text", f"{of_part} (pattern {self.pattern})"),
            ("skipped/altered", self.corpus.losses),
            ("time", self._time()),
            *part.rows(),
        )

    def _time(self) -> str:
        cluster = ClusterUse(self.nodes, self.peak_node_bytes)
        return time_and_memory(self.stages, self.retries, self.peak_memory_bytes, cluster)

    def _written(self, *, whole: bool) -> Iterable[tuple[str, object]]:
        """Return where the tokenizers are: in one row, or with the files of the first and a row for each other size."""
        if self.tokenizer_directory is None:
            return []
        files = ", ".join(self.written) if whole else format_count(len(self.written), "files")
        first, others = f"{self.tokenizer_directory} ({files})", list[str]()
        for other in self.other_sizes:
            rate = other.vocabulary.bytes_per_token
            others.append(f"{other.tokenizer_directory}" + (f" ({rate:.3f} bytes per token)" if rate else ""))
        if whole:
            return [("tokenizer", first), ("other sizes", others)]
        return [("tokenizer", ", ".join([first, *others]))]

    def _next_commands(self) -> list[str]:
        """Return the commands that make sense next, the first one first."""
        merge = f"bpe-pipeline merge {shlex.quote(str(self.directory))} --vocab-size"
        if self.vocabulary is None:
            return [f"{merge} 32000"]
        tokenizer = shlex.quote(str(self.tokenizer_directory))
        encode = f"bpe-pipeline encode --tokenizer {tokenizer} --text 'Hello world'"
        return [encode, f"{merge} {2 * self.vocabulary.vocab_size}"]


def _read(corpus: CorpusFacts) -> Iterator[str]:
    """Say what was read."""
    if corpus.source:
        yield f"counts from {corpus.source}"
    if corpus.bytes or not corpus.source:  # the corpus of imported counts is unknown
        files = [format_count(corpus.files, "files")] if corpus.files else []
        yield ", ".join([*files, format_bytes(corpus.bytes), format_count(corpus.documents, "documents")])
    if corpus.weights:
        yield f"weights {corpus.weights}"


def _kinds(vocabulary: VocabularyFacts, corpus: CorpusFacts) -> str:
    special = f"{len(vocabulary.special_tokens)} special" if vocabulary.special_tokens else "no special tokens"
    words = f", {vocabulary.superwords:,} of several words" if vocabulary.superwords else ""
    merges = format_count(vocabulary.merges, "merges")
    stopped = vocabulary.stopped.removeprefix(f"{AT_SIZE}; ")
    weighted = ", counted with the weights" if corpus.weighted and "occurred" in stopped else ""
    return f"{vocabulary.vocab_size:,} tokens (256 bytes, {merges}{words}, {special}); {stopped}{weighted}"


def _rates(vocabulary: VocabularyFacts, corpus: CorpusFacts) -> Iterator[str]:
    """Yield the bytes per token, and what was left out of them."""
    rate, text = (
        vocabulary.bytes_per_token,
        "the text that was kept" if vocabulary.left_out_pre_tokens else "this corpus",
    )
    yield f"nothing of {text} was left" if rate is None else f"{rate:.3f} on {text}"
    if vocabulary.left_out_pre_tokens:
        share = vocabulary.left_out_bytes / (vocabulary.left_out_bytes + vocabulary.bytes)
        of_all = f"{vocabulary.left_out_pre_tokens:,} of {corpus.different_pre_tokens:,} unique pre-tokens"
        yield f"{of_all}, too rare for --min-pre-token-count: {share:.2%} of the text"


@dataclass(frozen=True)
class Report(Result):
    """The summary of a command, and the numbers of its tokenizer."""

    summary: Summary
    numbers: Numbers | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the summary, with advice and `numbers`."""
        return {**self.summary.to_json(), "advice": plain(self.advice), "numbers": plain(self.numbers)}

    @property
    def advice(self) -> tuple[Advice, ...]:
        """Which size to take, and what extensions recommend."""
        numbers = self.numbers
        size = () if numbers is None else (recommended_size(numbers.merged, numbers.tokenizers[0][1]),)
        return (*size, *(one for section in self.summary.sections for one in section.advice))

    @cached_property
    def verdict(self) -> tuple[tuple[str, str], ...]:
        """The questions that the report answers first; none without numbers."""
        answers = {name: answer for section in self.summary.sections for name, answer in section.verdict.items()}
        skipped = list(map(str, self.summary.corpus.losses))
        return () if self.numbers is None else verdict(self.numbers, skipped, answers)

    @cached_property
    def chapters(self) -> list[Chapter]:
        """What is shown of the numbers, and the tables of extensions."""
        lead = [*mixture_table(self.summary.corpus), *(table for one in self.summary.sections for table in one.tables)]
        return [Chapter("inputs", "Inputs", lead)] if self.numbers is None else chapters(self.numbers, lead)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of all chapters."""
        return tuple(figure for chapter in self.chapters for figure in chapter.figures)

    def how_made(self, options: Mapping[str, str], run: Manifest) -> list[Part]:
        """Describe how a tokenizer was made: the result of the command, options, versions, memory."""
        versions = run.cutting | ({} if self.numbers is None else self.numbers.machine)
        peaks = self.summary.stage_peak_bytes.items()
        memory = ((f"peak memory while {name}", format_bytes(peak)) for name, peak in peaks)
        return [
            Rows(self.summary.rows(whole=True), "Result"),
            Rows(tuple(options.items()), "Options"),
            Rows((*versions.items(), *memory), "Versions and machine"),
        ]

    def shown(self) -> Iterable[Part]:
        """Return the facts of the summary, and the numbers."""
        yield Rows(self.summary.rows(whole=True))
        if self.verdict:
            yield Rows(self.verdict, "Verdict")
        yield from (part for chapter in self.chapters for part in chapter.parts)


@dataclass(frozen=True)
class WrittenReport(Result):
    """The files of a report that was made again, its numbers, and the verdict."""

    written: tuple[Location, ...]
    numbers: Numbers | None = None
    parts: tuple[Part, ...] = field(default=(), metadata=NOT_STORED)
    figures: tuple[Figure, ...] = field(default=(), metadata=NOT_STORED)

    event = "reported"

    def shown(self) -> Iterable[Part]:
        """Return the verdict."""
        return self.parts

    def _repr_html_(self) -> str:
        from bpe_pipeline.reports.drawing import images

        return super()._repr_html_() + images(self.figures)

    @property
    def brief(self) -> str:
        """The paths, a line each."""
        return printable_lines(self.written)

    def text(self, columns: int) -> str:
        """Return the verdict, and the paths, whole."""
        return f"{as_text(self.parts, columns)}\n\n{self.brief}"
