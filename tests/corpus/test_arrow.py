"""Arrow, files and streams: every type of a column of texts reads the same documents, whatever the chunks are."""

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from chunk_tasks import count, counted_within
from column_files import KINDS, NOT_TEXT, PAGES, TEXTS, column_of, read

from bpe_pipeline.base.errors import InputError, TrainingError

WRITERS = {"stream": pa.ipc.new_stream, "file": pa.ipc.new_file}


def write(path: Path, table: pa.Table, writer: str = "stream", rows: int = 50, **options: object) -> Path:
    with WRITERS[writer](path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as sink:
        sink.write_table(table, max_chunksize=rows)
    return path


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_every_column_type_reads_the_same_texts_in_any_chunks(tmp_path: Path, kind, writer, compression) -> None:
    table = pa.table({"id": range(len(TEXTS)), "text": column_of(kind), "other": ["é"] * len(TEXTS)})
    path = write(tmp_path / "a.arrow", table, writer, compression=compression)
    found = [read(path, chunk_bytes=chunk_bytes) for chunk_bytes in (1, 3000, 1 << 40)]
    assert [texts for texts, _, _ in found] == [[(text or "").encode() for text in TEXTS]] * 3
    assert [nulls for _, nulls, _ in found] == [[1, 5]] * 3
    assert [spans for _, _, spans in found[::2]] == [11, 1]


def test_nested_fields_sliced_columns_and_invalid_text_are_read(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a", pa.table({"page": PAGES})), "page.body.text")[:2] == (
        [b"one", b"", b"", b""],
        [1, 2, 3],
    )
    assert read(write(tmp_path / "b", pa.table({"text": TEXTS}).slice(3, 2)))[0] == ["zwei é日本".encode(), b"x" * 3000]
    invalid = pa.array([b"a\xff", b"b"]).view(pa.string())
    path = write(tmp_path / "c.arrow", pa.table({"text": invalid}))
    counter, documents, lost = count(tmp_path, "c.arrow")
    assert (counter["�".encode()], documents) == (1, 2)
    assert lost == {"replacements": {"count": 1, "examples": [f"{path}, row 0"]}}
    assert count(tmp_path, write(tmp_path / "d.arrow", pa.table({"text": ["x"]}).slice(1)).name)[2].keys() == {
        "files_empty"
    }


def test_dictionaries_that_change_are_read_in_one_chunk(tmp_path: Path) -> None:
    batches = [pa.record_batch({"text": pa.array(texts).dictionary_encode()}) for texts in (["a", "b"], ["c", "a"])]
    with pa.ipc.new_stream(tmp_path / "a", batches[0].schema) as sink:
        for batch in batches:
            sink.write_batch(batch)
    assert read(tmp_path / "a", chunk_bytes=1) == ([b"a", b"b", b"c", b"a"], [], 1)


@pytest.mark.parametrize(("columns_of", "text_field", "reason"), NOT_TEXT)
def test_column_that_is_not_text_is_an_error(tmp_path: Path, columns_of: dict, text_field: str, reason: str) -> None:
    path = write(tmp_path / "a.arrow", pa.table(columns_of))
    with pytest.raises(InputError, match=rf"a\.arrow.*{reason}"):
        read(path, text_field)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_damaged_file_is_an_error_wherever_it_is_damaged(tmp_path: Path, writer: str) -> None:
    """Cut anywhere it is an error, or between batches of a stream, which need not end, has the rows before."""
    texts = [text or "" for text in TEXTS[:100]]
    whole = write(tmp_path / "a.arrow", pa.table({"text": texts}), writer, rows=20).read_bytes()
    for size in range(8, len(whole) - 8, 97):
        (tmp_path / "a.arrow").write_bytes(whole[:size])
        found: list[bytes] = []
        with suppress(InputError):
            found = read(tmp_path / "a.arrow")[0]
            assert writer == "stream"
        assert found == [text.encode() for text in texts[: len(found)]]
    offsets = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\1\0\0\2\0\0\0"), pa.py_buffer(b"ab")]
    )
    with pytest.raises(InputError, match=r"a\.arrow cannot be read as Arrow: it is damaged"):
        read(write(tmp_path / "a.arrow", pa.table({"text": offsets}), writer))


def test_a_batch_is_held_of_the_budget(tmp_path: Path) -> None:
    small = write(tmp_path / "small.arrow", pa.table({"text": ["word "] * 400_000}), rows=10_000)
    counted_within(small, 6 << 20)
    for compression in (None, "zstd"):
        large = write(
            tmp_path / "large.arrow",
            pa.table({"text": ["word " * 100] * 20_000}),
            rows=1 << 20,
            compression=compression,
        )
        with pytest.raises(TrainingError, match=r"large\.arrow, byte \d+: the batch of .* MiB would take"):
            counted_within(large, 8 << 20)
