"""What reading holds counts against the worker's budget; what does not fit is a one-line error."""

import re
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import peers
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.process import HAS_PSS
from chunk_tasks import counted_within, random_words
from command import measured, refused, run
from corpus_files import pre_tokens_file, xz_with, zstd_frame
from hypothesis import given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline import _core
from bpe_pipeline.base import machine
from bpe_pipeline.base.errors import InputError, TrainingError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.commands import merge
from bpe_pipeline.commands.preload import TRAINING
from bpe_pipeline.corpus.formats.lines import whole_lines
from bpe_pipeline.corpus.read_budget import LEAST_COUNTING_BYTES, UNLIMITED, ReadBudget
from bpe_pipeline.counts.foreign_worker import read_parquet
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.workers import executor_for
from bpe_pipeline.tokenizer import export
from bpe_pipeline.tokenizer.model import Model

MIB = 1 << 20


def line(size: int) -> bytes:
    return b'{"text":"' + b"the quick brown fox " * (size // 20) + b'"}\n'


def test_held_bytes_add_up() -> None:
    budget = ReadBudget(40 * MIB, (left := list[int]()).append)
    assert [budget.hold("window", 20 * MIB), budget.hold("line", 20 * MIB)] == [True, False]
    assert budget.left_bytes == min(left) == 20 * MIB
    assert [budget.hold("window", 0), budget.hold("line", 30 * MIB)] == [True, True]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 3000), max_size=8), st.integers(300, 2000), st.integers(4, 20))
def test_budget_does_not_decide_what_is_skipped(lengths: list[int], block_kb: int, budget_mib: int) -> None:
    text = b"".join(b"x" * (1000 * length) + b"\n" for length in lengths)
    blocks = [text[start : start + 1000 * block_kb] for start in range(0, len(text), 1000 * block_kb)]

    def too_long(budget: ReadBudget) -> list[int]:
        positions, at_end = [], 0
        for at, found in whole_lines(blocks, 0, 2_000_000, budget):
            assert at == at_end
            if isinstance(found, bytes):
                assert found == text[at : at + len(found)]
                at_end += len(found)
                continue
            end = text.index(b"\n", at)
            at_end = end + 1
            assert (end - at > 2_000_000) if found is None else (found == end - at <= 2_000_000)
            positions += [at] * (found is None)
        return positions

    assert too_long(UNLIMITED) == too_long(ReadBudget(budget_mib * MIB, lambda _: None))


def error_of(read: Callable[[], object]) -> str:
    try:
        read()
    except TrainingError as error:
        return str(error)
    return ""


READ = {
    "a.jsonl": lambda: line(1000) + line(9_000_000) + line(500),
    "a.txt.zst": lambda: zstd_frame(26, 700),
    "a.txt.xz": lambda: xz_with(48 * MIB, random_words(3, 100_000) + b"abcdefghi " * 6_000_000),
}


def until_enough(attempt: Callable[[int], str], refusal: str, limit: int) -> None:
    """Attempt within a limit, then within the one that the refusal's first group names, until it is enough."""
    limits, error = [limit], attempt(limit)
    while error or len(limits) == 1:
        named = re.search(refusal, error)
        assert named, error
        limits.append(int(named[1]))
        assert (limits == sorted(set(limits)), len(limits) < 5) == (True, True), limits
        error = attempt(limits[-1])


@pytest.mark.parametrize("name", READ)
def test_error_over_budget_names_a_sufficient_limit(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(READ[name]())
    message = rf"^{re.escape(str(path))}, byte \d+.* would take \d.* to read, and a worker has .*; give --memory-limit "
    message += r"(\d+)MiB$"
    until_enough(lambda limit: error_of(lambda: counted_within(path, (limit - 100) * MIB)), message, 112)


@pytest.mark.slow
def test_counter_is_written_in_parts_while_reading_needs_memory(tmp_path: Path) -> None:
    """The counter is written in parts, and has its budget back afterwards."""
    path = tmp_path / "a.jsonl"
    words = random_words(4, 3_000_000)
    records = b"".join(b'{"text":"%s"}\n' % words[start : start + 500] for start in range(0, len(words), 500))
    path.write_bytes(records + line(5_000_000) + records)
    counted_within(path, 40 * MIB)
    spilled: list[int] = []
    automaton = compile_pattern("gpt2").automaton
    counter = _core.ChunkCounter(automaton, [], budget_bytes=40 * MIB, spill=lambda one: spilled.append(len(one)))
    counter.feed(random_words(5, 3_000_000), True)
    assert not spilled
    pre_tokens = len(counter)
    counter.set_budget(3 * MIB)
    assert (spilled, len(counter)) == ([pre_tokens], 0)
    with pytest.raises(ValueError, match="no budget to change"):
        _core.ChunkCounter(automaton, []).set_budget(5)


@pytest.mark.parametrize(("workers", "most"), [(1, 1), (1, 4), (2, 3), (4, 4)])
@pytest.mark.parametrize("copies", [1, 2])
def test_named_limit_is_enough_also_if_more_workers_share_it(workers: int, most: int, copies: int) -> None:
    taken, worker, writing, each = 90 * MIB, 18 * MIB, 12 * MIB, 40 * MIB
    work = copies * each + writing
    grant = Grant(work, taken + workers * (worker + work), taken, worker, on_one=workers, most=most)
    budget = ReadBudget(each, lambda _: None, grant, copies)
    named = re.search(r"--memory-limit (\d+)MiB", str(budget.too_large("line", 70 * MIB, "it")))
    assert named
    then = ((int(named[1]) * MIB - taken) // most - worker - writing) // copies
    assert 0 <= then - 70 * MIB - LEAST_COUNTING_BYTES <= 10 * MIB


def _page(home: Path) -> Path:
    """A page of 40 MB in a few kB."""
    table, path = pa.table({"text": [b"some words and " * 100] * 27_000}), home / "a.parquet"
    pq.write_table(table, path, compression="zstd", use_dictionary=False, data_page_size=1 << 30)
    assert path.stat().st_size < 40_000
    return path


COUNTS: dict[str, Callable[[Path], Path]] = {
    "dictionary": lambda home: pre_tokens_file(
        home / "a.parquet", [b"x" * 3 * MIB] * 60, dictionary_pagesize_limit=1 << 30
    ),
    "pages": lambda home: pre_tokens_file(
        home / "a.parquet", [bytes([97 + i]) * 4 * MIB for i in range(20)], use_dictionary=False
    ),
    "prefixes": lambda home: pre_tokens_file(
        home / "a.parquet",
        [b"y" * 3 * MIB] * 60,
        use_dictionary=False,
        column_encoding={"pre_token": "DELTA_BYTE_ARRAY"},
    ),
    "page": _page,
}


@pytest.mark.slow
@pytest.mark.skipif(not HAS_PSS, reason="the system does not tell proportional set sizes")
@pytest.mark.parametrize(
    ("name", "command", "reason", "least_mib"),
    [
        ("dictionary", ["combine", "--pattern=none"], ".* to read", 150),
        ("page", ["count"], r"row group 0: a page .* of \d+\.\d MiB would take", 160),
    ],
)
def test_reading_stays_within_the_memory_limit(name, command, reason, least_mib, tmp_path: Path) -> None:
    path = COUNTS[name](tmp_path)
    words = [*command, path, "--output", tmp_path / "run", "--overwrite", "--workers=1", "--quiet"]
    refusal = rf"error: {re.escape(str(path))}, {reason}.*; give --memory-limit (\d+)MiB\n"
    run_within = partial(measured, *words, cwd=tmp_path, fails=True)
    until_enough(lambda limit_mib: run_within(limit_mib=limit_mib).stderr, refusal, least_mib)


def test_dictionary_of_pre_tokens_is_decoded(tmp_path: Path) -> None:
    pre_tokens = [peers.generated_text(number % 50, 30).encode() for number in range(3000)]
    path = pre_tokens_file(tmp_path / "a.parquet", pre_tokens, row_group_size=1000)
    for budget in (UNLIMITED, ReadBudget(4 * MIB, lambda _: None)):
        batches = list(read_parquet(path, budget))
        assert [pre_token for batch in batches for pre_token in batch.pre_tokens] == pre_tokens
        for batch in batches[:2]:
            assert pre_tokens[int(batch.location(0).rsplit(" ", 1)[1]) - 1] == batch.pre_tokens[0]


@pytest.mark.parametrize(("name", "pre_tokens"), [("dictionary", 60), ("pages", 20), ("prefixes", 60)])
def test_large_pre_tokens_are_read_within_the_budget_that_the_errors_name(
    name: str, pre_tokens: int, tmp_path: Path
) -> None:
    path, batches = COUNTS[name](tmp_path), []

    def read(whole_mib: int) -> None:
        batches[:] = read_parquet(path, ReadBudget((whole_mib + 1) * MIB, lambda _: None))

    reason = r"would take (\d+)\.\d MiB to read, and a worker has \d+\.0 MiB"
    until_enough(lambda limit: error_of(lambda: read(limit)), reason, 3)
    assert sum(len(batch.pre_tokens) for batch in batches) == pre_tokens


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of more pre-tokens than a row group holds, merged."""
    run = tmp_path_factory.mktemp("imported") / "run"
    words = random_words(6, 1_500_000).split(b" ")
    bpe_pipeline.combine({b" " + word: 1 + len(word) % 7 for word in words if word}, output=run)
    bpe_pipeline.merge(run, vocab_size=700)
    return run


@pytest.mark.slow
@pytest.mark.skipif(not HAS_PSS, reason="the system does not tell proportional set sizes")
def test_verify_stays_within_the_memory_limit(imported: Path, tmp_path: Path) -> None:
    assert "--memory-limit 50.0 MiB is too small" in refused(run("verify", imported, "--memory-limit", "50MiB"), 2)
    found = measured("verify", imported, cwd=tmp_path, limit_mib=160)
    assert "unique; the checksums are right" in found.stdout


def test_sizes_are_exported_one_at_a_time(imported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the report, whose worker makes a model of its own: in this test it is this process."""
    monkeypatch.setenv("BPE_PIPELINE_REPORT", "none")
    made: list[weakref.ref[Model]] = []
    real = export.Trained.model

    def model(trained: export.Trained, vocab_size: int) -> Model:
        assert not any(earlier() for earlier in made)
        made.append(weakref.ref(new := real(trained, vocab_size)))
        return new

    monkeypatch.setattr(export.Trained, "model", model)
    with executor_for(make_options(TrainOptions, {"workers": 1}), TRAINING) as executor:
        _, trained = merge.run_merge(imported, TrainOptions(vocab_size=(700, 500, 400)), executor, lambda _: None)
    assert (len(made), any(earlier() for earlier in made)) == (3, False)
    assert [trained.model(size).vocabulary.size for size in trained.options.vocab_size] == [700, 500, 400]


def test_every_command_warns_when_memory_passed_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, limit = tmp_path / "run", {"memory_limit": "2GiB"}
    bpe_pipeline.merge(bpe_pipeline.combine({"low": 5, "lower": 2}, output=run), vocab_size=259)
    monkeypatch.setattr(machine, "_memory_by_process", lambda: {0: (3 << 30, 0)})
    for work in (
        lambda: bpe_pipeline.verify(run, **limit),
        lambda: bpe_pipeline.merge(run, vocab_size=258, **limit),
        lambda: bpe_pipeline.combine([run], output=tmp_path / "other", **limit),
        lambda: bpe_pipeline.combine({"a": 1}, output=tmp_path / "more", **limit),
    ):
        with pytest.warns(UserWarning, match=r"memory passed the limit of 2\.0 GiB: all processes .* 3\.0 GiB"):
            work()
    with pytest.warns(UserWarning, match="memory passed"), pytest.raises(InputError, match="the pre-token is empty"):
        bpe_pipeline.combine({"": 1}, output=tmp_path / "empty", **limit)
