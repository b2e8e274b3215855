"""What reading holds counts against the worker's budget; what does not fit is a one-line error."""

import re
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import peers
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chunk_tasks import chunk_task, counted_within, random_words
from command import refused, run
from corpus_files import pieces_file, xz_with, zstd_frame
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from benchmarks.process import HAS_PSS, measure
from pipeline import _core
from pipeline.base import machine
from pipeline.base.errors import InputError, TrainingError
from pipeline.commands import merge
from pipeline.corpus.lines import whole_lines
from pipeline.corpus.read_budget import LEAST_COUNTING_BYTES, UNLIMITED, ReadBudget
from pipeline.counts.count_worker import count_chunk
from pipeline.counts.counts_file import read_counts
from pipeline.merges import replay_worker
from pipeline.run import manifest
from pipeline.run.options import make_options
from pipeline.run.workers import executor_for
from pipeline.tokenizer import export
from pipeline.tokenizer.model import Model

MIB = 1 << 20


def line(size: int) -> bytes:
    return b'{"text":"' + b"the quick brown fox " * (size // 20) + b'"}\n'


class _Watched:
    """A budget that notes how little was left for counting."""

    def __init__(self, budget_bytes: int) -> None:
        self.least = budget_bytes
        self.budget = ReadBudget(budget_bytes, self._note, limit_bytes=2 * budget_bytes, workers=2)

    def _note(self, left: int) -> None:
        self.least = min(self.least, left)


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
            else:
                end = text.index(b"\n", at)
                at_end = end + 1
                if found is None:
                    positions.append(at)
                    assert end - at > 2_000_000
                else:
                    assert found == end - at <= 2_000_000
        return positions

    assert too_long(UNLIMITED) == too_long(ReadBudget(budget_mib * MIB, lambda _: None))


READ = {
    "a.jsonl": lambda: line(1000) + line(9_000_000) + line(500),
    "a.txt.zst": lambda: zstd_frame(26, 700),
    "a.txt.xz": lambda: xz_with(48 * MIB, random_words(3, 100_000) + b"abcdefghi " * 6_000_000),
}


@pytest.mark.parametrize("name", READ)
def test_error_over_budget_names_a_sufficient_limit(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(READ[name]())
    budget = 12 * MIB
    for _ in range(3):
        try:
            counted_within(path, budget)
        except TrainingError as error:
            named = re.fullmatch(
                rf"{re.escape(str(path))}, byte \d+.* would take \d.* to read, and a worker has .*; "
                r"give --memory-limit (\d+)MiB", str(error)
            )  # fmt: skip
            more = int(named[1]) * MIB - 100 * MIB if named else 0
            if more <= budget:
                raise
            budget = more
        else:
            break
    else:
        raise AssertionError("it is never enough")
    assert budget > 12 * MIB


def test_too_long_line_is_skipped_within_any_budget(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(600) + line(70_000_000) + line(500))
    statistics = count_chunk(chunk_task(path, tmp_path / "c.parquet", 12 * MIB))
    assert statistics.losses["records_too_long"]["count"] == 1
    assert statistics.documents == 2


def test_counter_is_written_in_parts_while_reading_needs_memory(tmp_path: Path) -> None:
    """The counter is written in parts, and has its budget back afterwards."""
    path = tmp_path / "a.jsonl"
    words = random_words(4, 3_000_000)
    records = b"".join(b'{"text":"%s"}\n' % words[start : start + 500] for start in range(0, len(words), 500))
    path.write_bytes(records + line(5_000_000) + records)
    counted_within(path, 40 * MIB)
    spilled: list[int] = []
    counter = _core.ChunkCounter(
        chunk_task(path, path, 1).pattern.automaton,
        [],
        budget_bytes=40 * MIB,
        spill=lambda one: spilled.append(len(one)),
    )
    counter.feed(random_words(5, 3_000_000), True)
    assert not spilled
    pieces = len(counter)
    counter.set_budget(3 * MIB)
    assert (spilled, len(counter)) == ([pieces], 0)
    with pytest.raises(ValueError, match="no budget to change"):
        _core.ChunkCounter(chunk_task(path, path, 1).pattern.automaton, []).set_budget(5)


def test_held_bytes_add_up() -> None:
    watched = _Watched(40 * MIB)
    assert watched.budget.hold("window", 20 * MIB)
    assert not watched.budget.hold("line", 20 * MIB)
    assert watched.budget.left_bytes == watched.least == 20 * MIB
    error = str(watched.budget.too_large("line", 30 * MIB, "it"))
    short = 20 * MIB + 30 * MIB + LEAST_COUNTING_BYTES - 40 * MIB
    slack = 8  # by which the coordinator may differ the next time
    assert f"--memory-limit {(80 * MIB + 2 * short) // MIB + slack}MiB, or fewer --workers" in error
    watched.budget.hold("window", 0)
    assert watched.budget.hold("line", 30 * MIB)


@pytest.mark.parametrize(("workers", "most"), [(1, 1), (1, 4), (2, 3), (4, 4)])
@pytest.mark.parametrize("copies", [1, 2])
def test_named_limit_is_enough_also_if_more_workers_share_it(workers: int, most: int, copies: int) -> None:
    """A limit that is shared as `run.memory` shares it: the budgets, what is besides each, and what all have."""
    taken, beside, each = 90 * MIB, 30 * MIB, 40 * MIB
    limit = taken + workers * (copies * each + beside)
    budget = ReadBudget(each, lambda _: None, limit, workers, most, beside, copies)
    named = re.search(r"--memory-limit (\d+)MiB", str(budget.too_large("line", 70 * MIB, "it")))
    assert named
    then = ((int(named[1]) * MIB - taken) // most - beside) // copies
    assert 0 <= then - 70 * MIB - LEAST_COUNTING_BYTES <= 10 * MIB


COUNTS: dict[str, Callable[[Path], Path]] = {
    "dictionary": lambda home: pieces_file(home / "a.parquet", [b"x" * 3 * MIB] * 60,
                                       dictionary_pagesize_limit=1 << 30),
    "pages": lambda home: pieces_file(home / "a.parquet", [bytes([97 + i]) * 4 * MIB for i in range(20)],
                                  use_dictionary=False),
    "prefixes": lambda home: pieces_file(home / "a.parquet", [b"y" * 3 * MIB] * 60, use_dictionary=False,
                                     column_encoding={"piece": "DELTA_BYTE_ARRAY"}),
    "line": lambda home: Path(home / "a.tsv"),
}  # fmt: skip


@pytest.mark.skipif(not HAS_PSS, reason="the system does not tell proportional set sizes")
@pytest.mark.parametrize(
    "name", ["line", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dictionary", "pages", "prefixes"))]
)
def test_import_stays_within_the_memory_limit(name: str, tmp_path: Path) -> None:
    path = COUNTS[name](tmp_path)
    if path.suffix == ".tsv":
        path.write_bytes(b"".join(b"x%d\t3\n" % number for number in range(70_000)) + b"y" * 4 * MIB + b"\t5\n")
    limit, refusals = 150, 0
    for _ in range(3):
        argv = [sys.executable, "-P", "-m", "pipeline", "import", str(path), "--output", str(tmp_path / "run"),
                "--pattern=none", "--overwrite", "--workers=1", "--quiet", f"--memory-limit={limit}MiB"]  # fmt: skip
        measured = measure(argv, timeout_s=300, directory=tmp_path, environment=None)
        assert measured.peak_memory_bytes <= limit * MIB
        if measured.status == "ok":
            break
        named = re.search(
            rf"error: {re.escape(str(path))}, .* to read, .*; give --memory-limit (\d+)MiB\n", measured.stderr
        )
        assert named, measured.stderr
        assert measured.stderr.count("error") == 1
        limit, refusals = int(named[1]), refusals + 1
    assert measured.status == "ok"
    assert refusals > 0


@pytest.mark.skipif(not HAS_PSS, reason="the system does not tell proportional set sizes")
def test_large_page_stays_within_the_memory_limit(tmp_path: Path) -> None:
    """A page of 40 MB in a few kB is refused with the limit that would do, and read within that."""
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [b"some words and " * 100] * 27_000})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, data_page_size=1 << 30)
    assert path.stat().st_size < 40_000
    argv = [sys.executable, "-P", "-m", "pipeline", "count", str(path), "--output", str(tmp_path / "run"),
            "--workers=1", "--quiet"]  # fmt: skip
    small = measure([*argv, "--memory-limit=160MiB"], timeout_s=300, directory=tmp_path, environment=None)
    named = re.search(
        rf"error: {re.escape(str(path))}, row group 0: a page .* of \d+\.\d MiB would take .*; "
        r"give --memory-limit (\d+)MiB\n",
        small.stderr,
    )
    assert named, small.stderr
    assert small.peak_memory_bytes <= 160 * MIB
    limit = int(named[1])
    measured = measure([*argv, f"--memory-limit={limit}MiB"], timeout_s=300, directory=tmp_path, environment=None)
    assert measured.status == "ok", measured.stderr
    assert measured.peak_memory_bytes <= limit * MIB


def test_dictionary_of_pieces_is_decoded(tmp_path: Path) -> None:
    pieces = [peers.generated_text(number % 50, 30).encode() for number in range(3000)]
    path = pieces_file(tmp_path / "a.parquet", pieces, row_group_size=1000)
    for budget in (UNLIMITED, ReadBudget(4 * MIB, lambda _: None)):
        batches = list(read_counts(path, budget))
        assert [piece for batch in batches for piece in batch.pieces] == pieces
        for batch in batches[:2]:
            place = int(batch.location(0).rsplit(" ", 1)[1])
            assert pieces[place - 1] == batch.pieces[0]


@pytest.mark.parametrize(("name", "pieces"), [("dictionary", 60), ("pages", 20), ("prefixes", 60)])
def test_a_file_of_large_pieces_is_read_within_the_budget_that_the_errors_name(
    name: str, pieces: int, tmp_path: Path
) -> None:
    path, budgets, read = COUNTS[name](tmp_path), [4], 0
    while not read and len(budgets) < 4:
        budget = ReadBudget(budgets[-1] * MIB, lambda _: None)
        try:
            read = sum(len(batch.pieces) for batch in read_counts(path, budget))
        except TrainingError as error:
            [named] = re.findall(
                rf"would take (\d+)\.\d MiB to read, and a worker has {budgets[-1]}\.0 MiB", str(error)
            )
            budgets.append(int(named) + 1)
    assert (len(budgets) > 1, budgets == sorted(budgets), read) == (True, True, pieces)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of more pieces than a row group holds, merged."""
    run = tmp_path_factory.mktemp("imported") / "run"
    words = random_words(6, 1_500_000).split(b" ")
    pipeline.import_counts({b" " + word: 1 + len(word) % 7 for word in words if word}, output=run)
    pipeline.merge_run(run, vocab_size=700)
    return run


def test_counter_of_many_row_groups_is_valid(imported: Path) -> None:
    assert "different; checksums and order are right" in pipeline.verify_run(imported)["counter"]


@pytest.mark.skipif(not HAS_PSS, reason="the system does not tell proportional set sizes")
def test_verify_stays_within_the_memory_limit(imported: Path, tmp_path: Path) -> None:
    assert "--memory-limit 50.0 MiB is too small" in refused(run("verify", imported, "--memory-limit", "50MiB"), 2)
    argv = [sys.executable, "-P", "-m", "pipeline", "verify", str(imported), "--memory-limit=160MiB"]
    measured = measure(argv, timeout_s=300, directory=tmp_path, environment=None)
    assert measured.status == "ok", measured.stderr
    assert measured.peak_memory_bytes <= 160 * MIB
    assert "each the right one" in measured.stdout
    assert re.search("reading the counter [0-9]+ times", measured.stdout)


def test_replay_over_budget_continues_streamed(imported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter(range(0, 1 << 40, 1 << 36))
    monkeypatch.setattr(replay_worker, "_REPORT_EVERY_S", 0)
    monkeypatch.setattr(machine, "own_memory", lambda: next(used))
    here = manifest.require(imported)
    asked = here.manifest.merge_fingerprint(), "lowest-ids", 1, None, False, 1, 1 << 30, False
    task = replay_worker.ReplayTask(here.counter_path, here.manifest.counter_fingerprint(), here.merges_path, *asked)
    merges, readings = replay_worker.replay(task)  # not even one merge fits
    assert len(merges) == 700 - 257
    assert readings >= 2


def test_sizes_are_exported_one_at_a_time(imported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Model]] = []
    real = export.Trained.model

    def model(trained: export.Trained, vocab_size: int) -> Model:
        assert not any(earlier() for earlier in made)
        new = real(trained, vocab_size)
        made.append(weakref.ref(new))
        return new

    monkeypatch.setattr(export.Trained, "model", model)
    with executor_for(make_options({"workers": 1})) as executor:
        _, trained = merge.run_merge(imported, {"vocab_size": [700, 500, 400]}, executor, lambda _: None)
    assert len(made) == 3
    assert not any(earlier() for earlier in made)
    assert [trained.model(size).vocabulary.size for size in trained.options.vocab_size] == [700, 500, 400]


def test_every_command_warns_when_memory_passed_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline.merge_run(pipeline.import_counts({"low": 5, "lower": 2}, output=tmp_path / "run"), vocab_size=259)
    monkeypatch.setattr(machine, "_memory_by_process", lambda: {0: (3 << 30, 0)})
    for work in (
        lambda: pipeline.verify_run(tmp_path / "run", memory_limit="2GiB"),
        lambda: pipeline.merge_run(tmp_path / "run", vocab_size=258, memory_limit="2GiB"),
        lambda: pipeline.combine_runs([tmp_path / "run"], output=tmp_path / "other", memory_limit="2GiB"),
        lambda: pipeline.import_counts({"a": 1}, output=tmp_path / "more", memory_limit="2GiB"),
    ):
        with pytest.warns(UserWarning, match=r"memory passed the limit of 2\.0 GiB: all processes .* 3\.0 GiB"):
            work()
    with (
        pytest.warns(UserWarning, match=r"memory passed the limit of 2\.0 GiB"),
        pytest.raises(InputError, match="the piece is empty"),
    ):
        pipeline.import_counts({"": 1}, output=tmp_path / "empty", memory_limit="2GiB")
