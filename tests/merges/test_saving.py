"""`--stop-at-saving`: the smallest size whose doubling saves less."""

from array import array
from pathlib import Path

import peers
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.commands import learn
from bpe_pipeline.merges.merge_list import MergeList, size_that_repays
from bpe_pipeline.run.ids import SpecialTokens

LEAST = 257  # the bytes and a special token


@given(
    st.lists(st.integers(0, 40), max_size=800), st.integers(0, 900), st.sampled_from([0.001, 0.02, 0.5]), st.booleans()
)
def test_it_is_the_smallest_size_from_which_on_no_known_doubling_saves_more(joined, allowed, saving, exhausted):
    joined = joined if exhausted else joined[:allowed]
    size_bytes = 1 + sum(joined)
    numbers = array("I", [0] * len(joined))
    learned = MergeList(numbers, numbers, array("Q", joined), array("Q", joined), size_bytes, exhausted)
    size, why = size_that_repays(learned, SpecialTokens(("<|endoftext|>",)), LEAST + allowed, saving)

    def tokens(vocabulary: int) -> int | None:
        merges = vocabulary - LEAST
        return size_bytes - sum(joined[:merges]) if merges <= len(joined) or exhausted else None

    sizes = range(LEAST, LEAST + allowed + 1)
    saved = {one: 1 - twice / tokens(one) for one in sizes if (twice := tokens(2 * one)) is not None}
    repay = (one for one in saved if max(saved[above] for above in saved if above >= one) < saving)
    assert size == next(repay, LEAST + allowed)
    assert why.startswith(f"{size:,} tokens")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus.txt").write_text(peers.generated_text(3, 12_000))
    return tmp_path / "corpus.txt"


def test_the_size_is_chosen_once_for_a_run(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    tokenizer = bpe_pipeline.train(corpus, output=run, stop_at_saving="8%")
    assert 257 < len(tokenizer) < 15_000
    whole = bpe_pipeline.train(corpus, output=tmp_path / "whole", vocab_size=len(tokenizer) + 9)
    assert tokenizer.merges == whole.merges[: len(tokenizer) - 257]
    assert bpe_pipeline.train(corpus, output=run, stop_at_saving=0.08) == tokenizer == bpe_pipeline.load(run)
    smaller = bpe_pipeline.merge(run, stop_at_saving="20%")
    [size] = smaller
    assert size < len(tokenizer)
    assert (run / f"tokenizer-{size}" / "tokenizer.json").exists()
    assert bpe_pipeline.load(run) == tokenizer


def test_a_run_that_stopped_before_the_choice_is_resumed(corpus, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(learn, "size_that_repays", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            bpe_pipeline.train(corpus, output=tmp_path / "run", stop_at_saving="4%")
    tokenizer = bpe_pipeline.train(corpus, output=tmp_path / "run", stop_at_saving="4%")
    assert bpe_pipeline.load(tmp_path / "run") == tokenizer
    assert [path.name for path in (tmp_path / "run").glob("tokenizer*")] == ["tokenizer"]
