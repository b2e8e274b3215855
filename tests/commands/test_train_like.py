"""`train_like` learns what the real BpeTrainer of tokenizers learns, or refuses and names the setting."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

import bpe_pipeline
from bpe_pipeline.base.errors import ExportRefusedError, InputError, InvalidTextError, UsageError

EOT = "<|endoftext|>"
BYTES = ByteLevel.alphabet()
PLAIN = ByteLevel(add_prefix_space=False)


def cut_by(expression: str | Regex, behavior: str = "isolated") -> Any:
    return Sequence([Split(expression, behavior), ByteLevel(add_prefix_space=False, use_regex=False)])


PRE_TOKENIZERS = {
    "byte level": PLAIN,
    "whole": ByteLevel(add_prefix_space=False, use_regex=False),
    "expression": cut_by(Regex(r" ?\p{L}+|\p{N}|\s+|[^\s\p{L}\p{N}]+")),
    "literal": cut_by("a b"),
    "digits": Sequence([pre_tokenizers.Digits(individual_digits=True), ByteLevel(False, use_regex=False)]),
    "starcoder": Sequence([pre_tokenizers.Digits(individual_digits=True), ByteLevel(False)]),
    "digits in groups": Sequence([pre_tokenizers.Digits(), ByteLevel(False)]),
    "falcon": Sequence([pre_tokenizers.Punctuation("contiguous"), PLAIN, Split("1", "isolated")]),
}


def trainer(vocab_size: int = 300, **changes: Any) -> trainers.BpeTrainer:
    asked = {"vocab_size": vocab_size, "initial_alphabet": BYTES, "show_progress": False} | changes
    return trainers.BpeTrainer(**{name: value for name, value in asked.items() if value is not None})


def write_files(home: Path, texts: list[str]) -> list[str]:
    files = [home / f"{number}.txt" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, newline="")
    return list(map(str, files))


def theirs(settings_: trainers.BpeTrainer, pre_tokenizer: Any, files: list[str] | None, texts: Any = None) -> Any:
    """The merges and the vocabulary that tokenizers learns."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(texts, settings_) if files is None else tokenizer.train(files, settings_)
    model = json.loads(tokenizer.to_str())["model"]
    return [tuple(pair) for pair in model["merges"]], tokenizer.get_vocab()


def ours(run: Path) -> Any:
    document = json.loads((run / "tokenizer" / "tokenizer.json").read_text())
    added = {token["content"]: token["id"] for token in document["added_tokens"]}
    merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in document["model"]["merges"]]
    return merges, document["model"]["vocab"] | added


LINE_ENDS = ["\n", "\r\n", "\n\n", "\r", " \n", ""]
WORDS = [" the", "low", "er", " 日本", "é", "'s", " 123", "a b", "  ", EOT, "<s>", "\u2028", "\0", "😀"]
TEXTS = st.lists(st.sampled_from(WORDS + LINE_ENDS), min_size=1, max_size=40).map("".join)
FILES = st.lists(TEXTS.filter(bool), min_size=1, max_size=3)  # a file without a byte is worth a warning
SETTINGS = st.fixed_dictionaries(
    {
        "min_frequency": st.integers(0, 4),
        "special_tokens": st.sampled_from([[], [EOT], ["<s>", EOT], [EOT, EOT]]),
        "max_token_length": st.none() | st.integers(1, 7),
        "limit_alphabet": st.sampled_from([None, 256]),
    }
)
# Each example starts processes: a few, and what fails is not looked for in a smaller one.
PHASES, CHECKS = [Phase.explicit, Phase.generate], [HealthCheck.function_scoped_fixture]
PROCESSES = settings(max_examples=6, deadline=None, phases=PHASES, suppress_health_check=CHECKS)


@pytest.mark.parametrize("kind", ["files", "texts"])
@PROCESSES
@given(FILES, SETTINGS, st.sampled_from(list(PRE_TOKENIZERS)), st.integers(258, 300))
def test_corpora_are_learned_as_by_tokenizers(kind, tmp_path, texts, chosen, cut, vocab_size):
    files = write_files(tmp_path, ["low low\n", *texts])
    batches = [["low low", "lower"], *texts]  # tokenizers takes batches, too
    corpus = {"files": files, "chunk_size": 37} if kind == "files" else {"texts": iter(batches)}
    theirs_of = (files, None) if kind == "files" else (None, iter(batches))
    made = theirs(trainer(vocab_size, **chosen), PRE_TOKENIZERS[cut], *theirs_of)
    arguments, run = (trainer(vocab_size, **chosen), PRE_TOKENIZERS[cut]), tmp_path / "run"
    shared = any(left + right in chosen["special_tokens"] for left, right in made[0])
    with pytest.raises(ExportRefusedError) if shared else contextlib.nullcontext():
        bpe_pipeline.train_like(*arguments, output=run, overwrite=True, workers=1, **corpus)
        assert ours(run) == made


def test_a_byte_order_mark_is_learned_as_by_tokenizers(tmp_path: Path) -> None:
    files = [tmp_path / "0.txt", tmp_path / "1.txt"]
    files[0].write_bytes(b"\xef\xbb\xbfthe the\nthe \xef\xbb\xbfend\n")
    files[1].write_bytes(b"\xef\xbb\xbf\xef\xbb\xbfthe\n")
    names = list(map(str, files))
    bpe_pipeline.train_like(trainer(262), PLAIN, names, output=tmp_path / "run")
    assert ours(tmp_path / "run") == theirs(trainer(262), PLAIN, names)
    assert any("\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}" in pair for pair in ours(tmp_path / "run")[0])


def test_settings_of_later_releases_may_have_their_defaults(tmp_path: Path) -> None:
    known = {"vocab_size": 300, "min_frequency": 0, "special_tokens": [], "initial_alphabet": BYTES}
    later = type("BpeTrainer", (), known | {"limit_alphabet": None, "dropout": 0.0, "get_word_count": lambda _: 0})()
    assert bpe_pipeline.train_like(later, PLAIN, texts=["low low"], output=tmp_path / "run").merges
    later.dropout = 0.1
    with pytest.raises(UsageError, match=r"dropout=0\.1"):
        bpe_pipeline.train_like(later, PLAIN, texts=["low low"], output=tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trainer": trainer(initial_alphabet=[])}, "initial_alphabet"),
        ({"trainer": trainer(initial_alphabet=[*BYTES, "日"])}, "initial_alphabet"),
        ({"trainer": trainer(limit_alphabet=100)}, "limit_alphabet=100"),
        ({"trainer": trainer(continuing_subword_prefix="##")}, "continuing_subword_prefix='##'"),
        ({"trainer": trainer(end_of_word_suffix="</w>")}, "end_of_word_suffix='</w>'"),
        ({"trainer": trainer(special_tokens=[AddedToken("<a>", lstrip=True)])}, "lstrip=True"),
        ({"trainer": trainer(special_tokens=[AddedToken("<a>", single_word=True)])}, "single_word=True"),
        ({"trainer": trainer(special_tokens=["a"])}, "'a'"),
        ({"trainer": trainers.WordPieceTrainer()}, "WordPieceTrainer"),
        ({"pre_tokenizer": ByteLevel()}, "add_prefix_space=True"),
        ({"pre_tokenizer": pre_tokenizers.Whitespace()}, "Whitespace"),
        ({"pre_tokenizer": cut_by(" ", "removed")}, "behavior"),
        ({"pre_tokenizer": cut_by(Regex(r"\h+"))}, "pattern"),
        ({"pre_tokenizer": None}, "cannot be read"),
        ({"pre_tokenizer": normalizers.NFC()}, "NFC"),
        ({"texts": None}, "either files or texts"),
        ({"files": "a"}, "either files or texts"),
        ({"texts": None, "files": ["a.txt", "./a.txt"]}, "twice"),
        ({"vocab_size": 300}, "'vocab_size' is not for train_like"),
        ({"tie_break": ""}, "'tie_break' is not for train_like"),
    ],
)
def test_arguments_without_counterpart_are_named(changes: Any, words: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("low low")
    arguments = {"trainer": trainer(), "pre_tokenizer": PLAIN, "texts": ["a"], "output": "run"}
    with pytest.raises(UsageError, match=words):
        bpe_pipeline.train_like(**arguments | changes)
    assert not Path("run").exists()


def test_texts_that_are_refused(tmp_path: Path) -> None:
    options = {"output": tmp_path / "run", "overwrite": True}
    (tmp_path / "bad.txt").write_bytes(b"low\nlow\xff low\n")
    for corpus, error, words in (
        ({"files": str(tmp_path / "bad.txt")}, InvalidTextError, r"bad\.txt, byte 4"),
        ({"texts": ["low \ud800"]}, InvalidTextError, "lone surrogate"),
        ({"texts": []}, InputError, "no documents"),
        ({"texts": ["lower lower"]}, ExportRefusedError, "'lower'"),  # a merge that equals the special token
    ):
        with pytest.raises(error, match=words):
            bpe_pipeline.train_like(trainer(special_tokens=["lower"]), PLAIN, **corpus, **options)


@pytest.mark.parametrize("name", ["starcoder", "digits in groups"])
def test_digits_before_gpt2s_pattern_are_written_as_published(name: str, tmp_path: Path) -> None:
    made = bpe_pipeline.train_like(trainer(), PRE_TOKENIZERS[name], texts=["a 12  3 lower"], output=tmp_path / "run")
    document = json.loads((tmp_path / "run/tokenizer/tokenizer.json").read_text())
    assert [step["type"] for step in document["pre_tokenizer"]["pretokenizers"]] == ["Digits", "ByteLevel"]
    assert bpe_pipeline.load(tmp_path / "run") == made
