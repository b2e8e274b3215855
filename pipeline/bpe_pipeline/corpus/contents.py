"""What the bytes of a file are, if they are not the UTF-8 text or the records that are expected: archives, UTF-16, ...

What is certain, by a magic number or a mark, is an error. What is only likely is counted, in the first block of a file.
"""

import codecs
import json
import re

from bpe_pipeline.base.errors import InvalidTextError
from bpe_pipeline.corpus.marks import CONVERT, EXTRACT, Rule, mark_of

BYTE_ORDER_MARK = codecs.BOM_UTF8
HEAD_BYTES = 4096  # show what a file is; of records the first mebibyte
RECORDS_BYTES = 1 << 20
_AS_TEXT = "--input-format text takes it as the text that it is"
_UNICODE_MARKS = {  # UTF-32 first: its mark begins with one of UTF-16
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_MARKS = tuple(_UNICODE_MARKS)
_CONTROL = "\0-\x08\x0e-\x19\x1c-\x1f"
_CONTROLS, _CONTROL_BYTES = re.compile(f"[{_CONTROL}]"), re.compile(f"[{_CONTROL}]".encode())
_COMMON = re.compile("[A-Za-z \n]")
_MOST_CONTROLS = 3  # of a text in UTF-8 at most one byte in that many; in UTF-16 it is about every other one
_TAR_HEADER_BYTES = 512
_BLANK_BYTES = 64  # are searched for its begin
_CERTAIN = 0.9  # the share of lines that are objects in JSON Lines, one of which may be cut or damaged
_TABLE = re.compile(r"\.[ct]sv(\.\w+)?$", re.IGNORECASE)
_DELIMITER = re.compile(b"[,;\t|]")
_USUAL_FIELD = "text"
_ARRAY = re.compile(rb'\s*\[\s*\{\s*"')
_NEXT_OBJECT = re.compile(rb"\}[ \t\r]*\n\s*\{")  # if most lines are objects, two of them are neighbours
_OBJECT_LINE = re.compile(rb"^[ \t]*\{.*\}[ \t\r]*$", re.MULTILINE)


def refuse_other(path: str, head: bytes, within: str = "none", *, is_named: bool = False) -> None:
    """Raise `InvalidTextError` for content that is certainly not plain text in UTF-8: what it is, how to read it.

    head: its first bytes, `HEAD_BYTES` if it has them. within: the compression that they are read from. is_named:
    whether the user named the format, so that a container that is itself text is taken as it is.
    """
    compressed = "" if within == "none" else f", compressed with {within}"
    known = None
    if mark := mark_of(head, Rule.REFUSED):
        known = mark.format, mark.remedy
    elif _is_tar(head):
        known = "a tar archive", f"extract it (tar -xf), {EXTRACT.partition(', ')[2]}"
    elif encoding := _encoding_of(head):
        known = f"text in {encoding}", f"convert it to UTF-8 (iconv -f {encoding} -t UTF-8)"
    if known is not None:
        what, remedy = known
        raise InvalidTextError(f"{path} is {what}{compressed}, not text in UTF-8: {remedy}, or leave it out")
    if not is_named and (mark := mark_of(head.removeprefix(BYTE_ORDER_MARK), Rule.REFUSED_UNLESS_NAMED)):
        raise InvalidTextError(
            f"{path} is {mark.format}{compressed}, which would be read as text: {mark.remedy}, or leave it out; "
            f"{_AS_TEXT}"
        )


def refuse_records(path: str, head: bytes, text_field: str, *, whole: bool) -> None:
    """Raise `InvalidTextError` for JSON Lines, an array or a table with the column of texts that is read as plain text.

    head: the first bytes. whole: whether that is all of it.
    """
    head = head.removeprefix(BYTE_ORDER_MARK)
    lines = head.split(b"\n") if text_field and _has_objects(head) else []
    filled = [line for line in (lines if whole else lines[:-1]) if line.strip()]
    objects = sum(map(_is_object, filled))
    if objects > 1 and objects >= _CERTAIN * len(filled):
        raise InvalidTextError(
            f"{path} is JSON Lines by its content, and not by its name: name it .jsonl, or give --input-format jsonl, "
            f"with --text-field for the field of its text; {_AS_TEXT}"
        )
    if text_field and _ARRAY.match(head) and f'"{text_field.partition(".")[0]}"'.encode() in head:
        raise InvalidTextError(
            f"{path} is a JSON array of records, which would be read as text: convert it to JSON Lines "
            f"(jq -c .[] FILE); {_AS_TEXT}"
        )
    if not text_field or not is_table(path):
        return
    first = head.partition(b"\n")[0]
    columns = [cell.strip(b' "\r') for cell in _DELIMITER.split(first)]
    if text_field.encode() in columns or text_field != _USUAL_FIELD:
        raise InvalidTextError(
            f"{path} is a table, and its commas, quotes and all of its columns would be read as "
            f"text, not the column {text_field!r} alone: {CONVERT}; {_AS_TEXT}"
        )


def is_table(path: str) -> bool:
    """Return whether a file is named as a table of values that are separated by commas or tabs."""
    return _TABLE.search(path) is not None


def object_lines(block: bytes) -> tuple[int, int]:
    """Return how many lines of a block begin with { and end with }, as JSON Lines do, and how many there are.

    A block that hardly has any is not searched: (0, 0).
    """
    if not _has_objects(block):
        return 0, 0
    return len(_OBJECT_LINE.findall(block)), sum(1 for line in block.split(b"\n") if line.strip())


def _has_objects(block: bytes) -> bool:
    """Return, in a short time, whether a block begins with an object, or a line behind one does."""
    return begins_with_object(block) or _NEXT_OBJECT.search(block) is not None


def begins_with_object(block: bytes) -> bool:
    """Return whether a block begins with what may be an object of JSON."""
    return block[:_BLANK_BYTES].lstrip(BYTE_ORDER_MARK + b" \t\r\n").startswith(b"{")


def _is_object(line: bytes) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(line.decode(errors="replace")), dict)
    except (ValueError, RecursionError):
        return False


def _is_tar(head: bytes) -> bool:
    """Return whether a header of tar is at the start: its checksum is right."""
    header = head[:_TAR_HEADER_BYTES]
    stored = header[148:156].strip(b" \0")
    if len(header) < _TAR_HEADER_BYTES or not re.fullmatch(b"[0-7]+", stored):
        return False
    return int(stored, 8) == sum(header[:148]) + 8 * ord(" ") + sum(header[156:])


def _encoding_of(head: bytes) -> str:
    """Return whether a text is in UTF-16 or UTF-32, empty if not: by its mark, or because it decodes to better text."""
    if head.startswith(_MARKS):
        return next(name for mark, name in _UNICODE_MARKS.items() if head.startswith(mark))
    if head.count(0) < 2:
        return ""
    for name in ("UTF-32LE", "UTF-32BE"):
        if _common_characters(head, name) > 0:
            return name
    if _decoded(head, "utf-8") is not None and _MOST_CONTROLS * len(_CONTROL_BYTES.findall(head)) < len(head):
        return ""
    common = {name: _common_characters(head, name) for name in ("UTF-16LE", "UTF-16BE")}
    worse, better = sorted(common, key=common.__getitem__)
    return better if common[better] > max(1, 4 * common[worse]) else ""


def _common_characters(head: bytes, encoding: str) -> int:
    """Return how many letters and spaces of ASCII there are in an encoding; 0 for what cannot be text in it."""
    text = _decoded(head, encoding)
    return 0 if text is None or _CONTROLS.search(text) else len(_COMMON.findall(text))


def _decoded(head: bytes, encoding: str) -> str | None:
    """Return a text whose last character may be cut; None if it is not in this encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return None
