"""What a file is: its format and its compression, two independent things, told by its first bytes and its name.

Content comes first where it has a mark (Parquet, gzip, zstd, bzip2, xz); JSON Lines has none and goes by the name;
text whose lines are documents is only taken where it is asked for. A name that promises what the content does not hold
is refused, so that a damaged file is never taken for text. What was asked for with `--input-format` and `--compression`
is taken at its word, for every file.
"""

from dataclasses import dataclass
from pathlib import PurePath

from pipeline.base.errors import InputError

FORMATS = ("text", "lines", "jsonl", "parquet")
COMPRESSIONS = ("none", "gzip", "zstd", "bzip2", "xz")
AUTO = "auto"

_COMPRESSION_SUFFIXES = {
    ".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bzip2", ".xz": "xz",
}  # fmt: skip
_FORMAT_SUFFIXES = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".jsonlines": "jsonl", ".json": "jsonl",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
_PARQUET = b"PAR1"
_PARQUET_BEGINS = _PARQUET + b"\x15"  # and the header of a page
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # the first block, or the end where there is none
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # behind a byte 0x50 to 0x5f


@dataclass(frozen=True)
class Asked:
    """What the options say of format and compression; `auto` leaves it to each file."""

    format: str = AUTO
    compression: str = AUTO


@dataclass(frozen=True)
class Kind:
    """The format and compression of one file."""

    format: str = "text"
    compression: str = "none"


def recognise(path: str, head: bytes, tail: bytes, asked: Asked) -> Kind:
    """What a file is by its name, its first and its last bytes.

    Raises `InputError` where name and content contradict each other, or for Parquet that is compressed as a whole.
    """
    compression = _compression(path, head) if asked.compression == AUTO else asked.compression
    if asked.format == AUTO:
        name_format = _format_of(path)
        is_parquet = compression == "none" and _is_parquet(head, tail)
        if name_format == "parquet" and compression == "none" and head and not head.startswith(_PARQUET):
            raise InputError(
                f"{path} is named as Parquet but does not begin as one: it is damaged, or rename it, or say what it is "
                "with --input-format"
            )
        format_ = "parquet" if is_parquet else name_format
    else:
        format_ = asked.format
    if format_ == "parquet" and compression != "none":
        raise compressed_parquet(path, compression)
    return Kind(format_, compression)


def compressed_parquet(path: str, compression: str) -> InputError:
    """The error for a Parquet file within a compressed one: it can only be read from its end."""
    return InputError(
        f"{path} is a Parquet file compressed as a whole with {compression}: decompress it (Parquet compresses its "
        "own pages), then name the result"
    )


def begins_as_parquet(head: bytes) -> bool:
    """Whether decompressed content is a Parquet file rather than a text."""
    return head.startswith(_PARQUET_BEGINS)


def place_in(path: str, kind: Kind, number: int) -> str:
    """A place for people: a byte of the file, a byte of what it decompresses to, or a row (the first is 0)."""
    if kind.format == "parquet":
        return f"{path}, row {number}"
    return f"{path}, byte {number}" + ("" if kind.compression == "none" else " of the decompressed text")


def _suffixes(path: str) -> list[str]:
    return [suffix.lower() for suffix in PurePath(path).suffixes]


def _compression(path: str, head: bytes) -> str:
    found = compression_marked(head)
    suffixes = _suffixes(path)
    named = _COMPRESSION_SUFFIXES.get(suffixes[-1]) if suffixes else None
    if found == "none" and named is not None and head:
        raise InputError(
            f"{path} is named as {named} but does not begin as such: it is damaged, or rename it, or say what it is "
            "with --compression"
        )
    return found


def compression_marked(head: bytes) -> str:
    """The compression that the first bytes of a file tell, or none."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == _ZSTD_SKIPPABLE and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    if head.startswith(b"BZh") and head[4:10] in _BZIP2_BLOCKS and head[3:4] in b"123456789":
        return "bzip2"
    return "xz" if head.startswith(b"\xfd7zXZ\0") else "none"


def _format_of(path: str) -> str:
    """The format that the name tells, the compression's suffix aside."""
    suffixes = _suffixes(path)
    if suffixes and suffixes[-1] in _COMPRESSION_SUFFIXES:
        suffixes.pop()
    return _FORMAT_SUFFIXES.get(suffixes[-1], "text") if suffixes else "text"


def _is_parquet(head: bytes, tail: bytes) -> bool:
    return head.startswith(_PARQUET) and (tail.endswith(_PARQUET) or begins_as_parquet(head))
