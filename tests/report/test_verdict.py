"""The verdict names what the corpus has, with sizes; broken tokens are those of `doctor`."""

import random
import re
import unicodedata
from pathlib import Path

import pytest

import bpe_pipeline
from bpe_pipeline.extensions.adapt.savings import Saving
from bpe_pipeline.reports.numbers import SENTENCES
from bpe_pipeline.reports.verdict import SKIPPED, Comparison, recommended_size, rewritten, sentences_of_corpus, verdict

LATIN = {"English", "German", "Spanish", "Turkish", "Vietnamese"}


def _verdict(home: Path) -> dict[str, str]:
    return dict(verdict(bpe_pipeline.report(home).numbers, ()))


@pytest.mark.parametrize(
    ("language", "share", "named"),
    [
        ("Hindi", 0.2, {"Hindi"}),
        ("Japanese", 0.2, {"Japanese", "Chinese"}),
        ("Chinese", 0.2, {"Chinese"}),
        ("Greek", 0.00003, set()),
        ("Arabic", 0, set()),
    ],
)
def test_only_languages_in_whose_scripts_the_corpus_is_are_named(
    tmp_path: Path, language: str, share: float, named: set[str]
) -> None:
    words = ["".join(random.Random(seed).choices("aeilnorst", k=6)) for seed in range(500)]
    text, size = " ".join(random.Random(1).choices(words, k=20_000)), 100_000
    more = (SENTENCES[language] + "\n") * int(size * share / len(SENTENCES[language]) + 1)
    (tmp_path / "a.txt").write_text(text[:size] + "\n" + (more if share > 0.001 else more[:3] * (share > 0)))
    bpe_pipeline.train(tmp_path / "a.txt", output=tmp_path / "run", vocab_size=400)
    numbers = bpe_pipeline.report(tmp_path / "run").numbers
    assert {one.language for one in sentences_of_corpus(numbers)} - {"Python", "Emoji and numbers"} == LATIN | named
    found = dict(verdict(numbers, ()))
    absent = set(SENTENCES) - LATIN - named - {"Python", "Emoji and numbers"}
    assert [name for name in absent if name in found["Cost by language"]] == []
    assert f"{len(absent)} of the sentences are in scripts that this corpus lacks" in found["Cost by language"]
    for name in ("en", "el"):
        (tmp_path / name).write_text(SENTENCES[{"en": "English", "el": "Greek"}[name]])
    held = bpe_pipeline.report(tmp_path / "run", held_out=[f"en={tmp_path}/en", f"el={tmp_path}/el"]).numbers
    assert "the tokens of en for the same held-out text" in dict(verdict(held, ()))["Cost by language"]


def _write(home: Path, files: dict[str, str]) -> list[Path]:
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return [home / name for name in files]


@pytest.mark.filterwarnings("ignore:in a sample of the corpus NFC rewrites")
def test_advice_does_not_depend_on_order_names_and_borders_of_files_or_normal_form(tmp_path: Path) -> None:
    decomposed = [unicodedata.normalize("NFD", one) for one in (*SENTENCES.values(), "cafe\u0301 au lait ") * 9]
    a, b = ("<|endoftext|>".join(decomposed[at::2]) for at in (0, 1))
    pre_tokens = a.split("<|endoftext|>")
    layouts = [
        {"a.txt": a, "b.txt": b},
        {"b.txt": b, "a.txt": a},
        {"deep/in/x.log": b, "y": a},
        {**{f"{number:02}.txt": pre_token for number, pre_token in enumerate(pre_tokens)}, "b.txt": b},
        {"both.txt": f"{b}<|endoftext|>{a}"},
        {name: unicodedata.normalize("NFC", text) for name, text in (("a.txt", a), ("b.txt", b))},
    ]
    found = []
    for index, layout in enumerate(layouts):
        files = _write(tmp_path / f"corpus-{index}", layout)
        home = tmp_path / f"run-{index}"
        weights = [7] * 2 if len(files) == 2 else None
        bpe_pipeline.train(files, output=home, vocab_size=600, normalize="nfc", weights=weights)
        numbers = bpe_pipeline.report(home).numbers
        rows = dict(verdict(numbers, ()))
        assert ("NFC rewrites" in rows.pop(SKIPPED)) == (layout != layouts[-1])
        found.append((rows, recommended_size(numbers.merged, 600)))
    assert found == [found[0]] * len(layouts)


def test_vocabulary_sizes_are_behind_names(trained: Path, tmp_path: Path) -> None:
    bpe_pipeline.merge(trained, vocab_size=300, output=tmp_path / "smaller")
    assert "o200k, 200k tokens" in _verdict(trained)["Compression"]
    bpe_pipeline.report(trained, compare=tmp_path / "smaller")
    card = (trained / "tokenizer/README.md").read_text()
    size = bpe_pipeline.load(trained).vocab_size
    assert f"bytes per token on the training corpus, with {size} tokens; on the sample" in card
    assert "fewer tokens than smaller, 300 tokens" in card


def test_a_difference_of_few_tokens_is_not_none() -> None:
    assert str(Comparison("the sample", "old", 300, 99_999, 100_000)) == "0.001% fewer tokens than old, 300 tokens"
    assert str(Comparison("the sample", "old", 300, 100_400, 100_000)) == "0.4% more tokens than old, 300 tokens"
    assert str(Comparison("the sample", "old", 300, 100_600, 100_000)) == "1% more tokens than old, 300 tokens"
    assert str(Saving.of([100_000, 99_990], 1)) == "1 new: 99,990 tokens (-0.01%, by the last doubling -0.01%)"


def test_broken_tokens_are_those_of_doctor(tmp_path: Path) -> None:
    counts = {"low": 9, "lower": 9, "newest": 5, "widest": 4}
    home = bpe_pipeline.combine(counts, output=tmp_path / "run")
    bpe_pipeline.merge(home, vocab_size=270)
    assert _verdict(home)["Broken tokens"] == "none"  # `lo` and others are parts of longer ones
    groups = bpe_pipeline.report(home).numbers.vocabulary.groups
    [one] = [finding.evidence for finding in bpe_pipeline.doctor(home).findings if "parts" in finding.evidence]
    assert groups["never_used"].count == groups["unused"].count + one["parts"] > 0
    assert (groups["unused"].count, groups["unreachable"].count) == (one["tokens"], 0)


def test_nfc_says_which_scripts_it_rewrites(tmp_path: Path) -> None:
    """Bengali has letters that NFC takes apart; decomposed Latin is composed."""
    lines = {
        "Bengali": ["\u09ac\u09be\u09a1\u09bc\u09bf", "\u09aa\u09dc\u09be \u09af\u09be\u09df", "\u09aa\u09dc\u09bf"]
        * 9,
        "Latin": ["cafe\u0301 low", "low lower", "lowest", "newer"] * 9,
        "Cyrillic": ["\u043f\u0440\u0438\u0432\u0435\u0442"] * 9,
    }
    text = "\n".join(line for listed in lines.values() for line in listed)
    (tmp_path / "a.txt").write_text(text)
    changed = {
        script: [unicodedata.normalize("NFC", line) != line for line in listed] for script, listed in lines.items()
    }
    shares = {script: sum(listed) / len(listed) for script, listed in changed.items()}
    assert 0 == shares["Cyrillic"] < shares["Latin"] < shares["Bengali"] < 1
    said = f"NFC rewrites {shares['Bengali']:.1%} of 27 lines in Bengali, {shares['Latin']:.1%} of 36 lines in Latin"
    with pytest.warns(UserWarning, match=re.escape(f"in a sample of the corpus {said}: decoding returns")):
        bpe_pipeline.train(tmp_path / "a.txt", output=tmp_path / "nfc", vocab_size=280, normalize="nfc")
    assert dict(verdict(bpe_pipeline.report(tmp_path / "nfc").numbers, ()))["Skipped input"] == said
    bpe_pipeline.train(tmp_path / "a.txt", output=tmp_path / "plain", vocab_size=280)  # warnings are errors
    assert rewritten(bpe_pipeline.report(tmp_path / "plain").numbers) == ""


def test_rare_merges_count_wherever_weights_put_them(tmp_path: Path) -> None:
    """The last merge occurred 300 times; two of the first ones 3 times."""
    counts = {"often": {"low": 900, "er": 300}, "seldom": {"est": 3}}
    homes = [bpe_pipeline.combine(one, output=tmp_path / name) for name, one in counts.items()]
    mixed = bpe_pipeline.combine(homes, [1, 1000], output=tmp_path / "mixed")
    bpe_pipeline.merge(mixed, vocab_size=262)
    assert bpe_pipeline.load(mixed).merges[-1] == (b"e", b"r")
    said = "262 is too large for this text: 40.0% of its merges occurred fewer than 20 times, more than 5%"
    assert dict(bpe_pipeline.report(mixed).parts[0].rows)["Which size"] == said
    assert f"Which size | {said}" in (mixed / "tokenizer" / "README.md").read_text()
    swept = bpe_pipeline.sweep(homes, weights={"seldom": [0, 1000]}, vocab_size=259, output=tmp_path / "sweep")
    assert [(point.mixture, point.rare_merges) for point in swept.points] == [
        ("often-x1", 0.0),
        ("often-x1+seldom-x1000", 1.0),
    ]
    assert swept.recommendation.mixture == "often-x1"
