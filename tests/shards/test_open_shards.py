"""Shards opened for training, compared with the ids that were written."""

import math
import pickle
from pathlib import Path
from typing import Any

import pytest
from encoded import EOT, TOKENIZER, expected
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peers import generated_text

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, UsageError

numpy = pytest.importorskip("numpy")
TEXTS = [generated_text(seed, 60) for seed in range(8)]
IDS = expected(TOKENIZER, [EOT.join(TEXTS).encode()])


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("sets")
    (home / "a.txt").write_text(EOT.join(TEXTS), newline="")
    made = {name: home / name for name in ("npy", "bin", "megatron", "one", "rows")}
    for name, output in made.items():
        options = {"rows": {"sequence_length": 16}, "one": {"single": True}}.get(name, {"shard_format": name})
        bpe_pipeline.encode(home / "a.txt", TOKENIZER, output, shard_size=700, workers=1, **options)
    return made


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(-2000, 5000), stop=st.integers(-2000, 5000), step=st.sampled_from([1, 3, -1]), at=st.data())
@pytest.mark.parametrize("name", ["npy", "bin", "megatron", "one"])
def test_slices_are_those_of_a_list(
    sets: dict[str, Path], name: str, start: int, stop: int, step: int, at: st.DataObject
) -> None:
    shards = bpe_pipeline.open_shards(sets[name])
    assert len(shards) == len(IDS)
    assert shards[start:stop:step].tolist() == IDS[start:stop:step]
    index = at.draw(st.integers(-len(IDS), len(IDS) - 1))
    assert shards[index] == IDS[index]


def test_shards_are_shown_with_their_sizes(sets: dict[str, Path]) -> None:
    shards = bpe_pipeline.open_shards([sets["npy"], sets["one"]])
    files = len(shards.files)
    assert repr(shards) == f"<Shards: {2 * len(IDS):,} ids below {len(TOKENIZER):,} in 2 sets, {files} files>"
    assert repr(bpe_pipeline.open_shards(sets["rows"])).endswith(" files, rows of 16>")


def test_windows_are_random_parts_of_the_ids(sets: dict[str, Path]) -> None:
    windows = bpe_pipeline.open_shards(sets["bin"]).windows(33, count=500, seed=1)
    lists = {tuple(window.tolist()) for window in windows}
    assert lists <= {tuple(IDS[start : start + 33]) for start in range(len(IDS) - 32)}
    assert len(lists) > 300
    with pytest.raises(IndexError):
        windows[500]


def test_windows_are_the_same_in_other_processes_and_formats(sets: dict[str, Path]) -> None:
    windows = bpe_pipeline.open_shards(sets["bin"]).windows(33, count=500, seed=1)
    lists = [window.tolist() for window in windows]
    again = pickle.loads(pickle.dumps(windows))
    assert [window.tolist() for window in again[:50]] == lists[:50]
    assert bpe_pipeline.open_shards(sets["npy"]).windows(33, count=500, seed=1)[499].tolist() == lists[499]


def test_rows_and_windows_are_int64_as_pytorch_takes_them(sets: dict[str, Path]) -> None:
    assert bpe_pipeline.open_shards(sets["bin"]).windows(33)[-1].dtype == numpy.int64
    assert bpe_pipeline.open_shards(sets["rows"]).rows()[0].dtype == numpy.int64


@pytest.mark.parametrize(
    ("tokens", "options"),
    [
        *((tokens, {}) for tokens in (0, len(IDS) + 1, "9", 2.0)),
        (None, {"count": 3}),
        *((9, {"count": count}) for count in ("3", 2.5, -1, 1 << 64)),
        *((9, {"seed": seed}) for seed in ("3", 2.5)),
    ],
)
def test_unfit_windows_are_refused(sets: dict[str, Path], tokens: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"windows of .* ids that there are|count|seed"):
        bpe_pipeline.open_shards(sets["npy"]).windows(tokens, **options)


def test_weights_choose_among_sets(sets: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("x" * 900)
    bpe_pipeline.encode(tmp_path / "b.txt", TOKENIZER, tmp_path / "b", workers=1)
    both = bpe_pipeline.open_shards([sets["npy"], tmp_path / "b"], weights=[1, 3])
    assert len(both) == len(IDS) + 901
    assert both[len(IDS) - 2 : len(IDS) + 3].tolist() == [*IDS[-2:], *TOKENIZER.encode("xxx")]
    x = TOKENIZER.encode("x")[0]
    share = sum(bool((window[:8] == x).all()) for window in both.windows(9, count=1000)) / 1000
    assert 0.7 < share < 0.8
    for weights in ([1], [0, 0], [1, -1], [1, math.inf], [1, math.nan], [1e308, 1e308], [1, 10**400]):
        with pytest.raises(UsageError, match="weights"):
            bpe_pipeline.open_shards([sets["npy"], tmp_path / "b"], weights=weights)


def test_rows_are_the_rows_of_the_shards(sets: dict[str, Path]) -> None:
    rows = bpe_pipeline.open_shards(sets["rows"]).rows()
    assert [row.tolist() for row in rows] == [IDS[at : at + 16] for at in range(0, len(IDS) // 16 * 16, 16)]
    assert numpy.load(sets["rows"] / "shard-00000.npy").shape == (43, 16)
    with pytest.raises(UsageError, match="no rows"):
        bpe_pipeline.open_shards(sets["npy"]).rows()


def test_torch_loads_windows(sets: dict[str, Path]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    windows = bpe_pipeline.open_shards(sets["bin"]).windows(17, count=40)
    loader = torch.utils.data.DataLoader(windows, batch_size=8, num_workers=1, multiprocessing_context="spawn")
    batches = [batch.tolist() for batch in loader]
    assert [row for batch in batches for row in batch] == [window.tolist() for window in windows]


def test_formats_with_readers_of_their_own_are_refused(sets: dict[str, Path], tmp_path: Path) -> None:
    text = sets["npy"].parent / "a.txt"
    bpe_pipeline.encode(text, TOKENIZER, tmp_path / "rows", shard_format="parquet", workers=1)
    with pytest.raises(
        InputError, match="of the format parquet, whose own reader reads it; open_shards maps npy, bin,"
    ):
        bpe_pipeline.open_shards(tmp_path / "rows")
    with pytest.raises(InputError, match="is no local directory of shards"):
        bpe_pipeline.open_shards(tmp_path)


def test_a_shard_that_was_cut_is_refused(sets: dict[str, Path], tmp_path: Path) -> None:
    bpe_pipeline.encode(sets["npy"].parent / "a.txt", TOKENIZER, tmp_path / "cut", workers=1)
    (tmp_path / "cut" / "shard-00000.npy").write_bytes(b"x" * 300)
    with pytest.raises(InputError, match="cannot be mapped"):
        bpe_pipeline.open_shards(tmp_path / "cut")[0]


def test_sets_of_different_types_are_refused(sets: dict[str, Path], tmp_path: Path) -> None:
    many = bpe_pipeline.Tokenizer.from_merges([], [EOT, *(f"<{number}>" for number in range(1 << 16))])
    bpe_pipeline.encode(sets["npy"].parent / "a.txt", many, tmp_path / "many", workers=1)
    with pytest.raises(InputError, match="the sets have ids of different types: encode them with one tokenizer"):
        bpe_pipeline.open_shards([sets["npy"], tmp_path / "many"])


def test_validation_is_a_set_of_its_own(sets: dict[str, Path], tmp_path: Path) -> None:
    text = sets["npy"].parent / "a.txt"
    for name, single in (("shards", False), ("single", True)):
        encoded = bpe_pipeline.encode(text, TOKENIZER, tmp_path / name, val_fraction=0.4, workers=1, single=single)
        other = tmp_path / name / ("val.npy" if single else "validation")
        train, validation = bpe_pipeline.open_shards(tmp_path / name), bpe_pipeline.open_shards(other)
        assert len(train) + len(validation) == encoded.tokens == len(IDS) + 1
        end = TOKENIZER.special_tokens[EOT]  # of so few documents one is cut
        assert sorted([*train, *validation]) == sorted([*IDS, end])
        assert len(validation) > 0
