"""vl-convert draws figures: the script that draws them on a page, and files that a paper takes, SVG, PDF and CSV.

The script is made once a machine, which takes seconds, and kept in the user's cache directory. The same figures give
the same bytes with the same vl-convert.
"""

import base64
import contextlib
import csv
import hashlib
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.base.system import process_lock
from bpe_pipeline.reports.figure import THEME, Figure
from bpe_pipeline.reports.parts import Table
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import make_directory, single_output, write_whole

HINT = "pip install 'bpe-pipeline[report]'"
_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_FILE_PIXELS = 300  # the width of a column
SCRIPT_BYTES, FILES_BYTES = 110 << 20, 170 << 20  # of memory, to make the script, and files of figures
_making = process_lock()
_found: list[str] = []  # the script, once this process has it


@cache
def can_draw() -> bool:
    """Whether vl-convert is installed."""
    return find_spec("vl_convert") is not None


def page_script(free_bytes: int = 0) -> str:
    """Return the script that draws figures, compressed, in base64; a second caller waits for the first.

    It is empty if it is not kept, and making it takes more memory than this.
    """
    if not can_draw():
        return ""
    with _making:
        if not _found:
            _found.extend(_read() or ([_make()] if free_bytes >= SCRIPT_BYTES else []))
        return "".join(_found)


def _read() -> list[str]:
    """Return the script that is kept, if it is as it was written."""
    with contextlib.suppress(OSError, UnicodeDecodeError, RuntimeError):
        digest, _, script = _kept().read_text("ascii").partition("\n")
        return [script] if digest == _digest(script) else []
    return []


def _make() -> str:
    bundle: str = import_module("vl_convert").javascript_bundle(_SNIPPET)
    script = base64.b64encode(zlib.compress(bundle.encode(), 9)).decode()
    with contextlib.suppress(OSError, RuntimeError, RunDirectoryError):  # it is made again the next time
        make_directory(_kept().parent)
        write_whole(_kept(), f"{_digest(script)}\n{script}")
    return script


def _kept() -> Path:
    """Return where the script is kept; raises `RuntimeError` for a user without a home directory."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "bpe-pipeline" / f"vega-{metadata.version('vl-convert-python')}.txt"


def _digest(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()


def why_no_figures() -> str:
    """Say why a page has no figures, as a remark in parentheses; empty if it has."""
    if not can_draw():
        return f" (with figures: {HINT})"
    return "" if page_script() else " (with figures: `bpe-pipeline report` where there is more memory)"


def drawn(figure: Figure, form: str) -> bytes:
    """Return a figure as a file: `svg` or `pdf`."""
    config = {**THEME["config"], "font": "sans-serif", "background": "white"}
    spec = json.dumps({**figure.spec, "width": _FILE_PIXELS, "config": config})
    coloured = re.sub(r"var\(--([\w-]+)\)", lambda match: THEME["light"][match[1]], spec)
    data: Any = getattr(import_module("vl_convert"), f"vegalite_to_{form}")(coloured)
    return data.encode() if isinstance(data, str) else bytes(data)


def images(figures: Sequence[Figure]) -> str:
    """Return figures as images for a notebook; nothing without vl-convert."""
    listed = ((one.id, base64.b64encode(drawn(one, "svg")).decode()) for one in figures if can_draw())
    return "".join(f'<img alt="{name}" src="data:image/svg+xml;base64,{data}">' for name, data in listed)


def require_figures(where: Location, *, overwrite: bool = False) -> Location:
    """Return the directory for figures. Raises `UsageError` without vl-convert, `RunDirectoryError` for a file or a
    directory that has files, unless `overwrite`."""
    if not can_draw():
        raise UsageError(f"figures are drawn with vl-convert; install it: {HINT}")
    if isinstance(where, Path) and where.exists():
        if not where.is_dir():
            raise RunDirectoryError(f"{where} is not a directory; name another one for the figures")
        if not overwrite and any(where.iterdir()):
            raise RunDirectoryError(f"{where} is not empty; name another directory, or write into it with --overwrite")
    return where


def write_figures(
    where: Location, figures: Sequence[Figure], tables: Iterable[Table] = (), *, overwrite: bool = False
) -> tuple[Location, ...]:
    """Write each figure as ID.svg, ID.pdf and ID.csv, and each table by its title as CSV."""
    files: dict[str, bytes] = {}
    for figure in figures:
        files |= {f"{figure.id}.{form}": drawn(figure, form) for form in ("svg", "pdf")}
        files[f"{figure.id}.csv"] = _csv(figure.rows())
    for table in tables:
        name = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
        files[f"table-{name}.csv"] = _csv([table.headers, *table.rows])
    make_directory(require_figures(where, overwrite=overwrite))
    paths = {single_output(where / name, overwrite=overwrite): data for name, data in files.items()}
    for path, data in paths.items():
        write_whole(path, data)
    return tuple(paths)


def _csv(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode(errors="replace")
