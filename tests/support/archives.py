"""Web archives, written by the rules of the standard."""

import gzip
from collections.abc import Iterable, Mapping


def record(kind: str, media: str, content: bytes, fields: Mapping[str, str] = {}) -> bytes:
    """A record of WARC 1.0, with the two line ends that close it."""
    head = {"WARC-Type": kind, "WARC-Record-ID": "<urn:uuid:0>", "WARC-Date": "2024-01-01T00:00:00Z"}
    head |= {"WARC-Target-URI": "http://a.example/", "Content-Type": media, "Content-Length": str(len(content))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in (head | dict(fields)).items())
    return b"WARC/1.0\r\n" + lines.encode() + b"\r\n" + content + b"\r\n\r\n"


def response(media: str, body: bytes, **fields: str) -> bytes:
    """A record of an HTTP response."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n{lines}\r\n".encode()
    return record("response", "application/http; msgtype=response", head + body)


def wet(texts: Iterable[bytes]) -> list[bytes]:
    """The records of a WET file."""
    about = record("warcinfo", "application/warc-fields", b"format: WARC File Format 1.0\r\n")
    return [about, *(record("conversion", "text/plain", text) for text in texts)]


def members(records: Iterable[bytes]) -> bytes:
    """Records as Common Crawl stores them, each a member of gzip."""
    return b"".join(gzip.compress(one, mtime=0) for one in records)
