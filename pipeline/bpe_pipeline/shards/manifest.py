"""A directory of shards: its manifest, and the names of its files.

encoding.json      the manifest: options, tokenizer, plan, names of the shards; no state
parts/000000-*.ids the ids of a chunk, made by a worker; they stay until all shards are written
journal            how far the one writer is, and .finished, a line for each finished shard; deleted when all
                   shards are written
.train-00000.*.ids the ids of a shard that is not finished; .ends: where documents end; .shard, .second: a finished one;
                   *: the key, 16 digits of what the encoding depends on
.bucket-000.*.ids  the documents of a bucket that will be sorted; .ends: their keys and sizes
shard-00000.npy    the shards, each with a second file if the format has one, such as shard-00000.documents.npy
                   for offsets; and what else the format adds, such as state.json and dataset_info.json of arrow
shards.json        what the shards are, for people and programs; written last: the shards are complete if it exists
"""

import contextlib
import hashlib
import re
from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.run.directory import KEY_DIGITS, LOG, LOG_OF_PART, Directory, Kind, fingerprint
from bpe_pipeline.run.options import with_defaults, without_defaults
from bpe_pipeline.run.plan import Plan, dependencies_of, stored_plan
from bpe_pipeline.run.stored import plain, stored
from bpe_pipeline.shards.blocks import ChunkFile
from bpe_pipeline.shards.encoded_corpus import (
    FORMAT_VERSION,
    RESULT,
    SHARD_NAME,
    SINGLE_STEMS,
    EncodedCorpus,
    check_names,
    load_result,
    single_names,
    write_result,
)
from bpe_pipeline.shards.formats import IDS, Layout, shard_format
from bpe_pipeline.shards.writer import FINISHED, JOURNAL, Journal
from bpe_pipeline.storage import Location, names_in
from bpe_pipeline.tokenizer.model import Model

_BEGUN = re.compile(r"\.{1,2}(train|validation|bucket)-[\d-]{3,}\.[0-9a-f]{16}\.(ids|ends|shard|second)(\..*)?")
ORDER_OPTIONS = ("shuffle", "seed", "val_fraction")
_WORKING = rf"parts|{JOURNAL}|{re.escape(FINISHED)}|{_BEGUN.pattern}"
_RESERVED = rf"{_WORKING}|log\.txt|{LOG_OF_PART.pattern}|shards\.json|{SHARD_NAME}"
SHARDS = Kind("encoding.json", re.compile(_RESERVED), FORMAT_VERSION)


def kind_of(options: Mapping[str, Any]) -> Kind:
    """Return the kind of a directory of shards that these options ask for."""
    format_ = shard_format(options["shard_format"])
    directories = [directory_of(options, split) for split in splits_of(options)]
    written = format_.index(Layout({IDS: "uint16"}), dict.fromkeys(directories, ()))
    single = single_names(format_) if options.get("single") else ()
    tops = {name.split("/")[0] for name in (*written, *directories, *single) if name}
    return replace(SHARDS, reserved=re.compile("|".join([SHARDS.reserved.pattern, *map(re.escape, sorted(tops))])))


def splits_of(options: Mapping[str, Any]) -> list[str]:
    """Return what documents are divided into."""
    return ["train", *(["validation"] if holds_out(options) else [])]


def directory_of(options: Mapping[str, Any], split: str) -> str:
    """Return the directory of the shards of a split: "" for that of the encoding, if the format wants no other."""
    apart = split != "train" or (holds_out(options) and shard_format(options["shard_format"]).split_directories)
    return split if apart and not options.get("single") else ""


@dataclass(frozen=True)
class Encoding:
    """What `encoding.json` says. options: those that decide what the shards hold, and the tokenizer's fingerprint.

    shards: names of files that may be there.
    """

    directory: Directory
    options: dict[str, Any]
    plan: Plan
    shards: tuple[str, ...] = ()

    @property
    def single(self) -> bool:
        """Whether each split is one file."""
        return bool(self.options.get("single"))

    @property
    def result(self) -> Location:
        """Where it is said what the shards are."""
        return self.directory / RESULT

    def finished(self) -> EncodedCorpus | None:
        """Return what the shards are, if it is said; `InputError` if that is damaged."""
        corpus = load_result(self.result)
        return corpus if corpus is not None and corpus.encoding == self.fingerprint() else None

    def names(self, layout: Layout, split: str, shards: int) -> list[tuple[str, str | None]]:
        """Return the names of the shards of a split that has so many, and of their second files."""
        format_, directory = shard_format(self.options["shard_format"]), directory_of(self.options, split)
        stems = [format_.stem.format(index=index, shards=shards) for index in range(shards)]
        if self.single:
            stems = [SINGLE_STEMS[split]]
        return [format_.names(f"{directory}/{stem}" if directory else stem, layout) for stem in stems]

    def fingerprint(self) -> str:
        """Return what the shards depend on."""
        return fingerprint(without_defaults(self.options), FORMAT_VERSION, list(map(dependencies_of, self.plan.files)))

    def owned_parts(self) -> list[str]:
        """Return the names of the parts, in the order of the chunks."""
        return [f"parts/{part.path.name}" for part in self.parts]

    def remove_working(self) -> None:
        """Delete what is needed no more when the shards are complete, but not the manifest."""
        self.directory.remove(self.owned_parts())
        if isinstance(where := self.directory.location, Path):
            self.remove_begun(where)

    def remove_begun(self, where: Path) -> None:
        """Delete the journal and all buckets in a local directory, after which encoding starts from the first chunk."""
        for name in names_in(where):
            if name in (JOURNAL, FINISHED) or _BEGUN.fullmatch(name):
                (where / name).unlink()

    def journal_of(self) -> str:
        """Return what the journal depends on: it counts chunks."""
        return fingerprint(self.fingerprint(), plain(self.plan.chunks))

    def chunks_there(self) -> set[int]:
        """Return the chunks that are in buckets, and those with a file: a listing says so, no file is opened."""
        there = {*names_in(self.directory / "parts")}
        with_file = {index for index, part in enumerate(self.parts) if part.path.name in there}
        return with_file | {*range(self.written_chunks())}

    def written_chunks(self) -> int:
        """Return how many chunks the journal of the one writer has; 0 if there is none."""
        where = self.directory.location
        position = Journal(where / JOURNAL, self.journal_of()).load() if isinstance(where, Path) else None
        if position is None:
            return 0
        return position.source if position.dealt is None else len(self.plan.chunks)

    @cached_property
    def parts(self) -> list[ChunkFile]:
        """The path of each part, with the first digits of its key, and the key: what it depends on."""
        keys, home = self.plan.keys(without_defaults(self.options), FORMAT_VERSION), self.directory / "parts"
        return [ChunkFile(home / f"{index:06d}-{key[:KEY_DIGITS]}.ids", key) for index, key in enumerate(keys)]


def holds_out(options: Mapping[str, Any]) -> bool:
    """Return whether these options make a validation split."""
    return bool(options.get("val_fraction"))


def tokenizer_fingerprint(model: Model) -> str:
    """Return a digest of everything that ids depend on: 32 hexadecimal digits, the same on every machine."""
    vocabulary, pattern, preparation = model.vocabulary, model.pattern, model.preparation
    digest = hashlib.sha256()
    ids, lengths = array("I", vocabulary.tokens), array("I", map(len, vocabulary.tokens.values()))
    for column in (ids, lengths, vocabulary.left, vocabulary.right, vocabulary.result):
        digest.update(len(column).to_bytes(8, "little") + column.tobytes())
    digest.update(b"".join(vocabulary.tokens.values()))
    steps = [step.expression for step in getattr(pattern, "steps", ())]
    rules = {text: asdict(rule) for text, rule in sorted(preparation.rules.items())}
    return fingerprint(
        digest.hexdigest(),
        vocabulary.special_tokens,
        [pattern.expression, steps, pattern.unicode_version],
        [model.whole_pre_tokens, preparation.nfc, preparation.space_in_front, rules],
        *model.front,
        *(["behind", *model.behind] if model.behind else []),
        *(["ending", *model.also_ending] if model.also_ending else []),
        *(["unknown", model.unknown.text, model.unknown.fused] if model.unknown.text is not None else []),
    )


def save(encoding: Encoding, *, absent: bool = False) -> bool:
    """Write `encoding.json`, whole or not at all, or only if it is absent; return whether it was written."""
    settings = {"options": without_defaults(encoding.options), "shards": encoding.shards}
    return encoding.directory.write_manifest({**settings, **plain(encoding.plan)}, absent=absent)


def load(directory: Directory) -> Encoding | None:
    """Return the encoding in a directory, or None if there is none; raises as `Directory.read_manifest` does."""
    document = directory.read_manifest()
    if document is None:
        return None
    with directory.damage():
        options = with_defaults(stored(dict[str, Any], document["options"]))
        names = stored(tuple[str, ...], document["shards"])
        check_names(names, shard_format(options["shard_format"]))
        return Encoding(directory, options, stored_plan(document), names)


def remove_all(encoding: Encoding) -> None:
    """Delete every file of an encoding but its manifest."""
    names = list(encoding.shards)
    with contextlib.suppress(InputError):  # shards.json lists more where it was written last
        if (corpus := encoding.finished()) is not None:
            names += corpus.file_names()
    encoding.directory.remove([RESULT, *names])
    encoding.remove_working()
    encoding.directory.remove([LOG])


def remove_partial(encoding: Encoding) -> None:
    """Delete the temporary files of killed writers."""
    working = [SHARDS.manifest, JOURNAL, *encoding.owned_parts()]
    encoding.directory.remove_partial([*working, RESULT, *encoding.shards])


def save_result(corpus: EncodedCorpus, encoding: Encoding) -> None:
    """Write what the shards of an encoding are."""
    encoding.directory.require_lock()
    write_result(encoding.result, corpus)
