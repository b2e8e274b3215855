"""The numbers of the report: by hand on tiny vocabularies, and compared with plain computations on others."""

import math
import re
import tracemalloc
from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import peers
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.merges import merge_list
from bpe_pipeline.merges.merge_list import MergeList
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.reports import formulas, measure, tokens
from bpe_pipeline.reports.numbers import REFERENCES, SENTENCES, MergeNumbers, SizePoint
from bpe_pipeline.reports.numbers_worker import logarithmic, merge_numbers
from bpe_pipeline.reports.record import MeasuredTokenizer
from bpe_pipeline.reports.verdict import recommended_size
from bpe_pipeline.run import manifest

Learned = tuple[str, MergeList, dict[int, Tokenizer]]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """What a run with three sizes learned, and its text."""
    home = tmp_path_factory.mktemp("learned")
    text = peers.generated_text(5, 6000) + "aaaa aaaaaaa " * 9
    (home / "a.txt").write_text(text)
    bpe_pipeline.train([home / "a.txt"], output=home / "run", vocab_size=[420, 300, 256 + 1 + 44])
    run = manifest.require(home / "run")
    merges = merge_list.load(run.merges_path, run.manifest.merge_fingerprint())
    assert merges is not None
    return text, merges, {size: Tokenizer.load(run.tokenizer_directory(size)) for size in (420, 300, 301)}


def test_size_curve_and_uses_equal_the_encoded_corpus(learned: Learned) -> None:
    text, merges, tokenizers = learned
    for size, tokenizer in tokenizers.items():
        curve = merge_numbers(merges.joined, merges.bytes, 257, size)
        [marked] = [one for one in curve.marked if one.vocab_size == size]
        assert marked.tokens == len(tokenizer.encode(text))
        assert marked.bytes_per_token == pytest.approx(len(text.encode()) / len(tokenizer.encode(text)))
    vocabulary = tokenizers[420].vocabulary.result
    uses = tokens.token_uses(merges.left, merges.right, merges.joined, vocabulary)
    encoded = Counter(tokenizers[420].encode(text))
    assert uses == {id_: encoded[id_] for id_ in vocabulary}
    assert 0 in uses.values()


@given(st.binary(max_size=400), st.integers(0, 400))
def test_saved_compares_with_half_the_size(counts: bytes, merges: int) -> None:
    joined = [count + 1 for count in counts]
    total = sum(joined) + 10
    size = 256 + min(merges, len(joined))
    curve = merge_numbers(joined, total, 256, size)
    assert curve.curve[0].tokens == total
    assert curve.curve[-1].tokens == 10
    for one in curve.curve:
        assert one.tokens == total - sum(joined[: one.vocab_size - 256])
        half = total - sum(joined[: max(0, one.vocab_size // 2 - 256)])
        assert one.saved == (pytest.approx(1 - one.tokens / half) if one.vocab_size >= 512 else None)


def test_the_verdict_looks_at_all_doublings_above_a_size() -> None:
    for saved, verdict in (  # shares saved by 2,000, 4,000, ... tokens
        ((0.2, 0.1, 0.04), "4,000 is enough: doubling it saves 4.0%"),
        ((0.2, 0.04, 0.03), "2,000 is enough: doubling it saves 4.0%"),
        ((0.2, 0.1, 0.04, 0.088), "16,000 or more: the last doubling saved 8.8%"),
        ((0.2, 0.04, 0.088, 0.01), "8,000 is enough: doubling it saves 1.0%"),
    ):
        tokens = accumulate(saved, lambda left, share: left * (1 - share), initial=10_000.0)
        marked = [SizePoint(1000 << power, round(left), 1.0, None) for power, left in enumerate(tokens)]
        merged = MergeNumbers(1, 1, (), tuple(marked), 0.0)
        assert str(recommended_size(merged, marked[-1].vocab_size)).startswith(verdict)


@given(st.integers(0, 10**6))
def test_logarithmic_includes_both_ends(last: int) -> None:
    points = logarithmic(1, last)
    assert points == sorted(set(points))
    assert (points[:1], points[-1:]) == (([1], [last]) if last else ([], []))
    assert len(points) <= 161


SCRIPTS = {
    "Latin": (" the", "l'é", "e\u0301", "a1 -", "Ａ", "aб"),
    "Cyrillic": ("привет",),
    "Han": ("東京", "京都の"),
    "Hiragana": ("ひらがな",),
    "Katakana": ("カー", "ｶﾀ"),
    "Hangul": ("한국",),
    "Devanagari": ("नमस्ते",),
    "Arabic": ("مرحبا",),
    "Canadian Syllabics": ("ᐃᓄᒃ",),
    "": (" \n", "\u3000", "12", "４５", "½", "->", "…🌉", "\u0301", ""),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_of_texts(script: str) -> None:
    assert tokens.scripts_of(SCRIPTS[script]) == {script: len(SCRIPTS[script])}


def test_vocabulary_numbers_by_hand() -> None:
    texts = {b"the": 300, b" the": 301, b"a": 303, b"\xe6\x97": 304, b"-" * 16: 306, "日".encode(): 308, b" ": 310}
    special = tokens.SpecialToken("<|x|>", 312, "eos")
    vocabulary = Vocabulary({id_: text for text, id_ in texts.items()}, array("I"), array("I"), array("I"), {})
    found = tokens.vocabulary_numbers(vocabulary, [special], [303])
    assert (found.tokens, found.bytes, found.special_tokens) == (7, 30, (special,))
    ids = {name: [one.id for one in group.examples] for name, group in found.groups.items()}
    assert ids == {"longest": [306, 301, 300, 308, 304, 303, 310], "unreachable": [303]}
    assert found.groups["longest"].examples[4].text == "\\xe6\\x97"


@given(st.text("aZ0 _~!\t\n\x1c\x7f", max_size=12))
def test_ascii_texts_are_shown_by_their_characters(text: str) -> None:
    long = "é" * 8  # a run of eight: not shown by the short cut for short ASCII texts
    assert tokens.readable((text + long).encode()).endswith("é ×8")
    if len(text) < 8:
        shown = [tokens.readable((character + long).encode()).removesuffix(" é ×8") for character in text]
        assert tokens.readable(text.encode()) == "".join(shown)


@given(st.binary(max_size=60))
def test_readable_tokens_are_printable(token: bytes) -> None:
    shown = tokens.readable(token)
    assert shown.isprintable()
    assert " " not in re.sub(r" ×\d+ ?| (?=\S+ ×\d)", "", shown)
    assert tokens.readable(b"\n" + b" " * 128) == "\\n ␣ ×128"


def test_renyi_efficiency_by_hand_and_of_tokenization_scorer() -> None:
    assert formulas.renyi_efficiency([5, 5], 2.5) == pytest.approx(1)
    assert formulas.renyi_efficiency([10], 1) == 0
    expected = math.log((0.75**2.5) + (0.25**2.5)) / (1 - 2.5) / math.log(2)
    assert formulas.renyi_efficiency([3, 1, 0], 2.5) == pytest.approx(expected)
    assert formulas.renyi_efficiency([], 2) is None
    scorer = pytest.importorskip("tokenization_scorer", reason="tokenization-scorer is not installed")
    text = peers.generated_text(3, 3000).split()
    for order in (2, 2.5, 3):
        theirs = scorer.score([text], metric="renyi", power=order)
        assert formulas.renyi_efficiency(Counter(text).values(), order) == pytest.approx(theirs)


def measured_alone(tokenizer: MeasuredTokenizer, texts: list[tuple[str, str]]) -> measure.TokenizerMeasures:
    [found] = measure.measure([("", tokenizer)], measure.SampleText(texts))
    return found


def measured(
    vocab: dict[int, bytes], cut: dict[str, list[int]], names: Sequence[str] = "ab"
) -> measure.TokenizerMeasures:
    """Measure texts whose ids are given, each a source of its own."""
    tokenizer = MeasuredTokenizer(lambda text: [(cut[text], text.encode())], vocab, len(vocab))
    return measured_alone(tokenizer, list(zip(names, cut, strict=False)))


def test_measures_by_hand() -> None:
    """Two texts; words and the tokens that they touch are those of `test_word_measures_equal_a_plain_count`."""
    vocab = {0: b"12", 1: b"345", 2: b" ", 3: b"42", 4: b"\xd0", 5: b"\xb6", 6: b"\xb6 a"}
    found = measured(vocab, {"12345 42 ж": [0, 1, 2, 3, 2, 4, 5], "ж a": [4, 6]})
    assert (found.whole.bytes, found.whole.tokens) == (15, 9)
    expected = {"digit_f1": 1.0, "characters_per_token": 13 / 9, "integrity": 5 / 9}
    expected |= {"vocabulary_used": 1, "round_trip": 1, "tokens_per_word": (2 + 1 + 2 + 2 + 1) / 5}
    assert {name: found.whole.numbers[name] for name in expected} == pytest.approx(expected)
    assert found.scripts == {"": 7, "Cyrillic": 4, "Latin": 1}
    assert [source.name for source in found.sources] == ["a", "b"]


def test_words_are_not_counted_where_scripts_have_no_spaces() -> None:
    texts = {"東京の夜, 川 low": 3, "東京の夜 low a": 2}  # words: 3 and 3
    for text, words in texts.items():
        vocab = {0: text.encode()}
        found = measured(vocab, {text: [0]}, "a").whole.numbers
        assert ("tokens_per_word" in found, "whole" in found) == (words == 2,) * 2


@given(st.lists(st.text("ab éж _1\u0301\n", max_size=20), min_size=1, max_size=5), st.integers(1, 4))
def test_word_measures_equal_a_plain_count(texts: list[str], step: int) -> None:
    """Tokens of `step` bytes, numbered by their bytes."""
    numbers: dict[bytes, int] = {}

    def encode(text: str) -> list[int]:
        data = text.encode()
        return [numbers.setdefault(data[at : at + step], len(numbers)) for at in range(0, len(data), step)]

    for text in texts:
        encode(text)
    vocab = {id_: token for token, id_ in numbers.items()}
    tokenizer = MeasuredTokenizer(lambda text: [(encode(text), text.encode())], vocab, len(vocab))
    found = measured_alone(tokenizer, [("x", text) for text in texts]).whole.numbers
    words = touched = whole = 0
    for text in texts:
        for match in re.finditer(r"(?:[^\W_]|\u0301)+", text):
            begin = len(text[: match.start()].encode())
            end = begin + len(match[0].encode())
            words += 1
            among = {at // step for at in range(begin, end)}
            touched += len(among)
            whole += len(among) == 1
    assert found.get("tokens_per_word") == (pytest.approx(touched / words) if words else None)
    assert found.get("whole") == (pytest.approx(whole / words) if words else None)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_gini_equals_the_mean_difference(values: list[int]) -> None:
    found = formulas.gini(values)
    if not sum(values):
        assert found is None
        return
    differences = sum(abs(value - other) for value in values for other in values)
    assert found == pytest.approx(differences / (2 * len(values) * sum(values)))


@given(st.sets(st.integers(1, 9)), st.sets(st.integers(1, 9)))
def test_digit_f1_is_the_harmonic_mean(cuts: set[int], usual: set[int]) -> None:
    """The rules of tokenizer-analysis-suite, where nothing to find and nothing found is 1, one of them alone 0."""
    if not cuts or not usual:
        assert formulas.digit_f1(cuts, usual) == (cuts == usual)
        return
    precision, recall = len(cuts & usual) / len(cuts), len(cuts & usual) / len(usual)
    expected = 2 * precision * recall / (precision + recall) if precision + recall else 0
    assert formulas.digit_f1(cuts, usual) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("pattern", "consistent"),
    [
        (r"\d| ", True),
        (r"\d{1,3}(?=(?:\d{3})*\b)| ", True),
        (r"\d{1,3}| ", True),
        (r"1\d|\d| ", False),
    ],
)
def test_numbers_that_are_always_cut_in_one_way_are_consistent(pattern: str, consistent: bool) -> None:
    text = " ".join(str(number) for number in range(1, 20_000, 37))
    vocab: dict[bytes, int] = {}

    def stretches(text: str) -> list[tuple[list[int], bytes]]:
        found = [match[0].encode() for match in regex.finditer(pattern, text)]
        return [([vocab.setdefault(one, len(vocab)) for one in found], text.encode())]

    stretches(text)
    tokenizer = MeasuredTokenizer(stretches, {id_: token for token, id_ in vocab.items()}, len(vocab))
    assert (measured_alone(tokenizer, [("x", text)]).whole.numbers["digit_f1"] == 1) == consistent


def test_references_have_a_source_their_size_and_all_sentences() -> None:
    sizes = {"gpt2": 50_257, "cl100k": 100_277, "o200k": 200_019, "llama3": 128_256, "qwen": 151_646}
    assert {name: one["vocab_size"] for name, one in REFERENCES.items()} == sizes
    for one in REFERENCES.values():
        assert re.search(r"SHA-256 [0-9a-f]{16}\) of \S+ [\d.]+ on PyPI", one["source"])
        assert list(one["tokens"]) == list(SENTENCES)
        assert all(len(text) / 8 < one["tokens"][name] <= len(text.encode()) for name, text in SENTENCES.items())
    assert len(SENTENCES) >= 12
    assert len(tokens.scripts_of(SENTENCES.values())) >= 8


def test_a_token_of_megabytes_takes_a_few_times_its_own_memory() -> None:
    """A corpus of one letter learns tokens of half its size."""
    token = b"a" * 2_000_000
    tracemalloc.start()
    assert tokens.readable(token + b"bc") == "a ×2000000 bc"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(token)


@given(st.text("aé東🌉 1", max_size=24), st.lists(st.integers(1, 4), min_size=1, max_size=40))
def test_whole_characters_are_tokens_that_decode(text: str, sizes: list[int]) -> None:
    data, cut = text.encode(), list[bytes]()
    for size in sizes * 100:
        cut += [data[:size]] if data else []
        data = data[size:]
    vocab = dict(enumerate(dict.fromkeys(cut)))
    ids = {token: id_ for id_, token in vocab.items()}
    found = measured(vocab, {text: [ids[token] for token in cut]}).whole.numbers
    broken = sum(not re.fullmatch(r"[^\udc80-\udcff]+", one.decode(errors="surrogateescape")) for one in cut)
    assert found.get("integrity") == (pytest.approx(1 - broken / len(cut)) if cut else None)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30))
def test_renyi_efficiency_equals_the_formula_in_numpy(counts: list[int]) -> None:
    shares = np.array([count for count in counts if count]) / max(sum(counts), 1)
    for order in (1, 2, 2.5, 3):
        if len(shares) < 2:
            assert formulas.renyi_efficiency(counts, order) == (0 if len(shares) else None)
            continue
        entropy = -(shares * np.log2(shares)).sum() if order == 1 else np.log2((shares**order).sum()) / (1 - order)
        assert formulas.renyi_efficiency(counts, order) == pytest.approx(entropy / np.log2(len(shares)))


def test_two_tokenizers_differ_by_their_tokens() -> None:
    texts = ["a" * at + "b" * (60 - at) for at in range(1, 60, 3)]
    pairs = {0: b"a", 1: b"b", 2: b"aa"}

    def stretches(text: str) -> list[tuple[list[int], bytes]]:
        letters = text.count("a")
        return [([2] * (letters // 2) + [0] * (letters % 2) + [1] * text.count("b"), text.encode())]

    single = MeasuredTokenizer(lambda text: [([0 if one == "a" else 1 for one in text], text.encode())], pairs, 3)
    named = [("single", single), ("pairs", MeasuredTokenizer(stretches, pairs, 3))]
    tokens = len("".join(texts)), sum(len(stretches(text)[0][0]) for text in texts)
    [own, found] = measure.measure(named, measure.SampleText([("x", text) for text in texts]))
    assert own.against is None
    assert found.against == pytest.approx(dict.fromkeys(("", "x"), tokens[0] / tokens[1]))
