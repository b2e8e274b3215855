"""The numbers of the report, as report.json stores them, computed in a worker process.

Memory and time grow with the vocabulary and the sample, not with the corpus.
"""

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, starmap
from operator import add, gt

from bpe_pipeline.base import machine
from bpe_pipeline.corpus.sampling import Choice, Drawn, read_chosen
from bpe_pipeline.corpus.skipped_or_altered import Tally, in_words
from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.merges.merge_list import MergeList, rare_share
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.reports import numbers
from bpe_pipeline.reports.formulas import gini
from bpe_pipeline.reports.measure import SampleText, count, measure, source_names
from bpe_pipeline.reports.numbers import MergeNumbers, Numbers, Reference, Sample, SentenceTokens, SizePoint
from bpe_pipeline.reports.record import MeasuredTokenizer, Record
from bpe_pipeline.reports.tokens import SpecialToken, readable, scripts_of, token_uses, vocabulary_numbers
from bpe_pipeline.run.ids import Roles
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.encode import TextEncoder
from bpe_pipeline.tokenizer.export import Trained
from bpe_pipeline.tokenizer.model import Model

_CURVE_STEPS = 160


@dataclass(frozen=True)
class NumbersTask:
    """What to compute numbers of. trained: its first vocabulary size, its pattern without the native automaton.

    written_roles: what reads the roles of the tokenizer from its files, if it was written before. compare: names of
    other tokenizers, and what loads them. description: of the sample. held_out: whether it was not trained on.
    skip_changed: files that cannot be read any more.
    """

    trained: Trained
    choice: Choice
    text_field: str
    description: str
    held_out: bool = False
    skip_changed: bool = True
    written_roles: Callable[[Vocabulary], Roles] | None = None
    compare: tuple[tuple[str, Callable[[], MeasuredTokenizer]], ...] = ()
    references: tuple[str, ...] = ()  # names in references.json
    weighted: bool = False  # whether the merges' counts are multiplied by weights
    counters: tuple[tuple[Location, str], ...] = ()  # then those of the text without them, if they are known
    name: str = "this tokenizer"  # in tables and figures

    def __str__(self) -> str:
        return "the numbers of this tokenizer"


def measured_model(model: Model) -> MeasuredTokenizer:
    """Return what is measured of a tokenizer of ours."""
    stretches, nfc = TextEncoder(model).text_stretches, model.preparation.nfc
    return MeasuredTokenizer(stretches, model.vocabulary.to_dict(), model.vocabulary.size, nfc=nfc)


def compute_numbers(task: NumbersTask) -> Numbers:
    """Compute all numbers; raises `InputError` for a tokenizer or a held-out file that cannot be read, and
    `RunDirectoryError` for a tokenizer that was not made from the merge list."""
    options = task.trained.options
    learned = task.trained.merges(options.vocab_size[0])
    model = task.trained.model(options.vocab_size[0])
    if task.written_roles is not None:
        model = replace(model, roles=task.written_roles(model.vocabulary))
    measured = measured_model(model)
    named = [(task.name, measured), *((name, load()) for name, load in task.compare)]
    drawn = read_chosen(task.choice.chosen, task.text_field, skip_changed=task.skip_changed)
    vocabulary = model.vocabulary
    fixed = vocabulary.size - len(vocabulary.left)
    uses = _uses(task.trained, model)
    references = {name: numbers.REFERENCES[name] for name in task.references}
    sentences = {
        language: (
            *(len(tokenizer.encode(text)) for _, tokenizer in named),
            *(reference["tokens"][language] for reference in references.values()),
        )
        for language, text in numbers.SENTENCES.items()
    }
    return Numbers(
        tokenizers=tuple((name, one.size) for name, one in named),
        vocabulary=vocabulary_numbers(vocabulary, special_tokens(model), model.unreachable_tokens(), uses),
        scripts=dict(scripts_of(token.decode(errors="ignore") for token in vocabulary.tokens.values())),
        merged=replace(
            merge_numbers(learned.joined, learned.bytes, fixed, vocabulary.size),
            rare_merges=_rare_merges(task, model, learned),
        ),
        sample=_sample(task, model, drawn, named),
        references=tuple(
            Reference(name, reference["vocab_size"], reference["source"]) for name, reference in references.items()
        ),
        sentences=tuple(starmap(SentenceTokens, sentences.items())),
        ginis=tuple(map(gini, zip(*(sentences[language] for language in numbers.PARALLEL), strict=True))),
        machine=machine.describe(),
        listing=listing(measured.vocab, uses),
        unread=tuple(sorted({one.file.path for one in task.choice.chosen} - {one.path for one in drawn})),
    )


def special_tokens(model: Model) -> tuple[SpecialToken, ...]:
    """List special tokens with their ids and what they are for."""
    roles = {"bos": model.bos_token, "eos": model.eos_token, "pad": model.pad_token, "separator": model.separator}
    return tuple(
        SpecialToken(text, id_, ", ".join(role for role, named in roles.items() if named == text))
        for text, id_ in model.vocabulary.special_tokens.items()
    )


def _uses(trained: Trained, model: Model) -> dict[int, int] | None:
    """Return how often each merged token occurs in the training corpus; None for superwords, whose pre-tokens
    differ."""
    if trained.options.first_size is not None:
        return None
    result = model.vocabulary.result
    first = trained.learned.first(len(result))
    return token_uses(first.left, first.right, first.joined, result)


def _rare_merges(task: NumbersTask, model: Model, learned: MergeList) -> float | None:
    """Return the share of merges that are rare in the text itself; None if only weighted counts are known."""
    if not task.weighted:
        return rare_share(learned.joined)
    uses = [0] * (model.vocabulary.max_id + 1)
    for path, fingerprint in task.counters:
        with open_counter(path, fingerprint=fingerprint) as counter:
            uses = list(map(add, uses, model.uses(counter.read_all())))
    return rare_share(model.vocabulary.occurrences(uses)) if task.counters else None


def listing(vocab: Mapping[int, bytes], uses: Mapping[int, int] | None) -> bytes:
    """Return every token as the page's search reads it: compressed JSON of ids, texts and occurrences (-1: unknown)."""
    known = uses or {}
    texts = [readable(token) for token in vocab.values()]
    return zlib.compress(json.dumps([list(vocab), texts, [known.get(id_, -1) for id_ in vocab]]).encode(), 4)


def merge_numbers(joined: Sequence[int], total_bytes: int, fixed: int, vocab_size: int) -> MergeNumbers:
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
    marked = sorted({size for size in (*numbers.MARKED_SIZES, vocab_size) if fixed <= size <= largest})
    return MergeNumbers(
        merges=len(joined),
        bytes=total_bytes,
        curve=tuple(map(at, sorted({*logarithmic(fixed, largest), *marked}))),
        marked=tuple(map(at, marked)),
    )


def logarithmic(first: int, last: int) -> list[int]:
    """Return whole numbers from `first` to `last`, both included, about evenly on a logarithmic scale.

    >>> logarithmic(1, 4)
    [1, 2, 3, 4]
    """
    if last < first:
        return []
    return sorted({round(first * (last / first) ** (step / _CURVE_STEPS)) for step in range(_CURVE_STEPS + 1)})


def _sample(
    task: NumbersTask, model: Model, drawn: Sequence[Drawn], named: Sequence[tuple[str, MeasuredTokenizer]]
) -> Sample | None:
    of_text = ((text, id_) for text, id_ in model.vocabulary.special_tokens.items() if id_ in model.special_ids)
    texts, others = sample_text(task.choice, drawn, sorted((text for text, _ in of_text), key=len, reverse=True))
    if not any(text for _, text in texts.texts):
        return None
    rewritten = texts.changed_by_nfc() if named[0][1].nfc else {}
    if any(one.nfc for _, one in named):
        texts = texts.in_nfc()
    counted, losses = count(named, texts), Tally()
    measured = measure(named, texts, counted)
    for one in drawn:
        losses.add("replacements", one.replaced, [one.path])
    return Sample(
        held_out=task.held_out,
        description=task.description + others + "".join(f" {altered}." for altered in in_words(losses.kinds)),
        bytes=measured[0].whole.bytes,
        texts=len(drawn),
        tokenizers=measured,
        parallel=task.choice.languages if texts.same else (),
        curve=_curve(task, model.vocabulary, counted[0][""]) if task.written_roles is not None else (),
        losses=losses.kinds,
        rewritten=rewritten,
    )


def sample_text(choice: Choice, drawn: Sequence[Drawn], specials: Sequence[str]) -> tuple[SampleText, str]:
    """Return the texts to measure, without special tokens, and what differs between files of languages, in words."""
    named = {**source_names([one.path for one in drawn]), **choice.names}
    # Special tokens are not words, and other tokenizers have other ones.
    split = re.compile("|".join(map(re.escape, specials)) or "(?!)").split
    if not choice.languages:
        return SampleText([(named[one.path], text) for one in drawn for text in split(one.text) if text]), ""
    plain = {one.file.path for one in choice.chosen if one.file.kind.begins_anywhere}
    texts = [
        (named[one.path], " ".join(split(text)))
        for one in drawn
        for text in (one.text.removesuffix("\n").split("\n") if one.path in plain else [one.text])
    ]
    lines = Counter(name for name, _ in texts)
    same = len({lines[name] for name in choice.languages}) == 1
    counted = ", ".join(f"{name} {lines[name]:,}" for name in choice.languages)
    others = "" if same else f" Their lines differ ({counted}), so they are not compared as translations."
    return SampleText(texts, choice.languages, same), others


def _curve(task: NumbersTask, vocabulary: Vocabulary, whole: Record) -> tuple[tuple[int, float], ...]:
    """Return bytes per token of the sample at each usual size up to this one: without the last merges, a token that
    they made is as many tokens as it has parts. With superwords there is none.
    """
    options = task.trained.options
    own = options.vocab_size[0]
    least = own - options.special.merge_budget(own)
    sizes = [size for size in numbers.MARKED_SIZES if options.first_size is None and least < size < own]
    kept, points = whole.sums["bytes"] - whole.sums["lost"], list[tuple[int, float]]()
    for size in (*sizes, own) if sizes else ():
        parts = vocabulary.parts(partial(gt, options.special.merge_budget(size)))
        tokens = sum(count * parts[id_] for id_, count in whole.used.items())
        points.append((size, round(kept / max(tokens, 1), 4)))
    return tuple(points)
