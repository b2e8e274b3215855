"""Training on what an iterable gives: the tokenizer of the same documents in files, whatever the items are made of."""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import peers
import pyarrow as pa
import pytest
from command import files_in, model, script
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_counting import as_counter, count, known

import bpe_pipeline
from bpe_pipeline import _core
from bpe_pipeline.base import machine
from bpe_pipeline.base.errors import InputError, InvalidTextError, PatternTimeoutError, RunDirectoryError, UsageError
from bpe_pipeline.commands import train_iterator
from bpe_pipeline.corpus import items
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.corpus.items import blocks
from bpe_pipeline.counts import combine, count_documents
from bpe_pipeline.pattern import by_regex
from bpe_pipeline.pattern.compiler import compile_pattern

EOT = "<|endoftext|>"
DOCUMENTS = [peers.generated_text(seed, 60) for seed in range(200)]
DOCUMENTS[7] = ""  # no document, but an item
DOCUMENTS[11] = f"one{EOT}two {EOT}"


@pytest.fixture(scope="module")
def from_files(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    home = tmp_path_factory.mktemp("files")
    (home / "a.txt").write_text(EOT.join(DOCUMENTS), newline="")
    bpe_pipeline.train(home / "a.txt", output=home / "run", vocab_size=500)
    return model(home / "run")


def corpus_of(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "report.json").read_text())["corpus"])


def losses_in(run: Path) -> list[tuple[str, int, list[str]]]:
    return [(one["kind"], one["count"], one["examples"]) for one in corpus_of(run)["losses"]]


class DataSet:
    """What `datasets.Dataset` offers, as far as it is used."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self.column_names = table, table.column_names

    def select_columns(self, names: list[str]) -> "DataSet":
        return DataSet(self._table.select(names))

    def with_format(self, name: str) -> "DataSet":
        assert name == "arrow"
        return self

    def iter(self, batch_size: int) -> Iterator[pa.Table]:
        return (self._table.slice(at, batch_size) for at in range(0, self._table.num_rows, batch_size))


class Frame:
    """What a data frame of pandas or polars offers: iterated, it has its columns' names."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self.columns = table, table.column_names

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getitem__(self, names: list[str]) -> "Frame":
        return Frame(self._table.select(names))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


TABLE = pa.table({"other": range(len(DOCUMENTS)), "text": DOCUMENTS})
KINDS: dict[str, Any] = {
    "str": lambda: iter(DOCUMENTS),
    "bytes": lambda: [text.encode() for text in DOCUMENTS],
    "mappings": lambda: ({"text": text, "id": 3} for text in DOCUMENTS),
    "array": lambda: pa.array(DOCUMENTS, pa.large_binary()),
    "chunked": lambda: pa.chunked_array([DOCUMENTS[:50], DOCUMENTS[50:]]),
    "slices": lambda: [TABLE["text"].chunk(0)[:77], TABLE["text"].chunk(0)[77:]],
    "table": lambda: TABLE,
    "batches": lambda: TABLE.to_batches(max_chunksize=33),
    "reader": lambda: TABLE.to_reader(),
    "dictionary": lambda: [pa.array(DOCUMENTS).dictionary_encode()],
    "data set": lambda: DataSet(TABLE),
    "frame": lambda: Frame(TABLE),
    "frames": lambda: iter([Frame(TABLE.slice(0, 9)), Frame(TABLE.slice(9))]),
    "mixed": lambda: [*DOCUMENTS[:9], pa.array(DOCUMENTS[9:20]), *DOCUMENTS[20:]],
    "lists": lambda: (DOCUMENTS[at : at + 30] for at in range(0, 200, 30)),
    "lists of all": lambda: [(), DOCUMENTS[0], (*DOCUMENTS[1:9],), [{"text": one} for one in DOCUMENTS[9:]]],
}


@pytest.mark.parametrize("kind", KINDS)
def test_items_of_all_kinds_are_the_same_documents(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "_BLOCK_ROWS", 64)
    got: list[bytes] = []
    for block in blocks(KINDS[kind](), "text"):
        assert block.position(0) == len(got) + 1
        data = memoryview(block.data).cast("B")
        got += [bytes(data[start:stop]) for start, stop in pairwise(list(block.starts)[: block.rows + 1])]
    assert got == [text.encode() for text in DOCUMENTS]


@pytest.mark.parametrize("kind", ["str", "table"])
def test_the_tokenizer_is_that_of_the_same_documents_in_files(kind: str, from_files: bytes, tmp_path: Path) -> None:
    bpe_pipeline.train_from_iterator(KINDS[kind](), output=tmp_path / "run", vocab_size=500)
    assert model(tmp_path / "run") == from_files
    facts = corpus_of(tmp_path / "run")
    documents = [part for text in DOCUMENTS for part in text.split(EOT) if part]
    assert (facts["documents"], facts["bytes"]) == (len(documents), len("".join(DOCUMENTS).encode()))
    [smaller] = bpe_pipeline.merge(tmp_path / "run", vocab_size=400).values()
    assert smaller.vocab_size == 400


@pytest.mark.processes
def test_little_memory_changes_nothing(from_files: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_documents, "_LEAST_COUNTER_BYTES", 1)
    monkeypatch.setattr(count_documents, "_MEMORY_SHARE", 1 << 50)
    monkeypatch.setattr(items, "_BLOCK_ROWS", 20)
    monkeypatch.setattr(combine, "combine_counters", Mock(side_effect=combine.combine_counters))
    bpe_pipeline.train_from_iterator(DOCUMENTS, output=tmp_path / "run", vocab_size=500, workers=2)
    assert len(combine.combine_counters.call_args_list[0].args[2].terms[0].counters) >= 10
    assert model(tmp_path / "run") == from_files
    assert list((tmp_path / "run").glob(".*.part")) == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.binary(max_size=20).filter(known), st.just(b" the<x>a \xe3\x81"))),
    st.sampled_from(["replace", "skip"]),
)
def test_documents_are_counted_one_by_one(documents, errors):
    """Against an oracle for whole texts: a special token between documents is all that keeps them apart."""
    counter = _core.ChunkCounter(compile_pattern("gpt2").automaton, [b"<x>"], judge=DocumentJudge(errors))
    for block in blocks(documents, "text") if documents else ():
        counter.feed_documents(block.offsets, block.data)
    expected = count(b"<x>".join(documents), [b"<x>"], errors)
    assert as_counter(counter.columns()) == expected
    assert counter.statistics()["pre_tokens"] == expected.total()


INVALID = [b"fine"] * 70 + [b"not \xff fine"]
SURROGATES = ["ab", "a\ud800\udc00b", "c\udfff"]


@pytest.mark.filterwarnings("ignore:.*invalid UTF-8")
def test_invalid_text_follows_the_errors_policy(tmp_path: Path) -> None:
    for documents, errors, losses in (
        (SURROGATES, "replace", ("replacements", 3, ["item 2, byte 1", "item 2, byte 2", "item 3, byte 1"])),
        (SURROGATES, "skip", ("documents_skipped", 2, ["item 2, byte 1", "item 3, byte 1"])),
        (pa.array(INVALID)[1:], "replace", ("replacements", 1, ["item 70, byte 4"])),
    ):
        options = {"output": tmp_path / "run", "vocab_size": 258, "errors": errors, "overwrite": True}
        bpe_pipeline.train_from_iterator(documents, **options)
        assert losses_in(tmp_path / "run") == [losses]
        with pytest.raises(InputError, match="input was skipped or altered"):
            bpe_pipeline.train_from_iterator(documents, **options, fail_on_loss=True)


@pytest.mark.filterwarnings("ignore:1 record skipped")
@pytest.mark.parametrize(
    ("documents", "error", "message"),
    [
        ("one text", UsageError, "give a list of texts"),
        (["a", 3], InputError, "item 2 is of type int"),
        ([{"body": "a"}], InputError, r"no text to count: 1 record skipped: no text field \(first: item 1\)"),
        ({"text": "a"}, UsageError, "the documents are one dict"),
        (pa.scalar({"text": "a"}), UsageError, "the documents are one StructScalar"),
        (3, UsageError, "the documents are of type int, which has no items"),
        ([pa.scalar("a")], InputError, "item 1 is of type StringScalar, one value of a pyarrow column"),
        (pa.table({"body": ["a"]}), InputError, "no column 'text', only body"),
        (DataSet(pa.table({"body": ["a"]})), InputError, "the data set has no column 'text'"),
        ([pa.array([1, 2])], InputError, "item 1 is of type int64"),
        (pa.table({"body": ["a"]}).to_reader(), InputError, "the table has no column 'text', only body"),
        ([], InputError, "the iterator gave no documents: it is empty, or was read to its end before"),
        (pa.array([], pa.string()), InputError, "the iterator gave no documents"),
        (["", ""], InputError, "no text to count: all of it is empty"),
        (SURROGATES, InvalidTextError, "item 2, byte 1 is invalid UTF-8 or a lone surrogate"),
        (INVALID, InvalidTextError, "item 71, byte 4 is invalid UTF-8"),
    ],
)
def test_iterables_that_are_refused(documents, error, message, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        bpe_pipeline.train_from_iterator(documents, output=tmp_path / "run", vocab_size=300, errors="strict")


def failing(error: type[BaseException]) -> Iterator[str]:
    yield "some text"
    raise error


def test_failing_iterator_changes_nothing(tmp_path: Path) -> None:
    run, train = tmp_path / "run", partial(bpe_pipeline.train_from_iterator, output=tmp_path / "run", vocab_size=260)
    with pytest.raises(KeyboardInterrupt, match="nothing was changed: start again"):
        train(failing(KeyboardInterrupt))
    with pytest.raises(ZeroDivisionError):
        train(failing(ZeroDivisionError))
    assert not run.exists()
    assert len(train(["aab aab"]).merges) == 3
    with pytest.raises(RunDirectoryError, match="an iterator cannot be read again"):
        train(["aab aab"])
    before = files_in(run)
    for documents, error in ((failing(KeyError), KeyError), ([b"\xff"], InvalidTextError), ([""], InputError)):
        with pytest.raises(error):
            train(documents, overwrite=True, errors="strict")
    assert files_in(run) == before
    assert len(train(["b a"], overwrite=True).merges) == 1


@pytest.mark.parametrize("moment", ["first", "count_documents", "merge_and_export"])
def test_a_directory_that_is_removed_is_named(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "run"

    def removing(own: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values: (own(*values), shutil.rmtree(output))[0]

    documents = map(removing(str) if moment == "first" else str, ["a text"])
    if moment != "first":
        monkeypatch.setattr(train_iterator, moment, removing(getattr(train_iterator, moment)))
    with pytest.raises(RunDirectoryError, match=rf"{output} is not complete: it was removed while .*; run the command"):
        bpe_pipeline.train_from_iterator(documents, output=output, vocab_size=258, workers=1)


def test_pattern_timeout_names_the_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_regex, "TIMEOUT_S", 1)
    documents = ["zz aab z"] * 3 + ["z<|endoftext|>" + "a" * 60] + ["z"] * 40
    options = {"pattern": "(?:a|aa)+(?<!a)b|z", "vocab_size": 300}
    message = r"^item 4: the pattern .* for the document of 60 characters"
    with pytest.warns(UserWarning, match="on the regex package"), pytest.raises(PatternTimeoutError, match=message):
        bpe_pipeline.train_from_iterator(documents, output=tmp_path / "run", **options)


def test_memory_of_the_caller_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured again when all is counted, and refused in one line that has the limit that was given."""

    def documents() -> Iterator[str]:
        yield "some words"
        monkeypatch.setattr(machine, "own_memory", lambda: 3 << 30)

    message = r"--memory-limit 2\.0 GiB is too small: .* takes at least 3\.1 GiB .*; give --memory-limit 32\d\dMiB"
    with pytest.raises(UsageError, match=message):
        bpe_pipeline.train_from_iterator(documents(), output=tmp_path / "run", vocab_size=300, memory_limit="2GiB")
    assert not (tmp_path / "run" / "counter.parquet").exists()


GOOD, WITHOUT = {"meta": {"text": "aab"}}, {"meta": None}
NUMBERS = pa.StructArray.from_arrays([pa.array([1, None, 3])], ["text"])
RECORDS = [
    GOOD,
    {"body": "no field"},
    {"meta": {"text": None}},
    {"meta": "no record"},
    {"meta": {"text": 7}},
    GOOD,
    {"meta": {"text": ["aab"]}},
    WITHOUT,
]
COLUMNS = ([GOOD["meta"]], ["no field"], [{"text": None}, None], NUMBERS, [GOOD["meta"]])
BATCHES = [pa.record_batch({"body" if "no field" in column else "meta": column}) for column in map(pa.array, COLUMNS)]
ROWS = {
    "records": (RECORDS, [2, 3, 4, 8], [5, 7]),
    "batches": (BATCHES, [2, 3, 4, 6], [5, 7]),
    "structs": ([pa.array([GOOD, WITHOUT]), pa.array([GOOD, None])], [2, 4], []),
    "named with a dot": (pa.table({"meta.text": ["aab", None, "aab"]}), [2], []),
    "texts": (pa.array(["aab", None, "aab", None]), [2, 4], []),
}


@pytest.mark.parametrize(("rows", "missing", "no_text"), ROWS.values(), ids=ROWS)
def test_records_without_text_are_skipped_and_counted(rows, missing, no_text, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="records? skipped") as warned:
        bpe_pipeline.train_from_iterator(rows, output=tmp_path / "run", vocab_size=258, text_field="meta.text")
    losses, messages = [], []
    kinds = ("records_without_field", "no text field"), ("records_not_text", "the text field is not text")
    for (name, reason), numbers in zip(kinds, (missing, no_text), strict=True):
        if places := [f"item {number}" for number in numbers]:
            losses.append((name, len(places), places))
            many, first = f"{len(places)} record{'s' * (len(places) > 1)}", "; ".join(places[:3])
            messages.append(f"{many} skipped: {reason} (first: {first})")
    assert losses_in(tmp_path / "run") == losses
    assert [str(one.message) for one in warned] == messages
    facts = corpus_of(tmp_path / "run")
    assert (facts["documents"], facts["bytes"]) == (2, 6)


_LIMITED = """
import re, bpe_pipeline
documents, options = iter([f'some words {n * n}' for n in range(20000)]), {'vocab_size': 300, 'workers': 2}
try:
    bpe_pipeline.train_from_iterator(documents, memory_limit='100MiB', output='run', **options)
except bpe_pipeline.PipelineError as error:
    least = re.search('([0-9]+)MiB$', str(error))[1]
assert int(least) > 100
bpe_pipeline.train_from_iterator(documents, memory_limit=f'{least}MiB', output='run', **options)
"""


def test_a_small_limit_is_refused_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of its own, for the limit is compared with what it has."""
    monkeypatch.chdir(tmp_path)
    script(_LIMITED)
    assert corpus_of(tmp_path / "run")["documents"] == 20_000  # the refusal took none


def test_a_data_frame_without_the_column_or_with_rows_without_text_is_named() -> None:
    frame = Frame(pa.table({"n": [1], "text": ["a"]}))
    with pytest.raises(InputError, match="the table has no column 'body', only n, text"):
        list(blocks(frame, "body"))
    with pytest.raises(UsageError, match="documents are one dict_items"):
        list(blocks({"text": "a"}.items(), "text"))
    [part] = blocks(Frame(pa.table({"text": ["a", None]})), "text")
    assert [(one.kind, one.positions) for one in part.skipped] == [("records_without_field", [2])]


@pytest.mark.parametrize("texts", [{"text": "ab"}, Frame(pa.table({"text": ["ab"]}))])
def test_a_mapping_or_a_table_is_no_batch_of_texts(texts: object) -> None:
    tokenizer = bpe_pipeline.Tokenizer.from_merges([])
    for encode in (tokenizer.encode_batch, tokenizer.encode_ordinary_batch):
        with pytest.raises(UsageError, match=r"texts: expected a list of texts \(of a mapping or a table one column"):
            encode(texts)
    assert tokenizer.encode_batch({"ab": 1}.keys()) == [tokenizer.encode("ab")]


def test_replaced_bytes_are_warned_of(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"2 invalid UTF-8 sequences .*\(first: item 2, byte 1; item 3, byte 0\)"):
        bpe_pipeline.train_from_iterator(["fine", b"a\xff", "\ud800"], output=tmp_path / "a", vocab_size=257)


@pytest.mark.processes
def test_the_documents_are_not_sent_to_workers(tmp_path: Path) -> None:
    """A generator cannot be: the report would lack its numbers."""
    bpe_pipeline.train_from_iterator(
        (text for text in ["low lower lowest"] * 9), output=tmp_path / "run", vocab_size=260
    )
    assert json.loads((tmp_path / "run" / "report.json").read_text())["numbers"] is not None
