"""Superwords: tokens that hold several words, as their plain definition makes them, in a second run of the text."""

import json
import os
import random
import runpy
import tempfile
from array import array
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any
from unicodedata import category

import peers
import pytest
import tokenizers
import transformers
from amount import FULL
from command import refused, run, succeeded
from counter_files import columns_of
from hypothesis import given, settings
from hypothesis import strategies as st
from merge_cases import learn, merge_tuning, token_rules
from pyarrow import parquet
from recorded import recorded
from reference import GPT2_BYTES, joined_reference, train_reference

import bpe_pipeline
from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.merges.vocabulary import token_to_text
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.presets import superword_presets

SCRATCH = f"{tempfile.gettempdir()}/bpe-pipeline-test-superwords-{os.getpid()}"
EOT = "<|endoftext|>"
FIRST, COARSE = compile_pattern("superbpe"), compile_pattern(superword_presets()["superbpe"].expression)
DOCUMENTS = ["one of the end of the day: of the year", "in the end of the day", "2024 and 12345: in  the end -- of it"]
TEXTS = [*DOCUMENTS, "", " ", "1234567 ", "in 1234567 or 12½", "of  the\n\n day: 日本 -- 12"]
SHORT = "of the day of the day"
STAGES = {"counting superwords", "merging", "merging superwords"}
SUPERWORDS = ["--pattern", "superbpe", "--superwords-from", "80%"]


def pre_tokens_of(documents: list[str], pattern: Any) -> Counter[bytes]:
    return Counter(pre_token.encode() for document in documents for pre_token in pattern.cut(document))


def learned(counter: Counter[bytes], first: list[tuple[int, int, int]], merges: int, **options: Any) -> Any:
    """What the engine learns after the merges of a first stage."""
    engine = _core.MergeEngine()
    engine.add(*columns_of(counter)[0])
    columns = zip(*first, strict=True) if first else [(), (), ()]
    left, right, counts = (array(code, column) for code, column in zip("IIQ", columns, strict=True))
    engine.resume(left, right, counts, array("Q", [0] * len(first)))
    return learn(engine, merges, **options)


tuning = merge_tuning(SCRATCH, resident_bytes=st.integers(1, 20_000))  # what does not fit is on disk
texts = st.lists(
    st.sampled_from(["of", " the", " the", " ", "  ", ": ", ":", "a", " b", "12", "1", "\n", ".", " ..", "é", "日本"]),
    max_size=25,
).map("".join)


@settings(max_examples=1000 if FULL else 120, deadline=None)
@given(
    st.lists(texts, min_size=1, max_size=5).map(lambda found: [one for one in found for _ in range(len(one) % 4)]),
    *(st.integers(0, 12), st.integers(0, 15), st.integers(0, 27)),
    *(token_rules, st.integers(1, 3), tuning),
)
def test_both_stages_are_their_definition(documents, first_merges, more, stop, rules, min_frequency, tuning):
    rules = {**rules, "min_frequency": min_frequency}
    of_first = {name: rules[name] for name in ("min_frequency", "whole_characters") if name in rules}  # of both stages
    first = train_reference(pre_tokens_of(documents, FIRST), first_merges, **of_first)
    coarse = pre_tokens_of(documents, COARSE)
    merges = len(first) + more
    expected = train_reference(coarse, merges, known=first, **rules)
    found = learned(coarse, first, merges, **rules, **tuning)
    assert list(zip(found.left, found.right, found.counts, strict=True)) == expected
    interrupted = expected[: max(len(first), min(stop, len(expected)))]
    again = learned(coarse, interrupted, merges, **rules)
    assert list(again.joined) == list(found.joined)
    assert list(again.counts) == list(found.counts)
    assert list(found.joined) == joined_reference(coarse, expected)


@pytest.mark.parametrize("letters", ["ab c", "日本語の人、x ", "éèa ü", "🙂🙃a日", "the of and: .\n"])
def test_the_first_stage_joins_what_the_encoder_joins(letters: str) -> None:
    """In long pre-tokens, where words are cut first, remembered, or joined by a queue."""
    for seed in range(40 if FULL else 6):
        choose = random.Random(seed)
        short, long = (
            Counter("".join(choose.choices(letters, k=choose.randint(1, most))).encode() for _ in range(25))
            for most in (12, 400)
        )
        first = train_reference(short, choose.randint(0, 90))
        found = learned(long, first, len(first))
        tokens = [bytes([byte]) for byte in GPT2_BYTES]
        for left, right, _ in first:
            tokens.append(tokens[left] + tokens[right])
        merges = [(tokens[left], tokens[right]) for left, right, _ in first]
        encoder = bpe_pipeline.Tokenizer.from_merges(merges, pattern="none")
        ids = sum(len(encoder.encode(pre_token.decode())) * count for pre_token, count in long.items())
        assert found.bytes - sum(found.joined) == ids


@pytest.mark.filterwarnings("ignore")  # of patterns that do not fit together
def test_recorded_cases(tmp_path: Path) -> None:
    for path, case in recorded("vocabularies", "superwords-*.json"):
        (tmp_path / f"{path.stem}.txt").write_text(EOT.join(case["documents"]), newline="")
        names = {"pattern": "pattern", "superwords_from": "first", "superword_pattern": "coarse_pattern"}
        options = {ours: case[theirs] for ours, theirs in (names | {"min_frequency": "min_frequency"}).items()}
        words = {"superword_words": case["max_words"] or "none", "superword_colon": not case["no_colon"]}
        sizes = {"vocab_size": case["vocab_size"] + 1, "output": tmp_path / path.stem}
        tokenizer = bpe_pipeline.train(tmp_path / f"{path.stem}.txt", **options, **words, **sizes)
        found = [(token_to_text(left), token_to_text(right)) for left, right in tokenizer.merges]
        assert found == [(left, right) for left, right, _ in case["stage1"] + case["stage2"]], path
        for probe in case["probes"]:
            assert tokenizer.encode_ordinary(probe["text"]) == probe["ids"], path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("corpus")
    (home / "a.txt").write_text(peers.generated_text(1, 6000), newline="")  # one document, cut into many chunks
    (home / "b.txt").write_text(EOT.join(DOCUMENTS * 5 + [peers.generated_text(2, 500)]), newline="")
    return home


@pytest.fixture(scope="module")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("trained") / "run"
    bpe_pipeline.train(corpus, output=output, vocab_size=600, pattern="superbpe", superwords_from="80%")
    return output


@pytest.fixture
def short(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(SHORT)
    return tmp_path / "a.txt"


def stages(*words: object) -> set[str]:
    """Run a command; return which stages of merging it had."""
    events = map(json.loads, succeeded(run(*words, "--log-json")).stdout.splitlines())
    return STAGES & {event["stage"] for event in events if event["event"] == "stage_started"}


@pytest.mark.slow
def test_results_do_not_depend_on_chunks_workers_and_memory(corpus: Path, trained: Path, tmp_path: Path) -> None:
    expected = bpe_pipeline.load(trained).merges
    assert any(b" " in (left + right).strip(b" ") for left, right in expected)
    asked = ["--vocab-size", 600, "--pattern", "superbpe", "--superwords-from", "80%"]
    for options in (["--chunk-size", "3000", "--workers", 2], ["--workers", 1, "--memory-limit", "140MiB"]):
        output = tmp_path / str(options[3])
        succeeded(run("train", corpus, *asked, *options, "--output", output))
        assert bpe_pipeline.load(output).merges == expected


def test_train_makes_two_runs_and_merge_the_same_of_two(corpus: Path, trained: Path, tmp_path: Path) -> None:
    """The first stage is the ordinary tokenizer of its size, and all of it is the default."""
    first, second, expected = tmp_path / "first", tmp_path / "second", bpe_pipeline.load(trained).merges
    bpe_pipeline.count(corpus, output=first, pattern="superbpe")
    bpe_pipeline.count(corpus, output=second, pattern="superwords", chunk_size=3000)
    with pytest.raises(UsageError, match=r"has no merges: `bpe-pipeline merge .*` first"):
        bpe_pipeline.merge(second, first_stage=first, vocab_size=600)
    ordinary = bpe_pipeline.merge(first, vocab_size=481)[481].merges
    assert stages("merge", second, "--first-stage", first, "--vocab-size", 600) == {"merging superwords"}
    assert bpe_pipeline.load(second).merges == expected
    assert expected[: 480 - 256] == ordinary
    for home in (trained, second):
        assert bpe_pipeline.verify(home)["merges"].startswith("343; ")
    assert not stages("merge", second, "--vocab-size", 550)  # the stage that it has
    assert bpe_pipeline.load(second / "tokenizer-550").merges == expected[: 550 - 257]
    assert not stages("train", corpus, "--output", trained, "--vocab-size", 600, *SUPERWORDS)
    other = refused(run("merge", second, "--superwords-from", 400), 1)
    assert "--superwords-from 480, not 400" in other
    words = ["--superwords-from", 400, "--superword-words", "none", "--overwrite"]
    assert stages("merge", second, *words, "--vocab-size", 600) == {"merging superwords"}
    assert bpe_pipeline.load(second).merges[: 400 - 256] == ordinary[: 400 - 256]
    copied = bpe_pipeline.merge(second, output=tmp_path / "copied", first_stage=first, vocab_size=600)[600]
    assert copied.merges == expected


def test_another_first_stage_is_refused(corpus: Path, tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    bpe_pipeline.train(corpus / "b.txt", output=first, pattern="superbpe", vocab_size=300)
    bpe_pipeline.count(corpus / "b.txt", output=second, pattern="superwords")
    bpe_pipeline.merge(second, first_stage=first, vocab_size=320)
    with pytest.raises(UsageError, match="has 299 tokens; give at most 299"):
        bpe_pipeline.merge(second, superwords_from=310, vocab_size=320, overwrite=True)
    bpe_pipeline.merge(first, vocab_size=300, min_frequency=3, overwrite=True)
    with pytest.raises(RunDirectoryError, match="with other merges of --first-stage"):
        bpe_pipeline.merge(second, vocab_size=330)
    for options, reason in (
        ({"special_tokens": [EOT, "<x>"]}, "--special-tokens differs"),
        ({"sample": 0.5}, "--sample differs"),
        ({"inputs": corpus / "a.txt"}, r".* bytes in .* documents are not"),
    ):
        named = {"inputs": corpus / "b.txt", **options}
        bpe_pipeline.count(named.pop("inputs"), output=other, pattern="superwords", overwrite=True, **named)
        with pytest.raises(UsageError, match=f"have not counted the same text: {reason}"):
            bpe_pipeline.merge(other, first_stage=first, vocab_size=320)
    with pytest.raises(UsageError, match="--superwords-from needs --first-stage"):
        bpe_pipeline.merge(first, superwords_from=280, overwrite=True)


@pytest.mark.parametrize("seed", range(100 if FULL else 2))
@pytest.mark.filterwarnings("ignore:tokenizers 1.0", "ignore:the vocabulary is smaller")
def test_they_are_those_of_hugging_faces_trainer_after_the_merges_of_a_run(seed: int, tmp_path: Path) -> None:
    first, documents = 256 + 20 + seed % 50, [*DOCUMENTS, peers.generated_text(seed, 60), "of the end: of the day " * 5]
    (tmp_path / "a.txt").write_text(EOT.join(documents), newline="")
    given = {"min_frequency": 2, "workers": 1}
    plain = bpe_pipeline.train(
        tmp_path / "a.txt", vocab_size=first + 1, pattern="superbpe", output=tmp_path / "run", **given
    )
    base = tokenizers.Tokenizer.from_file(str(tmp_path / "run/tokenizer/tokenizer.json"))
    second = bpe_pipeline.count(tmp_path / "a.txt", pattern="superwords", output=tmp_path / "second").directory
    words = {"first_stage": tmp_path / "run", "superword_words": "none", "superword_colon": True}
    [found] = bpe_pipeline.merge(second, vocab_size=first + 41, **words, **given).values()
    expression = superword_presets()["superbpe"].expression
    expected = peers.resumed_merges(base, documents, expression, 40, min_frequency=2)
    assert found.merges[: len(plain.merges)] == plain.merges
    assert [(token_to_text(a), token_to_text(b)) for a, b in found.merges[len(plain.merges) :]] == expected[:40]


@pytest.mark.parametrize(("options", "reason"), [
    ({"superwords_from": 255}, "is 255 tokens; give 256"),
    ({"superwords_from": "101%"}, "at most 100%"),
    ({"superwords_from": "100%"}, "to 299, the vocabulary size without special tokens"),
    ({"superwords_from": "90%", "vocab_size": [300, 290]}, "one first stage"),
    ({"superword_words": 3}, "means nothing without --superwords-from"),
    ({"superwords_from": 280, "superword_pattern": "gpt2"}, "superbpe, superbpe-digits, or a regular expression"),
    ({"superwords_from": 280, "superword_words": 0}, "a whole number of at least 1"),
    ({"superwords_from": 280, "export": "gpt2"}, "GPT-2"),
])  # fmt: skip
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(bpe_pipeline.PipelineError, match=reason):
        bpe_pipeline.train(__file__, output=tmp_path / "run", **{"vocab_size": 300, **options})
    assert not (tmp_path / "run").exists()


def test_digits_are_cut_as_the_paper_cuts_them_in_two_steps() -> None:
    pre = tokenizers.pre_tokenizers
    steps = [pre.Split(tokenizers.Regex(step), "isolated") for step in (r"\p{N}+", r"(?=(\d{3})+(?!\d))")]
    theirs, ours = pre.Sequence(steps), compile_pattern(superword_presets()["superbpe-digits"].expression)
    chance = random.Random(7)
    texts = ["".join(chance.choices("0123456789½²٣ a b.,\n", k=chance.randrange(1, 24))) for _ in range(2000)]
    # Python, `regex` and tokenizers have different versions of Unicode: each knows other numbers.
    unassigned = [chr(code) for code in range(0x20000) if category(chr(code)) == "Cn"]
    numbers = [chr(code) for code in range(0x20000) if category(chr(code))[0] == "N"]
    numbers += unassigned if FULL else unassigned[::8]
    texts += [f"a{number * 4}1{number}23 {number}" for number in numbers]
    for text in texts:
        assert list(ours.cut(text)) == [pre_token for pre_token, _ in theirs.pre_tokenize_str(text)]


def test_mixtures_continue_a_mixture_of_the_same_weights(tmp_path: Path) -> None:
    weights, homes, counted = ["2.5", "1/3"], {"superbpe": [], "superwords": []}, {}
    fractions = [Fraction(weight) / Fraction("1/3") for weight in weights]
    for pattern, compiled in (("superbpe", FIRST), ("superwords", COARSE)):
        counted[pattern] = Counter()
        for part, weight in enumerate(fractions):
            documents = [*DOCUMENTS, *(peers.generated_text(part + one, 30) for one in range(part + 2))]
            path = tmp_path / f"{part}.txt"
            path.write_text(EOT.join(documents), newline="")
            home = tmp_path / f"{pattern}-{part}"
            homes[pattern].append(bpe_pipeline.count(path, output=home, pattern=pattern).directory)
            for pre_token, count in pre_tokens_of(documents, compiled).items():
                counted[pattern][pre_token] += int(count * weight + Fraction(1, 2))
    first = train_reference(counted["superbpe"], 34, min_frequency=2)
    limits = {"max_words": 4, "no_colon": True}
    expected = train_reference(counted["superwords"], 64, known=first, min_frequency=2, **limits)
    one, other = (bpe_pipeline.combine(runs, weights, output=tmp_path / pattern) for pattern, runs in homes.items())
    bpe_pipeline.merge(one, vocab_size=256 + 34 + 1, min_frequency=2)
    found = bpe_pipeline.merge(other, first_stage=one, vocab_size=256 + 64 + 1, min_frequency=2)[321].vocabulary
    assert list(zip(found.left, found.right, strict=True)) == [merge[:2] for merge in expected]
    third = bpe_pipeline.combine(homes["superwords"], [1, 2], output=tmp_path / "third")
    with pytest.raises(UsageError, match="their weights differ"):
        bpe_pipeline.merge(third, first_stage=one, vocab_size=321)


@pytest.mark.parametrize("superword_pattern", ["superbpe", "superbpe-digits"])
def test_other_libraries_encode_alike(corpus: Path, trained: Path, tmp_path: Path, superword_pattern: str) -> None:
    if superword_pattern != "superbpe":
        asked = {"superwords_from": "80%", "superword_pattern": superword_pattern, "pattern": "superbpe"}
        trained = tmp_path / "run"
        made = bpe_pipeline.train(corpus / "b.txt", output=trained, vocab_size=400, **asked)
        assert bpe_pipeline.load(trained).pattern == made.pattern
        gpt2 = run("export", trained, "--export", "gpt2", "--output", tmp_path / "gpt2")
        assert f"not written for the pattern '{superword_pattern}': their readers" in gpt2.stderr
    ours = bpe_pipeline.load(trained)
    theirs = tokenizers.Tokenizer.from_file(str(trained / "tokenizer/tokenizer.json"))
    fast = transformers.AutoTokenizer.from_pretrained(trained / "tokenizer")
    assert not (trained / "tokenizer/tokenizer.tiktoken").exists()  # unless asked for
    asked_for = succeeded(run("export", trained, "--export", "tiktoken", "--output", tmp_path / "out"))
    assert "long stretches" in asked_for.stderr
    tiktoken = runpy.run_path(str(tmp_path / "out/tiktoken_encoding.py"))["encoding"]
    for text in [*TEXTS, (corpus / "b.txt").read_text(), *(corpus / "a.txt").read_text().splitlines()[:40]]:
        ids = ours.encode(text)
        assert theirs.encode(text, add_special_tokens=False).ids == fast.encode(text) == ids
        assert tiktoken.encode(text, allowed_special="all") == ids
        assert ours.decode(ids) == text


def test_explain_and_like_know_the_second_stage(trained: Path, tmp_path: Path) -> None:
    explained = json.loads(run("explain", "--tokenizer", trained, "of the end of the day", "--json").stdout)
    counts = parquet.read_table(trained / "merges.parquet")["count"].to_pylist()
    merges = [merge for pre_token in explained["pre_tokens"] for merge in pre_token["merges"]]
    assert merges
    assert [merge["count"] for merge in merges] == [counts[merge["rank"]] for merge in merges]
    (tmp_path / "long.txt").write_text("one of the end of the day " * 2000)
    like = succeeded(run("count", tmp_path / "long.txt", "--like", trained, "--output", tmp_path / "like"))
    assert "is --pattern right" not in like.stderr


def test_a_dry_run_says_that_the_corpus_is_read_twice_and_a_run_that_a_pattern_is_no_finer(corpus, tmp_path):
    words = ["train", corpus, "--superwords-from", "80%", "--vocab-size", 500, "--output", tmp_path / "x"]
    assert "from 400 tokens on" in succeeded(run(*words, "--dry-run")).stdout
    assert not (tmp_path / "x").exists()
    said = run(*words, "--pattern", r" ?\w+|\s+|[^\w\s]+").stderr
    assert "splits pre-tokens of" in said
    assert "--pattern superbpe fits" in said
