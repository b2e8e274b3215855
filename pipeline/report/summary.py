"""The summary at the end of a run: plain numbers in, text or JSON out."""

import shlex
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline.base.units import format_bytes, format_count
from pipeline.corpus.losses import Loss
from pipeline.storage import Location
from pipeline.tokenizer.exported import VocabularyFacts


@dataclass(frozen=True)
class CorpusFacts:
    """What counting saw of the corpus, summed over all chunks."""

    files: int
    bytes: int
    documents: int
    pieces: int
    different_pieces: int
    losses: tuple[Loss, ...] = ()  # what was not taken as it stood
    concerned_characters: str = ""  # of the corpus: those that `regex` and the runtimes class differently
    source: str = ""  # what gave the counts, where no corpus was listed


@dataclass(frozen=True)
class OtherSize:
    """One more vocabulary that was cut from the same merge list."""

    vocabulary: VocabularyFacts
    tokenizer_directory: Location
    written: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """One run of a command; with several vocabulary sizes, `vocabulary` is of the first that was asked for."""

    directory: Location
    pattern: str
    corpus: CorpusFacts
    vocabulary: VocabularyFacts | None = None
    tokenizer_directory: Location | None = None
    written: tuple[str, ...] = ()  # names of the files in the tokenizer directory
    refused: dict[str, str] = field(default_factory=dict)
    stages: dict[str, float | None] = field(default_factory=dict)  # name -> seconds; None: kept from an earlier run
    peak_memory_bytes: int = 0
    nodes: int = 0  # of a cluster, that had work; 0: this machine alone
    peak_node_bytes: int = 0  # of all workers of the fullest node together
    retries: int = 0  # tasks of worker processes that failed and were done again
    other_sizes: tuple[OtherSize, ...] = ()
    stage_peak_bytes: dict[str, int] = field(default_factory=dict)  # of all processes together, while a stage ran
    report: str = ""  # where a person finds it

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes of pieces that one token stands for, on the training corpus."""
        return None if self.vocabulary is None else self.vocabulary.bytes_per_token

    @property
    def tokenizer_directories(self) -> tuple[Location, ...]:
        """Every tokenizer that was written, in the order in which the sizes were asked for."""
        first = () if self.tokenizer_directory is None else (self.tokenizer_directory,)
        return first + tuple(other.tokenizer_directory for other in self.other_sizes)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `--log-json`."""
        places = {
            "directory": str(self.directory),
            "tokenizer_directory": None if self.tokenizer_directory is None else str(self.tokenizer_directory),
        }
        return {**asdict(self), **places, "bytes_per_token": self.bytes_per_token}


def render(summary: Summary) -> str:
    """The summary as text: a line a fact, the next command at the end."""
    corpus, vocabulary = summary.corpus, summary.vocabulary
    rows = [("run", str(summary.directory))]
    if corpus.source:
        rows.append(("counts from", corpus.source))
    if corpus.bytes or not corpus.source:  # of counts that were imported, nobody knows the corpus
        files = [format_count(corpus.files, "files")] if corpus.files else []
        documents = format_count(corpus.documents, "documents")
        rows.append(("corpus", ", ".join([*files, format_bytes(corpus.bytes), documents])))
    rows.append(
        ("pieces", f"{corpus.pieces:,}, of which {corpus.different_pieces:,} are different (pattern {summary.pattern})")
    )
    rows += [("not as it stood", str(loss)) for loss in corpus.losses]
    if corpus.concerned_characters:
        shown = " ".join(f"U+{ord(character):04X}" for character in corpus.concerned_characters[:8])
        rows.append(
            ("newer characters", f"{len(corpus.concerned_characters)} that runtimes class differently: {shown}")
        )
    if vocabulary is not None:
        special = f"{len(vocabulary.special_tokens)} special" if vocabulary.special_tokens else "no special tokens"
        parts = f"256 bytes, {format_count(vocabulary.merges, 'merges')}, {special}"
        rows += [("vocabulary", f"{vocabulary.vocab_size:,} tokens ({parts})"), ("stopped", vocabulary.stopped)]
        if vocabulary.left_out_pieces:
            share = vocabulary.left_out_bytes / (vocabulary.left_out_bytes + vocabulary.bytes)
            of_all = f"{vocabulary.left_out_pieces:,} of {corpus.different_pieces:,} different pieces"
            rows.append(("left out", f"{of_all}, too rare for --min-piece-count: {share:.2%} of the text"))
        text = "the text that was kept" if vocabulary.left_out_pieces else "this corpus"
        rate = summary.bytes_per_token
        rows.append(("bytes per token", f"nothing of {text} was left" if rate is None else f"{rate:.3f} on {text}"))
        if vocabulary.longest:
            rows.append(("longest tokens", " ".join(vocabulary.longest)))
    times = ", ".join(f"{name} {'kept' if s is None else f'{s:.2f} s'}" for name, s in summary.stages.items())
    rows.append(("time", times))
    rows += used_rows(summary.retries, summary.peak_memory_bytes, summary.nodes, summary.peak_node_bytes)
    if summary.tokenizer_directory is not None:
        rows.append(("tokenizer", f"{summary.tokenizer_directory} ({', '.join(summary.written)})"))
    for other in summary.other_sizes:
        facts = f"{other.vocabulary.vocab_size:,} tokens, {other.vocabulary.bytes_per_token:.3f} bytes per token"
        rows.append(("other sizes", f"{other.tokenizer_directory} ({facts})"))
    rows += [(f"no {name} files", reason) for name, reason in summary.refused.items()]
    if summary.report:
        rows.append(("report", summary.report))
    rows += [("next", command) for command in _next_commands(summary)]
    return table(rows)


def used_rows(retries: int, peak_memory_bytes: int, nodes: int, peak_node_bytes: int) -> list[tuple[str, str]]:
    """What the work took: attempts, nodes of a cluster (0: this machine alone), memory."""
    rows = []
    if retries:
        rows.append(("retries", f"{retries:,}, of work whose process failed: log.txt says which and why"))
    peak = format_bytes(peak_memory_bytes)
    if nodes:
        peak = f"{format_bytes(peak_node_bytes)} (workers of a node together), {peak} (coordinator)"
        rows.append(("cluster", f"{format_count(nodes, 'nodes')} had work"))
    else:
        peak = f"{peak} (all processes together)"
    return [*rows, ("peak memory", peak)]


def require_readable(document: dict[str, Any]) -> None:
    """Raise TypeError, ValueError, KeyError or AttributeError for a document that is not what `to_json` gives, as far
    as the page shows it."""
    for seconds in document["stages"].values():
        if seconds is not None:
            float(seconds)
    for peak in (document["peak_memory_bytes"], *document.get("stage_peak_bytes", {}).values()):
        format_bytes(peak)
    corpus = document["corpus"]
    format_count(corpus["documents"], "documents")
    for loss in corpus["losses"]:
        str(Loss(loss["kind"], loss["what"], loss["count"], tuple(map(str, loss["examples"]))))


def table(rows: list[tuple[str, str]]) -> str:
    """Two columns; a name that repeats is written once."""
    width = max(len(name) for name, _ in rows)
    lines, before = [], ""
    for name, value in rows:
        lines.append(f"{name if name != before else '':<{width}}  {value}")
        before = name
    return "\n".join(lines)


def _next_commands(summary: Summary) -> list[str]:
    run = shlex.quote(str(summary.directory))
    if summary.vocabulary is None:
        return [f"bpe-pipeline merge {run} --vocab-size 32000"]
    sizes = {summary.vocabulary.vocab_size, *(other.vocabulary.vocab_size for other in summary.other_sizes)}
    other_size = next(size for size in (8000, 16_000, *range(32_000, 1 << 28, 32_000)) if size not in sizes)
    return [
        f"bpe-pipeline encode --tokenizer {shlex.quote(str(summary.tokenizer_directory))} --text 'Hello world'",
        f"bpe-pipeline merge {run} --vocab-size {other_size}",
    ]
