"""From a merge list to tokenizers: a directory of files for each vocabulary size, and facts about the vocabulary."""

import itertools
import tempfile
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import ExportRefusedError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.base.units import format_count
from bpe_pipeline.merges import forecast
from bpe_pipeline.merges.merge_list import MergeList
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.pattern.translate import leaves_text, not_in_tokenizers_1
from bpe_pipeline.run.ids import ending_bytes
from bpe_pipeline.run.make_options import check_vocabulary
from bpe_pipeline.run.memory import LEAST_WORK_BYTES, Broker
from bpe_pipeline.run.options import TokenizerOptions, TrainOptions
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats.byte_alphabet import vocabulary_texts
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS, default_formats
from bpe_pipeline.tokenizer.formats.huggingface import write_model
from bpe_pipeline.tokenizer.formats.settings_files import with_own_generation
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.named_templates import chat_template_named

_MOST_MOVED = 5
AT_SIZE = "at the vocabulary size asked for"


@dataclass(frozen=True)
class VocabularyFacts:
    """The result of merging. `tokens` and `bytes` are the lengths of all pre-tokens of the corpus."""

    vocab_size: int
    merges: int
    special_tokens: tuple[str, ...]
    stopped: str
    tokens: int
    bytes: int
    left_out_pre_tokens: int = 0  # different ones, rarer than min_pre_token_count; not among `bytes`
    left_out_bytes: int = 0
    superwords: int = 0  # tokens that hold several words

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes of merged pre-tokens for each token of the training corpus; None where all pre-tokens were too rare."""
        return self.bytes / self.tokens if self.tokens else None


@dataclass(frozen=True)
class Exported:
    """One tokenizer in its directory."""

    facts: VocabularyFacts
    directory: Location
    written: tuple[str, ...]  # names of files
    refused: dict[str, str]  # formats that could not be written, each with the reason


@dataclass(frozen=True)
class Check:
    """A format in a library that reads it. `outcome`: "same", "different" or "not checked"; `detail`: where, or why."""

    format: str
    library: str
    outcome: str
    detail: str

    def __str__(self) -> str:
        verb = "not checked" if self.outcome == "not checked" else "checked"
        return f"{verb} {self.format} with {self.library}: {self.detail}"


def check_before_work(options: TrainOptions, listener: Listener, kept_bytes: int = 0) -> Broker:
    """Raise now what would be raised at the end of the work: memory, vocabulary, special tokens, formats.

    Returns the broker of a command that merges and exports a large counter. kept_bytes: of this process meanwhile.
    """
    check_vocabulary(options)
    broker = Broker.of(options.memory_limit, forecast.later_bytes(max(options.vocab_size)) + kept_bytes)
    broker.reserve(LEAST_WORK_BYTES + kept_bytes)
    # Refused for the same reasons as the one that will be trained; it has a merge, since a GGUF file needs one.
    special = options.special.texts(257)
    vocabulary = Vocabulary.from_merges([(b"\xff", b"\xff")], special, special_ids=options.special_ids)
    pattern = pattern_of(options)
    model = with_chat_template(Model.cut_by(pattern, vocabulary, options.special.roles, options.special.rules), options)
    model = model.adding_bos(options.add_bos)
    if options.export is not None:
        with tempfile.TemporaryDirectory() as nowhere:
            export_model(model, Path(nowhere), options.export)
    if "hf" in (options.export or ("hf",)) and (note := not_in_tokenizers_1(pattern)):
        listener(Notice("info", note))
    return broker


def with_chat_template(model: Model, options: TokenizerOptions) -> Model:
    """Return the model with the chat template that the options name, if they name one."""
    name, old = options.chat_template, model.chat_template
    if name is None:
        return model
    template = chat_template_named(name, model)
    changed = replace(model, chat_template=replace(template, named=old.named) if old else template)
    return with_own_generation(model, changed)


def export_model(
    model: Model,
    directory: Location,
    formats: Sequence[str] | None,
    *,
    with_limits: Collection[str] = (),
    without_normalizer: bool = False,
) -> tuple[list[Location], dict[str, str]]:
    """Write files of these formats, or of all that can be (`with_limits` too); return paths, and why others cannot.

    without_normalizer: write GGUF for text that is in NFC already.
    """
    written: list[Location] = []
    refused: dict[str, str] = {}
    for name in formats if formats is not None else default_formats():
        if formats is None and name not in with_limits and (limits := limits_of(model, [name])):
            refused[name] = f"{limits[0]}; --export {name} writes them all the same"
            continue
        try:
            bare = without_normalizer and name == "gguf"
            written += FORMATS[name].write(model.without_nfc if bare else model, directory)
        except ExportRefusedError as error:
            if formats is not None:
                raise
            refused[name] = str(error)
    return written, refused


def refuse_ordinary(trained: "Trained") -> None:
    """Raise `ExportRefusedError` for a special token that has the name of an ordinary token."""
    for size in trained.options.vocab_size:
        vocabulary_texts(trained.vocabulary(size), "tokenizer.json")


def limits_of(model: Model, formats: Sequence[str]) -> list[str]:
    """Return on which texts the runtimes of these formats fail or differ, although they read the files."""
    preset = model.pattern.preset
    refused = () if preset and preset.llama_cpp else ("gguf",)
    read = [FORMATS[name] for name in FORMATS if name in formats and name not in refused]
    known = [format_.limit for format_ in read if format_.limit]
    superwords = known and leaves_text(model.pattern) and any(map(holds_words, model.vocabulary.tokens.values()))
    return known if superwords else []


def holds_words(token: bytes) -> bool:
    """Whether a space separates parts of a token."""
    return b" " in token.strip(b" ")


@dataclass(frozen=True)
class Trained:
    """A merge list from which the model of any size is made when it is needed: models are large."""

    learned: MergeList
    pattern: CompiledPattern
    options: TrainOptions

    def merges(self, vocab_size: int) -> MergeList:
        """Return the merges of a size."""
        return self.learned.first(self.options.special.merge_budget(vocab_size))

    def vocabulary(self, vocab_size: int) -> Vocabulary:
        """Make the vocabulary of `vocab_size` tokens, or of fewer where the list is short; the last one is kept."""
        if vocab_size not in self._last:
            self._last.clear()
            special, first = self.options.special, self.merges(vocab_size)
            rounded = special.reserved.multiple > 1  # two merges may make one token, so how many there are must be seen
            ordinary = len(Vocabulary.from_id_pairs(first.left, first.right).tokens) if rounded else 0
            self._last[vocab_size] = Vocabulary.from_id_pairs(
                first.left, first.right, special.texts(ordinary), special_ids=self.options.special_ids
            )
        return self._last[vocab_size]

    @cached_property
    def _last(self) -> dict[int, Vocabulary]:
        return {}

    def __reduce__(self) -> tuple[Any, ...]:  # without what another thread may make meanwhile
        return Trained, (self.learned, self.pattern, self.options)

    def model(self, vocab_size: int) -> Model:
        """Make the model of this vocabulary."""
        options, vocabulary = self.options, self.vocabulary(vocab_size)
        special = options.special
        model = Model.cut_by(self.pattern, vocabulary, special.roles, special.rules, trained=True)
        ending = (text.decode() for text in ending_bytes(options.values))
        model = replace(model, also_ending=tuple(text for text in ending if text != model.separator))
        return with_chat_template(model, options).adding_bos(options.add_bos)


@dataclass(frozen=True)
class Ids:
    """What decides the ids of a tokenizer, small enough to be kept: its special tokens, and what each merge joins."""

    special: Mapping[str, int]
    left: "array[int]"
    right: "array[int]"

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "Ids":
        """Take them from a vocabulary."""
        return cls(vocabulary.special_tokens, vocabulary.left, vocabulary.right)

    def changes(self, new: "Ids") -> str:
        """Say which of these tokens have another id in `new`, or none; empty if all keep theirs."""
        moved = [
            f"{text!r} {id_} -> {new.special[text]}" if text in new.special else f"{text!r} {id_} is gone"
            for text, id_ in self.special.items()
            if new.special.get(text) != id_
        ]
        more = f"... and {len(moved) - _MOST_MOVED} more" if len(moved) > _MOST_MOVED else ""
        moved = [*moved[:_MOST_MOVED], *filter(None, [more])]
        pairs = zip(zip(self.left, self.right, strict=True), zip(new.left, new.right, strict=True), strict=False)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        if (ordinary := len(self.left) - same) > 0:
            what = "gone" if same == len(new.left) else "replaced or moved"
            moved.append(f"{format_count(ordinary, 'ordinary tokens')} {what}")
        added = [f"{text!r} is {id_}" for text, id_ in new.special.items() if text not in self.special]
        return ", ".join([*moved, *added[:_MOST_MOVED]]) if moved else ""


def export_size(directory: Location, trained: Trained, vocab_size: int) -> Exported:
    """Write the tokenizer of `vocab_size` tokens into a directory."""
    model = trained.model(vocab_size)
    written, refused = export_model(model, directory, trained.options.export)
    if directory / "tokenizer.json" not in written:  # a run keeps its model, also one that no other runtime reads
        written = write_model(model, directory) + written
    names = tuple(path.name for path in written)
    return Exported(facts_of(trained, vocab_size, model.vocabulary), directory, names, refused)


def facts_of(trained: Trained, vocab_size: int, vocabulary: Vocabulary) -> VocabularyFacts:
    """Describe the vocabulary that was made for a size."""
    merges = trained.options.special.merge_budget(vocab_size)
    cut = trained.merges(vocab_size)
    return VocabularyFacts(
        vocab_size=vocabulary.size,
        merges=len(cut),
        special_tokens=tuple(vocabulary.special_tokens),
        stopped=_why_it_stopped(cut, merges, trained.options),
        tokens=cut.tokens,
        bytes=cut.bytes,
        left_out_pre_tokens=cut.left_out_pre_tokens,
        left_out_bytes=cut.left_out_bytes,
        superwords=sum(map(holds_words, vocabulary.tokens.values())) if trained.options.first_size else 0,
    )


def _why_it_stopped(learned: MergeList, merges: int, options: TrainOptions) -> str:
    if missing := merges - len(learned):
        often = "at all" if options.min_frequency == 1 else f"{options.min_frequency:,} times"
        return f"no pair is left that occurs {often}, {missing:,} merges before the size asked for"
    if not learned.counts:
        return "at the 256 bytes: no merges were asked for"
    return f"{AT_SIZE}; the last merge occurred {format_count(learned.counts[-1], 'times')}"
