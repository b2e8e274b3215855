"""A directory of shards: what was decided before the first chunk was encoded, where everything lies, what came of it.

    encoding.json      the manifest: options, tokenizer, files and chunks; no state
    parts/000000.ids   the ids of a chunk, its checkpoint; removed when all shards are whole
    shard-00000.npy    the shards, and shard-00000.documents.npy where documents are told apart by offsets
    shards.json        what the shards are; written last, so the whole is complete where it is

`shards.json` is for people and programs: format, dtype, tokenizer, tokens, documents, and each shard with its CRC-32.
"""

import hashlib
import json
import re
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from pipeline import __version__
from pipeline.base.errors import InputError, RunDirectoryError, StorageError
from pipeline.corpus.chunks import Chunk
from pipeline.corpus.files import CorpusFile
from pipeline.corpus.losses import Losses
from pipeline.run.directory import inner_names, require_ours
from pipeline.run.manifest import fingerprint, plan_document, stored_plan
from pipeline.storage import Location, RemoteError, names_in, open_file, remove
from pipeline.storage.atomic import write_whole
from pipeline.storage.bounded import MANIFEST_BYTES, read_bounded
from pipeline.tokenizer.model import Model

MANIFEST, RESULT = "encoding.json", "shards.json"
FORMAT_VERSION = 1
_READ_BYTES = 1 << 20
_DOCUMENTS_BY = ("separator", "offsets")
_OWNED = re.compile(r"parts|log\.txt|shards\.json|shard-[0-9]{5,}(\.documents)?\.(npy|bin|parquet)")


@dataclass(frozen=True)
class Encoding:
    """What `encoding.json` says.

    options: those that decide what the shards hold, and the tokenizer's fingerprint. empty: files without a byte.
    """

    options: dict[str, Any]
    files: tuple[CorpusFile, ...]
    chunks: tuple[Chunk, ...]
    empty: tuple[str, ...]

    def chunk_fingerprint(self, chunk: Chunk) -> str:
        """What one chunk's part depends on."""
        spans = [(self.files[span.file], span.start, span.stop) for span in chunk.spans]
        ranges = [
            [file.path, file.size, file.digest, file.format, file.compression, start, stop]
            for file, start, stop in spans
        ]
        return fingerprint(self.options, FORMAT_VERSION, ranges)

    def fingerprint(self) -> str:
        """What the shards depend on."""
        files = [[file.path, file.size, file.digest, file.format, file.compression] for file in self.files]
        return fingerprint(self.options, FORMAT_VERSION, files)


def part_path(directory: Location, index: int) -> Location:
    """The part of the chunk with this index in the plan."""
    return directory / "parts" / f"{index:06d}.ids"


def shard_name(index: int, format_: str) -> str:
    """`shard-00000.npy`, ..."""
    return f"shard-{index:05d}.{format_}"


def offsets_name(index: int) -> str:
    """The places of a shard's documents, where they are told apart so."""
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


def save(directory: Location, encoding: Encoding) -> None:
    """Write `encoding.json`, whole or not at all."""
    document = {
        "format_version": FORMAT_VERSION,
        "written_by": f"bpe-pipeline {__version__}",
        "options": encoding.options,
        **plan_document(encoding.files, encoding.empty, encoding.chunks),
    }
    document["digest"] = fingerprint(document)
    require_ours(directory)
    write_whole(directory / MANIFEST, json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def load(directory: Location) -> Encoding | None:
    """The encoding in a directory, or None where there is none.

    Raises `RunDirectoryError` where it is not as it was written, or is of a newer format, and `StorageError` where it
    may not be read.
    """
    path = directory / MANIFEST
    try:
        document = json.loads(read_bounded(path, MANIFEST_BYTES))
        if not isinstance(document, dict) or document.get("format_version") != FORMAT_VERSION:
            raise ValueError("it is of another format")
        if document.pop("digest", None) != fingerprint(document):
            raise ValueError("it is not as it was written")
        return Encoding(dict(document["options"]), **stored_plan(document))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise RunDirectoryError(f"{directory} is a file, not a directory; choose another --output") from None
    except RemoteError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}; make it readable") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise RunDirectoryError(f"{path} cannot be read ({error}); --overwrite starts anew") from None


def refuse_foreign_files(directory: Location) -> None:
    """Raise `RunDirectoryError` where a directory without a manifest holds files that would be taken for ours."""
    ours = _owned_in(directory)
    if ours:
        raise RunDirectoryError(
            f"{directory} holds {ours[0]} but no {MANIFEST}, so it may be somebody else's; choose another --output, or "
            "remove it with --overwrite"
        )


def refuse_corpus_inside(directory: Location, files: Iterable[CorpusFile]) -> None:
    """Raise `RunDirectoryError` if a corpus file is stored where shards go, links resolved: they would replace it."""
    for path, name in inner_names(directory, (file.path for file in files)):
        if name == MANIFEST or _OWNED.fullmatch(name):
            raise RunDirectoryError(
                f"{path} is part of the corpus, but shards go to {directory}; choose another --output"
            )


def clear(directory: Location) -> None:
    """Remove what an encoding owns in a directory, and nothing else; the manifest last."""
    for name in [*_owned_in(directory), MANIFEST]:
        remove_owned(directory / name)


def sweep(directory: Location) -> None:
    """Remove what writers left half done when they were killed."""
    for place in (directory, directory / "parts"):
        for name in _names_in(place):
            if name.startswith(".") and name.endswith(".partial"):
                remove_owned(place / name)


def remove_owned(path: Location) -> None:
    """Remove a file or directory, or say why it cannot be."""
    try:
        remove(path)
    except OSError as error:
        raise RunDirectoryError(
            f"{path} cannot be removed: {error.strerror or error}; choose another --output"
        ) from None


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


def _owned_in(directory: Location) -> list[str]:
    return [name for name in _names_in(directory) if _OWNED.fullmatch(name)]


def _names_in(directory: Location) -> list[str]:
    try:
        return names_in(directory)
    except NotADirectoryError:
        return []
    except OSError as error:
        raise RunDirectoryError(
            f"{directory} cannot be read: {error.strerror or error}; choose another --output"
        ) from None


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
    losses: Losses
    shards: tuple[ShardFacts, ...]
    encoding: str

    def write(self, directory: Location) -> None:
        """Write `shards.json`, whole or not at all."""
        require_ours(directory)
        document = {"format_version": FORMAT_VERSION, **asdict(self)}
        write_whole(directory / RESULT, json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def load_result(directory: Location) -> EncodedCorpus | None:
    """What `shards.json` says, or None where there is none. Raises `InputError` where it is damaged."""
    path = directory / RESULT
    try:
        document = json.loads(read_bounded(path, MANIFEST_BYTES))
        version = document.pop("format_version")
        if version != FORMAT_VERSION:
            raise ValueError(f"it is of format {version!r}, this release reads {FORMAT_VERSION}")
        found = EncodedCorpus(**document)
        return _checked(replace(found, shards=tuple(ShardFacts(**shard) for shard in document["shards"])))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}; make it readable") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}); encode the corpus anew") from None


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
            if file is not None and not (file.startswith("shard-") and _OWNED.fullmatch(file)):
                raise ValueError(f"{file!r} is not the name of a shard")
    return found


def _require(holder: EncodedCorpus | ShardFacts, kind: type, *names: str) -> None:
    for name in names:
        value = getattr(holder, name)
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            raise ValueError(f"{name} is {value!r}")
