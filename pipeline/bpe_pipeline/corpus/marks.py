"""The one table of formats that are no plain text, although some begin with text: their first bytes, and what to do.

`contents` asks it for every file, and tests make their inputs from it.
"""

import re
from dataclasses import dataclass
from enum import Enum


class Rule(Enum):
    """What a file that begins with a mark is."""

    REFUSED = "not text, also if `--input-format` says so"
    REFUSED_UNLESS_NAMED = "text that is about other text, which `--input-format text` takes as it is"
    WARNED_OF = "read as text with a warning, on which `--fail-on-loss` fails"


@dataclass(frozen=True)
class Mark:
    """A format, with its article, the regular expression of its first bytes, and the remedy."""

    format: str
    begin: bytes
    remedy: str
    rule: Rule = Rule.REFUSED

    def is_of(self, head: bytes) -> bool:
        """Return whether a file with these first bytes is of the format."""
        return re.match(self.begin, head) is not None


EXTRACT = "extract it, and name the directory of its files"
CONVERT = "convert it to JSON Lines or Parquet"
_DECOMPRESS = "decompress it, then name the result"
_NO_IMAGE = "transcribe it (an OCR program), and name the text"
_PDF = "extract its text (pdftotext), and name that"
_PICKLE = "load it in Python, and write its texts as JSON Lines or Parquet"
_LFS = "fetch the file itself (git lfs pull)"
_HUB = "fetch it again with a token that may read it (hf download)"
_MAIL = "extract the messages (Python's mailbox)"
_NAMED = Rule.REFUSED_UNLESS_NAMED
_WARNED = Rule.WARNED_OF
_XML = rb"\s*(?:<\?xml[^>]*>\s*)?"
_DAY_AND_MONTH = rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

MARKS = (
    Mark("a ZIP archive", rb"PK(?:\x03\x04|\x05\x06)", EXTRACT),
    Mark("a 7z archive", rb"7z\xbc\xaf\x27\x1c", EXTRACT),
    Mark("a RAR archive", rb"Rar!\x1a\x07", EXTRACT),
    Mark("compressed with lz4", rb"\x04\x22\x4d\x18", _DECOMPRESS),
    Mark("compressed with compress", rb"\x1f\x9d", _DECOMPRESS),
    Mark("compressed with Snappy", rb"\xff\x06\x00\x00sNaPpY", _DECOMPRESS),
    Mark("an Avro file", rb"Obj\x01", CONVERT),
    Mark("an SQLite database", rb"SQLite format 3\0", CONVERT),
    Mark("an HDF5 file", rb"\x89HDF\r\n\x1a\n", CONVERT),
    Mark("a Feather file of version 1", rb"FEA1\0\0\0\0", CONVERT),
    Mark("an ORC file", rb"ORC[\s\S]{0,16}?[\0-\x08\x0e-\x1f]", "convert it to Parquet (pyarrow.orc.read_table)"),
    Mark(
        "a Parquet file whose footer is encrypted",
        rb"PARE[\s\S]{0,16}?[\0-\x08\x0e-\x1f]",
        "write it without encryption (pyarrow.parquet.encryption reads it with the key)",
    ),
    Mark("a pickle", rb"\x80[\x02-\x05]", _PICKLE),
    Mark("a PNG image", rb"\x89PNG\r\n\x1a\n", _NO_IMAGE),
    Mark("a JPEG image", rb"\xff\xd8\xff", _NO_IMAGE),
    Mark("a GIF image", rb"GIF8[79]a", _NO_IMAGE),
    Mark("a TIFF image", rb"II\*\0|MM\0\*", _NO_IMAGE),
    Mark("a WebP image", rb"RIFF[\s\S]{4}WEBP", _NO_IMAGE),
    Mark("a BMP image", rb"BM[\s\S]{4}\0{4}", _NO_IMAGE),
    Mark("a Word, Excel or PowerPoint file", rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save its text, and name that"),
    Mark(
        "a pickle of protocol 0",
        rb"\((?:[ldt]p?\d+\n|I-?\d+\n[IaFVSt])|\(?[SV][^\n]*\np\d+\n|c[\w.]+\n\w+\n(?:p\d+\n|\()",
        _PICKLE,
        _NAMED,
    ),
    Mark("a git-lfs pointer", rb"version https?://[\w.-]+/(?:spec/)?v\d", _LFS, _NAMED),
    Mark("a git-xet pointer", rb"# xet version \d", "fetch the file itself (git xet, or hf download)", _NAMED),
    Mark(
        "a git-annex pointer",
        rb"(?:(?:\.\./)*\.git)?/annex/objects/",
        "fetch the file itself (git annex get)",
        _NAMED,
    ),
    Mark("an ARC file", rb"filedesc://\S+ \S+ \d", "convert it to WARC (warcio recompress)", _NAMED),
    Mark(
        "a MediaWiki dump",
        _XML + rb"<mediawiki[ >]",
        "extract the articles with WikiExtractor, as JSON Lines (--json)",
        _NAMED,
    ),
    Mark("an error page of an object store", _XML + rb"<Error>\s*<Code>", "download the object again", _NAMED),
    Mark("a listing of an object store", _XML + rb"<ListBucketResult", "download the objects", _NAMED),
    Mark(
        "an error page of the hub",
        rb"(?:Entry|Repository|File) not found\s*\Z|Access to \w+ \S+ is restricted",
        _HUB,
        _NAMED,
    ),
    Mark("a PDF file", rb"%PDF-\d", _PDF, _NAMED),
    Mark("an RTF file", rb"\{\\rtf\d", "save its text, and name that", _NAMED),
    Mark("a PostScript file", rb"%!PS", "extract its text (ps2ascii), and name that", _WARNED),
    Mark("an mbox of mails", rb"From \S+ +" + _DAY_AND_MONTH + rb" +\d+ \d+:\d\d", _MAIL, _WARNED),
    Mark(
        "a Jupyter notebook",
        rb'\s*\{\s*"(?:cells"\s*:\s*\[\s*\{[\s\S]*?"(?:cell_type|execution_count)"|metadata"\s*:\s*\{[\s\S]*?"nbformat")',
        "convert it (jupyter nbconvert --to script, or --to markdown)",
        _WARNED,
    ),
    Mark("an image in PNM's text", rb"P[1-6]\n(?:#[^\n]*\n)*\d+ \d+\n", "leave it out", _WARNED),
)


def mark_of(head: bytes, *rules: Rule) -> Mark | None:
    """Return the mark with which a file begins, among those with one of the rules; None without any."""
    return next((mark for mark in MARKS if mark.rule in rules and mark.is_of(head)), None)
