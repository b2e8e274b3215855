"""The names of patterns, against tiktoken's table of models and the expressions of its encodings."""

import json
from pathlib import Path

import pytest
import tiktoken_ext.openai_public as public
from command import refused, run
from pattern_texts import texts
from published import DEEPSEEK
from tiktoken.model import encoding_name_for_model
from tokenizers import Regex, pre_tokenizers, trainers

import bpe_pipeline
from bpe_pipeline.base.errors import PatternError
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.presets import PRESETS, resolve


def test_models_have_the_pattern_of_their_encoding_in_tiktoken():
    for model in ("gpt2", "gpt-3.5-turbo", "gpt-4", "gpt-4-turbo", "gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3"):
        encoding = encoding_name_for_model(model)
        assert resolve(model) == resolve(encoding)
        assert encoding in public.ENCODING_CONSTRUCTORS
    assert {resolve(encoding) for encoding in public.ENCODING_CONSTRUCTORS} <= {*PRESETS}
    assert PRESETS["cl100k"].expression in Path(public.__file__).read_text()


def test_deepseek_v3_cuts_as_its_three_published_steps():
    """Those of its tokenizer.json; what remains between matches of one step goes through the next, as matches do."""
    steps = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(one), "isolated") for one in DEEPSEEK])
    ours = compile_pattern("deepseek-v3")
    for text in texts(20_000, seed=12):
        assert ours.cut(text) == [pre_token for pre_token, _ in steps.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("gpt-2", "gpt2"),
        ("llama-3", "llama3"),
        ("Llama-3.1", "llama3"),
        ("qwen2.5", "qwen2"),
        ("Qwen3.5", "qwen3.5"),
        ("DeepSeek-V3", "deepseek-v3"),
        ("kimi_k2", "kimi-k2"),
        ("None", "none"),
        ("r50k_base", "gpt2"),
        ("cl100k_base", "cl100k"),
        (r"\w+", r"\w+"),
        ("(?:gpt)", "(?:gpt)"),
        ("Mistral-Nemo", "tekken"),
        ("gpt-4o+digits1", "o200k+digits1"),
        ("llama3+digits1", "qwen2"),
        ("o200k+digits3", "o200k"),
        ("llama-3.1+digits-from-right", "digits-from-right"),
        ("superbpe+digits1", "tekken"),
        ("qwen2+digits2", "llama3+digits2"),
        ("a+b", "a+b"),
    ],
)
def test_names_that_people_type_are_aliases(typed, name):
    assert resolve(typed) == resolve(name) == name


@pytest.mark.parametrize(
    "typed", ["o200k+digits12", "none+digits1", "gpt2+digits", "gpt2+digits2+digits1", "o200k+digit1", "gpt-4o+"]
)
def test_a_suffix_that_says_nothing_about_numbers_is_an_error(typed):
    with pytest.raises(
        PatternError, match=r"is not the name of a pattern: the suffixes are digits-from-right, digits1"
    ):
        resolve(typed)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", [preset.name for preset in PRESETS.values() if preset.numbers])
@pytest.mark.parametrize(
    ("suffix", "pre_tokens"),
    [("digits1", "1 2 3 4 5"), ("digits2", "12 34 5"), ("digits4", "1234 5"), ("digits-from-right", "12 345")],
)
def test_a_suffix_decides_how_numbers_are_cut_and_nothing_else(name, suffix, pre_tokens):
    ours, without = compile_pattern(f"{name}+{suffix}"), compile_pattern(name)
    assert ours.cut("12345") == pre_tokens.split()
    for text in texts(200, seed=3):
        if not any(character.isnumeric() for character in text):
            assert ours.cut(text) == without.cut(text)


def test_code_points_in_braces_are_read():
    assert compile_pattern(resolve(r"[\x{1F600}-\x{1F64F}]+|\x{61}|\\x\{62}|(?s:.)")).cut("😀😁ab") == [
        "😀😁",
        "a",
        "b",
    ]


def test_no_name_means_two_presets():
    for preset in PRESETS.values():
        assert {resolve(name) for name in (preset.name, *preset.aliases)} == {preset.name}


@pytest.mark.parametrize("typed", ["llama-4x", "deepseek", "whitespace", "gpt", ".", "a", "-", "cl100k_bass", "qwen4"])
def test_unknown_names_are_an_error_that_lists_the_known_ones(typed):
    known = r"known are gpt2, cl100k, llama3, o200k, qwen2, qwen3\.5, superbpe, [^\n]*none[^\n]*write \(\?:[^\n]*$"
    for refusing in (resolve, lambda pattern: bpe_pipeline.Tokenizer.from_merges([], pattern=pattern)):
        with pytest.raises(PatternError, match=known):
            refusing(typed)
    assert compile_pattern(f"(?:{typed})").cut("ab") is not None


def test_a_run_stores_the_name_that_an_alias_means(tmp_path):
    (tmp_path / "a.txt").write_text("low low lower 12345")
    words = ["train", "a.txt", "--output", "run", "--vocab-size", 260]
    assert run(*words, "--pattern", "qwen2.5", cwd=tmp_path).returncode == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["counting"]["pattern"] == "qwen2"
    assert run(*words, "--pattern", "qwen3", cwd=tmp_path).returncode == 0  # the same run
    line = refused(run(*words[:3], "other", "--pattern", "lama3", cwd=tmp_path), 2)
    assert "--pattern: 'lama3' is not the name of a pattern (did you mean llama3?); known are gpt2" in line
    assert "did you mean llama3?" in refused(run(*words[:3], "other", "--pattern", "llama", cwd=tmp_path), 2)
    assert not (tmp_path / "other").exists()


def test_train_like_takes_an_expression_that_looks_like_a_name(tmp_path):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=258, initial_alphabet=alphabet, show_progress=False)
    steps = [pre_tokenizers.Split(Regex("abc"), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    ours = bpe_pipeline.train_like(
        trainer, pre_tokenizers.Sequence(steps), texts=["xabcx abc"], output=tmp_path / "run"
    )
    assert ours.pattern.cut("xabcx") == ["x", "abc", "x"]
