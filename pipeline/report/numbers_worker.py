"""Compute the numbers of the report in a worker process: from the vocabulary, the merge counts and a sample.

Memory and time grow with the vocabulary and the sample, not with the corpus.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from pipeline.base import machine
from pipeline.base.errors import RunDirectoryError
from pipeline.corpus.sampling import Chosen, read_chosen
from pipeline.merges import merge_list
from pipeline.merges.merge_list import MergeList
from pipeline.merges.vocabulary import Vocabulary
from pipeline.pattern import CompiledPattern
from pipeline.report.measure import measure, source_names
from pipeline.report.numbers import MARKED_SIZES, MergeNumbers, Numbers, Sample, SentenceTokens, SizePoint
from pipeline.report.tokens import readable, token_group, vocabulary_numbers
from pipeline.storage import Location
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.tokenizer import Tokenizer

SENTENCES: dict[str, str] = json.loads(Path(__file__).with_name("sentences.json").read_bytes())
_CURVE_STEPS = 160


@dataclass(frozen=True)
class LearnedTokenizer:
    """A tokenizer of the first `merge_count` merges that were just learned."""

    merges: MergeList
    merge_count: int
    pattern: CompiledPattern
    special_tokens: tuple[str, ...]
    special_ids: str

    def load(self) -> tuple[Tokenizer, MergeList, Sequence[int]]:
        """Return the tokenizer, its merges, and the ids of tokens that no text is encoded with."""
        first = self.merges.first(self.merge_count)
        vocabulary = Vocabulary.from_id_pairs(
            first.left, first.right, self.special_tokens, special_ids=self.special_ids
        )
        tokenizer = Tokenizer.from_model(Model(vocabulary, self.pattern, trained=True))
        return tokenizer, self.merges, tokenizer.model.unreachable_tokens()


@dataclass(frozen=True)
class StoredTokenizer:
    """The tokenizer of a run directory. fingerprint: that of the merge list, which may be longer than the vocabulary.

    Each token is tried, which takes about a second for a few megabytes of tokens.
    """

    directory: Location
    merges_path: Location
    fingerprint: str

    def load(self) -> tuple[Tokenizer, MergeList, Sequence[int]]:
        """Return the tokenizer, its merges, and the ids of tokens that no text is encoded with."""
        learned = merge_list.load(self.merges_path, self.fingerprint)
        if learned is None:
            raise RunDirectoryError(f"{self.merges_path} is missing or belongs to another run: merge first")
        tokenizer = Tokenizer.load(self.directory)
        native = tokenizer.model.encoder(threads=1)
        tokens = tokenizer.vocabulary.tokens
        return tokenizer, learned, native.unreachable(tokens) if native else tokenizer.model.unreachable_tokens()


@dataclass(frozen=True)
class NumbersTask:
    """What to compute numbers of. compare: names and locations of other tokenizers. description: of the sample."""

    name: str
    subject: LearnedTokenizer | StoredTokenizer
    chosen: Sequence[Chosen]
    text_field: str
    description: str
    held_out: bool = False
    compare: tuple[tuple[str, Location], ...] = ()

    def __str__(self) -> str:
        return f"the numbers of {self.name}"


def compute_numbers(task: NumbersTask) -> Numbers:
    """Compute all numbers.

    Raises `InputError` for a tokenizer or a held-out file that cannot be read.
    """
    tokenizer, merges, unreachable = task.subject.load()
    named = [(task.name, tokenizer), *((name, Tokenizer.load(path)) for name, path in task.compare)]
    vocabulary = tokenizer.vocabulary
    fixed = vocabulary.size - len(vocabulary.left)
    return Numbers(
        tokenizers=tuple((name, one.vocab_size) for name, one in named),
        vocabulary=vocabulary_numbers(vocabulary.tokens, tuple(vocabulary.special_tokens), unreachable),
        merged=merge_numbers(merges.counts, merges.joined, merges.bytes, fixed, vocabulary.size),
        sample=_sample(task, named),
        sentences=tuple(_sentence(language, text, [one for _, one in named]) for language, text in SENTENCES.items()),
        machine=machine.describe(),
    )


def merge_numbers(
    counts: Sequence[int], joined: Sequence[int], total_bytes: int, fixed: int, vocab_size: int
) -> MergeNumbers:
    """Compute bytes per token at every vocabulary size, exactly, without reading the corpus again.

    Each merge joins `joined` pairs, so after n merges the corpus has `total_bytes - sum(joined[:n])` tokens. fixed: ids
    that are not merges, the bytes and special tokens.
    """
    tokens = [total_bytes, *(total_bytes - done for done in accumulate(joined))]

    def at(size: int) -> SizePoint:
        now, half = tokens[size - fixed], size // 2 - fixed
        saved = 1 - now / tokens[half] if half >= 0 and tokens[half] else None
        return SizePoint(size, now, total_bytes / now if now else 0.0, saved)

    largest = fixed + len(joined)
    marked = sorted({size for size in (*MARKED_SIZES, vocab_size) if fixed <= size <= largest})
    return MergeNumbers(
        merges=len(joined),
        bytes=total_bytes,
        curve=tuple(map(at, sorted({*logarithmic(fixed, largest), *marked}))),
        marked=tuple(map(at, marked)),
        ranks=tuple((rank, counts[rank - 1]) for rank in logarithmic(1, len(counts))),
    )


def logarithmic(first: int, last: int) -> list[int]:
    """Return whole numbers from `first` to `last`, both included, about evenly on a logarithmic scale.

    >>> logarithmic(1, 4)
    [1, 2, 3, 4]
    """
    if last < first:
        return []
    return sorted({round(first * (last / first) ** (step / _CURVE_STEPS)) for step in range(_CURVE_STEPS + 1)})


def _sample(task: NumbersTask, named: Sequence[tuple[str, Tokenizer]]) -> Sample | None:
    drawn = read_chosen(task.chosen, task.text_field, skip_changed=not task.held_out)
    tokenizer = named[0][1]
    names = source_names([one.path for one in drawn])
    specials = sorted(tokenizer.special_tokens, key=len, reverse=True)
    # Special tokens are not words, and other tokenizers have other ones.
    split = re.compile("|".join(map(re.escape, specials)) or "(?!)").split
    texts = [(names[one.path], text) for one in drawn for text in split(one.text) if text]
    if not texts:
        return None
    measured = [measure(one.encode_ordinary, one.vocab, texts, name) for name, one in named]
    return Sample(
        held_out=task.held_out,
        description=task.description,
        bytes=measured[0].whole.bytes,
        texts=len(drawn),
        tokenizers=tuple(measured),
        unused=tokenizer.vocab_size - len(tokenizer.special_tokens) - measured[0].used,
        single_source=token_group([id_ for id_, _, _ in measured[0].single_source], tokenizer.vocab),
    )


def _sentence(language: str, text: str, tokenizers: Sequence[Tokenizer]) -> SentenceTokens:
    encoded = [one.encode_ordinary(text) for one in tokenizers]
    vocab = tokenizers[0].vocab
    listed: list[tuple[tuple[int, ...], str]] = []
    ids: tuple[int, ...] = ()
    for id_ in encoded[0]:
        ids += (id_,)
        together = b"".join(vocab[one] for one in ids)
        if "\ufffd" not in together.decode(errors="replace"):  # no character goes on in the next token
            listed.append((ids, readable(together)))
            ids = ()
    return SentenceTokens(language, text, tuple(listed), tuple(map(len, encoded)))
