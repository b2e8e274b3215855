"""The summary at the end of a command: plain numbers in, text or JSON out."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pipeline.base.printable import printable_lines
from pipeline.base.units import format_bytes, format_count
from pipeline.corpus.skipped_or_altered import in_one_line, in_words
from pipeline.counts.chunk_statistics import CorpusFacts
from pipeline.executors import ClusterUse
from pipeline.reports.languages import Languages
from pipeline.storage import Location
from pipeline.tokenizer.export import AT_SIZE, VocabularyFacts

if TYPE_CHECKING:
    from pipeline.shards.manifest import EncodedCorpus

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class OtherSize:
    """One more vocabulary cut from the same merge list."""

    vocabulary: VocabularyFacts
    tokenizer_directory: Location
    written: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
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
    languages: Languages | None = None  # that chose the merges by parity
    changed_ids: dict[str, str] = field(default_factory=dict)  # of tokenizers that were replaced, in words
    removed: tuple[str, ...] = ()  # directories of tokenizers that were not made again

    @property
    def tokenizer_directories(self) -> tuple[Location, ...]:
        """Every tokenizer written, in the order in which the sizes were asked for."""
        first = () if self.tokenizer_directory is None else (self.tokenizer_directory,)
        return first + tuple(other.tokenizer_directory for other in self.other_sizes)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `--log-json` and report.json."""
        tokenizer = None if self.tokenizer_directory is None else str(self.tokenizer_directory)
        paths = {"directory": str(self.directory), "tokenizer_directory": tokenizer}
        rate = None if self.vocabulary is None else self.vocabulary.bytes_per_token
        return {**asdict(self), **paths, "bytes_per_token": rate}

    def render(self) -> str:
        """Return the summary as at most eight lines of text; `details` has more."""
        corpus, vocabulary = self.corpus, self.vocabulary
        different = f"{corpus.pieces:,} pieces, of which {corpus.different_pieces:,} are different"
        read = [text if name == "corpus" else f"{name} {text}" for name, text in _read_rows(corpus).items()]
        read.append(f"{different} (pattern {self.pattern})")
        rows = [*_joined("corpus", read), *_joined("skipped/altered", in_one_line(corpus.losses, "report.txt"))]
        if vocabulary is not None:
            stopped = vocabulary.stopped.removeprefix(f"{AT_SIZE}; ")
            rows.append(("vocabulary", f"{_kinds(vocabulary)}; {stopped}"))
            rows.append(("bytes per token", "; ".join(_rate_rows(vocabulary, corpus).values())))
        if self.languages is not None:
            rows.append(("languages", str(self.languages)))
        cluster = ClusterUse(self.nodes, self.peak_node_bytes)
        rows.append(_used(self.stages, self.retries, self.peak_memory_bytes, cluster))
        if vocabulary is None:
            rows.append(("run", str(self.directory)))
        else:
            written = [f"{self.tokenizer_directory} ({format_count(len(self.written), 'files')})"]
            for other in self.other_sizes:
                rate = other.vocabulary.bytes_per_token
                known = "" if rate is None else f" ({rate:.3f} bytes per token)"
                written.append(f"{other.tokenizer_directory}{known}")
            rows.append(("tokenizer", ", ".join(written)))
            rows += [("ids changed", f"{name}: {text}") for name, text in self.changed_ids.items()]
            rows += _joined("removed", self.removed, ", ")
        rows += [("report", self.report)] if self.report else []
        return two_columns([*rows, ("next", self._next_commands()[0])])

    __str__ = render

    def details(self) -> str:
        """Return all of it as text for the report: one fact a line, the next commands at the end."""
        corpus, vocabulary = self.corpus, self.vocabulary
        rows = [("run", str(self.directory)), *_read_rows(corpus).items()]
        different = f"of which {corpus.different_pieces:,} are different (pattern {self.pattern})"
        rows.append(("pieces", f"{corpus.pieces:,}, {different}"))
        rows += [("skipped/altered", str(loss)) for loss in corpus.losses]
        if newer := corpus.newer_characters():
            rows.append(("newer characters", newer))
        if vocabulary is not None:
            rows += [("vocabulary", _kinds(vocabulary)), ("stopped", vocabulary.stopped)]
            rows += _rate_rows(vocabulary, corpus).items()
        if self.languages is not None:
            rows.append(("languages", str(self.languages)))
            rows += [(one.name, str(one)) for one in self.languages.measured]
        cluster = ClusterUse(self.nodes, self.peak_node_bytes)
        rows += [_used(self.stages, self.retries, self.peak_memory_bytes, cluster)] if self.stages else []
        if vocabulary is not None:
            rows.append(("tokenizer", f"{self.tokenizer_directory} ({', '.join(self.written)})"))
        for other in self.other_sizes:
            rate = other.vocabulary.bytes_per_token
            known = "" if rate is None else f", {rate:.3f} bytes per token"
            rows.append(("other sizes", f"{other.tokenizer_directory} ({other.vocabulary.vocab_size:,} tokens{known})"))
        rows += [(f"no {name} files", reason) for name, reason in self.refused.items()]
        return two_columns([*rows, *(("next", command) for command in self._next_commands())])

    def _next_commands(self) -> list[str]:
        """Return the commands that make sense next, the first one first."""
        merge = f"bpe-pipeline merge {shlex.quote(str(self.directory))} --vocab-size"
        if self.vocabulary is None:
            return [f"{merge} 32000"]
        sizes = {self.vocabulary.vocab_size, *(other.vocabulary.vocab_size for other in self.other_sizes)}
        another = next(size for size in (8000, 16_000, *range(32_000, 1 << 28, 32_000)) if size not in sizes)
        tokenizer = shlex.quote(str(self.tokenizer_directory))
        return [f"bpe-pipeline encode --tokenizer {tokenizer} --text 'Hello world'", f"{merge} {another}"]


_AMOUNTS = ("padded", "truncated", "dropped")


@dataclass(frozen=True)
class EncodingSummary:
    """One run of `encode --output`. times: seconds of each stage, None: kept; cluster: None: this machine alone."""

    directory: Location
    corpus: "EncodedCorpus"
    times: dict[str, float | None]
    peak_memory_bytes: int
    retries: int
    cluster: ClusterUse | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `--log-json`."""
        return {**asdict(self), "directory": str(self.directory)}

    def render(self, tokenizer: Location | None) -> str:
        """Return the summary as at most eight lines of text: one fact a line, at the end the next command, for a
        tokenizer that has a location."""
        corpus = self.corpus
        documents = format_count(corpus.documents, "documents")
        once = corpus.pack is None and {"repeat", "weights"}.isdisjoint(corpus.order or ())
        rate = f" ({corpus.text_bytes / max(corpus.tokens, 1):.3f} bytes of text each)" if once else ""
        shard_bytes = format_bytes(sum(shard.bytes for shard in corpus.shards))
        if corpus.kind == "bin of uint32":
            shard_bytes += "; nanoGPT's loader reads uint16: change its dtype"
        rows = [
            ("shards", f"{self.directory} ({len(corpus.shards):,} {corpus.kind}, {shard_bytes})"),
            ("corpus", f"{format_count(corpus.files, 'files')}, {format_bytes(corpus.text_bytes)}, {documents}"),
            *_joined("skipped/altered", in_one_line(in_words(corpus.losses), "bpe-pipeline info")),
            ("tokens", f"{corpus.tokens:,}{rate}"),
        ]
        validation = sum(shard.tokens for shard in corpus.shards if shard.split is not None)
        rows += [("validation", f"{validation:,} of these tokens")] if validation else []
        if corpus.pack is not None:
            rows.append(("rows", _packed(corpus)))
        if corpus.documents_by == "separator" or corpus.separator is not None:
            how = "follows each" if corpus.documents_by == "separator" else "ends each; offsets or rows mark the limits"
            rows.append(("documents", f"{corpus.separator} (id {corpus.separator_id}) {how}"))
        rows.append(_used(self.times, self.retries, self.peak_memory_bytes, self.cluster))
        if tokenizer is not None:
            words = ["bpe-pipeline", "decode", str(self.directory), "--tokenizer", str(tokenizer)]
            rows.append(("next", f"{shlex.join(words)} | head"))
        return two_columns(rows)


def _packed(corpus: "EncodedCorpus") -> str:
    """Say how documents were packed, and what that cost."""
    known = [name for name in _AMOUNTS if any(getattr(shard, name) is not None for shard in corpus.shards)]
    amounts = ((name, sum(getattr(shard, name) or 0 for shard in corpus.shards)) for name in known)
    rows = sum(shard.samples for shard in corpus.shards)
    return ", ".join([f"{rows:,} by {corpus.pack}", *(f"{count:,} tokens {name}" for name, count in amounts)])


def _read_rows(corpus: CorpusFacts) -> dict[str, str]:
    """Say what was read."""
    rows = {"counts from": corpus.source} if corpus.source else {}
    if corpus.bytes or not corpus.source:  # the corpus of imported counts is unknown
        files = [format_count(corpus.files, "files")] if corpus.files else []
        rows["corpus"] = ", ".join([*files, format_bytes(corpus.bytes), format_count(corpus.documents, "documents")])
    return rows | ({"weights": corpus.weights} if corpus.weights else {})


def _kinds(vocabulary: VocabularyFacts) -> str:
    special = f"{len(vocabulary.special_tokens)} special" if vocabulary.special_tokens else "no special tokens"
    words = f", {vocabulary.superwords:,} of several words" if vocabulary.superwords else ""
    merges = format_count(vocabulary.merges, "merges")
    return f"{vocabulary.vocab_size:,} tokens (256 bytes, {merges}{words}, {special})"


def _rate_rows(vocabulary: VocabularyFacts, corpus: CorpusFacts) -> dict[str, str]:
    """Return the bytes per token, and what was left out of them."""
    rate, text = vocabulary.bytes_per_token, "the text that was kept" if vocabulary.left_out_pieces else "this corpus"
    rows = {"bytes per token": f"nothing of {text} was left" if rate is None else f"{rate:.3f} on {text}"}
    if vocabulary.left_out_pieces:
        share = vocabulary.left_out_bytes / (vocabulary.left_out_bytes + vocabulary.bytes)
        of_all = f"{vocabulary.left_out_pieces:,} of {corpus.different_pieces:,} different pieces"
        rows["left out"] = f"{of_all}, too rare for --min-piece-count: {share:.2%} of the text"
    return rows


def _used(
    times: Mapping[str, float | None], retries: int, peak_memory_bytes: int, cluster: ClusterUse | None
) -> tuple[str, str]:
    """Say how long each stage took, what had to be repeated, and the most memory, in one row."""
    words = [", ".join(f"{name} {'kept' if s is None else f'{s:.2f} s'}" for name, s in times.items())]
    if retries:
        words.append(f"repeated {format_count(retries, 'tasks')} whose process failed: log.txt says which and why")
    peak = f"{format_bytes(peak_memory_bytes)} (all processes together)"
    if cluster is not None and cluster.nodes:
        words.append(f"{format_count(cluster.nodes, 'nodes')} had work")
        peak = f"{format_bytes(cluster.peak_bytes)} (workers of a node together), {format_bytes(peak_memory_bytes)}"
        peak += " (coordinator)"
    return "time", "; ".join([*words, f"peak memory {peak}"])


def _joined(name: str, values: Iterable[str], between: str = "; ") -> Rows:
    """Return one row of all values, or none without values."""
    text = between.join(values)
    return [(name, text)] if text else []


def two_columns(rows: Iterable[tuple[str, object]]) -> str:
    """Align names and values; a repeated name is written once."""
    listed = list(rows)
    width = max(len(name) for name, _ in listed)
    shown = [name if before != name else "" for (before, _), (name, _) in pairwise([("", ""), *listed])]
    return printable_lines(f"{name:<{width}}  {value}" for name, (_, value) in zip(shown, listed, strict=True))
