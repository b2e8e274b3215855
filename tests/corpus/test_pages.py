"""The sizes of Parquet pages are read from their headers, only where they matter."""

from dataclasses import replace
from pathlib import Path

import counter_files
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chunk_tasks import chunk_task
from corpus_files import pre_tokens_file
from hypothesis import given, settings
from hypothesis import strategies as st

from bpe_pipeline.corpus import parquet as parquet_reader
from bpe_pipeline.corpus.files import FileSpan
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.pages import _struct, pages, sizes
from bpe_pipeline.counts.count_worker import count_chunk
from bpe_pipeline.storage import LocalFile

MIB = 1 << 20


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_page_headers_add_up_to_the_index(tmp_path: Path, version: str, dictionary: bool) -> None:
    pre_tokens = [f"{number % 700} words".encode() for number in range(20_000)]
    path = pre_tokens_file(
        tmp_path / "a.parquet",
        pre_tokens,
        use_dictionary=dictionary,
        data_page_version=version,
        data_page_size=2000,
        row_group_size=9000,
        write_page_checksum=True,
    )
    other = tmp_path / "b.parquet"
    duckdb.sql(f"copy (select 'a' || (i % 5000) as pre_token, 1 as count from range(300000) t(i)) to '{other}'")
    for name in (path, other):
        metadata = pq.read_metadata(name)
        with LocalFile(str(name)) as stream:
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                for column in map(group.column, range(2)):
                    found = list(pages(stream, column))
                    assert sum(page.values for page in found) == group.num_rows
                    # The index counts the headers, too.
                    assert 0 <= column.total_uncompressed_size - sum(page.size for page in found) < 100 * len(found)
                    assert (sizes(stream, column).dictionary > 0) == column.has_dictionary_page


@settings(deadline=None)
@given(data=st.data())
def test_damaged_page_headers_are_errors(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = pre_tokens_file(
        tmp_path_factory.getbasetemp() / "damaged.parquet", [b"a%d" % number for number in range(500)]
    )
    column = pq.read_metadata(path).row_group(0).column(0)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, 60))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with LocalFile(str(path)) as stream:
        try:
            list(pages(stream, column))
        except ValueError as error:
            assert "header" in str(error)  # noqa: PT017 - or none at all


def test_headers_without_an_end_are_errors() -> None:
    for header, reason in ((b"\x1c" * 99, "nested too deeply"), (b"\x15" + b"\xff" * 20, "a number that is too long")):
        with pytest.raises(ValueError, match=f"the header of a page .*{reason}"):
            _struct(header, 0, 0)


def test_page_headers_are_read_only_if_they_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [b"some words and " * 100] * 2000}), path, use_dictionary=False)
    looked = []
    sizes = parquet_reader.pages.sizes
    monkeypatch.setattr(parquet_reader.pages, "sizes", lambda *given: looked.append(given) or sizes(*given))
    rows = path.with_suffix(".counter"), path.with_suffix(".other")
    for budget, output in zip((1 << 30, 24 * MIB), rows, strict=True):
        assert not looked
        count_chunk(replace(chunk_task(path, output, budget), spans=(FileSpan(describe(str(path)), 0, 1),)))
    assert len(looked) == 1
    assert counter_files.read(rows[0]) == counter_files.read(rows[1])
