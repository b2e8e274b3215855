"""A directory of shards: its manifest, the names of its files, and `shards.json`.

encoding.json      the manifest: options, tokenizer, plan, names of the shards; no state
parts/000000.ids   the ids of a chunk, or where they are in the shards; deleted when all shards are written
dealt/0000-000000.ids  the documents of a part by bucket, where the order is not the corpus's own; deleted likewise
.shard-00000.npy.begun  a shard that is written in place, until it is complete
shard-00000.npy    the shards, each with a second file if the format has one, such as shard-00000.documents.npy
                   for offsets; and what else the format adds, such as state.json and dataset_info.json of arrow
shards.json        what the shards are, for people and programs; written last: the shards are complete if it exists
"""

import contextlib
import hashlib
import itertools
import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pipeline.base.errors import InputError, UsageError
from pipeline.corpus.skipped_or_altered import Tallies
from pipeline.executors import ignore
from pipeline.run import standard_input
from pipeline.run.directory import LOG, STANDARD_INPUT, Directory, Kind, fingerprint
from pipeline.run.options import flag_of
from pipeline.run.plan import Plan, corpus_bytes, dependencies_of, stored_plan
from pipeline.run.stored import plain, stored
from pipeline.shards.begun_shards import BegunShards, begun_shards
from pipeline.shards.formats import FORMATS, shard_format
from pipeline.shards.formats.arrow import STORED
from pipeline.shards.formats.shard_format import CODES, ID_BYTES, IDS, Layout, ShardFacts
from pipeline.shards.ids_file import StoredIds, part_name
from pipeline.storage import Location, open_file, read_json
from pipeline.storage.atomic import write_json
from pipeline.tokenizer.model import Model

RESULT = "shards.json"
PARTS = ".parts"  # the end of the name of a directory that makes a single file
FORMAT_VERSION = 1
_READ_BYTES = 1 << 20
ORDER_OPTIONS = ("shuffle", "seed", "repeat", "weights", "val_fraction", "val_tokens")
_SHARD = r"(shard|data)-[0-9]{5,}[\w.-]*"
_INDEX = r"(state|dataset_info|dataset_dict|index)\.json"
_NAME = re.compile(rf"((train|validation)/)?({_SHARD}|{_INDEX})")
SHARDS = Kind("encoding.json", re.compile(rf"parts|dealt|log\.txt|shards\.json|\.?{_SHARD}"), FORMAT_VERSION)


def kind_of(format_name: str, *, validation: bool) -> Kind:
    """Return the kind of a directory of shards of one format, with or without what is held out."""
    format_ = shard_format(format_name)
    directories = directories_of(format_name, ["train", *(["validation"] if validation else [])])
    written = format_.index(Layout({IDS: "uint16"}), dict.fromkeys(directories, ()))
    tops = {name.split("/")[0] for name in (*written, *directories) if name}
    return replace(SHARDS, reserved=re.compile("|".join([SHARDS.reserved.pattern, *map(re.escape, sorted(tops))])))


def directories_of(format_name: str, splits: Sequence[str]) -> list[str]:
    """Return the directory of each split: its name, but "" for training alone and where the format wants no other."""
    apart = len(splits) > 1 and shard_format(format_name).split_directories
    return ["" if split == "train" and not apart else split for split in splits]


def single_format(output: Location) -> str | None:
    """Return the format of an output that is a single file by its name, such as `train.bin`; None for a directory."""
    name = output.suffix.removeprefix(".")
    known = name in FORMATS and FORMATS[name].alone
    return name if known and not output.is_dir() else None


def _single_of(name: str) -> str | None:
    """Return the name of the single file that is made in a directory of this name, if one is."""
    extensions = tuple(f".{name}{PARTS}" for name, format_ in FORMATS.items() if format_.alone)
    return name.removesuffix(PARTS) if name.endswith(extensions) else None


def single_names(name: str) -> dict[str, tuple[str, str]]:
    """Return the names of the single files of each split, and of their offsets: `train.bin` -> `val.bin`."""
    stem, _, extension = name.rpartition(".")
    stems = {"train": stem, "validation": "val" if stem == "train" else f"{stem}.val"}
    return {split: (f"{own}.{extension}", f"{own}.documents.npy") for split, own in stems.items()}


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
    def single(self) -> str | None:
        """The name of the single file that is made, if it is one."""
        return _single_of(self.directory.location.name)

    @property
    def home(self) -> Location:
        """Where the shards are when they are complete."""
        where = self.directory.location
        return where.parent if self.single else where

    @property
    def result(self) -> Location:
        """Where it is said what the shards are."""
        return self.home / (f"{self.single}.json" if self.single else RESULT)

    def fingerprint(self) -> str:
        """Return what the shards depend on."""
        return fingerprint(self.options, FORMAT_VERSION, list(map(dependencies_of, self.plan.files)))

    def owned_parts(self) -> list[str]:
        """Return the names of the parts, in the order of the chunks."""
        return [f"parts/{part_name(index)}" for index in range(len(self.plan.chunks))]

    def owned_dealt(self) -> list[list[str]]:
        """Return the names of the dealt files of each epoch."""
        if not is_dealt(self.options):
            return []
        epochs, parts = self.options.get("repeat") or 1, range(len(self.plan.chunks))
        return [[f"dealt/{epoch:04d}-{index:06d}.ids" for index in parts] for epoch in range(epochs)]

    def owned_working(self) -> list[str]:
        """Return the names of all files that are deleted when the shards are complete."""
        begun = self.begun.names() if self.begun else []
        return [*self.owned_parts(), *itertools.chain(*self.owned_dealt()), *begun]

    @property
    def begun(self) -> BegunShards | None:
        """The shards that are written in place, if they are."""
        bytes_ = corpus_bytes(self.plan.files)
        in_order = not is_dealt(self.options)
        return begun_shards(self.directory.location, self.options, self.single, bytes_) if in_order else None

    def parts(self) -> list[StoredIds]:
        """Return the path of each part, and the fingerprint of what it depends on."""
        return [
            StoredIds(self.directory / name, self.plan.fingerprint(index, self.options, FORMAT_VERSION))
            for index, name in enumerate(self.owned_parts())
        ]


def is_dealt(options: dict[str, Any]) -> bool:
    """Whether the order of these options is not the corpus's own; rows of chat data are ordered otherwise."""
    return "shuffle" in options and any(map(options.get, ("shuffle", "weights", "val_fraction", "val_tokens")))


def holds_out(options: dict[str, Any]) -> bool:
    """Return whether these options make a validation split; `UsageError` for two ways to make one."""
    given = [flag_of(name) for name in ("val_fraction", "val_tokens", "val_size") if options.get(name)]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} exclude each other; give one")
    return bool(given)


def tokenizer_fingerprint(model: Model) -> str:
    """Return a digest of everything that ids depend on: 32 hexadecimal digits, the same on every machine."""
    vocabulary, pattern, preparation = model.vocabulary, model.pattern, model.preparation
    digest = hashlib.sha256()
    numbers = (vocabulary.tokens, map(len, vocabulary.tokens.values()))
    for column in (*(array("I", one) for one in numbers), vocabulary.left, vocabulary.right, vocabulary.result):
        digest.update(len(column).to_bytes(8, "little") + column.tobytes())
    digest.update(b"".join(vocabulary.tokens.values()))
    steps = [step.expression for step in getattr(pattern, "steps", ())]
    rules = {text: asdict(rule) for text, rule in sorted(preparation.rules.items())}
    return fingerprint(
        digest.hexdigest(),
        vocabulary.special_tokens,
        [pattern.expression, steps, pattern.unicode_version],
        [model.whole_pieces, preparation.nfc, preparation.space_in_front, rules],
        *model.front,
        *(["behind", *model.behind] if model.behind else []),
    )


def save(encoding: Encoding) -> None:
    """Write `encoding.json`, whole or not at all."""
    own = {"options": encoding.options, "shards": encoding.shards}
    encoding.directory.write_manifest({**own, **plain(encoding.plan)})


def load(directory: Directory) -> Encoding | None:
    """Return the encoding in a directory, or None if there is none; raises as `Directory.read_manifest` does."""
    document = directory.read_manifest()
    if document is None:
        return None
    with directory.damage():
        names = stored(tuple[str, ...], document["shards"])
        _check_names(names, _single_of(directory.location.name))
        options = stored(dict[str, Any], document["options"])
        return Encoding(directory, options, stored_plan(document, directory), names)


def remove_all(encoding: Encoding, keep: list[str]) -> None:
    """Delete every file of an encoding but its manifest; of its copies of standard input all but `keep`."""
    names = list(encoding.shards)
    with contextlib.suppress(InputError):  # shards.json lists more where it was written last
        result = load_result(encoding.directory / RESULT)
        if result is not None and result.encoding == encoding.fingerprint():
            names += result.file_names()
    encoding.directory.remove([RESULT, *encoding.owned_working(), *names, LOG])
    standard_input.remove_copies(encoding.directory, keep)


def remove_working_directory(encoding: Encoding) -> None:
    """Delete what is left in the directory of a finished single file; the lock removes the directory."""
    encoding.directory.remove([*encoding.shards, SHARDS.manifest, LOG])
    standard_input.remove_copies(encoding.directory, ())


def remove_partial(encoding: Encoding) -> None:
    """Delete the temporary files of killed writers."""
    names = [RESULT, SHARDS.manifest, *encoding.owned_working(), *encoding.shards, STANDARD_INPUT]
    encoding.directory.remove_partial(names)


def checksum(where: Location, advance: Callable[[int], None] = ignore) -> tuple[int, str]:
    """Return the size and CRC-32 of a file; `advance` receives the number of bytes of each block. Raises OSError."""
    size = crc32 = 0
    buffer = memoryview(bytearray(_READ_BYTES))
    with open_file(where) as file:
        while got := file.readinto(buffer):
            crc32 = zlib.crc32(buffer[:got], crc32)
            size += got
            advance(got)
    return size, f"{crc32:08x}"


@dataclass(frozen=True)
class FileFacts:
    """One more file of a format, such as its index."""

    name: str
    bytes: int
    crc32: str


@dataclass(frozen=True)
class Conversations:
    """How many conversations of chat data have which length, and which share of it is learned: each one that is not
    dropped once, before it is cut to `cut_off` tokens, sampled and held out.

    lengths: tokens, rounded up to nine binary digits, with their conversations; learned: percent of the tokens after
    the cut, rounded down to a multiple of 5, likewise.
    """

    cut_off: int
    lengths: tuple[tuple[int, int], ...]
    learned: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """How many they are."""
        return sum(count for _, count in self.lengths)

    def longest(self, share: float) -> int:
        """Return the length that this share of them has at most."""
        ends = itertools.accumulate(count for _, count in self.lengths)
        return next(length for (length, _), end in zip(self.lengths, ends, strict=True) if end >= share * self.count)

    def cut_by(self, cut_off: int) -> tuple[int, float, float]:
        """Return how many of them a cut-off cuts, their share, and the share of the tokens that it leaves out."""
        over = [(length - cut_off, count) for length, count in self.lengths if length > cut_off]
        cut, tokens = sum(count for _, count in over), sum(length * count for length, count in self.lengths)
        return cut, cut / self.count, sum(more * count for more, count in over) / tokens

    def __str__(self) -> str:
        shares = ", ".join(f"{share:.0%} at most {self.longest(share):,}" for share in (0.5, 0.9, 0.99))
        return f"{self.count:,} of {self.lengths[0][0]:,} to {self.lengths[-1][0]:,} tokens, {shares}"


@dataclass(frozen=True)
class EncodedCorpus:
    """What `shards.json` says.

    dtype: of an id, little-endian: uint16 or uint32. vocab_size: all ids are below it. documents_by: "separator" or
    "offsets"; separator: the special token that ends a document, if any. tokens, documents: in all shards. text_bytes,
    files: what was read. losses: skipped or altered input: kind -> count and first locations. tokenizer, encoding:
    fingerprints of the tokenizer, and of everything that the shards depend on. columns: name -> dtype, if rows have
    more than `input_ids`; row_tokens: if all rows have the same number; pack: if rows are not documents; order: the
    options that changed the order of the corpus; index: what the format adds to the directory; options: those of
    `encoding.json` that a single file does not keep; conversations: of chat data.
    """

    format: str
    dtype: str
    vocab_size: int
    tokenizer: str
    documents_by: str
    separator: str | None
    separator_id: int | None
    tokens: int
    documents: int
    text_bytes: int
    files: int
    losses: Tallies
    shards: tuple[ShardFacts, ...]
    encoding: str
    columns: dict[str, str] | None = None
    row_tokens: int | None = None
    pack: str | None = None
    order: dict[str, Any] | None = None
    index: tuple[FileFacts, ...] = ()
    options: dict[str, Any] | None = None
    conversations: Conversations | None = None

    @property
    def kind(self) -> str:
        """The format and the dtype that an id has in its files, such as `arrow of int32`."""
        dtype = (self.columns or {}).get(IDS, self.dtype)
        return f"{self.format} of {STORED.get(dtype, dtype) if self.format == 'arrow' else dtype}"

    def layout(self) -> Layout:
        """Return what the rows have."""
        return Layout(self.columns or {IDS: self.dtype}, self.row_tokens, documents=self.pack is None)

    def file_names(self) -> list[str]:
        """Return the names of all files."""
        return [name for name, _, _ in self.checksums()]

    def checksums(self) -> list[tuple[str, int, str]]:
        """Return name, bytes and CRC-32 of all shards, of their second files, and of the format's own."""
        own = [(one.name, one.bytes, one.crc32) for one in self.index]
        return own + [
            (str(name), int(size or 0), str(crc32))
            for shard in self.shards
            for name, size, crc32 in (
                (shard.name, shard.bytes, shard.crc32),
                (shard.offsets, shard.offsets_bytes, shard.offsets_crc32),
            )
            if name is not None
        ]


def save_result(corpus: EncodedCorpus, encoding: Encoding) -> None:
    """Write `shards.json`, or the manifest of a single file, whole or not at all."""
    encoding.directory.require_lock()
    write_json(encoding.result, {"format_version": FORMAT_VERSION, **plain(corpus)})


def find_result(where: Location) -> tuple[Location, EncodedCorpus, tuple[ShardFacts, ...]] | None:
    """Return the directory, the result and the shards that a path names: a directory, split, shard or single file."""
    base = _training_name(where.name)
    for home, path in (
        (where, where / RESULT),
        (where.parent, where.parent / RESULT),
        *((where.parent, where.parent / f"{name}.json") for name in base),
    ):
        corpus = load_result(path)
        if corpus is not None:
            shards = [
                one for one in corpus.shards if home == where or where.name in (one.name.partition("/")[0], one.name)
            ]
            return home, corpus, tuple(shards)
    return None


def _training_name(name: str) -> list[str]:
    """Return the names of single files whose manifest may have this one."""
    stem, _, extension = name.rpartition(".")
    return [
        name,
        *(["train." + extension] if stem == "val" else []),
        *([f"{stem[:-4]}.{extension}"] if stem.endswith(".val") else []),
    ]


def load_result(path: Location) -> EncodedCorpus | None:
    """Return what the manifest of shards says, or None if there is none. Raises `InputError` if it is damaged."""
    try:
        document = read_json(path)
        version = document.pop("format_version")
        if version != FORMAT_VERSION:
            raise ValueError(f"it is of format {version!r}, this release reads {FORMAT_VERSION}")
        found = stored(EncodedCorpus, document)
        _check(found, path.name.removesuffix(".json") if path.name != RESULT else None)
        return found
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} cannot be read ({error}); encode the corpus again") from None


def _check(found: EncodedCorpus, single: str | None) -> None:
    """Raise `ValueError` for a value out of its range, or a name that is not a shard's."""
    shard_format(found.format)
    for value, values in ((found.dtype, ID_BYTES), (found.documents_by, ("separator", "offsets"))):
        if value not in values:
            raise ValueError(f"{value!r} is not one of {', '.join(values)}")
    if not {*(found.columns or {}).values()} <= {*CODES} or IDS not in (found.columns or {IDS}):
        raise ValueError(f"columns are {found.columns!r}")
    for holder in (found, *found.shards, *found.index):
        if any(type(value) is int and value < 0 for value in vars(holder).values()):
            raise ValueError("a number is negative")
        for names in (("separator", "separator_id"), ("offsets", "offsets_bytes", "offsets_crc32")):
            if len({getattr(holder, name, None) is None for name in names}) > 1:
                raise ValueError(f"only some of {', '.join(names)} are known")
    _check_names(found.file_names(), single)


def _check_names(names: Iterable[str], single: str | None) -> None:
    own = {name for pair in single_names(single).values() for name in pair} if single else set()
    for name in names:
        if name not in own and (single or not _NAME.fullmatch(name)):
            raise ValueError(f"{name!r} is not the name of a shard's file")
