"""`--superwords-from`: tokens that hold several words, as their plain definition makes them."""

import json
import math
import os
import random
import runpy
import shutil
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


def test_it_is_verified_and_damage_is_found(trained: Path) -> None:
    verified = bpe_pipeline.verify(trained)
    assert verified["first stage"].startswith("224; ")
    assert verified["merges"].startswith("343; ")
    assert "superwords' counter" in verified
    assert "missing" not in verified["tokenizer"]
    by_hand = trained / "run.json"
    before = by_hand.read_bytes()
    document = json.loads(before)
    document["merging"]["superword_words"] = 3
    by_hand.write_text(json.dumps(document))
    with pytest.raises(RunDirectoryError):
        bpe_pipeline.verify(trained)
    by_hand.write_bytes(before)


def test_another_size_counts_nothing_again(corpus: Path, trained: Path, tmp_path: Path) -> None:
    """And the first stage is the ordinary tokenizer of that size."""
    assert not stages("merge", trained, "--vocab-size", 550)
    smaller, larger = bpe_pipeline.load(trained / "tokenizer-550").merges, bpe_pipeline.load(trained).merges
    assert smaller == larger[: len(smaller)]
    ordinary = bpe_pipeline.train(corpus, output=tmp_path / "run", vocab_size=481, pattern="superbpe")
    assert larger[: 480 - 256] == ordinary.merges


def test_other_superwords_keep_the_counts_and_the_first_stage(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    succeeded(run("count", corpus, "--output", output, "--pattern", "superbpe"))
    words = ["merge", output, "--vocab-size", 500, "--superwords-from"]
    assert stages(*words, 400) == STAGES
    assert stages(*words, 350, "--superword-words", "none", "--overwrite") == {"merging superwords"}
    assert "--superwords-from 350, not 450" in refused(run("merge", output, "--superwords-from", 450), 1)


@pytest.mark.parametrize("seed", range(100 if FULL else 2))
@pytest.mark.filterwarnings("ignore:tokenizers 1.0", "ignore:the vocabulary is smaller")
def test_they_are_those_of_hugging_faces_trainer_after_the_merges_of_a_run(seed: int, tmp_path: Path) -> None:
    first, documents = 256 + 20 + seed % 50, [*DOCUMENTS, peers.generated_text(seed, 60), "of the end: of the day " * 5]
    (tmp_path / "a.txt").write_text(EOT.join(documents), newline="")
    given = {"min_frequency": 2, "workers": 1, "output": tmp_path / "run"}
    plain = bpe_pipeline.train(tmp_path / "a.txt", vocab_size=first + 1, pattern="superbpe", **given)
    base = tokenizers.Tokenizer.from_file(str(tmp_path / "run/tokenizer/tokenizer.json"))
    words = {"superwords_from": first, "superword_words": "none", "superword_colon": True}
    given |= {"vocab_size": first + 41, "overwrite": True}
    [found] = bpe_pipeline.merge(given["output"], **words, **given).values()
    expression = superword_presets()["superbpe"].expression
    expected = peers.resumed_merges(base, documents, expression, 40, min_frequency=2)
    assert found.merges[: len(plain.merges)] == plain.merges
    assert [(token_to_text(a), token_to_text(b)) for a, b in found.merges[len(plain.merges) :]] == expected[:40]


@pytest.mark.parametrize("words", [["--overwrite"], ["--output"]])
def test_merges_that_a_run_has_are_the_first_stage(words: list[Any], corpus: Path, tmp_path: Path) -> None:
    plain, output = (
        bpe_pipeline.train(corpus, output=tmp_path / "run", vocab_size=500, pattern="superbpe"),
        tmp_path / "run",
    )
    if words == ["--output"]:
        output = tmp_path / "other"
        words = ["--output", output]
    asked = ["merge", tmp_path / "run", "--vocab-size", 500, "--superwords-from", 400]
    assert "--superwords-from" in refused(run(*asked), 1)
    assert not (tmp_path / "run/superwords").exists()  # nothing is counted for what is refused
    assert stages(*asked, *words) == {"counting superwords", "merging superwords"}
    assert bpe_pipeline.load(output).merges[:144] == plain.merges[:144]
    assert "merges" in bpe_pipeline.verify(output)
    assert "merging" in stages(*asked, "--min-frequency", 3, "--output", output, "--overwrite")


def test_a_second_count_is_removed_and_a_corpus_that_changed_not_read(short: Path, tmp_path: Path) -> None:
    options = ["--output", tmp_path / "run", "--vocab-size", 270, "--quiet"]
    succeeded(run("train", short, "--superwords-from", 260, *options))
    assert (tmp_path / "run/superwords/counter.parquet").exists()
    succeeded(run("train", short, "--overwrite", *options))
    assert not [path for path in (tmp_path / "run/superwords").rglob("*") if path.is_file()]
    short.write_text("of the day of the night")
    words = ["merge", tmp_path / "run", "--vocab-size", 270, "--superwords-from", 260, "--overwrite"]
    assert "a.txt changed since" in refused(run(*words), 1)


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


def test_counts_without_texts_are_refused(tmp_path: Path) -> None:
    asked = {"vocab_size": 258, "superwords_from": 257}
    counts = bpe_pipeline.import_counts({"of": 3, " the": 4}, output=tmp_path / "run", special_tokens=[])
    mixed = bpe_pipeline.combine([counts], weights=["2.5"], output=tmp_path / "mixed")
    for reason, act, source in (
        ("need the texts for a second count", bpe_pipeline.merge, counts),
        ("take runs that were counted from files", bpe_pipeline.merge, mixed),
        ("come from an iterator", bpe_pipeline.train_from_iterator, DOCUMENTS),
    ):
        with pytest.raises(UsageError, match=reason):
            act(source, **asked)


@pytest.mark.parametrize("weights", [("3", "1"), ("2.5", "1/3"), ("0.4", "0.01")])
def test_a_mixture_is_merged_with_its_weights_in_whole_numbers(weights: tuple[str, str], tmp_path: Path) -> None:
    fractions = [Fraction(weight) / min(map(Fraction, weights)) for weight in weights]  # the smallest is 1
    scale = math.lcm(*(weight.denominator for weight in fractions))
    for seed in range(20 if FULL else 1):
        home, rounded, coarse = tmp_path / str(seed), Counter(), Counter()
        home.mkdir()
        for part, weight in enumerate(fractions):
            documents = [*DOCUMENTS, *(peers.generated_text(7 * seed + part + one, 30) for one in range(part + 2))]
            (home / f"{part}.txt").write_text(EOT.join(documents), newline="")
            succeeded(run("count", home / f"{part}.txt", "--output", home / str(part), "--pattern", "superbpe"))
            for pre_token, count in pre_tokens_of(documents, FIRST).items():
                rounded[pre_token] += max(1, int(count * weight + Fraction(1, 2)))
            for pre_token, count in pre_tokens_of(documents, COARSE).items():
                coarse[pre_token] += int(count * weight * scale)
        first = train_reference(rounded, 34, min_frequency=2)
        expected = train_reference(coarse, 64, known=first, min_frequency=2 * scale, max_words=4, no_colon=True)
        mixed = bpe_pipeline.combine([home / "0", home / "1"], weights=weights, output=home / "mixed")
        given = {"vocab_size": 256 + 64 + 1, "superwords_from": 256 + 34, "min_frequency": 2}
        found = bpe_pipeline.merge(mixed, **given)[321].vocabulary
        assert list(zip(found.left, found.right, strict=True)) == [merge[:2] for merge in expected]
        assert "merges" in bpe_pipeline.verify(mixed)
        bpe_pipeline.merge(mixed, **given, superword_pattern="superbpe-digits", overwrite=True)
        assert "merges" in bpe_pipeline.verify(mixed)


def test_a_mixture_of_mixtures_and_a_copy_of_it_have_the_superwords_of_one_mixture(tmp_path: Path) -> None:
    for part in "abc":
        (tmp_path / f"{part}.txt").write_text(EOT.join([*DOCUMENTS, peers.generated_text(ord(part), 60)]), newline="")
        bpe_pipeline.count(tmp_path / f"{part}.txt", output=tmp_path / part, pattern="superbpe")
    one, two, three = (tmp_path / part for part in "abc")
    inner = bpe_pipeline.combine([one, two], weights=["3", "1"], output=tmp_path / "inner")
    outer = bpe_pipeline.combine([inner, three], weights=["2", "0.5"], output=tmp_path / "outer")
    straight = bpe_pipeline.combine([one, two, three], weights=[6, 2, "0.5"], output=tmp_path / "straight")
    shutil.rmtree(inner)
    given = {"vocab_size": 340, "superwords_from": 300, "min_frequency": 2}
    [expected] = bpe_pipeline.merge(straight, **given).values()
    assert any(b" " in token[1:] for token in expected.vocab.values())
    for words in ({}, {"output": tmp_path / "copied"}):
        [found] = bpe_pipeline.merge(outer, **given, **words).values()
        assert found.merges == expected.merges
    assert "merges" in bpe_pipeline.verify(tmp_path / "copied")


def test_a_mixture_of_runs_that_changed_is_refused(short: Path, tmp_path: Path) -> None:
    words = ["count", short, "--output", tmp_path / "run"]
    succeeded(run(*words))
    mixed = bpe_pipeline.combine([tmp_path / "run"], weights=["2"], output=tmp_path / "mixed")
    succeeded(run(*words, "--pattern", "superbpe", "--overwrite"))
    with pytest.raises(RunDirectoryError, match="other counts than those that were combined"):
        bpe_pipeline.merge(mixed, vocab_size=270, superwords_from=260)


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
    assert "would split pre-tokens of --pattern apart" in said
    assert "--pattern superbpe fits" in said
