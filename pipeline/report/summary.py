"""The summary at the end of a run: plain numbers in, text or JSON out."""

import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pipeline.values import format_bytes, format_count


@dataclass(frozen=True)
class CorpusFacts:
    """What counting saw of the corpus, summed over all chunks."""

    files: int
    bytes: int
    documents: int
    pieces: int
    different_pieces: int
    losses: dict[str, int] = field(default_factory=dict)  # what was not taken as it stood -> how often
    examples: tuple[str, ...] = ()  # the first places of losses: file and byte offset
    concerned_characters: str = ""  # of the corpus: those that `regex` and the runtimes class differently


@dataclass(frozen=True)
class VocabularyFacts:
    """What merging gave. `tokens` and `bytes` are the lengths of all pieces of the corpus."""

    vocab_size: int
    merges: int
    special_tokens: tuple[str, ...]
    stopped: str
    tokens: int
    bytes: int
    longest: tuple[str, ...]
    left_out_pieces: int = 0  # different ones, rarer than min_piece_count; not among `bytes`
    left_out_bytes: int = 0


@dataclass(frozen=True)
class Summary:
    """One run of a command."""

    directory: Path
    pattern: str
    corpus: CorpusFacts
    vocabulary: VocabularyFacts | None = None
    tokenizer_directory: Path | None = None
    written: tuple[str, ...] = ()  # names of the files in the tokenizer directory
    refused: dict[str, str] = field(default_factory=dict)
    stages: dict[str, float | None] = field(default_factory=dict)  # name -> seconds; None: kept from an earlier run
    peak_memory_bytes: int = 0

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes of pieces that one token stands for, on what was merged of the training corpus."""
        if self.vocabulary is None or not self.vocabulary.tokens:  # every piece was too rare
            return None
        return self.vocabulary.bytes / self.vocabulary.tokens

    def to_json(self) -> dict[str, Any]:
        """Plain values for `--log-json`."""
        return {**asdict(self), "bytes_per_token": self.bytes_per_token}


def render(summary: Summary) -> str:
    """The summary as text: a line a fact, the next command at the end."""
    corpus, vocabulary = summary.corpus, summary.vocabulary
    files, documents = format_count(corpus.files, "files"), format_count(corpus.documents, "documents")
    rows = [
        ("run", str(summary.directory)),
        ("corpus", ", ".join([files, format_bytes(corpus.bytes), documents])),
        (
            "pieces",
            f"{corpus.pieces:,}, of which {corpus.different_pieces:,} are different (pattern {summary.pattern})",
        ),
    ]
    rows += [("not as it stood", f"{count:,} {what}") for what, count in corpus.losses.items()]
    rows += [("not as it stood", f"first: {'; '.join(corpus.examples[:3])}")] if corpus.examples else []
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
    rows.append(("peak memory", f"{format_bytes(summary.peak_memory_bytes)} (all processes together)"))
    if summary.tokenizer_directory is not None:
        rows.append(("tokenizer", f"{summary.tokenizer_directory} ({', '.join(summary.written)})"))
    rows += [(f"no {name} files", reason) for name, reason in summary.refused.items()]
    rows += [("next", command) for command in _next_commands(summary)]
    return _table(rows)


def _table(rows: list[tuple[str, str]]) -> str:
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
    other_size = 8000 if summary.vocabulary.vocab_size != 8000 else 16_000
    return [
        f"bpe-pipeline encode --tokenizer {shlex.quote(str(summary.tokenizer_directory))} --text 'Hello world'",
        f"bpe-pipeline merge {run} --vocab-size {other_size}",
    ]
