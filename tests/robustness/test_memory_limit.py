"""The memory limit is a bound: for every stage, for all processes together, and it changes no answer."""

import json
import os
import random
import re
import resource
import subprocess
import sys
from itertools import product
from pathlib import Path

import counter_files
import peers
import pytest
from amount import FULL
from benchmarks.process import HAS_PSS
from chunk_tasks import chunk_task, random_words
from command import measured, refused, run, script, succeeded
from corpus_files import pre_tokens_file
from encoded import EOT, TOKENIZER

import bpe_pipeline
from bpe_pipeline.base.errors import TrainingError, UsageError
from bpe_pipeline.counts import counter_file
from bpe_pipeline.counts.count_worker import count_chunk
from bpe_pipeline.merges import forecast
from bpe_pipeline.storage.scratch import own_mark

MIB = 1 << 20
pytestmark = pytest.mark.processes  # whose memory is bounded
needs_pss = pytest.mark.skipif(not HAS_PSS, reason="the system does not tell proportional set sizes")
needs_peaks = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not tell peaks")


@pytest.mark.parametrize("errors", ["replace", "skip"])
def test_spilling_does_not_change_the_counter(tmp_path: Path, errors: str) -> None:
    text = tmp_path / "a.txt"
    documents = [peers.generated_text(seed, 3000).encode() + b"\xff" * (seed % 5 == 4) for seed in range(10)]
    text.write_bytes(b"<|endoftext|>".join([*documents, random_words(1, 1_000_000)]))
    whole, spilled = tmp_path / "whole.parquet", tmp_path / "spilled.parquet"
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    of_killed = own_mark().replace(str(os.getpid()), killed.stdout.decode().strip())
    (tmp_path / f".spilled.parquet.{of_killed}.0099.part").write_bytes(b"of a killed attempt")
    first = count_chunk(chunk_task(text, whole, 1 << 30, errors=errors))
    assert count_chunk(chunk_task(text, spilled, 20 * MIB if errors == "skip" else 2 * MIB, errors=errors)) == first
    assert counter_files.read(spilled) == counter_files.read(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "spilled.parquet", "whole.parquet"]


def test_pre_token_beyond_the_budget_is_named(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_bytes(b"some words " + b"x" * (8 * MIB) + b" and more")
    message = r"a\.txt, byte 1\d: about here a pre-token of .* MiB or more starts.*--memory-limit"
    with pytest.raises(TrainingError, match=message):
        count_chunk(chunk_task(text, tmp_path / "c.parquet", 24 * MIB))
    assert not list(tmp_path.glob(".c.*"))
    count_chunk(chunk_task(text, tmp_path / "c.parquet", 80 * MIB))
    assert counter_files.read(tmp_path / "c.parquet")[b" " + b"x" * (8 * MIB)] == 1


@pytest.fixture(scope="module")
def many_pre_tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "a.txt"
    path.write_bytes(peers.generated_text(1, 20_000).encode() + b" " + random_words(2, 12_000_000))
    return path


SPILLED = ("--min-pre-token-count=2", "--chunk-size=16MiB", "--vocab-size=1500", "--quiet")


@pytest.mark.slow
@needs_pss
@pytest.mark.parametrize(
    ("text_bytes", "limits", "options", "sign"),
    [
        (5_000_000, [130], ("--vocab-size=1000", "--workers=2"), "resident_bytes=[1-9]"),
        pytest.param(None, [176, 141], SPILLED, "(?s): part .*: part ", marks=pytest.mark.slow),
        pytest.param(None, [150], ("--vocab-size=8000", "--workers=2"), "resident_bytes=[1-9]", marks=pytest.mark.slow),
    ],
)
def test_what_does_not_fit_is_kept_on_disk(
    many_pre_tokens: Path,
    tmp_path: Path,
    text_bytes: int | None,
    limits: list[int],
    options: tuple[str, ...],
    sign: str,
) -> None:
    """Parts of counters, or words to merge: the same bytes in less memory, and nothing is left in the directory."""
    text = tmp_path / "a.txt"
    text.write_bytes(many_pre_tokens.read_bytes()[:text_bytes])
    models, on_disk = set(), []
    for limit in (None, *limits):
        output = tmp_path / str(limit)
        measured("train", text, "--output", output, *options, cwd=tmp_path, limit_mib=limit)
        models.add((output / "tokenizer" / "tokenizer.json").read_bytes())
        on_disk.append(re.search(sign, (output / "log.txt").read_text()) is not None)
        assert sorted(path.name for path in output.glob("*merges*")) == ["merges.parquet"]
        assert not list(output.glob(".*part*"))
    assert len(models) == 1
    assert (on_disk[0], on_disk[-1]) == (False, True)


@pytest.mark.slow
@needs_pss
@pytest.mark.parametrize(
    ("words", "limit", "named"),
    [
        ("merge run --vocab-size=32000 --max-token-bytes=2 --overwrite", "125MiB", "merging takes at least .*; give"),
        ("train a.txt --output other", "50MiB", "--memory-limit 50.0 MiB is too small.*give"),
        ("combine a.parquet --output other --pattern=none --quiet", "60MiB", "give"),
    ],
)
def test_the_limit_that_a_refusal_names_suffices(words: str, limit: str, named: str, tmp_path: Path) -> None:
    """And the refusal loses nothing, and begins nothing."""
    words = words.split()
    data = {
        "merge": random_words(2, 2_000_000),
        "train": b"\n".join(b"the quick brown fox number %d jumps" % number for number in range(20_000)),
    }
    (tmp_path / "a.txt").write_bytes(data.get(words[0], b""))
    pre_tokens_file(tmp_path / "a.parquet", [b"%d" % (number * 7919 % 1_000_003) for number in range(250_000)])
    model = tmp_path / "run" / "tokenizer" / "tokenizer.json"
    if words[0] == "merge":
        succeeded(run("train", "a.txt", "--output", "run", "--vocab-size", 300, cwd=tmp_path))
    kept = model.exists() and model.read_bytes()
    line = refused(run(*words, f"--memory-limit={limit}", cwd=tmp_path), 2)
    enough = re.search(f"{named} --memory-limit (\\d+)MiB", line)
    assert enough, line
    assert (model.exists() and model.read_bytes(), (tmp_path / "other").exists()) == (kept, False)
    measured(*words, cwd=tmp_path, limit_mib=int(enough[1]))


_PRE_TOKENS = """
import sys
sys.modules["numpy"] = None
import random
from array import array
from itertools import accumulate
from memory_peak import growth
from bpe_pipeline import _core
from bpe_pipeline.executors import Node
from bpe_pipeline.merges import forecast
from bpe_pipeline.merges.rules import MergeRules
from reference import GPT2_BYTES

source, letters = random.Random(1), bytes(97 + value % 26 for value in range(256))

def columns_of(pre_tokens):
    return array("q", [0, *accumulate(map(len, pre_tokens))]), b"".join(pre_tokens), array("Q", [1] * len(pre_tokens))
"""

_MEASURED = f"""{_PRE_TOKENS}
name, merges, threads, compact = sys.argv[1], *map(int, sys.argv[2:])
size = 4_000_000
kinds = {{
    "one letter": lambda: [b"a" * size],
    "dna": lambda: [source.randbytes(size).translate(bytes(b"ACGT"[value % 4] for value in range(256)))],
    "bytes": lambda: [source.randbytes(size)],
    "random words": lambda: [source.randbytes(9).translate(letters) for _ in range(size // 9)],
}}
columns = columns_of(kinds[name]())
tally = _core.CountTally()
tally.add(columns)
shape = forecast.shape_of(tally, merges, 1)
_core.give_back_memory()

grown = growth()
engine = _core.MergeEngine()
engine.stream(lambda: [columns], shape.bytes)
engine.run(merges, MergeRules(), threads=threads, compact=bool(compact))
print(forecast.merging_bytes(shape, merges, threads=threads, compact=compact and shape.text), grown(),
      forecast.surely_enough(shape.pre_tokens, shape.bytes, merges, threads=threads))
"""


_COMBINED = """
import sys
from pathlib import Path
import pyarrow.parquet
from memory_peak import growth
from bpe_pipeline.counts import combine_worker as combine
from bpe_pipeline.counts.counter_file import Term

*parts, output = map(Path, sys.argv[1:])
grown = growth()
combine.combine(combine.CombineTask([Term([(part, "") for part in parts])], output, "f", memory_bytes=6 << 20))
print(grown())
"""


@pytest.mark.slow
@needs_peaks
def test_memory_does_not_creep_from_group_to_group(tmp_path: Path) -> None:
    """At the smallest limit a worker has 24 MiB to combine in, and 12 MiB to write, and what Arrow begins with."""
    source = random.Random(1)
    for number in range(14):
        pre_tokens = {source.randbytes(9): 1 for _ in range(60_000)}
        counter_files.write(tmp_path / f"{number}.part", pre_tokens, fingerprint="")
    parts, output = sorted(tmp_path.iterdir()), tmp_path / "whole"
    assert int(script(_COMBINED, *parts, output)) <= 46 * MIB
    with counter_file.open_counter(output, fingerprint="f") as counter:
        assert counter.rows >= 14 * 59_000


@pytest.mark.slow
@needs_pss
def test_the_limit_that_parity_asks_for_suffices(tmp_path: Path) -> None:
    """One language is much larger than the others, whose pairs are listed in it, too."""
    source = random.Random(1)
    for name, first, words in (("en", 97, 1_500_000), ("el", 945, 40_000), ("hy", 1377, 20_000)):
        letters = [chr(first + number) for number in range(20)]
        text = " ".join("".join(source.choices(letters, k=source.randint(3, 9))) for _ in range(words))
        (tmp_path / f"{name}.txt").write_text(text)
        succeeded(run("count", tmp_path / f"{name}.txt", "--output", tmp_path / name, "--quiet"))
    argv = ["parity", *(tmp_path / name for name in ("en", "el", "hy")), *["--ratio=1"] * 3]
    argv += ["--vocab-size=12000", "--quiet"]
    line = refused(run(*argv, "--output", tmp_path / "refused", "--memory-limit=130MiB"), 2)
    limit = int(line.split("give --memory-limit ")[1].partition("MiB")[0])
    found = measured(*argv, "--output", tmp_path / "run", cwd=tmp_path, limit_mib=limit)
    assert found.peak_memory_bytes >= limit * MIB / 3


@pytest.mark.one_of(4)
@needs_peaks
@pytest.mark.parametrize("name", ["one letter", "dna", "bytes", "random words"])
@pytest.mark.parametrize(
    ("merges", "threads", "compact"),
    [
        (8000, 2, 0),
        (32_000, 1, 1),
        pytest.param(32_000, 1, 0, marks=pytest.mark.slow),
        pytest.param(8000, 2, 1, marks=pytest.mark.slow),
    ],
)
def test_forecast_is_above_the_memory_taken(name: str, merges: int, threads: int, compact: int) -> None:
    forecasted, taken, surely = map(int, script(_MEASURED, name, merges, threads, compact).split())
    # What a single pre-token is like is not looked at: its forecast is for the worst.
    most = {"one letter": 12, "random words": 2}.get(name, 6)
    assert taken <= forecasted <= most * taken + 24 * MIB
    assert forecasted <= surely


DEBIAN = (19_291_792, 255_023_762, 274_315_352)
FOUR_LANGUAGES = (2_717_942, 60_843_536, 63_561_276)  # English, C, Japanese and Chinese


@pytest.mark.parametrize(
    ("shape", "limit", "passes"),
    [(DEBIAN, 1024, 15), (DEBIAN, 512, 49), (FOUR_LANGUAGES, 320, 12), (FOUR_LANGUAGES, 256, 24)],  # measured
)
def test_number_of_passes_under_a_limit_is_near_what_was_measured(shape, limit: int, passes: int) -> None:
    way = forecast.from_disk(forecast.CounterShape(*shape), (limit - 98) * MIB, 2, (limit - 129) * MIB)
    assert way.passes == pytest.approx(passes, rel=0.4)


TEN_MILLION = forecast.CounterShape(10_100_010, 90_800_050, 100_900_060, 0.9, 200, 25_000_000, 1_000_000)


def test_fitting_way_is_found() -> None:
    """Ten million pre-tokens: in memory where they fit, else on disk, in ever more passes, down to the least."""
    everything, least = forecast.whole(TEN_MILLION, 1000), forecast.least(1000)
    passes = []
    for threads in (1, 2, 8):
        for budget in (everything, everything - 1, everything // 2, everything // 4, least):
            way = forecast.choose(TEN_MILLION, 1000, threads=threads, budget_bytes=budget)
            assert way is not None
            assert way.bytes <= budget
            assert (way.resident_bytes == 0) == (way.passes == 0) == (budget == everything)
            passes.append(way.passes)
        assert forecast.choose(TEN_MILLION, 1000, threads=threads, budget_bytes=least - 1) is None
    assert passes[:5] == sorted(passes[:5])
    assert passes[0] == 0


def test_a_small_counter_is_not_merged_from_disk_where_its_pairs_do_not_fit() -> None:
    """A million slots, and 64,768 pairs that may be merged: words on disk would make hardly any room."""
    shape = forecast.CounterShape(64_687, 900_000, 960_000, 0.09, 200, 250_000, 20_000)
    needed = forecast.least(32_000, shape)
    assert needed == forecast.whole(shape, 32_000)
    assert forecast.choose(shape, 32_000, threads=2, budget_bytes=needed - 1) is None
    for merges, resident in ((32_000, False), (3000, True)):
        way = forecast.choose(shape, merges, threads=2, budget_bytes=forecast.least(merges, shape))
        assert way is not None
        assert (way.resident_bytes > 0) == resident


@pytest.mark.usefixtures("in_process")
def test_a_limit_that_is_too_small_leaves_no_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bpe_pipeline.combine({"ab": 3}, output="counted")
    begins = {
        bpe_pipeline.train: __file__,
        bpe_pipeline.train_from_iterator: ["a b"],
        bpe_pipeline.combine: {"ab": 3},
    }
    for begin, given in begins.items():
        with pytest.raises(UsageError, match="too small"):
            begin(given, memory_limit="50MiB")
    for words in (["combine", "counted"], ["count", __file__]):
        assert "too small" in refused(run(*words, "--memory-limit", "50MiB", cwd=tmp_path), 2)
    assert not (tmp_path / "runs").exists()


FORMATS = ["npy", "bin", "parquet", "arrow", "megatron", "mds"]
ORDERS = ["", "--shuffle", "--val-fraction 0.3", "--shuffle --val-fraction 0.2"]
ROWS = ["--documents offsets", *(f"--sequence-length 2048 --pack {pack}" for pack in ("concat", "best-fit", "none"))]
FORMS = list(product(FORMATS, ORDERS, ["", *ROWS]))


@pytest.mark.slow
@needs_pss
@pytest.mark.parametrize(("format_", "order", "rows"), FORMS if FULL else random.Random(1).sample(FORMS, 12))
def test_shards_of_any_form_keep_to_the_limits_of_memory_and_of_open_files(
    tmp_path: Path, format_: str, order: str, rows: str
) -> None:
    """Of several hundred shards, of which many are closed before the journal is saved."""
    TOKENIZER.save(tmp_path / "tokenizer")
    words = peers.generated_text(1, 60_000).split(" ")
    documents = (" ".join(words[at % 50_000 :][: at % 997]) for at in range(0, 7 * 6_000, 7))
    (tmp_path / "a.txt").write_text(EOT.join(documents))
    options = f"--workers 2 --shard-size 40000 --shard-format {format_} {order} {rows}".split()
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, allowed[1]))
    try:
        arguments = ["encode", "a.txt", "--tokenizer", "tokenizer", "--output", "shards", *options]
        measured(*arguments, cwd=tmp_path, limit_mib=256)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
    result = json.loads((tmp_path / "shards/shards.json").read_text())
    assert len(result["shards"]) > 100
