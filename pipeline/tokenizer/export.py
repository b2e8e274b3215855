"""From a merge list to tokenizers: a directory of files for each vocabulary size, and facts about the vocabulary."""

import itertools
import json
import tempfile
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.base.errors import ExportRefusedError, UsageError
from pipeline.base.events import Listener, Notice
from pipeline.base.system import cached_property
from pipeline.base.units import format_count
from pipeline.merges import forecast
from pipeline.merges.merge_list import MergeList
from pipeline.merges.vocabulary import Vocabulary
from pipeline.pattern.compiled import CompiledPattern
from pipeline.pattern.translate import leaves_text, not_in_tokenizers_1
from pipeline.run.ids import check_added, check_special_tokens, is_reserved
from pipeline.run.make_options import check_vocabulary
from pipeline.run.manifest import require, run_of, store_written, unedited
from pipeline.run.memory import LEAST_WORK_BYTES, Broker
from pipeline.run.options import ExportOptions, TokenizerOptions, TrainOptions
from pipeline.run.patterns import tokenizer_pattern
from pipeline.storage import Location, existing
from pipeline.tokenizer.formats.byte_alphabet import vocabulary_texts
from pipeline.tokenizer.formats.export_formats import FORMATS, default_formats
from pipeline.tokenizer.formats.fields import CARD, read_bytes, write_files
from pipeline.tokenizer.formats.files import load_model
from pipeline.tokenizer.formats.huggingface import MODEL_NAME, write_model
from pipeline.tokenizer.formats.settings_files import following, template_names
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.named_templates import chat_template_named

_MOST_MOVED = 5
AT_SIZE = "at the vocabulary size asked for"


@dataclass(frozen=True)
class VocabularyFacts:
    """The result of merging. `tokens` and `bytes` are the lengths of all pieces of the corpus."""

    vocab_size: int
    merges: int
    special_tokens: tuple[str, ...]
    stopped: str
    tokens: int
    bytes: int
    left_out_pieces: int = 0  # different ones, rarer than min_piece_count; not among `bytes`
    left_out_bytes: int = 0
    superwords: int = 0  # tokens that hold several words

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes of merged pieces for each token of the training corpus; None where all pieces were too rare."""
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
    pattern = tokenizer_pattern(options)
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
    return following(model, replace(model, chat_template=replace(template, named=old.named) if old else template))


def with_roles(model: Model, options: TokenizerOptions) -> Model:
    """Return the model with the special tokens and roles that the options name; new ones get reserved or the next ids.

    A role gets the next id: reserved tokens have rows in the model that nothing has trained.
    """
    model = with_added(model, options.added_special_tokens, reserved=True)
    named = {"bos": options.bos_token, "eos": options.eos_token, "pad": options.pad_token}
    asked = {role: text for role, text in named.items() if text is not None}
    roles = replace(model.roles, separator=model.separator, **asked)
    changed = replace(with_added(model, dict.fromkeys(asked.values()), reserved=False), roles=roles)
    if changed.bos_token and changed.bos_token != model.bos_token in model.front:  # the bos in front is the new one
        front = tuple(changed.bos_token if text == model.bos_token else text for text in model.front)
        changed = replace(changed, front=front, post_processor=None)
    return following(model, changed.adding_bos(options.add_bos))


def with_added(model: Model, texts: Iterable[str], *, reserved: bool, first_id: int | None = None) -> Model:
    """Return the model with more special tokens: each takes the next id, or first the place of a reserved one.

    first_id: the next id; default: one more than the largest.
    """
    known, rules = model.vocabulary.special_tokens, model.preparation.rules
    new = [text for text in texts if text not in known]
    check_special_tokens(new)
    check_added(new)
    free = sorted((id_, text) for text, id_ in known.items() if is_reserved(text) and text not in model.roles.named())
    names = {old: text for text, (_, old) in zip(new, free if reserved else (), strict=False)}
    following = model.vocabulary.max_id + 1 if first_id is None else first_id
    rest = {text: id_ for id_, text in enumerate(new[len(names) :], following)}
    special = {names.get(text, text): id_ for text, id_ in known.items()} | rest
    preparation = replace(model.preparation, rules={names.get(text, text): rule for text, rule in rules.items()})
    return replace(model, vocabulary=replace(model.vocabulary, special_tokens=special), preparation=preparation)


def news_of(before: Model, after: Model) -> list[str]:
    """Say which ids the special tokens have that were added, and what they were."""
    old = {id_: text for text, id_ in before.vocabulary.special_tokens.items()}
    new = {text: id_ for text, id_ in after.vocabulary.special_tokens.items() if old.get(id_) != text}
    return [
        f"{text!r} is {id_}, " + (f"which was {old[id_]!r}" if id_ in old else "a new id: the model needs a row for it")
        for text, id_ in new.items()
    ]


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


def export_in_place(
    model: Model, directory: Location, options: ExportOptions, *, changed: bool
) -> tuple[list[Location], dict[str, str]]:
    """Export; into the directory of a tokenizer of a run, store there what was written, and with which roles.

    changed: whether a model card in the directory is of other ids or roles: it is removed, unless a person edited it.
    Raises `UsageError` if the directory is that of another tokenizer of a run, or holds files with other content that
    no run wrote, without `overwrite`.
    """
    run = run_of(directory)
    if directory == Path():
        directory = directory.absolute()  # it has a name and a parent
    if run is None or directory.name not in run.manifest.special or directory.parent != run.directory.location:
        return _export_over(model, directory, options)
    with run.directory.locked():
        run = require(run.directory.location)
        there = load_model(directory).vocabulary if (directory / "tokenizer.json").exists() else None
        if there is not None and there.tokens != model.vocabulary.tokens:
            raise UsageError(f"{directory} holds another tokenizer of the run {run.directory}; choose another --output")
        ours = unedited(run, [name for name in run.manifest.written if name.startswith(f"{directory.name}/")])
        written, refused = _export_over(model, directory, options, [name.partition("/")[2] for name in ours])
        plain = TokenizerOptions().of_stage("special")
        given = {name: value for name, value in options.of_stage("special").items() if value != plain[name]}
        special = run.manifest.special | {directory.name: run.manifest.special.get(directory.name, {}) | given}
        if changed:
            run.directory.remove(unedited(run, [f"{directory.name}/{CARD}"]))
        store_written(replace(run, manifest=replace(run.manifest, special=special)), written)
    return written, refused


def _export_over(
    model: Model, directory: Location, options: ExportOptions, ours: Collection[str] = ()
) -> tuple[list[Location], dict[str, str]]:
    """Export; raises `UsageError` for files with other content, but those that are `ours`, without `overwrite`."""
    with tempfile.TemporaryDirectory() as scratch:
        made, refused = export_model(
            model, Path(scratch), options.export, without_normalizer=options.without_normalizer
        )
        contents = {str(file)[len(scratch) + 1 :]: read_bytes(file) for file in made}
    there = existing([directory / name for name in contents])
    other = [
        name
        for name, found in zip(contents, there, strict=True)
        if found and name not in ours and not _say_the_same(read_bytes(directory / name), contents[name])
    ]
    if other and not options.overwrite:
        raise UsageError(
            f"{directory} has other content in {', '.join(other)}; choose another --output, or replace it with "
            "--overwrite"
        )
    if read := [name for name in template_names(directory) if name not in contents and MODEL_NAME in contents]:
        raise UsageError(
            f"{directory / read[0]} would be read in place of the exported chat template; remove it, or choose another "
            "--output"
        )
    return write_files(directory, contents), refused


def _say_the_same(one: bytes, other: bytes) -> bool:
    """Whether two files have the same bytes, or are JSON with the same content."""
    with suppress(ValueError):
        return one == other or bool(json.loads(one) == json.loads(other))
    return False


def refuse_ordinary(trained: "Trained") -> None:
    """Raise `ExportRefusedError` for a special token that has the name of an ordinary token."""
    for size in trained.options.vocab_size:
        vocabulary_texts(trained.vocabulary(size), "tokenizer.json")


def limits_of(model: Model, formats: Sequence[str]) -> list[str]:
    """Return on which texts the runtimes of these formats fail or differ, although they read the files."""
    preset = model.pattern.preset
    fails = (
        {"tiktoken", "gguf"} if preset and preset.llama_cpp else {"tiktoken"}
    )  # of other patterns no GGUF is written
    known = [one.limit for name, one in FORMATS.items() if name in formats and one.limit and name in fails]
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
            rounded = special.multiple > 1  # two merges may make one token, so how many there are must be seen
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
        several = f"... and {len(moved) - _MOST_MOVED} more" if len(moved) > _MOST_MOVED else ""
        moved = [*moved[:_MOST_MOVED], *filter(None, [several])]
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
        left_out_pieces=cut.left_out_pieces,
        left_out_bytes=cut.left_out_bytes,
        superwords=sum(map(holds_words, vocabulary.tokens.values())) if trained.options.first_stage else 0,
    )


def _why_it_stopped(learned: MergeList, merges: int, options: TrainOptions) -> str:
    if missing := merges - len(learned):
        often = "at all" if options.min_frequency == 1 else f"{options.min_frequency:,} times"
        return f"no pair is left that occurs {often}, {missing:,} merges before the size asked for"
    if not learned.counts:
        return "at the 256 bytes: no merges were asked for"
    return f"{AT_SIZE}; the last pair occurred {format_count(learned.counts[-1], 'times')}"
