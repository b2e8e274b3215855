"""Shards back to text: what `encode --output` wrote, of any of its formats, in bounded memory."""

import re
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from os import PathLike

from pipeline.base.errors import InputError
from pipeline.shards.manifest import RESULT, EncodedCorpus, ShardFacts, checksum, load_result, tokenizer_fingerprint
from pipeline.storage import Location, Remote, arrow_source, named, open_file
from pipeline.tokenizer.decode import tokens_of
from pipeline.tokenizer.tokenizer import Tokenizer

_BLOCK_IDS = 1 << 18
_SHAPE = re.compile(r"\{'descr': '<u([24])', 'fortran_order': False, 'shape': \((\d+),\), \}\s*")


def decode_shards(path: str | PathLike[str] | Remote, tokenizer: Tokenizer) -> Iterator[bytes]:
    """Yield the text of a directory of shards, or of one shard in it, block by block.

    path: of either. tokenizer: the one that encoded. It is the text that was encoded, with the separator behind each
    document, also where offsets tell documents apart.
    Raises `InputError` where shards are missing or damaged, or were made by another tokenizer.
    """
    where = named(path)
    directory = where if (where / RESULT).exists() else where.parent
    corpus = load_result(directory)
    if corpus is None:
        raise InputError(
            f"{where} is neither a directory of shards nor one of them ({RESULT} is not there): was encoding stopped? "
            "the same command goes on"
        )
    made_by = tokenizer_fingerprint(tokenizer.model)
    if made_by != corpus.tokenizer:
        raise InputError(
            f"{directory} was made by another tokenizer ({corpus.tokenizer}, this one is {made_by}): name that one"
        )
    names = [shard.name for shard in corpus.shards if directory == where or shard.name == where.name]
    if not names and corpus.shards:
        raise InputError(f"{where} is not among the shards of {directory}: name one that {RESULT} has")
    separator = b"" if corpus.separator is None else corpus.separator.encode()
    for shard in corpus.shards:
        if shard.name in names:
            for ids, ends in _blocks(directory, corpus, shard.name, shard.offsets):
                yield _text(tokenizer, ids, ends if corpus.documents_by == "offsets" else [], separator)


def _text(tokenizer: Tokenizer, ids: "array[int]", ends: list[int], separator: bytes) -> bytes:
    """The text of ids, with a separator where documents end."""
    tokens = tokens_of(tokenizer.vocab, ids)
    at = 0
    parts = []
    for end in ends:
        parts += [*tokens[at:end], separator]
        at = end
    return b"".join([*parts, *tokens[at:]])


def _blocks(
    directory: Location, corpus: EncodedCorpus, name: str, offsets: str | None
) -> Iterator[tuple["array[int]", list[int]]]:
    """The ids of a shard, and where documents end in each block of them."""
    where = directory / name
    shard = next(one for one in corpus.shards if one.name == name)
    try:
        if checksum(where)[1] != shard.crc32:  # before any of it is taken for text
            raise ValueError(f"its CRC-32 is not the one in {RESULT}")
        if corpus.format == "parquet":
            blocks = _rows(where, shard.documents)
        else:
            width = 2 if corpus.dtype == "uint16" else 4
            ends = [] if offsets is None else _read_ends(directory / offsets, shard)
            blocks = _raw(where, width, shard.tokens, ends, npy=corpus.format == "npy")
        found = 0
        for ids, inside in blocks:
            found += len(ids)
            yield ids, inside
        if found != shard.tokens:
            raise ValueError(f"it holds {found:,} tokens, {RESULT} says {shard.tokens:,}")
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror or error}; restore it, or encode anew") from None
    except ValueError as error:
        raise InputError(f"{where} is damaged: {error}; restore it, or encode anew") from None


def _raw(
    where: Location, width: int, tokens: int, ends: list[int], *, npy: bool
) -> Iterator[tuple["array[int]", list[int]]]:
    with open_file(where) as file:
        at = _npy_data(file.read_at(0, 128), width, tokens) if npy else 0
        first = done = 0
        while data := file.read_at(at, _BLOCK_IDS * width):
            at += len(data)
            ids = array("H" if width == 2 else "I")
            ids.frombytes(data)
            stop = first + len(ids)
            inside = []
            while done < len(ends) and ends[done] <= stop:
                inside.append(ends[done] - first)
                done += 1
            yield ids, inside
            first = stop
        if done < len(ends):
            yield array("H"), [0] * (len(ends) - done)


def _npy_data(head: bytes, width: int, count: int) -> int:
    """Where the data of a .npy file begins; `ValueError` where it is not one of these numbers."""
    length = int.from_bytes(head[8:10], "little")
    found = _SHAPE.fullmatch(head[10 : 10 + length].decode("latin-1"))
    if head[:8] != b"\x93NUMPY\x01\x00" or found is None or (int(found[1]), int(found[2])) != (width, count):
        raise ValueError("its header is not as it was written")
    return 10 + length


def _read_ends(where: Location, shard: ShardFacts) -> list[int]:
    with open_file(where) as file:
        size = file.seek(0, 2)
        data = file.read_at(0, size)
    if f"{zlib.crc32(data):08x}" != shard.offsets_crc32:
        raise ValueError(f"the CRC-32 of its offsets, {where.name}, is not the one in {RESULT}")
    start = _npy_data_of_offsets(data)
    places = array("Q", data[start:])
    if len(places) < shard.documents + 1:
        raise ValueError("there are fewer offsets than documents")
    ends = list(places[1 : shard.documents + 1])
    if any(end < before for before, end in pairwise([0, *ends, shard.tokens])):
        raise ValueError("its offsets are not in order, or lie beyond its tokens")
    return ends


def _npy_data_of_offsets(head: bytes) -> int:
    if head[:8] != b"\x93NUMPY\x01\x00" or b"'<u8'" not in head[:128]:
        raise ValueError("the header of its offsets is not as it was written")
    return 10 + int.from_bytes(head[8:10], "little")


def _rows(where: Location, documents: int) -> Iterator[tuple["array[int]", list[int]]]:
    """The rows of a Parquet shard; one that goes on in the next shard has no end."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ended = 0
    try:
        with pq.ParquetFile(arrow_source(where)) as file:
            for batch in file.iter_batches(1024, use_threads=False):
                column = batch.column(0)
                first, *stops = column.offsets.to_pylist()
                ends = [stop - first for stop in stops[: max(documents - ended, 0)]]
                ended += len(stops)
                values = column.flatten()
                done = 0
                for start in range(0, max(len(values), 1), _BLOCK_IDS):
                    block = values.slice(start, _BLOCK_IDS).cast(pa.uint32())
                    ids = array("I")
                    ids.frombytes(memoryview(block.buffers()[1])[block.offset * 4 : (block.offset + len(block)) * 4])
                    upto = bisect_right(ends, start + len(ids), done)
                    yield ids, [end - start for end in ends[done:upto]]
                    done = upto
    except pa.ArrowException as error:
        raise ValueError(str(error).splitlines()[0]) from None
