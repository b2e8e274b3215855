"""What differs between two tokenizers: nothing exactly if they are equal, and other splits as encoding makes them."""

import json
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
import samples
from command import refused, run
from hypothesis import given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.extensions.inspect.diff import cut_differently, difference
from bpe_pipeline.pattern.token_rules import Preparation, TokenRule
from bpe_pipeline.reports.result import plain
from bpe_pipeline.run.ids import Roles
from bpe_pipeline.tokenizer.model import ChatTemplate, Model

EOT = "<|endoftext|>"
MERGES = samples.trained("gpt2")


def model(merges: samples.Merges = MERGES, specials: tuple[str, ...] = (EOT, "<p>"), **options: object) -> Model:
    return Tokenizer.from_merges(merges, specials, **options).model  # type: ignore[arg-type]


CHANGED = {
    "nothing": model(),
    "a merge less": model(MERGES[:-1]),
    "two merges swapped": model([MERGES[1], MERGES[0], *MERGES[2:]]),
    "pattern": model(pattern="llama3"),
    "special token": model(specials=(EOT, "<q>")),
    "special order": model(specials=("<p>", EOT)),
    "special first": model(special_ids="first"),
    "pad": replace(model(), roles=Roles(pad="<p>")),
    "eos": replace(model(), roles=Roles(eos="<p>")),
    "separator": replace(model(), roles=Roles(separator="<p>")),
    "whole pre-tokens": replace(model(), whole_pre_tokens=True),
    "nfc": replace(model(), preparation=Preparation(nfc=True)),
    "space": replace(model(), preparation=Preparation(space_in_front=True)),
    "rule": replace(model(), preparation=Preparation(rules={EOT: TokenRule(lstrip=True, special=True)})),
    "no control": replace(model(), preparation=Preparation(rules={EOT: TokenRule(special=False)})),
    "post-processor": replace(model(), post_processor="{}"),
    "template": replace(model(), chat_template=ChatTemplate("x")),
    "bos": replace(model(), roles=Roles(bos="<p>"), front=("<p>",)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_nothing_differs_exactly_if_the_models_are_equal(name: str) -> None:
    for other, changed in CHANGED.items():
        assert difference(CHANGED[name], changed).anything == (CHANGED[name] != changed), (name, other)


def test_tokens_and_merges_are_listed_by_what_they_are() -> None:
    one = Tokenizer.from_merges([(b"a", b"b"), (b"c", b"d"), (b"e", b"f")]).model
    other = Tokenizer.from_merges([(b"a", b"b"), (b"e", b"f"), (b"ab", b"ef"), (b"x", b"y")]).model
    found = difference(one, other)
    assert found.tokens.only == (((b"cd",),), ((b"abef",), (b"xy",)))
    assert found.tokens.moved == (((b"ef",), 258, 257),)
    assert found.merges.only == (((b"c", b"d"),), ((b"ab", b"ef"), (b"x", b"y")))
    assert found.merges.moved == (((b"e", b"f"), 2, 1),)
    assert found.same_merges == 1
    assert plain(found)["merges"]["moved"] == [[["e", "f"], 2, 1]]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text("theoanrs \n.é你", max_size=30), max_size=4), st.sampled_from(["gpt2", "llama3", "none"]))
def test_other_cuts_are_the_shortest_and_sum_up(texts: list[str], pattern: str) -> None:
    one, other = (
        Tokenizer.from_merges(samples.trained(name)[:size], [EOT], pattern=name)
        for name, size in (("gpt2", 160), (pattern, 90))
    )
    sources, cuts = cut_differently(one, other, [("a", text) for text in texts])
    ids = [[tokenizer.encode(text) for text in texts] for tokenizer in (one, other)]
    for source in sources:
        assert source.texts == len(texts)
        assert source.tokens == tuple(sum(map(len, rows)) for rows in ids)
        assert source.different == sum(
            [one.vocab[id_] for id_ in row] != [other.vocab[id_] for id_ in second]
            for row, second in zip(*ids, strict=True)
        )
    assert sum(cut.count for cut in cuts) >= sum(source.different for source in sources)
    for cut in cuts:
        first, second = cut.cuts
        assert b"".join(first) == b"".join(second)
        ends, others = (set(accumulate(map(len, tokens))) for tokens in (first, second))
        assert ends & others == {len(b"".join(first))}


def test_texts_that_one_changes_are_cut_differently() -> None:
    one, other = Tokenizer.from_model(model()), Tokenizer.from_model(CHANGED["nfc"])
    [source], [cut] = cut_differently(one, other, [("a", "e\u0301")])
    assert (source.different, cut.cuts) == (1, ((b"e", b"\xcc", b"\x81"), (b"\xc3", b"\xa9")))


def test_exit_codes_and_numbers(trained: Path, text: Path, tmp_path: Path) -> None:
    one, copy, fewer = bpe_pipeline.load(trained), tmp_path / "copy", tmp_path / "fewer"
    other = Tokenizer.from_merges(one.merges[:100], [EOT])
    one.save(copy)
    other.save(fewer)
    same = run("diff", trained, copy)  # of sentences in several languages
    assert (same.returncode, same.stderr) == (0, "")
    assert all(word in same.stdout for word in ("equal", "English", "Chinese", "Arabic"))
    literal = "the lower<|endoftext|>"
    words = ("diff", trained, fewer, text, "--text", literal)
    shown, found = run(*words), run(*words, "--json")
    assert (shown.returncode, found.returncode) == (1, 1), found.stderr
    assert f"{len(one.merges) - 100} only in A" in shown.stdout
    document = json.loads(found.stdout)
    assert (document["equal"], document["found"]["same_merges"]) == (False, 100)
    assert len(document["found"]["tokens"]["only"][0]) == len(one.merges) - 100
    contents = (("--text", literal), (text.name, text.read_bytes().decode()))
    assert [(source["name"], source["bytes"], source["tokens"]) for source in document["sources"]] == [
        (name, len(own.replace(EOT, "").encode()), [len(each.encode(own)) - own.count(EOT) for each in (one, other)])
        for name, own in contents
    ]
    assert sum(len(cut["cuts"][1]) for cut in document["cuts"]) > 0
    compared = bpe_pipeline.diff(trained, fewer, text)
    assert compared.found == bpe_pipeline.diff(one, bpe_pipeline.load(fewer), texts=[b"low"]).found
    assert (compared.equal, str(compared) + "\n") == (False, run("diff", trained, fewer, text).stdout)
    assert bpe_pipeline.diff(one, copy).equal
    (copy / "tokenizer.json").write_text("{")
    for named, *others in (("tokenizer.json", tmp_path), ("tokenizer.json", copy), ("absent.txt", fewer, "absent.txt")):
        assert named in refused(run("diff", trained, *others), 3)
    refused(run("diff", trained), 2)


def test_patterns_are_compared_by_their_names_and_long_ones_are_not_shown() -> None:
    own = r"(?:[a-z]+|[A-Z]+|[0-9]{1,2}| ?[^\sa-zA-Z0-9]+)|\s+"
    for other, shown in (("llama3", "llama3"), (own, f"a regular expression of {len(own)} characters")):
        two = (Tokenizer.from_merges([(b"a", b"b")], pattern=name) for name in ("gpt2", other))
        found = bpe_pipeline.diff(*two, texts=["low"])
        assert f"pattern: gpt2 in A, {shown} in B" in str(found)
        assert dict(found.found.settings)["pattern"] == ("gpt2", other)
