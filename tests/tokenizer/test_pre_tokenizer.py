"""The expressions in a tokenizer.json: cut as `tokenizers` and `tiktoken` cut, or refused."""

import json
from pathlib import Path

import pytest
import tiktoken
from foreign_files import BYTES, ranks, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from published import (
    PLAIN,
    TEXTS,
    byte_level,
    made,
    pair,
)
from tokenizers import Regex, pre_tokenizers

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError, PatternError, PipelineError, UsageError
from bpe_pipeline.pattern.compiled import THEN
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.parse import first_difference
from bpe_pipeline.tokenizer.formats.fields import Field
from bpe_pipeline.tokenizer.formats.pre_tokenizer import _recovered
from bpe_pipeline.tokenizer.formats.rank_lists import model_of_ranks


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Expressions built of what published tokenizers use."""
    escapes = [r"\p{L}", r"\p{N}", r"\p{^Lu}", r"\s", r"\S", r"\d", r"\.", r"\x41", r"\u0301"]
    sets = [r"[^\s\p{L}]", "[a-f]", r"[\p{Lu}\-]", "[一-龥é]", r"[!-/:-@&~]", r"[\r\n\t]", "[^a-z-]"]
    classes = [*escapes, *sets, ".", "e", " ?", "(?:e|eé)", "(a|b)", r"(?>\s+)"]
    counts = ["", "", "+", "*", "?", "++", "*+", "?+", "{1,3}", "{2}", "{2,}", "+?", "{1,2}?"]
    ends = ["", "", r"(?!\S)", r"(?=[a-z ])", r"(?!\p{N})"]
    counted = st.tuples(st.sampled_from(classes), st.sampled_from(counts))
    part = counted.map(lambda two: "(?: ?)?" if two[0] == " ?" else "".join(two))
    parts = st.lists(part, min_size=1, max_size=3).map("".join)
    branch = st.tuples(parts, st.sampled_from(ends)).map("".join)
    return "|".join(draw(st.lists(branch, min_size=1, max_size=3)))


def cut_by_tokenizers(expression: str, text: str) -> list[str]:
    return [pre_token for pre_token, _ in pre_tokenizers.Split(Regex(expression), "isolated").pre_tokenize_str(text)]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(expressions(), st.lists(TEXTS, min_size=3, max_size=5))
def test_accepted_expressions_cut_alike(expression: str, texts: list[str]) -> None:
    try:
        compiled = compile_pattern(expression)
    except PipelineError:
        return
    if compiled.tables is None or first_difference(expression):
        return
    # tiktoken shows no pre-tokens; where any two neighbouring bytes make a token, ids tell them.
    whole = f"{expression}|[\\s\\S]"
    data = [text.encode() for text in texts]
    tokens = [*dict.fromkeys(BYTES + [one[at : at + 2] for one in data for at in range(len(one) - 1)])]
    table = {token: rank for rank, token in enumerate(tokens)}
    core = tiktoken.Encoding("x", pat_str=whole, mergeable_ranks=table, special_tokens={})
    ours = Tokenizer.from_model(model_of_ranks(Path("x"), dict(enumerate(tokens)), whole, {}))
    for text in texts:
        assert cut_by_tokenizers(expression, text) == compiled.cut(text)
        assert ours.encode_ordinary(text) == core.encode_ordinary(text)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([r"\s+$", r"a$|\$", r"\s+?$|[$a]", r"\n$", r"(?:a|\s)+$\n?", r"[^\]$]$|\s", r"a$\n|$a|\s{1,2}$"]),
    st.text("a \n\r$\t\v\u2028\x85é", max_size=12),
)
def test_line_ends_are_those_of_tokenizers(expression: str, text: str) -> None:
    assert first_difference(expression) is not None  # of which tiktoken's engine is another
    assert _recovered(expression, Field(None, Path("x"))).cut(text) == cut_by_tokenizers(expression, text)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (r"\p{N}{1,3}+|\P{N}", "possessive counted"),
        (r"a{2}?|[^a]", "lazy exact"),
        (r"\s+$*|\S", r"a quantifier on a look-ahead"),
        (r"(?i:strasse)|\S", "a group with flags"),
        (r"\w+|\W", r"the escape \\w"),
        (r"\p{Letter}+|\P{L}", "the property Letter"),
        (r"\xe9|.", "an escaped byte"),
        (r"[\d-x]|.", "a '-' inside"),
        (r"x\Z|.", r"the escape \\Z"),
        (r"(?P<n>a)|.", "a group with flags"),
    ],
)
def test_expressions_that_may_differ_are_refused(expression: str, reason: str, tmp_path: Path) -> None:
    document = json.loads(made("gpt2", PLAIN).to_str())
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, json.loads(byte_level().__getstate__())]}
    with pytest.raises(InputError, match=reason):
        Tokenizer.load(written(tmp_path, document))
    with pytest.raises(UsageError, match=reason):
        Tokenizer.from_tiktoken_file(ranks(tmp_path, "gpt2"), pattern=expression)


def test_deepseek_is_the_preset_in_any_spelling(tmp_path: Path) -> None:
    theirs, ours = pair("deepseek", "plain")
    assert (ours.pattern.name, pair("coder", "plain")[1].pattern.name) == ("deepseek-v3", None)
    document = json.loads(theirs.to_str())
    for step in document["pre_tokenizer"]["pretokenizers"][:3]:
        step["pattern"]["Regex"] = step["pattern"]["Regex"].replace(r"\r", "\r").replace(r"\n", "\n")
    assert Tokenizer.load(written(tmp_path, document)).pattern.name == "deepseek-v3"


def test_thousands_of_steps_are_refused_before_they_are_compiled(tmp_path: Path) -> None:
    document = json.loads(made("gpt2", PLAIN).to_str())
    splits = [
        {"type": "Split", "pattern": {"Regex": rf"\d{{{n}}}|\D"}, "behavior": "Isolated", "invert": False}
        for n in range(1, 3001)
    ]
    byte_level_step = json.loads(byte_level().__getstate__())
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*splits, byte_level_step]}
    with pytest.raises(InputError, match="has 3,000 steps, and at most 64 are supported"):
        Tokenizer.load(written(tmp_path, document))
    with pytest.raises(PatternError, match="has 3,000 steps, and at most 64 are supported"):
        compile_pattern(THEN.join([r"\d|\D"] * 3000))
