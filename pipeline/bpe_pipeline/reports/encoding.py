"""The result of encoding: what was read and written as shards, and how long it took."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.corpus.skipped_or_altered import in_one_line, in_words
from bpe_pipeline.executors import ClusterUse
from bpe_pipeline.reports.parts import Part, Rows
from bpe_pipeline.reports.result import Result, time_and_memory
from bpe_pipeline.run.parts import PartDone
from bpe_pipeline.shards.encoded_corpus import ENOUGH_DOCUMENTS, EncodedCorpus
from bpe_pipeline.storage import Location

_APART = "keep the documents of a row apart in batches without attention_mask, in a model with use_cache=False"
_AMOUNTS = ("padded", "truncated", "dropped")


@dataclass(frozen=True)
class EncodingSummary(Result):
    """One run of `encode --output`. times: seconds of each stage, None: kept; cluster: None: this machine alone.

    tokenizer: its location, if it has one: then the next command is shown; others: what else its run has.
    """

    directory: Location
    corpus: EncodedCorpus
    times: dict[str, float | None]
    peak_memory_bytes: int
    retries: int
    cluster: ClusterUse | None = None
    tokenizer: Location | None = None
    others: tuple[str, ...] = ()
    part: PartDone | None = None  # of a command with --part: the corpus is then what its chunks hold

    event = "summary"

    @property
    def brief(self) -> str:
        """The directory of the shards."""
        return str(self.directory)

    def shown(self) -> Iterable[Part]:
        """Return at most ten rows."""
        yield Rows(self._rows() if self.part is None else self._rows_of_part(self.part))

    def _rows(self) -> tuple[tuple[str, object], ...]:
        corpus, documents = self.corpus, format_count(self.corpus.documents, "documents")
        aside = "" if corpus.text_tokens == corpus.tokens else ", special tokens aside"
        rate = f" ({corpus.bytes_per_token:.3f} bytes of text each{aside})" if corpus.bytes_per_token else ""
        shard_bytes = format_bytes(sum(shard.bytes for shard in corpus.shards))
        if corpus.kind == "bin of uint32":
            shard_bytes += "; nanoGPT's loader reads uint16: change its dtype"
        validation = sum(shard.tokens for shard in corpus.shards if shard.split is not None)
        how = "follows each" if corpus.documents_by == "separator" else "ends each; offsets or rows mark the limits"
        separator = f"{corpus.separator} (id {corpus.separator_id}) {how}" if corpus.separator else ""
        decode = ["bpe-pipeline", "decode", str(self.directory), "--tokenizer", str(self.tokenizer)]
        has_positions = corpus.made_by is None and "position_ids" in (corpus.columns or {})
        return (
            ("tokenizer", "" if self.tokenizer is None else self._used()),
            ("shards", f"{self.directory} ({len(corpus.shards):,} {corpus.kind}, {shard_bytes})"),
            ("corpus", f"{format_count(corpus.files, 'files')}, {format_bytes(corpus.read_bytes)}, {documents}"),
            ("left out", str(corpus.not_taken)),
            ("skipped/altered", in_one_line(in_words(corpus.losses), f"bpe-pipeline info {self.directory}")),
            ("tokens", f"{corpus.tokens:,}{rate if corpus.pack is None else ''}"),
            ("validation", f"{validation:,} of these tokens{self._held_out()}" if validation else ""),
            ("rows", "" if corpus.pack is None else _packed(corpus)),
            ("position_ids", _APART if has_positions else ""),
            ("documents", separator),
            ("time", self._time()),
            ("next", "" if self.tokenizer is None else f"{shlex.join(decode)} | head"),
        )

    def _time(self) -> str:
        return time_and_memory(self.times, self.retries, self.peak_memory_bytes, self.cluster)

    def _held_out(self) -> str:
        """Say where validation starts, if that is a place in the text."""
        if self.corpus.held_out_from is None:
            return ""
        path, byte = self.corpus.held_out_from
        return (
            f": the end of the text, from byte {byte:,} of {path} on, since there are fewer than {ENOUGH_DOCUMENTS} "
            "documents; with more, whole ones are held out, which changes the split once"
        )

    def _used(self) -> str:
        """Say which tokenizer was used."""
        others = f"; {', '.join(self.others)} next to it: name one to use it" if self.others else ""
        return f"{self.tokenizer} ({self.corpus.vocab_size:,} tokens){others}"

    def _rows_of_part(self, part: PartDone) -> tuple[tuple[str, object], ...]:
        of_part = f"{format_bytes(self.corpus.read_bytes)}, {format_count(self.corpus.documents, 'documents')}"
        return (
            ("shards", self.directory),
            ("text of the part", f"{of_part}, {format_count(self.corpus.tokens, 'tokens')}"),
            ("skipped/altered", list(map(str, in_words(self.corpus.losses)))),
            ("time", self._time()),
            *part.rows(),
        )


def _packed(corpus: EncodedCorpus) -> str:
    """Say how documents were packed, and what that cost."""
    words = [f"{sum(shard.samples for shard in corpus.shards):,} by {corpus.pack}"]
    for name in _AMOUNTS:
        counts = [count for shard in corpus.shards if (count := getattr(shard, name)) is not None]
        words += [f"{sum(counts):,} tokens {name}"] if counts else []
    return ", ".join(words)
