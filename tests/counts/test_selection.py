"""Documents that are left out or cut: what `--sample` and `--max-document-chars` take, however text is read."""

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import counter_files
import oracle_counting
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amount import FULL
from chunk_tasks import EOT, chunk_task, random_words
from command import run as command
from command import succeeded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selecting import Selected, selected, takes

import bpe_pipeline
from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, RunDirectoryError, TrainingError, UsageError
from bpe_pipeline.commands.report import EXTENT
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.counts.chunk_statistics import NotTaken
from bpe_pipeline.counts.count_worker import count_chunk
from bpe_pipeline.pattern.compiler import compile_pattern

END, MARK = b"<|endoftext|>", b"[mark]"
AUTOMATON = compile_pattern("gpt2").automaton
PINNED = [7, 12, 16, 18, 20, 22, 24, 36, 37], [3, 7, 11, 16, 17, 21, 26, 27, 29, 36, 38]
PARTS = [
    END,
    MARK,
    END[:4],
    MARK[2:],
    b"a",
    b" low",
    "é".encode(),
    "日本".encode(),
    b"\n",
    b"\xff",
    b"\xe6\x97",
    b"\xf0\x9f",
]
JUDGES = st.builds(
    DocumentJudge,
    errors=st.sampled_from(["replace", "skip"]),
    sample=st.sampled_from([None, 0.1, 0.5, 0.9]),
    seed=st.integers(0, 3),
    max_document_chars=st.sampled_from([None, 1, 3, 10, 40]),
)
FIRST = DocumentJudge(sample=0.3, max_document_chars=60)


def counter_of(found: Selected, errors: str = "replace", others: tuple[bytes, ...] = (MARK,)) -> Counter[bytes]:
    total: Counter[bytes] = Counter()
    for document, _ in found.documents:
        if errors != "skip" or document.decode(errors="ignore").encode() == document:
            total += oracle_counting.count(document, others)
    return total


@settings(max_examples=600, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from(PARTS), max_size=30).map(b"".join), min_size=1, max_size=3),
    judge=JUDGES,
    block=st.integers(1, 40),
    window=st.sampled_from([1, 9, 1 << 18]),
    native=st.booleans(),
)
def test_any_text_in_any_blocks(
    texts: list[bytes], judge: DocumentJudge, block: int, window: int, native: bool
) -> None:
    cutter: Any = AUTOMATON if native else oracle_counting.cut
    counter = _core.ChunkCounter(cutter, [END], added_tokens=[MARK], judge=judge, window_bytes=window)
    for text in texts:
        for at in range(0, len(text), block):
            counter.feed(text[at : at + block])
        counter.feed(b"", end=True)
    found, statistics = selected(texts, judge, [END], [MARK]), counter.statistics()
    assert oracle_counting.as_counter(counter.columns()) == counter_of(found, judge.errors)
    assert vars(NotTaken(*statistics["left_out"], *statistics["cut"])) == found.not_taken()
    assert statistics["bytes"] == sum(map(len, texts))


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("judge", [DocumentJudge("strict", sample=0.9), DocumentJudge("strict", max_document_chars=5)])
def test_errors_name_their_offset_in_all_text(judge: DocumentJudge, block: int) -> None:
    documents = [b"%d is long" % number for number in range(40)]
    number = next(n for n in range(20, 40) if takes(documents[n][:2] + b"\xff", judge))
    documents[number] = documents[number][:2] + b"\xff"
    text, at = END.join(documents), len(END.join(documents[: number + 1])) - 1
    counter = _core.ChunkCounter(AUTOMATON, [END], judge=judge)
    blocks = [text[start : start + block] for start in range(0, len(text), block)]
    with pytest.raises(UnicodeError, match=f"byte {at}'"):
        list(map(counter.feed, blocks, [False] * (len(blocks) - 1) + [True]))


def test_a_choice_never_changes() -> None:
    """Another version that chose others would mix two samples, or test on what was trained on."""
    documents = [b"document %d" % number for number in range(40)]
    for judge, expected in ((DocumentJudge(sample=0.2), PINNED[0]), (DocumentJudge(sample=0.2, seed=1), PINNED[1])):
        counter = _core.ChunkCounter(compile_pattern("none").automaton, [END], judge=judge)
        counter.feed(END.join(documents), end=True)
        assert sorted(int(one[9:]) for one in oracle_counting.as_counter(counter.columns())) == expected


def test_shares_of_one_seed_are_nested_and_those_of_others_independent() -> None:
    documents = [b"%d" % number for number in range(5000)]
    chosen = [{one for one in documents if takes(one, DocumentJudge(sample=share))} for share in (0.01, 0.1, 0.5)]
    assert chosen[0] < chosen[1] < chosen[2]
    assert [len(one) for one in chosen] == pytest.approx([50, 500, 2500], rel=0.2)
    other = {one for one in documents if takes(one, DocumentJudge(sample=0.1, seed=7))}
    assert len(other & chosen[1]) < 100


WORDS = ["low", "ér", "日本", MARK.decode()]
DOCUMENTS = [f"{number} " + " ".join(random.Random(number).choices(WORDS, k=number % 40)) for number in range(300)]


def _write(home: Path, documents: list[str], kind: str) -> Path:
    text = END.decode().join(documents)
    lines = "".join(json.dumps({"text": one}) + "\n" for one in documents)
    if kind == "parquet":
        pq.write_table(pa.table({"text": documents}), home / "a.parquet", row_group_size=20)
    elif kind == "files":
        for number in range(0, len(documents), 30):
            part = documents[number : number + 30]
            (home / f"{number % 7}{number}.txt").write_text(END.decode().join(part), newline="")
    else:
        contents = {"txt": text.encode(), "txt.gz": gzip.compress(text.encode()), "jsonl": lines.encode()}
        (home / f"a.{kind}").write_bytes(contents[kind])
    return home


def _documents(
    judge: DocumentJudge, documents: Sequence[str] = DOCUMENTS, others: tuple[bytes, ...] = (MARK,)
) -> Selected:
    return selected([one.encode() for one in documents], judge, [END], others)


def _options(judge: DocumentJudge) -> dict[str, Any]:
    return {"sample": judge.sample, "seed": judge.seed, "max_document_chars": judge.max_document_chars}


@pytest.mark.filterwarnings("ignore:.*looks like special")
@settings(max_examples=200 if FULL else 8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.randoms(use_true_random=False),
    kind=st.sampled_from(["txt", "files", "jsonl", "parquet", "txt.gz"]),
    chunk_size=st.integers(300, 20_000),
    workers=st.integers(1, 3),
    judge=st.builds(
        DocumentJudge,
        sample=st.sampled_from([None, 0.1, 0.6]),
        seed=st.integers(0, 2),
        max_document_chars=st.sampled_from([None, 9, 60]),
    ),
    special=st.sampled_from([(END.decode(), MARK.decode()), (MARK.decode(), END.decode())]),
)
def test_any_order_files_chunks_and_workers(tmp_path_factory, order, kind, chunk_size, workers, judge, special):
    home, documents = tmp_path_factory.mktemp("corpus"), [*DOCUMENTS]
    options = {"chunk_size": chunk_size, "workers": workers, "special_tokens": special, **_options(judge)}
    order.shuffle(documents)
    summary = bpe_pipeline.count(_write(home, documents, kind), output=home / "run", **options)
    found = _documents(judge)
    assert counter_files.read(home / "run" / "counter.parquet") == counter_of(found)
    assert vars(summary.corpus.not_taken) == found.not_taken()
    assert not judge.selects or summary.corpus.documents == len(found.documents)


def test_a_corpus_that_grows_keeps_its_choice(tmp_path: Path) -> None:
    _write(tmp_path, DOCUMENTS[:120], "txt")
    bpe_pipeline.count(tmp_path / "a.txt", output=tmp_path / "run", **_options(FIRST))
    _write(tmp_path, DOCUMENTS[120:], "jsonl")
    summary = bpe_pipeline.count([tmp_path / "a.txt", tmp_path / "a.jsonl"], output=tmp_path / "run", **_options(FIRST))
    found = _documents(FIRST, others=())
    assert counter_files.read(tmp_path / "run" / "counter.parquet") == counter_of(found, others=())
    assert vars(summary.corpus.not_taken) == found.not_taken()


def test_records_of_an_iterator_are_the_documents_of_a_file(tmp_path: Path) -> None:
    bpe_pipeline.count(_write(tmp_path, DOCUMENTS, "jsonl"), output=tmp_path / "run", **_options(FIRST))
    bpe_pipeline.train_from_iterator(
        DOCUMENTS, output=tmp_path / "iterated", vocab_size=300, workers=2, **_options(FIRST)
    )
    counters = [counter_files.read(tmp_path / name / "counter.parquet") for name in ("run", "iterated")]
    assert counters[0] == counters[1] == counter_of(_documents(FIRST, others=()), others=())
    with pytest.raises(UsageError, match="option 'sample': a size is one of files"):
        bpe_pipeline.train_from_iterator(DOCUMENTS, output=tmp_path / "third", sample="1MB")


@pytest.mark.filterwarnings("ignore:the pattern of .* splits pre-tokens")
def test_the_second_count_of_superwords_is_of_the_same_documents(tmp_path: Path) -> None:
    options = {"vocab_size": 320, "superwords_from": 300, "special_tokens": [END.decode(), MARK.decode()]}
    home, found = _write(tmp_path, DOCUMENTS, "txt"), _documents(FIRST)
    alone = tmp_path / "alone.txt"
    alone.write_bytes(END.join(document for document, _ in found.documents))
    merges = [
        bpe_pipeline.train(path, output=tmp_path / "runs" / name, **options, **more).merges
        for name, path, more in (("sampled", home / "a.txt", _options(FIRST)), ("alone", alone, {}))
    ]
    assert merges[0] == merges[1]


def test_a_size_is_a_share_of_the_bytes_of_all_files(tmp_path: Path) -> None:
    home = _write(tmp_path, DOCUMENTS, "files")
    total = sum(path.stat().st_size for path in home.glob("*.txt"))
    for name, sample in (("size", total // 4), ("share", total // 4 / total), ("all", total), ("whole", None)):
        bpe_pipeline.count(home / "*.txt", output=tmp_path / "runs" / name, sample=sample, seed=2)
    size, share, everything, whole = (
        json.loads((tmp_path / "runs" / name / "run.json").read_text())["counting"]
        for name in ("size", "share", "all", "whole")
    )
    assert size == share == {"sample": total // 4 / total, "seed": 2}
    assert everything == whole == {}  # a seed of no choice is not part of what a run is
    bpe_pipeline.count(home / "*.txt", output=tmp_path / "runs" / "size", sample=total // 4, seed=2)
    (home / "more.txt").write_text("more text")
    with pytest.raises(RunDirectoryError, match=r"--sample 0\.25, not 0\.249"):
        bpe_pipeline.count(home / "*.txt", output=tmp_path / "runs" / "size", sample=total // 4, seed=2)


def test_another_choice_is_another_run_whose_counts_can_be_combined(tmp_path: Path) -> None:
    for name in ("txt", "jsonl"):
        (tmp_path / name).mkdir()
        _write(tmp_path / name, DOCUMENTS[: 100 if name == "txt" else 200], name)
    bpe_pipeline.count(tmp_path / "txt", output=tmp_path / "a", sample="20%")
    for other in ({"sample": 0.3}, {"sample": 0.2, "seed": 1}, {"sample": 0.2, "max_document_chars": 9}, {}):
        with pytest.raises(RunDirectoryError, match="its counting was done with"):
            bpe_pipeline.count(tmp_path / "txt", output=tmp_path / "a", **other)
    bpe_pipeline.count(tmp_path / "jsonl", output=tmp_path / "b", max_document_chars=9)
    bpe_pipeline.combine([tmp_path / "a", tmp_path / "b"], output=tmp_path / "both")
    whole = counter_files.read(tmp_path / "a" / "counter.parquet") + counter_files.read(
        tmp_path / "b" / "counter.parquet"
    )
    assert counter_files.read(tmp_path / "both" / "counter.parquet") == whole
    stored = json.loads((tmp_path / "both" / "report.json").read_text())["corpus"]["not_taken"]
    assert stored["left_out_documents"] > 50 < stored["cut_documents"]


def test_what_is_left_out_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTENT, "page")  # with a model card
    home, run = _write(tmp_path, DOCUMENTS, "txt"), tmp_path / "run"
    plan = succeeded(
        command("train", home / "a.txt", "--dry-run", "--sample", "30%", "--max-document-chars", 60)
    ).stdout
    assert "\nsample   0.3 of the documents, seed 0\n" in plan
    assert "max_document_chars: 60" in plan
    bpe_pipeline.train(home / "a.txt", output=run, vocab_size=300, **_options(FIRST))
    amounts = _documents(FIRST, others=()).not_taken()
    said = (
        rf"{amounts['left_out_documents']} documents not in the sample \(\d.*, {amounts['left_out_characters']:,} "
        rf"characters\); {amounts['cut_documents']} documents truncated at --max-document-chars \(.*, "
        rf"{amounts['cut_characters']:,} characters\)"
    )
    (run / "report.json").rename(run / "moved")  # what is stored with the counter is told
    described = succeeded(command("info", run)).stdout
    (run / "moved").rename(run / "report.json")
    for text in (described, *((run / name).read_text() for name in ("report.txt", "tokenizer/README.md"))):
        assert re.search(rf"left out\s.*{said}", text)
    assert "| sample | 0.3 |" in text
    assert json.loads((run / "report.json").read_text())["corpus"]["not_taken"] == amounts
    assert json.loads(succeeded(command("info", run, "--json")).stdout)["left_out"] == amounts


def test_an_empty_sample_says_so_with_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one document")
    sample = {"sample": 0.001, "output": tmp_path / "run"}
    numbers = r"the sample is empty: 1 document not in the sample \(12 B, 12 characters\); give a larger --sample"
    with pytest.raises(InputError, match=numbers):
        bpe_pipeline.count(tmp_path / "a.txt", **sample)


@pytest.mark.parametrize("sample", ["0", "1", "100%", "-1%", 1.5, "x", 0, True])
def test_what_is_no_share_and_no_size(sample: object) -> None:
    with pytest.raises(UsageError, match=r"'sample': expected a share below 1 such as 1% .* size such as 2GB"):
        bpe_pipeline.count("a.txt", sample=sample)


@pytest.mark.parametrize("most", ["0", -1, "x"])
def test_what_is_no_number_of_characters(most: object) -> None:
    with pytest.raises(UsageError, match="'max_document_chars': expected a whole number of at least 1"):
        bpe_pipeline.count("a.txt", max_document_chars=most)


@pytest.mark.parametrize("judge", [DocumentJudge(sample=0.5), DocumentJudge(max_document_chars=8)])
def test_a_document_beyond_the_memory_is_refused_by_name(tmp_path: Path, judge: DocumentJudge) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"low " * (6 << 20))
    reason = r"a.txt, byte 0: about here a document of .* more starts, too much .* no --sample, no --max-document-chars"
    with pytest.raises(TrainingError, match=reason):
        count_chunk(chunk_task(path, tmp_path / "c.parquet", 16 << 20, judge=judge))


@pytest.mark.slow
@pytest.mark.parametrize("budget", [3 << 20, 1 << 30])
@pytest.mark.parametrize("judge", [DocumentJudge(sample=0.4), DocumentJudge(sample=0.4, max_document_chars=100_000)])
def test_any_memory_counts_the_same(tmp_path: Path, judge: DocumentJudge, budget: int) -> None:
    """Documents are larger than blocks and windows, and hardly a word occurs twice: counters are written in parts."""
    documents = [b"%d " % number + random_words(number, 300_000) for number in range(20)]
    (tmp_path / "a.txt").write_bytes(EOT.join(documents))
    statistics = count_chunk(chunk_task(tmp_path / "a.txt", tmp_path / "c.parquet", budget, judge=judge))
    found = selected(documents, judge, [])
    assert counter_files.read(tmp_path / "c.parquet") == counter_of(found, others=())
    assert vars(statistics.not_taken) == found.not_taken()
