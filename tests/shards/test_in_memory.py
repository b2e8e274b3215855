"""A corpus encoded in memory: the ids of its shards, by document, for any number of threads and any chunks."""

import pickle
from array import array
from concurrent.futures import CancelledError
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import counter_files
import peers
import published
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encoded import EOT, IM, expected, read_shards, write_corpus, write_lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.base.events import warn_of
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import EncodeFilesOptions
from bpe_pipeline.run.plan import list_corpus
from bpe_pipeline.shards import encode_worker, encoding_tasks, in_memory
from bpe_pipeline.shards.encode_worker import IdsTask
from bpe_pipeline.shards.plan import cut_corpus


@pytest.mark.filterwarnings("ignore:1 file without a byte")
@pytest.mark.parametrize(("threads", "errors"), [(1, "replace"), (3, "replace"), (3, "skip")])
@pytest.mark.parametrize("documents", ["separator", "offsets"])
def test_ids_are_those_of_the_shards(
    tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, documents: str, threads: int, errors: str
) -> None:
    corpus, options = write_corpus(tmp_path / "corpus"), {"documents": documents, "errors": errors}
    encoded = bpe_pipeline.encode(corpus, tokenizer, chunk_size=700, workers=threads, **options)
    shards = bpe_pipeline.encode(corpus, tokenizer, tmp_path / "shards", shard_format="bin", workers=1, **options)
    [shard] = shards.shards
    ids = read_shards(tmp_path / "shards")
    ends = [at + 1 for at, id_ in enumerate(ids) if id_ == tokenizer.special_tokens[EOT]]
    if documents == "offsets":
        ends = array("Q", (tmp_path / "shards" / str(shard.offsets)).read_bytes()[-8 * len(encoded) :]).tolist()
    assert (encoded.ids.tolist(), encoded.ends.tolist()) == (ids, ends)
    assert [row.tolist() for row in encoded] == [ids[start:end] for start, end in pairwise([0, *ends])]
    assert (len(encoded), encoded.text_bytes, encoded.losses) == (shards.documents, shards.text_bytes, shards.losses)
    assert (encoded.ids.format, encoded.ids.readonly) == ("H", True)
    assert encoded.losses["replacements" if errors == "replace" else "documents_skipped"]["count"] > 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("ab's 1é日\n😀", max_size=30), min_size=1, max_size=20), st.integers(1, 200), st.integers(1, 4))
def test_ids_do_not_depend_on_chunks_or_threads(
    tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, texts: list[str], chunk_bytes: int, threads: int
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x" + EOT.join(texts), newline="")
    encoded = bpe_pipeline.encode(path, tokenizer, chunk_size=chunk_bytes, workers=threads)
    assert encoded.ids.tolist() == expected(tokenizer, [path.read_bytes()])


REGEX = bpe_pipeline.Tokenizer.from_merges([(b"a", b"b"), (b"ab", b"a")], [EOT], pattern=r"(?<!x)\w+|\W|x")


@pytest.mark.parametrize("name", ["qwen2", "deepseek", "coder", "regex"])
def test_tokenizers_of_other_trainers(tmp_path: Path, name: str) -> None:
    """NFC, several splits, a pattern that the core does not run: each document as `encode` has it."""
    ours = REGEX if name == "regex" else published.pair(name, "plain")[1]
    texts = [peers.generated_text(seed, 300) + "e\u0301 漢字" for seed in range(5)]
    path = write_lines(tmp_path / "a.jsonl", texts)
    warned = pytest.warns(UserWarning, match="the pattern runs on the regex package, slower")
    with warned if ours is REGEX else nullcontext():
        encoded = bpe_pipeline.encode(path, ours, documents="offsets", workers=2, chunk_size=500)
    assert [row.tolist() for row in encoded] == [ours.encode(text) for text in texts]


def test_interruption_does_not_wait_for_chunks(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, monkeypatch) -> None:
    """A thread whose result is no longer wanted ends with its current block."""
    ended: list[str] = []

    def make_ids(task: IdsTask, *rest: Any) -> ChunkStatistics:
        if task.name == "chunk 0":
            return encode_worker.make_ids(task, *rest)
        try:
            while True:  # a chunk without end
                rest[-1](memoryview(b"\0"), memoryview(b""))
        except CancelledError:
            ended.append(task.name)
            raise

    monkeypatch.setattr(encoding_tasks, "make_ids", make_ids)
    path = tmp_path / "a.txt"
    path.write_text("the low lower lowest " * 400_000)
    model = tokenizer.model
    options = make_options(EncodeFilesOptions, {"inputs": path, "chunk_size": 1 << 20, "workers": 2})
    plan = cut_corpus(list_corpus(options, warn_of), model, options)
    assert len(plan.chunks) > 4
    made = in_memory._encoded(model, options, plan)
    assert isinstance(next(made), tuple)
    made.close()
    assert 1 <= len(ended) <= 3  # of those that had started: two threads, and one that was given the next chunk


def test_result_is_a_sequence_of_documents(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", texts := ["one", "two two", "three"])
    encoded = bpe_pipeline.encode(path, tokenizer, documents="offsets")
    assert [tokenizer.decode(row) for row in [*encoded, encoded[-1]]] == [*texts, "three"]
    assert [tokenizer.decode(row) for row in encoded[:2]] == texts[:2]
    with pytest.raises(IndexError):
        encoded[3]
    assert list(reversed(encoded)) == [*encoded][::-1]
    again = pickle.loads(pickle.dumps(encoded))  # equal: see the tests of the interface
    assert (again.ids.format, again.ids.readonly) == (encoded.ids.format, True)


@pytest.fixture
def invalid(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(b"good bad\xff")
    return tmp_path / "a.txt"


def test_altered_input_is_counted_or_an_error(tokenizer: bpe_pipeline.Tokenizer, invalid: Path) -> None:
    assert bpe_pipeline.encode(invalid, tokenizer).losses["replacements"]["count"] == 1
    with pytest.raises(InputError, match="skipped or altered: 1 invalid UTF-8 sequence replaced"):
        bpe_pipeline.encode(invalid, tokenizer, fail_on_loss=True)
    with pytest.raises(InputError, match=r"invalid UTF-8 in .*a\.txt, byte 8; fix it and encode it again, or"):
        bpe_pipeline.encode([invalid] * 3, tokenizer, workers=2, errors="strict")


@pytest.mark.parametrize(("option", "value"), [("shard_size", 300), ("shuffle", True), ("ray", "auto")])
def test_options_of_shards_need_an_output(
    tokenizer: bpe_pipeline.Tokenizer, invalid: Path, option: str, value: Any
) -> None:
    with pytest.raises(UsageError, match=f"option '{option}' is for shards: give output"):
        bpe_pipeline.encode(invalid, tokenizer, **{option: value})
    with pytest.raises(UsageError, match="means nothing"):
        bpe_pipeline.encode(invalid, tokenizer, vocab_size=300)


def test_inputs_without_text_are_named(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "rowless.parquet")
    with pytest.raises(InputError, match=r"the corpus is empty: .*rowless\.parquet has no rows"):
        bpe_pipeline.encode(tmp_path / "rowless.parquet", tokenizer)
    with pytest.raises(InputError, match=r"none\.txt does not exist"):
        bpe_pipeline.encode(tmp_path / "none.txt", tokenizer)
    with pytest.raises(UsageError, match="names of files"):
        bpe_pipeline.encode("-", tokenizer)


def test_a_limit_below_the_tokenizer_is_refused(tokenizer: bpe_pipeline.Tokenizer, invalid: Path) -> None:
    with pytest.raises(UsageError, match="too small: encoding with a tokenizer of"):
        bpe_pipeline.encode(invalid, tokenizer, memory_limit="80MiB")


@pytest.mark.parametrize("more", [{}, {"max_document_chars": 1000}, {"sample": 0.999999999}], ids=str)
@pytest.mark.parametrize("chunk_size", [1, 1000])
def test_what_is_skipped_is_a_document_whole_with_its_separator(more: dict, chunk_size: int, tmp_path: Path) -> None:
    """Not the half of it up to another special token; it is the same with other options that judge documents."""
    ours = bpe_pipeline.Tokenizer.from_merges([], [EOT, IM])
    (tmp_path / "a.txt").write_bytes(
        f"one{EOT}half {IM} bad \xff".encode("latin-1") + f"{IM} end{EOT}{EOT}two".encode()
    )
    options = {"errors": "skip", "chunk_size": chunk_size, **more}
    encoded = bpe_pipeline.encode(tmp_path / "a.txt", ours, workers=1, **options)
    assert ours.decode(encoded.ids.tolist()) == f"one{EOT}{EOT}two{EOT}"
    marks = [EOT, IM]
    run = bpe_pipeline.count(tmp_path / "a.txt", special_tokens=marks, output=tmp_path / "run", workers=1, **options)
    assert (run.corpus.documents, [(one.kind, one.count) for one in run.corpus.losses]) == (
        2,
        [("documents_skipped", 1)],
    )
    assert counter_files.read(tmp_path / "run" / "counter.parquet") == {b"one": 1, b"two": 1}
