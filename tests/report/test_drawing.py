"""The script that draws figures is made once and checked; a figure has the same bytes, harmless for any name."""

import base64
import errno
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest

from bpe_pipeline.reports import drawing
from bpe_pipeline.reports.figure import Series, category, figure_of, heat_map, number
from bpe_pipeline.reports.parts import Table

pytest.importorskip("vl_convert")
HOSTILE = "</svg><script>alert(1)</script>\x00\u202e$x$ <b>{{ 7 * 7 }}{% raw %}${datum.x}"


@pytest.fixture
def bundles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often a script was made; each is another one."""
    made: list[str] = []

    def bundle(snippet: str) -> str:
        made.append(f"{snippet} // {len(made)}")
        return made[-1]

    monkeypatch.setitem(sys.modules, "vl_convert", SimpleNamespace(javascript_bundle=bundle))
    monkeypatch.setattr(drawing, "can_draw", lambda: True)
    monkeypatch.setattr(drawing, "_found", [])
    return made


def script() -> str:
    """Return the script as another process finds it."""
    drawing._found.clear()
    return zlib.decompress(base64.b64decode(drawing.page_script(drawing.SCRIPT_BYTES))).decode()


def test_the_script_is_kept_and_made_again_if_it_is_damaged(
    bundles: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert script() == script() == "window.vegaEmbed = vegaEmbed; // 0"
    [kept] = (tmp_path / "bpe-pipeline").iterdir()
    for damage in (b"", kept.read_bytes()[:-8] + b"AAAAAAAA", b"\xff"):
        kept.write_bytes(damage)
        assert script() == script() == bundles[-1]
    assert len(bundles) == 4


def test_the_script_is_made_only_where_there_is_memory_for_it(
    bundles: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert drawing.page_script(drawing.SCRIPT_BYTES - 1) == drawing.page_script() == ""
    assert "where there is more memory" in drawing.why_no_figures()
    made = drawing.page_script(drawing.SCRIPT_BYTES)
    assert len(bundles) == 1
    drawing._found.clear()
    assert drawing.page_script() == made  # it is kept, and reading it takes next to nothing
    assert drawing.why_no_figures() == ""


def test_without_a_cache_that_can_be_written_the_script_is_made_each_time(
    bundles: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [script(), script()] == bundles
    assert len(bundles) == 2
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("bpe_pipeline.base.system.flush", full)
    assert [script(), script()] == bundles[2:]
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("Could not determine home directory.")))
    assert script() == bundles[-1]
    assert len(bundles) == 5


@pytest.mark.parametrize("kind", ["series", "heat map"])
def test_hostile_names_are_text_in_every_file_of_a_figure(kind: str) -> None:
    series = [Series(HOSTILE, [(1.0, HOSTILE), (2.0, "b")]), Series("other", [(1.5, "b")])]
    figure = figure_of("a", HOSTILE, (number("x", "times"), category("y")), series)
    if kind == "heat map":
        figure = heat_map(Table(HOSTILE, ("mixture", HOSTILE), ((HOSTILE, 1.5), ("b", 2.0)), HOSTILE))
    svg, pdf = (drawing.drawn(figure, form) for form in ("svg", "pdf"))
    tags = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(svg).iter()}
    assert "script" not in tags
    assert pdf.startswith(b"%PDF")
    assert (drawing.drawn(figure, "svg"), drawing.drawn(figure, "pdf")) == (svg, pdf)
    expected = (HOSTILE, HOSTILE, 1.5) if kind == "heat map" else (HOSTILE, 1.0, HOSTILE)
    assert [*figure.rows()][1] == expected
