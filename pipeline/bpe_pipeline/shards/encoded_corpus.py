"""What shards are: `shards.json`, which is written when they are complete."""

import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.skipped_or_altered import Tallies
from bpe_pipeline.counts.chunk_statistics import NotTaken
from bpe_pipeline.executors import ignore
from bpe_pipeline.run.stored import plain, stored
from bpe_pipeline.shards import formats
from bpe_pipeline.shards.formats import CODES, IDS, Layout, ShardFacts, ShardFormat
from bpe_pipeline.storage import Location, open_file, read_json
from bpe_pipeline.storage.atomic import write_json

RESULT = "shards.json"
FORMAT_VERSION = 1
ENOUGH_DOCUMENTS = 20  # to choose among which are validation's
_READ_BYTES = 1 << 20
SHARD_NAME = r"(shard|data)-[0-9]{5,}[\w.-]*"
SINGLE_STEMS = {"train": "train", "validation": "val"}  # of the one file of each split
_NAME = re.compile(rf"((train|validation)/)?{SHARD_NAME}")


def single_names(format_: ShardFormat) -> list[str]:
    """Return the names that the files of a split may have where it has one shard: its own, and that of its offsets."""
    names = (format_.names(stem, Layout({}, offsets=True)) for stem in SINGLE_STEMS.values())
    return [name for pair in names for name in pair if name]


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
class EncodedCorpus:
    """What `shards.json` says.

    dtype: of an id, little-endian: uint16 or uint32. vocab_size: all ids are below it. documents_by: "separator" or
    "offsets"; separator: the special token that ends a document, if any. tokens, documents: in all shards. files,
    read_bytes: what was read; text_bytes, text_tokens: of its text, without special tokens, in NFC where the tokenizer
    makes it. not_taken: text that was left out as asked. losses: skipped or altered input: kind -> count and first
    locations. tokenizer, encoding:
    fingerprints of the tokenizer, and of everything that the shards depend on. columns: name -> dtype, if rows have
    more than `input_ids`; row_tokens: if all rows have the same number; pack: if rows are not documents; order: the
    options that changed the order of the corpus; held_out_from: the file and the byte in it from which on all text is
    validation's, where no hash of documents decides; index: what the format adds to the directory. made_by: the
    extension that made rows which are not documents of a corpus; about: what it stores of them.
    """

    format: str
    dtype: Literal["uint16", "uint32"]
    vocab_size: int
    tokenizer: str
    documents_by: Literal["separator", "offsets"]
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
    held_out_from: tuple[str, int] | None = None
    index: tuple[FileFacts, ...] = ()
    made_by: str | None = None
    about: dict[str, Any] = field(default_factory=dict)
    text_tokens: int | None = None
    read_bytes: int = 0
    not_taken: NotTaken = NotTaken()

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes of text for each of its tokens, which every report has; None without text."""
        return self.text_bytes / self.text_tokens if self.text_tokens else None

    @property
    def kind(self) -> str:
        """The format and the dtype that an id has in its files, such as `arrow of int32`."""
        dtype = (self.columns or {}).get(IDS, self.dtype)
        return f"{self.format} of {formats.shard_format(self.format).stored_dtype(dtype)}"

    def layout(self) -> Layout:
        """Return what the rows have."""
        documents = self.pack is None
        offsets = documents and self.documents_by == "offsets"
        return Layout(self.columns or {IDS: self.dtype}, self.row_tokens, documents=documents, offsets=offsets)

    def file_names(self) -> list[str]:
        """Return the names of all files."""
        return [name for name, _, _ in self.checksums()]

    def checksums(self) -> list[tuple[str, int, str]]:
        """Return name, bytes and CRC-32 of all shards, of their second files, and of the format's own."""
        of_format = [(file.name, file.bytes, file.crc32) for file in self.index]
        return of_format + [
            (str(name), int(size or 0), str(crc32))
            for shard in self.shards
            for name, size, crc32 in (
                (shard.name, shard.bytes, shard.crc32),
                (shard.offsets, shard.offsets_bytes, shard.offsets_crc32),
            )
            if name is not None
        ]


def write_result(path: Location, corpus: EncodedCorpus) -> None:
    """Write `shards.json`, whole or not at all."""
    write_json(path, {"format_version": FORMAT_VERSION, **plain(corpus)})


def find_result(where: Location) -> tuple[Location, EncodedCorpus, tuple[ShardFacts, ...]] | None:
    """Return the directory, the result and the shards that a path names: a directory, split or shard."""
    for home in (where, where.parent):
        if (corpus := load_result(home / RESULT)) is not None:
            shards = [
                shard
                for shard in corpus.shards
                if home == where or where.name in (shard.name.partition("/")[0], shard.name)
            ]
            return home, corpus, tuple(shards)
    return None


def load_result(path: Location) -> EncodedCorpus | None:
    """Return what the manifest of shards says, or None if there is none. Raises `InputError` if it is damaged."""
    try:
        document = read_json(path)
        version = document.pop("format_version")
        if version != FORMAT_VERSION:
            raise ValueError(f"it is of format {version!r}, this release reads {FORMAT_VERSION}")
        corpus = stored(EncodedCorpus, document)
        _check(corpus)
        return corpus
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} cannot be read ({error}); encode the corpus again") from None


def _check(corpus: EncodedCorpus) -> None:
    """Raise `ValueError` for a value out of its range, or a name that is not a shard's."""
    format_ = formats.shard_format(corpus.format)
    if not {*(corpus.columns or {}).values()} <= {*CODES} or IDS not in (corpus.columns or {IDS}):
        raise ValueError(f"columns are {corpus.columns!r}")
    for holder in (corpus, *corpus.shards, *corpus.index):
        if any(type(value) is int and value < 0 for value in vars(holder).values()):
            raise ValueError("a number is negative")
        for names in (("separator", "separator_id"), ("offsets", "offsets_bytes", "offsets_crc32")):
            if len({getattr(holder, name, None) is None for name in names}) > 1:
                raise ValueError(f"only some of {', '.join(names)} are known")
    check_names(corpus.file_names(), format_)


def check_names(names: Iterable[str], format_: ShardFormat) -> None:
    """Raise `ValueError` for a name that no file of a directory of shards has."""
    directories = dict.fromkeys(("", "train", "validation"), ())
    known = {*single_names(format_), *format_.index(Layout({IDS: "uint16"}), directories)}
    for name in names:
        if name not in known and not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a shard's file")
