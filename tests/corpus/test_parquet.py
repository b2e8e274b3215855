"""Parquet: every type of a column of texts reads the same documents; errors name what is damaged or missing."""

import base64
import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from column_files import KINDS, NOT_TEXT, PAGES, TEXTS, column_of, read
from command import refused, run

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus import columns
from bpe_pipeline.corpus.chunks import Cutting, Span
from bpe_pipeline.corpus.cut_files import plan_chunks
from bpe_pipeline.corpus.files import FileSpan
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.readers import read_span


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_every_column_type_reads_the_same_texts(tmp_path: Path, kind: pa.DataType, use_dictionary: bool) -> None:
    table = pa.table({"id": list(range(len(TEXTS))), "text": column_of(kind)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=97, use_dictionary=use_dictionary)
    assert read(tmp_path / "a.parquet") == ([(text or "").encode() for text in TEXTS], [1, 5], 1)


def test_file_written_by_duckdb_is_read(tmp_path: Path) -> None:
    rows = duckdb.sql("select 'text ' || i as text, i from range(3000) t(i)")
    rows.write_parquet(str(tmp_path / "a.parquet"), compression="zstd", row_group_size=2048)
    assert read(tmp_path / "a.parquet")[0] == [f"text {i}".encode() for i in range(3000)]


ONE, NESTED, OTHER = pa.array(["one"]), pa.array([{"body": "three"}]), pa.array([{"title": "t"}])


@pytest.mark.parametrize(
    ("columns_of", "text_field", "texts", "nulls"),
    [
        ({"text": pa.array([b"abc", None, b"def"], pa.binary(3))}, "text", [b"abc", b"", b"def"], [1]),
        ({"page": PAGES}, "page.body.text", [b"one", b"", b"", b""], [1, 2, 3]),
        ({"page.body": ONE}, "page.body", [b"one"], []),  # a dot in its name
        ({"page": OTHER, "page.body": ONE}, "page.body", [b"one"], []),
        ({"page": NESTED}, "page.body", [b"three"], []),
    ],
)
def test_fixed_size_bytes_and_nested_fields(tmp_path: Path, columns_of, text_field, texts, nulls) -> None:
    pq.write_table(pa.table(columns_of), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", text_field) == (texts, nulls, 1)


def test_row_groups_are_divided_among_chunks(tmp_path: Path) -> None:
    table = pa.table({"text": [random.Random(i).randbytes(500).hex() for i in range(1000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    file = describe(str(tmp_path / "a.parquet"))
    spans = [span for chunk in plan_chunks([file], Cutting(), chunk_bytes=250_000) for span in chunk.spans]
    assert [(span.start, span.stop) for span in spans] == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    assert all(200_000 < span.bytes <= 250_000 for span in spans)
    parts = [part for span in spans for part in read_span(FileSpan(file, span.start, span.stop), "text", [].append)]
    assert [part.position(row) for part in parts for row in range(part.rows)] == list(range(1000))
    [whole] = plan_chunks([file], Cutting(), chunk_bytes=1 << 30)
    assert whole.spans == (Span(0, 0, 10, sum(span.bytes for span in spans)),)


def test_a_dictionary_stays_small_until_it_is_counted(tmp_path: Path) -> None:
    """Six thousand rows of the same 100 KB would be 600 MB at once."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 6000, pa.int32()), pa.array(["a" * 100_000]))
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    file = describe(str(tmp_path / "a.parquet"))
    assert file.size < 200_000
    parts = [(len(part.data), part.rows) for part in read_span(FileSpan(file, 0, 1), "text", lambda _: None)]
    assert (max(parts)[0] <= columns.MOST_BYTES, sum(rows for _, rows in parts)) == (True, 6000)


@pytest.mark.parametrize(
    ("columns_of", "text_field", "reason"),
    [
        *NOT_TEXT,
        ({"a": [{"b": "c"}]}, "a", "is struct<b: string>, not text.*--text-field"),
        ({"page": NESTED, "page.body": ONE}, "page.body", r"has more than one column 'page\.body'"),
    ],
)
def test_column_that_is_not_text_is_an_error(tmp_path: Path, columns_of: dict, text_field: str, reason: str) -> None:
    pq.write_table(pa.table(columns_of), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=rf"a\.parquet.*{reason}"):
        read(tmp_path / "a.parquet", text_field)


def test_damaged_page_names_its_row_group(tmp_path: Path) -> None:
    table = pa.table({"text": [f"some text {i * 7919}" for i in range(5000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000, compression="none", write_page_checksum=True)
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[data.index(b"some text 23757000")] ^= 1  # in the last but one row group
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet: it is damaged in row group 3 .*CRC"):
        read(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_bytes(data[:-20])
    with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet"):
        read(tmp_path / "a.parquet")


class _Keys(encryption.KmsClient):
    def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped_key)


def write_encrypted(path: Path, column: str, *, plaintext_footer: bool) -> None:
    table = pa.table({"text": ["a b", "c"], "id": [1, 2]})
    factory = encryption.CryptoFactory(lambda _: _Keys())
    asked = encryption.EncryptionConfiguration("footer", column_keys={"k": [column]}, plaintext_footer=plaintext_footer)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), asked)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)


@pytest.mark.parametrize(
    "command", [("count", "-o", "run"), ("count", "-o", "run", "--dry-run"), ("train", "-o", "run")]
)
def test_an_encrypted_column_is_one_line_and_no_abort(tmp_path: Path, command: tuple[str, ...]) -> None:
    write_encrypted(tmp_path / "a.parquet", "text", plaintext_footer=True)
    error = refused(run(*command, "a.parquet", cwd=tmp_path), 1)
    assert "a.parquet: the column 'text' is encrypted; write it without encryption" in error
    for name in ("b.parquet", "b"):
        write_encrypted(tmp_path / name, "text", plaintext_footer=False)
        assert f"{name} is a Parquet file whose footer is encrypted" in refused(run(*command, name, cwd=tmp_path), 1)


def test_an_encrypted_column_that_is_not_read_hides_nothing(tmp_path: Path) -> None:
    write_encrypted(tmp_path / "a.parquet", "id", plaintext_footer=True)
    assert read(tmp_path / "a.parquet") == ([b"a b", b"c"], [], 1)
