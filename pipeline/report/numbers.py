"""Every number of the report, computed in a worker process: from the vocabulary, the merge counts, and a sample.

`report.json` holds them as `Numbers` has them, under these names. What they take of memory and time grows with the
vocabulary and the sample, not with the corpus.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.base import machine as environment
from pipeline.base.errors import RunDirectoryError
from pipeline.corpus.sampling import Chosen, Drawn, read_chosen
from pipeline.merges import merge_list
from pipeline.merges.merge_list import MergeList
from pipeline.merges.vocabulary import Vocabulary
from pipeline.pattern import CompiledPattern
from pipeline.report import measure, merged, tokens
from pipeline.report.sentences import SENTENCES
from pipeline.report.sources import source_names
from pipeline.storage import Location
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.tokenizer import Tokenizer

TRAINING_SAMPLE_BYTES, SAMPLE_BYTES = 1 << 16, 1 << 21


@dataclass(frozen=True)
class SentenceCut:
    """A sentence. tokens: of this tokenizer, the ids of one or of those that share a character, and their text as
    people can read it; counts: tokens of each tokenizer."""

    language: str
    text: str
    tokens: tuple[tuple[tuple[int, ...], str], ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Sample:
    """A sample and what tokenizers made of it; ours is the first. unused: our ids that do not occur in it."""

    held_out: bool
    description: str
    bytes: int
    texts: int
    tokenizers: tuple[measure.Measured, ...]
    unused: int
    single_source: tokens.Found


@dataclass(frozen=True)
class Numbers:
    """All of it. tokenizers: names and vocabulary sizes, ours first. sample: None where there was nothing to draw."""

    tokenizers: tuple[tuple[str, int], ...]
    vocabulary: tokens.Vocabulary
    merged: merged.Merged
    sample: Sample | None
    sentences: tuple[SentenceCut, ...]
    machine: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Learned:
    """What makes a tokenizer of so many merges. pattern: without what is native."""

    merges: int
    pattern: CompiledPattern
    special_tokens: tuple[str, ...]
    special_ids: str


@dataclass(frozen=True)
class NumbersTask:
    """What to compute numbers of. model: what makes a tokenizer of the merges, or where one lies. merges: the list, or
    where it lies and its fingerprint; the vocabulary may be the beginning of it.

    compare: names and places of other tokenizers. thorough: take the time to try whether each
    token can be made, a second for every few megabytes of them, where it follows from how they were learned.
    """

    name: str
    model: Learned | Location
    merges: MergeList | tuple[Location, str]
    chosen: Sequence[Chosen]
    text_field: str = "text"
    held_out: bool = False
    compare: tuple[tuple[str, Location], ...] = ()
    thorough: bool = False
    described: str = ""

    def __str__(self) -> str:
        return f"the numbers of {self.name}"


def compute(task: NumbersTask) -> Numbers:
    """Compute all numbers. Runs in a worker process.

    Raises `InputError` for a tokenizer or a held-out file that cannot be read.
    """
    learned = _merges(task.merges)
    tokenizer = _tokenizer(task.model, learned)
    others = [(name, Tokenizer.load(place)) for name, place in task.compare]
    named = [(task.name, tokenizer), *others]
    vocabulary = tokenizer.vocabulary
    native = tokenizer.model.encoder(threads=1) if task.thorough else None
    unreachable = native.unreachable(vocabulary.tokens) if native else tokenizer.model.unreachable_tokens()
    special_tokens = tuple(vocabulary.special_tokens)
    fixed = vocabulary.size - len(vocabulary.left)
    return Numbers(
        tokenizers=tuple((name, one.vocab_size) for name, one in named),
        vocabulary=tokens.facts(vocabulary.tokens, special_tokens, unreachable),
        merged=merged.facts(learned.counts, learned.joined, learned.bytes, fixed, vocabulary.size),
        sample=_sample(task, named),
        sentences=tuple(_sentence(language, text, [one for _, one in named]) for language, text in SENTENCES),
        machine=environment.describe(),
    )


def _tokenizer(model: Learned | Location, merges: MergeList) -> Tokenizer:
    if not isinstance(model, Learned):
        return Tokenizer.load(model)
    first = merges.first(model.merges)
    vocabulary = Vocabulary.from_id_pairs(first.left, first.right, model.special_tokens, special_ids=model.special_ids)
    return Tokenizer.from_model(Model(vocabulary, model.pattern, trained=True))


def _merges(merges: MergeList | tuple[Location, str]) -> MergeList:
    if isinstance(merges, MergeList):
        return merges
    path, fingerprint = merges
    learned = merge_list.load(path, fingerprint)
    if learned is None:
        raise RunDirectoryError(f"{path} is not there, or of another run: merge first")
    return learned


def _sample(task: NumbersTask, named: Sequence[tuple[str, Tokenizer]]) -> Sample | None:
    drawn = read_chosen(task.chosen, task.text_field, skip_changed=not task.held_out)
    ours = named[0][1]
    names = source_names([one.path for one in drawn])
    texts = [(names[one.path], text) for one in drawn for text in _ordinary(one, ours)]
    if not texts:
        return None
    measured = [measure.measure(one.encode_ordinary, one.vocab, texts, name) for name, one in named]
    seen_once = measured[0].single_source
    return Sample(
        held_out=task.held_out,
        description=task.described,
        bytes=measured[0].whole.bytes,
        texts=len(drawn),
        tokenizers=tuple(measured),
        unused=ours.vocab_size - len(ours.special_tokens) - measured[0].used,
        single_source=tokens.found([id_ for id_, _, _ in seen_once], ours.vocab),
    )


def _ordinary(drawn: Drawn, tokenizer: Tokenizer) -> list[str]:
    """The text between special tokens: other tokenizers have others, and none is a word."""
    texts = [drawn.text]
    for special in sorted(tokenizer.special_tokens, key=len, reverse=True):
        texts = [part for text in texts for part in text.split(special)]
    return [text for text in texts if text]


def _sentence(language: str, text: str, tokenizers: Sequence[Tokenizer]) -> SentenceCut:
    cut = [one.encode_ordinary(text) for one in tokenizers]
    vocab = tokenizers[0].vocab
    listed: list[tuple[tuple[int, ...], str]] = []
    ids: tuple[int, ...] = ()
    for id_ in cut[0]:
        ids += (id_,)
        together = b"".join(vocab[one] for one in ids)
        if _is_text(together):
            listed.append((ids, tokens.shown(together)))
            ids = ()
    return SentenceCut(language, text, tuple(listed), tuple(map(len, cut)))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
