"""Parse locations: a local path, or a URI that `pyarrow.fs` can open."""

import os
import re
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from pipeline.base.errors import UsageError
from pipeline.storage.remote import Remote

Location: TypeAlias = Path | Remote

SCHEMES = ("abfs", "abfss", "file", "gcs", "gs", "hdfs", "hf", "s3", "viewfs")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_FLATTENED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/[^/]")  # what pathlib makes of a URI
_SECRET = re.compile(r"(^|[?&;])[^=&;]*(secret|password|token|access_key|account_key)[^=&;]*=", re.IGNORECASE)


def is_uri(text: str) -> bool:
    """Whether a text is taken for a URI: a scheme of at least two letters and `://`."""
    return _URI.match(text) is not None


def location(value: str | os.PathLike[str] | Remote) -> Location:
    """What a text names: a URI a `Remote`, `file://` and everything else a local path.

    Raises `ValueError` saying what was expected, for a URI that names nothing or holds a secret.
    """
    if isinstance(value, Remote):
        return value
    name = os.fspath(value)
    scheme = _URI.match(name)
    if scheme is None:
        if isinstance(value, Path) and (flattened := _FLATTENED.match(name)) and flattened[1].lower() in SCHEMES:
            raise ValueError(f"the URI as a text, {flattened[1]}://...: a Path takes its slashes for one")
        return Path(name)
    kind = scheme[1].lower()
    if kind not in SCHEMES and not kind.startswith("fsspec+"):
        raise ValueError(f"a path, or a URI of a known scheme ({', '.join(SCHEMES)}, fsspec+...)")
    try:
        parts = urlsplit(name, allow_fragments=False)
    except ValueError as error:
        raise ValueError(f"a URI such as s3://bucket/key ({error})") from None
    if kind == "file":
        if parts.netloc not in ("", "localhost") or not unquote(parts.path):
            raise ValueError("a URI of a local file such as file:///home/me/corpus")
        return Path(unquote(parts.path))
    if ":" in parts.netloc.rpartition("@")[0] or _SECRET.search(parts.query):
        raise ValueError(
            "a URI without credentials, which would be written into run.json and the log (give them in the "
            "environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
        )
    key = "/".join(part for part in unquote(parts.path).split("/") if part)
    if not parts.netloc and (kind in ("s3", "gs", "gcs") or not key):
        raise ValueError("a URI that names something, such as s3://bucket/key")
    return Remote(f"{kind}://{parts.netloc}", parts.query, key)


def named(value: str | os.PathLike[str] | Remote) -> Location:
    """As `location`, with `UsageError` for what names nothing."""
    try:
        return location(value)
    except ValueError as error:
        raise UsageError(f"{value} is not understood: expected {error}") from None


def path_text(value: object) -> str:
    """Return a path as text, or raise `ValueError` if it is empty, has a NUL character or is not valid Unicode."""
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError("a path: a text that is not empty and has no NUL character")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError("a path whose name is valid UTF-8: rename it") from None
    return name


def parse_location(value: object) -> Location:
    """Read the value of an option: a path, where `~` is the home directory, or a URI. Raises `ValueError`."""
    if isinstance(value, Remote):
        return value
    text = path_text(value)
    where = location(value)  # type: ignore[arg-type]  # path_text has checked that it is a text or a path
    try:
        return where.expanduser() if isinstance(value, str) and isinstance(where, Path) and not is_uri(text) else where
    except RuntimeError:
        raise ValueError("a path below an existing home directory (write ./~name for a file of that name)") from None


def same_place(one: Location, other: Location) -> bool:
    """Whether two locations are the same; of local paths, whatever links they go through."""
    if isinstance(one, Path) and isinstance(other, Path):
        return one.resolve() == other.resolve()
    return one == other
