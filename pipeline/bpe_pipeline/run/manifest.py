"""The manifest of a run, `run.json`: its options, its plan, and what it may delete.

The files that exist show what is finished, and each carries the fingerprint of what it depends on; only of the files
of tokenizers, which have no fingerprint, it lists those that were written, with their SHA-256.
"""

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import OtherKindError, RunDirectoryError, UsageError
from bpe_pipeline.base.machine import versions
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.run.directory import COUNTS, HOLDS, KEY_DIGITS, LOG, RESULTS, RUN, Directory, fingerprint
from bpe_pipeline.run.extensions import GROUP, choosers
from bpe_pipeline.run.make_options import MERGING, make_options, refuse_other_options
from bpe_pipeline.run.mixture import Mixture, short
from bpe_pipeline.run.options import READING_OPTIONS, TrainOptions, flag_of, with_defaults, without_defaults
from bpe_pipeline.run.plan import MOST_INPUTS, MOST_UNWEIGHTED, Plan, stored_plan
from bpe_pipeline.run.record import Scope
from bpe_pipeline.run.stored import COUNTER_FORMAT, plain, stored
from bpe_pipeline.run.texts import FirstStage, MixedText, Source, Text, described, mixed_texts, require_weights
from bpe_pipeline.run.values import relative
from bpe_pipeline.storage import Location, existing, named, names_in, sha256_of

_TOKENIZER_FILE = re.compile(r"tokenizer(-[0-9]+)?/([a-z_-]+\.[a-z]+|README\.md)")
_REMEDIES = {  # where no run is, by the manifest of what is there
    "sweep.json": "name one of the runs in {}/mixtures",
    "encoding.json": "`bpe-pipeline info {}` describes it, and the same `encode` command again checks its files",
    "made-from.json": "name the run whose counts it was made from",
}
_CUTTING = {"expression": "the regular expression", "by": "what splits", "unicode": "the Unicode version"}
MOST_SHARES = 1 << 8  # into which a cluster may divide the hashes, a power of two
COMBINED = "combined"  # the kind of a source: of runs, and of counts of other programs
KEPT = ".kept"  # the ending of parts of a counter until it is complete


@dataclass(frozen=True)
class Manifest:
    """The content of `run.json`. counting, merging: options by name."""

    counting: dict[str, Any]
    cutting: dict[str, str]  # what the pattern's name means in this release: `open_run.cut_by`
    plan: Plan = field(default_factory=Plan)
    merging: dict[str, Any] | None = None  # as vocab_size, None until merging was first asked for
    vocab_size: int | None = None
    source: Source | None = None  # in place of a plan, for counts that came from no corpus listing
    tokenizers: tuple[str, ...] = ()  # files that merging may have written
    written: dict[str, str] = field(default_factory=dict)  # files of tokenizers that were written -> SHA-256
    special: dict[str, dict[str, Any]] = field(default_factory=dict)  # the "special" options of each of their folders
    texts: tuple[Text, ...] = ()  # the plan's inputs, if their chunks are apart; or what was combined
    mixture: Mixture | None = None  # what makes the weights of the texts, once their bytes are known
    counted_in: str = ""  # the run that has the counters of the chunks, if it is another one
    first_stage: FirstStage | None = None  # of superwords

    @property
    def weighted(self) -> bool:
        """Whether counts were multiplied by weights, so that they are not occurrences in the text."""
        return any(text.weight != (1, 1) or text.weighted for text in self.texts)

    @property
    def pre_tokens(self) -> dict[str, Any]:
        """What the pre-tokens are, by the names of messages."""
        what = {flag_of(name): value for name, value in self.counting.items() if name not in READING_OPTIONS}
        return what | {_CUTTING.get(name, name): value for name, value in self.cutting.items()}

    @property
    def mixing(self) -> dict[str, Any]:
        """What the weights were made of, as options: a mixture, or the weights themselves."""
        mixture = self.mixture or Mixture()
        weights = [] if self.mixture or not self.weighted else [str(Fraction(*text.weight)) for text in self.texts]
        return {
            "temperature": None if mixture.temperature == "1" else mixture.temperature,
            "shares": [f"{name}={share}" for name, share in sorted(mixture.shares.items())] or None,
            "weights": weights or None,
        }

    @property
    def mixed_texts(self) -> tuple[MixedText, ...]:
        """The texts with their weights; none if there are no weights, or their bytes are unknown."""
        if self.mixture is None and all(text.weight == (1, 1) for text in self.texts):
            return ()
        names = [text.name for text in self.texts]
        last = list(map(short, names)) if self.source else names
        return mixed_texts(last if len({*last}) == len(last) else names, self.texts)

    def weighed(
        self, weights: Sequence[str] | None, mixture: Mixture | None, inputs: Sequence[str] | None = None
    ) -> "Manifest":
        """Return the manifest with these weights, or those that a mixture makes of the texts' bytes, or none.

        The smallest is 1. inputs: as they were named, also if they are too many to have weights.
        """
        texts, names = self.texts, [text.name for text in self.texts] if inputs is None else inputs
        if weights is not None and (texts or inputs is not None):
            require_weights(weights, names, "inputs" if self.source is None else "runs")
        mixture = mixture and mixture.named(names)
        if (weights is not None or mixture is not None) and not texts:
            raise UsageError(
                f"--weight: the counts of more than {MOST_UNWEIGHTED} inputs, or of others than these, are not kept "
                f"apart; name at most {MOST_INPUTS} directories or quoted globs, and count them with --weight and "
                "--overwrite"
            )
        sizes = [text.bytes for text in texts if text.bytes is not None]
        if mixture and len(sizes) == len(texts):  # else all weights are 1
            weights = mixture.weights(dict(zip(names, sizes, strict=True)))
        try:
            scaled = relative([*map(Fraction, weights or ())] or [Fraction(1)] * len(texts))
        except ValueError as error:
            raise UsageError(f"--weight: expected {error}") from None
        texts = tuple(replace(text, weight=by.as_integer_ratio()) for text, by in zip(texts, scaled, strict=True))
        source = self.source and replace(self.source, description=described(names, texts))
        new = replace(self, texts=texts, mixture=mixture if mixture and str(mixture) else None, source=source)
        if source is None and texts and not new.chunks_of_terms():
            raise UsageError("--weight: no input with text has a weight above 0, so nothing is left; change one")
        return new

    def with_bytes(self, sizes: Sequence[int]) -> "Manifest":
        """Return the manifest with the bytes of the texts, and the weights that its mixture makes of them."""
        texts = tuple(replace(text, bytes=size) for text, size in zip(self.texts, sizes, strict=True))
        new = replace(self, texts=texts)
        return new if self.mixture is None else new.weighed(None, self.mixture)

    def chunks_of_terms(self) -> list[tuple[list[int], tuple[int, int]]]:
        """List the chunks of each term of a corpus, and its weight, the smallest as 1."""
        if not self.weighted:
            return [(list(range(len(self.plan.chunks))), (1, 1))]
        of_texts = zip(self.plan.chunks_of_inputs(len(self.texts)), self.texts, strict=True)
        left = [(chunks, Fraction(*text.weight)) for chunks, text in of_texts if chunks and text.weight[0]]
        scaled = relative([weight for _, weight in left])
        return [(chunks, weight.as_integer_ratio()) for (chunks, _), weight in zip(left, scaled, strict=True)]

    @property
    def chooser(self) -> Any:
        """The `merges.chooser.Chooser` of an extension; None if no extension chooses the merges.

        Raises as `stored` does.
        """
        if self.source is None or not self.source.chosen_by:
            return None
        return stored(choosers()[self.source.kind](), self.source.chosen_by)

    @cached_property
    def chunk_keys(self) -> list[str]:
        """What each chunk's counter depends on."""
        return self.plan.keys(without_defaults(self.counting), self.cutting, COUNTER_FORMAT)

    @cached_property
    def chunk_names(self) -> list[str]:
        """The name of each chunk's counter, with the first digits of its key."""
        return [f"{index:06d}-{key[:KEY_DIGITS]}.parquet" for index, key in enumerate(self.chunk_keys)]

    @cached_property
    def counter_fingerprint(self) -> str:
        """What the combined counter depends on: every chunk, in any order, or the source."""
        if self.source is not None:
            source = [self.source.kind, self.source.digest, sorted([text.key, *text.weight] for text in self.texts)]
            return fingerprint(without_defaults(self.counting), self.cutting, COUNTER_FORMAT, source)
        keys = ((sorted(self.chunk_keys[index] for index in chunks), by) for chunks, by in self.chunks_of_terms())
        of_terms = sorted([fingerprint(of_chunks), *by] for of_chunks, by in keys)
        return fingerprint(of_terms) if self.weighted else str(of_terms[0][0])

    def merge_fingerprint(self) -> str:
        """Return what a merge list depends on, its length aside."""
        assert self.merging is not None, "store_merging comes first"
        learning = {name: value for name, value in self.merging.items() if name != "special_ids"}  # moves ids alone
        stage = [self.first_stage.key] if self.first_stage else []
        return fingerprint(self.counter_fingerprint, without_defaults(learning), *stage)

    def unlearned(self) -> "Manifest":
        """Return the manifest without what was learned from the counts."""
        return replace(self, merging=None, vocab_size=None, tokenizers=(), written={}, special={})

    def options_of(self, tokenizer: str = "tokenizer") -> TrainOptions:
        """Return the options that made the tokenizer in this folder of the run."""
        size = self.vocab_size if tokenizer == "tokenizer" else int(tokenizer.removeprefix("tokenizer-"))
        options = self.counting | (self.merging or {}) | self.special.get(tokenizer, {})
        return make_options(TrainOptions, options | {"vocab_size": size})


@dataclass(frozen=True)
class Run:
    """A run directory and its manifest."""

    directory: Directory
    manifest: Manifest

    @property
    def counter_path(self) -> Location:
        """The combined counter."""
        return self.directory / "counter.parquet"

    @property
    def merges_path(self) -> Location:
        """The merge list with its counts."""
        return self.directory / "merges.parquet"

    @property
    def counter(self) -> tuple[Location, str]:
        """The combined counter, and its fingerprint."""
        return self.counter_path, self.manifest.counter_fingerprint

    def chunk_counters(self, chunks: Iterable[int] | None = None) -> list[tuple[Location, str]]:
        """Return the counters of these chunks, or of all, each with its fingerprint."""
        home, names, keys = self.counts, self.manifest.chunk_names, self.manifest.chunk_keys
        return [(home / names[index], keys[index]) for index in (range(len(keys)) if chunks is None else chunks)]

    def chunks_there(self) -> set[int]:
        """Return the chunks of the plan that have a counter: a listing says so, no file is opened."""
        there = {*names_in(self.counts)}
        return {index for index, name in enumerate(self.manifest.chunk_names) if name in there}

    @property
    def counts(self) -> Location:
        """The directory of the chunks' counters."""
        home = named(self.manifest.counted_in) if self.manifest.counted_in else self.directory.location
        return home / COUNTS

    def shares(self) -> dict[str, int]:
        """Return the names of the shares of the combined counter, whole or begun, with how many they are together."""
        name = rf"\.?(share-[0-9]+-of-([0-9]+)-{self.manifest.counter_fingerprint[:KEY_DIGITS]}\.parquet)"
        there = (re.match(name, file) for file in self.directory.names_in(self.directory / COUNTS))
        return {share[1]: int(share[2]) for share in there if share}

    def owned_counts(self) -> list[str]:
        """Return the names of the files of counting: the counters and the log."""
        in_counts = (f"{COUNTS}/{name}" for name in (*self.manifest.chunk_names, *self.shares()))
        return [*in_counts, "counter.parquet", LOG]

    def remove_partial(self) -> None:
        """Delete half-written files of killed processes."""
        names = [*self.owned_counts(), *RESULTS, *self.manifest.tokenizers, RUN.manifest]
        self.directory.remove_partial(names)

    def changed(self, **values: Any) -> "Run":
        """Return the run with these values in its manifest."""
        return replace(self, manifest=replace(self.manifest, **values))

    def tokenizer_name(self, vocab_size: int) -> str:
        """Return `tokenizer` for the run's first size, `tokenizer-8000` for others."""
        return "tokenizer" if vocab_size == self.manifest.vocab_size else f"tokenizer-{vocab_size}"

    def tokenizer_directory(self, vocab_size: int) -> Location:
        """Return where the tokenizer of this size is stored."""
        return self.directory / self.tokenizer_name(vocab_size)

    def tokenizers(self) -> list[Location]:
        """List the directories of tokenizers that the manifest knows."""
        names = {name.partition("/")[0] for name in self.manifest.tokenizers}
        return [self.directory / name for name in sorted(names)]


def save(run: Run, *, absent: bool = False) -> bool:
    """Write `run.json`, whole or not at all, or only if it is absent; return whether it was written."""
    manifest = run.manifest
    special = {name: without_defaults(options) for name, options in manifest.special.items()}
    merging = manifest.merging and without_defaults(manifest.merging)
    document = plain(replace(manifest, counting=without_defaults(manifest.counting), merging=merging, special=special))
    plan = document.pop("plan")
    return run.directory.write_manifest({**document, "versions": versions(), **plan}, absent=absent)


def load(location: Location) -> Run | None:
    """Return the run in a directory, or None if there is none; raises as `Directory.read_manifest` does."""
    directory = Directory(location, RUN)
    if (document := directory.read_manifest()) is None:
        return None
    with directory.damage():
        manifest = replace(stored(Manifest, document), plan=stored_plan(document))
        if (source := manifest.source) and source.chosen_by and source.kind not in choosers():
            raise RunDirectoryError(
                f"{directory / RUN.manifest}: the merges are chosen by {source.kind!r}, which no installed package "
                f"brings: install the extension that does (entry points {GROUP})"
            )
        _ = manifest.chooser  # can be read
        if any(text.weight[0] < 0 or text.weight[1] < 1 for text in manifest.texts):
            raise ValueError("a weight is no fraction")
        for name in (*manifest.tokenizers, *manifest.written):
            if not _TOKENIZER_FILE.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a tokenizer's file")
        if manifest.source is not None and (manifest.plan.files or manifest.plan.chunks):
            raise ValueError("it has both a source and files")
        plan, inputs = manifest.plan, {*range(len(manifest.texts) if manifest.source is None else 0)}
        if len(plan.owners) != (len(plan.files) if inputs else 0) or not {*plan.owners} <= inputs:
            raise ValueError("a file is of an input that is not listed")
        for options in (manifest.counting, manifest.merging or {}, *manifest.special.values()):
            make_options(TrainOptions, options)
        manifest = replace(
            manifest,
            counting=with_defaults(manifest.counting, Scope.COUNT),
            merging=None if manifest.merging is None else with_defaults(manifest.merging, Scope.MERGE),
            special={name: with_defaults(options, Scope.SPECIAL) for name, options in manifest.special.items()},
        )
    return Run(directory, manifest)


def load_undamaged(location: Location) -> Run | None:
    """Return the run in a directory; None if there is none, or a damaged one, whose list of files cannot be trusted."""
    with contextlib.suppress(RunDirectoryError):
        return load(location)
    return None


def run_of(path: Location) -> Run | None:
    """Return the run that a path names: its directory, or a tokenizer's directory or file in it."""
    directories = [path, path.parent, path.parent.parent]
    if isinstance(path, Path):  # `.` in a tokenizer's directory has no parents until it is absolute
        directories += path.absolute().parents[:2]
    return next((run for directory in directories if directory.is_dir() and (run := load(directory))), None)


def tokenizer_named(path: Location) -> tuple[Run, Location]:
    """Return a run and the directory of one of its tokenizers: the one that a path names, or the run's own."""
    run = None if (path / RUN.manifest).exists() else run_of(path)
    if run is None:
        run = require(path)
        return run, run.directory / "tokenizer"
    home = path if path.is_dir() else path.parent
    home = run.directory / (home.absolute() if isinstance(home, Path) else home).name
    if home not in run.tokenizers():
        raise RunDirectoryError(f"{path} is none of the tokenizers that the run in {run.directory} wrote: name one")
    return run, home


def require(location: Location) -> Run:
    """Return the run in a directory; raises `RunDirectoryError` if there is none."""
    if (run := load(location)) is None:
        for name, exists in zip(_REMEDIES, existing([location / name for name in _REMEDIES]), strict=True):
            if exists:
                raise OtherKindError(f"{location} is {HOLDS[name]}: {_REMEDIES[name].format(location)}")
        raise OtherKindError(f"{location} holds no run (no run.json); `bpe-pipeline count` or `train` makes one")
    return run


def remove_results(run: Run) -> Run:
    """Delete what was learned from the counters: merges, tokenizers, reports. Returns the run without them."""
    run.directory.remove([*RESULTS, *run.manifest.tokenizers, *unedited(run, run.manifest.written)])
    return replace(run, manifest=run.manifest.unlearned())


def unedited(run: Run, names: Iterable[str]) -> list[str]:
    """Return the names of files of tokenizers that are as they were written: a person may edit a model card."""
    return [name for name in names if sha256_of(run.directory / name) == run.manifest.written.get(name, "")]


def clear_counts(run: Run) -> None:
    """Delete a run's counters and log, but not its results."""
    names = run.owned_counts()
    run.directory.remove(names)
    run.directory.remove_partial(names, endings=(KEPT,))


def store_merging(run: Run, options: TrainOptions) -> Run:
    """Store how the merges are chosen; results of other options go if their merge list is gone."""
    before, merging = run.manifest, options.merging
    if before.merging is not None and run.merges_path.exists():
        refuse_other_options(run.directory, MERGING, before.merging, merging)
    elif before.merging not in (None, merging):
        run = remove_results(run)
    has_results = any(existing([run.merges_path, run.directory / "tokenizer/tokenizer.json"]))
    vocab_size = run.manifest.vocab_size if has_results else None  # else the next size is the run's own
    run = run.changed(merging=merging, vocab_size=vocab_size)
    if run.manifest != before:
        save(run)
    return run


def store_tokenizers(run: Run, options: TrainOptions, file_names: Iterable[str], outdated: str, card: str) -> Run:
    """Store the special tokens of tokenizers that are written next, and the names of all files that they may have.

    The first size is the run's own. outdated: a file of an earlier tokenizer that is deleted; card: another one, unless
    it was edited.
    """
    known = {home.name for home in run.tokenizers()}
    run = run.changed(vocab_size=run.manifest.vocab_size or options.vocab_size[0])
    names = list(map(run.tokenizer_name, options.vocab_size))
    run.directory.refuse_linked_directories({*names} - known)
    cards = unedited(run, [f"{name}/{card}" for name in names])
    run.directory.remove([*cards, *(f"{name}/{outdated}" for name in names)])
    files = dict.fromkeys((*run.manifest.tokenizers, *(f"{name}/{file}" for name in names for file in file_names)))
    special = run.manifest.special | dict.fromkeys(names, options.in_scope(Scope.SPECIAL))
    run = run.changed(tokenizers=tuple(files), special=special)
    save(run)
    return run


def store_written(run: Run, files: Iterable[Location]) -> Run:
    """Store the names and SHA-256 of these files of tokenizers, which `verify` compares; forget removed ones."""
    new = {f"{file.parent.name}/{file.name}": file for file in files}
    there = {folder: names_in(run.directory / folder) for folder in {name.partition("/")[0] for name in new}}
    old = {name: (digest, *name.split("/")) for name, digest in run.manifest.written.items() if name not in new}
    written = {name: digest for name, (digest, folder, file) in old.items() if file in there.get(folder, [file])}
    written |= {name: digest for name, file in new.items() if (digest := sha256_of(file)) is not None}
    run = run.changed(written=dict(sorted(written.items())))
    save(run)
    return run
