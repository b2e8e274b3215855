"""A directory of shards: the manifest, where everything is stored, and what `shards.json` says.

    encoding.json      the manifest: options, tokenizer, plan, names of the shards; no state
    parts/000000.ids   the ids of a chunk, its checkpoint; deleted when all shards are whole
    shard-00000.npy    the shards, and shard-00000.documents.npy if documents are separated by offsets
    shards.json        what the shards are; written last, so the whole is complete if it exists

`shards.json` is for people and programs: format, dtype, tokenizer, tokens, documents, and each shard with its CRC-32.
"""

import hashlib
import re
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from pipeline.base.errors import InputError
from pipeline.corpus.skipped_or_altered import Tallies
from pipeline.run import standard_input
from pipeline.run.directory import LOG, Directory, Kind, fingerprint
from pipeline.run.plan import Plan
from pipeline.storage import Location, open_file
from pipeline.storage.atomic import write_json
from pipeline.storage.bounded import read_json
from pipeline.tokenizer.model import Model

RESULT = "shards.json"
FORMAT_VERSION = 1
_READ_BYTES = 1 << 20
_DOCUMENTS_BY = ("separator", "offsets")
_SHARD = re.compile(r"shard-[0-9]{5,}(\.documents)?\.(npy|bin|parquet)")
SHARDS = Kind("encoding.json", re.compile(rf"parts|log\.txt|shards\.json|{_SHARD.pattern}"), FORMAT_VERSION)


@dataclass(frozen=True)
class Encoding:
    """What `encoding.json` says.

    options: those that decide what the shards hold, and the tokenizer's fingerprint. shards: names of files that may
    have been written.
    """

    directory: Directory
    options: dict[str, Any]
    plan: Plan
    shards: tuple[str, ...] = ()

    def chunk_fingerprint(self, index: int) -> str:
        """Return what one chunk's part depends on."""
        return self.plan.fingerprint(index, self.options, FORMAT_VERSION)

    def fingerprint(self) -> str:
        """Return what the shards depend on."""
        files = [[file.path, file.size, file.digest, file.format, file.compression] for file in self.plan.files]
        return fingerprint(self.options, FORMAT_VERSION, files)

    def part_path(self, index: int) -> Location:
        """Return the part of the chunk with this index in the plan."""
        return self.directory / f"parts/{index:06d}.ids"

    def owned_parts(self) -> Iterator[str]:
        """List the parts."""
        return (f"parts/{index:06d}.ids" for index in range(len(self.plan.chunks)))


def shard_name(index: int, format_: str) -> str:
    """Return `shard-00000.npy`, ..."""
    return f"shard-{index:05d}.{format_}"


def offsets_name(index: int) -> str:
    """Return the name of the file with a shard's document offsets."""
    return f"shard-{index:05d}.documents.npy"


def tokenizer_fingerprint(model: Model) -> str:
    """A digest of everything that ids depend on: 32 hexadecimal digits, the same on every machine."""
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
    )


def save(encoding: Encoding) -> None:
    """Write `encoding.json`, whole or not at all."""
    document = {"options": encoding.options, "shards": encoding.shards, **encoding.plan.to_json()}
    encoding.directory.write_manifest(document)


def load(directory: Directory) -> Encoding | None:
    """Return the encoding in a directory, or None if there is none; raises as `Directory.read_manifest` does."""
    document = directory.read_manifest()
    if document is None:
        return None
    with directory.damage():
        names = tuple(map(str, document.get("shards", ())))
        return Encoding(directory, dict(document["options"]), Plan.from_json(document), names)


def clear(encoding: Encoding, keep: list[str]) -> None:
    """Delete what an encoding owns but its manifest; of its copies of standard input all but `keep`."""
    encoding.directory.remove([RESULT, *encoding.owned_parts(), *encoding.shards, LOG])
    standard_input.remove_copies(encoding.directory, keep)


def remove_partial(encoding: Encoding) -> None:
    """Delete what killed writers left."""
    names = [RESULT, SHARDS.manifest, *encoding.owned_parts(), *encoding.shards, standard_input.DIRECTORY]
    encoding.directory.remove_partial(names)


def checksum(where: Location, start: int = 0) -> tuple[int, str]:
    """The bytes of a file from `start` on, and their CRC-32 as zlib and gzip have it. Raises OSError."""
    size = crc32 = 0
    buffer = memoryview(bytearray(_READ_BYTES))
    with open_file(where) as file:
        file.seek(start)
        while got := file.readinto(buffer):
            crc32 = zlib.crc32(buffer[:got], crc32)
            size += got
    return size, f"{crc32:08x}"


@dataclass(frozen=True)
class ShardFacts:
    """One shard: `documents` are those that end in it, `crc32` is of the file's bytes.

    offsets: the file beside it that says where documents begin, with its bytes and its CRC-32.
    """

    name: str
    tokens: int
    documents: int
    bytes: int
    crc32: str
    offsets: str | None = None
    offsets_bytes: int | None = None
    offsets_crc32: str | None = None


@dataclass(frozen=True)
class EncodedCorpus:
    """What `shards.json` says.

    format: npy, bin or parquet. dtype: of an id, little-endian. vocab_size: all ids are below it. documents_by:
    "separator" or "offsets"; separator: the special token that ends a document, with its id, or None. tokenizer: its
    fingerprint. text_bytes: as they were read. encoding: the fingerprint of all that the shards depend on.
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

    def write(self, directory: Directory) -> None:
        """Write `shards.json`, whole or not at all."""
        directory.require_lock()
        document = {"format_version": FORMAT_VERSION, **asdict(self)}
        write_json(directory / RESULT, document)


def load_result(directory: Location) -> EncodedCorpus | None:
    """What `shards.json` says, or None where there is none. Raises `InputError` where it is damaged."""
    path = directory / RESULT
    try:
        document = read_json(path)
        version = document.pop("format_version")
        if version != FORMAT_VERSION:
            raise ValueError(f"it is of format {version!r}, this release reads {FORMAT_VERSION}")
        found = EncodedCorpus(**document)
        return _checked(replace(found, shards=tuple(ShardFacts(**shard) for shard in document["shards"])))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} cannot be read ({error}); encode the corpus again") from None


def _checked(found: EncodedCorpus) -> EncodedCorpus:
    """The same, if every value is of its kind and names lie in the directory; `ValueError` naming the first else."""
    one_of = {"format": ("npy", "bin", "parquet"), "dtype": ("uint16", "uint32"), "documents_by": _DOCUMENTS_BY}
    for name, values in one_of.items():
        if getattr(found, name) not in values:
            raise ValueError(f"{name} is {getattr(found, name)!r}, not one of {', '.join(values)}")
    _require(found, int, "vocab_size", "tokens", "documents", "text_bytes", "files")
    _require(found, str, "tokenizer", "encoding")
    if found.separator is not None:
        _require(found, str, "separator")
        _require(found, int, "separator_id")
    for kind, tallied in found.losses.items():
        if type(tallied["count"]) is not int or not all(type(text) is str for text in tallied["examples"]):
            raise ValueError(f"losses of {kind} are not a count and examples")
    for shard in found.shards:
        _require(shard, int, "tokens", "documents", "bytes")
        _require(shard, str, "name", "crc32")
        if shard.offsets is not None:
            _require(shard, str, "offsets")
            _require(shard, int, "offsets_bytes")
            _require(shard, str, "offsets_crc32")
        for file in (shard.name, shard.offsets):
            if file is not None and not _SHARD.fullmatch(file):
                raise ValueError(f"{file!r} is not the name of a shard")
    return found


def _require(holder: EncodedCorpus | ShardFacts, kind: type, *names: str) -> None:
    for name in names:
        value = getattr(holder, name)
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            raise ValueError(f"{name} is {value!r}")
