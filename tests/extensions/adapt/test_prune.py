"""Pruning a vocabulary, compared with its definition and with recorded cases, and the files that it writes."""

import json
import shutil
from pathlib import Path
from typing import Any

import counter_files
import pyarrow.parquet as pq
import pytest
import vocabulary_rules as rules
from command import run, succeeded
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from vocabulary_rules import Base

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.extensions.adapt.change_worker import ChangeTask
from bpe_pipeline.extensions.adapt.prune_worker import Pruning, protected_ids, prune, pruned, write_tables
from bpe_pipeline.merges.vocabulary import text_to_token

SMALL = rules.base_of_case(
    {
        "vocab": {"ab": 256, "abc": 257, "bc": 258},
        "added_tokens": {"<x>": 300},
        "ignore_merges": False,
        "merges": [("a", "b"), ("ab", "c"), ("b", "c"), ("a", "bc")],  # the last one never makes abc
    }
)


def _prune(base: Base, counter: dict[bytes, int] | None, home: Path, **options: Any) -> Pruning:
    model = base.model()
    settled = {"keep": None, "min_count": None, "keep_ids": False} | options
    settled["protected"] = protected_ids(model.vocabulary, settled.pop("protect", ()))
    stored = None if counter is None else (counter_files.write(home / "counter", counter, partitions=2), "f")
    return prune(ChangeTask(stored, model, settled, 1, Grant(0, 0, 0, 0)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    base=rules.bases(),
    counter=rules.counters,
    drop=st.integers(1, 12),
    by_count=st.booleans(),
    keep_ids=st.booleans(),
    texts=st.lists(rules.pre_tokens),
    protect=st.integers(0, 300),
)
@example(base=SMALL, counter={b"abc": 5, b"ab": 1}, drop=3, by_count=False, keep_ids=False, texts=[], protect=0)
def test_what_is_removed_and_what_stays_are_those_of_the_definition(
    base: Base,
    counter: dict[bytes, int],
    drop: int,
    by_count: bool,
    keep_ids: bool,
    texts: list[bytes],
    protect: int,
    tmp_path: Path,
) -> None:
    model = base.model()
    old = model.vocabulary
    kept = [old.tokens[protect]] if protect in old.tokens else []
    limits = {"min_count": drop} if by_count else {"keep": old.size - drop}
    expected = rules.prune_by_rules(base, counter, kept, **limits)
    if not expected or (not by_count and len(expected) < drop):
        with pytest.raises(UsageError, match=f"{old.size - len(expected):,} tokens|nothing to remove"):
            _prune(base, counter, tmp_path, **limits, protect=kept)
        return
    found = _prune(base, counter, tmp_path, **limits, keep_ids=keep_ids, protect=kept)
    assert [(one.old_id, one.score) for one in found.removed] == expected
    gone = {id_ for id_, _ in expected}
    assert [*found.id_map.values()] == sorted({*old.to_dict()} - gone)
    assert [*found.id_map] == ([*found.id_map.values()] if keep_ids else [*range(len(found.id_map))])
    new, new_of = pruned(model, gone, keep_ids=keep_ids)
    lost = {*model.unreachable_tokens()}
    assert not {found.id_map[id_] for id_ in new.unreachable_tokens()} - lost  # no other token is
    encoders = model.encoder(), new.encoder()
    totals = [sum(len(one.encode_pre_tokens([pre_token])) * n for pre_token, n in counter.items()) for one in encoders]
    assert [found.before, found.after] == totals
    for text in (*texts, *counter):
        before, after = (one.encode_pre_tokens([text]) for one in encoders)
        if gone.isdisjoint(before):
            assert after == [new_of[id_] for id_ in before]
    assert all(list(one.new_ids) == encoders[1].encode_pre_tokens([one.token]) for one in found.removed)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)
@given(base=rules.bases(), drop=st.integers(1, 12), texts=st.lists(rules.pre_tokens))
def test_without_counts_the_tokens_that_were_merged_last_go(
    base: Base, drop: int, texts: list[bytes], tmp_path: Path
) -> None:
    model = base.model()
    expected = rules.prune_by_rules(base, None, keep=model.vocabulary.size - drop)
    if len(expected) < drop:
        with pytest.raises(UsageError, match="is too small"):
            _prune(base, None, tmp_path, keep=model.vocabulary.size - drop)
        return
    done = _prune(base, None, tmp_path, keep=model.vocabulary.size - drop)
    assert [(one.old_id, one.score) for one in done.removed] == expected
    assert (done.before, done.after) == (None, None)
    new, new_of = pruned(model, {id_ for id_, _ in expected}, keep_ids=False)
    assert {done.id_map[id_] for id_ in new.unreachable_tokens()} <= {*model.unreachable_tokens()}
    for text in texts:
        before, after = (one.encoder().encode_pre_tokens([text]) for one in (model, new))
        if all(id_ in new_of for id_ in before):
            assert after == [new_of[id_] for id_ in before]


@pytest.mark.filterwarnings("ignore")  # of ids that move
def test_a_trained_tokenizer_is_pruned_to_that_of_a_smaller_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low lower lowest newer newest widest " * 9)
    bpe_pipeline.train(tmp_path / "a.txt", output=tmp_path / "run", vocab_size=275)
    smaller = bpe_pipeline.merge(tmp_path / "run", vocab_size=265)[265]
    done = bpe_pipeline.prune(tmp_path / "run" / "tokenizer", keep=265, output=tmp_path / "pruned")
    assert done.tokenizer.merges == smaller.merges
    assert done.tokenizer.special_tokens == smaller.special_tokens
    assert "as they were written: " in succeeded(run("verify", tmp_path / "pruned")).stdout
    with pytest.raises(UsageError, match="--min-count is a number of uses: name the RUN"):
        bpe_pipeline.prune(tmp_path / "run" / "tokenizer", min_count=2, output=tmp_path / "other")


def test_the_tables_have_a_row_a_token_and_nothing_to_remove_is_an_error(tmp_path: Path) -> None:
    pruning = _prune(SMALL, {b"abc": 5, b"ab": 1}, tmp_path, min_count=1)
    write_tables((pruning, SMALL.model().vocabulary, tmp_path))
    ids = pq.read_table(tmp_path / "id-map.parquet").to_pylist()
    rows = [(256, 256, b"ab"), (257, 257, b"abc"), (258, 300, b"<x>")]
    assert ids[256:] == [dict(zip(("new_id", "old_id", "token"), row, strict=True)) for row in rows]
    removed = pq.read_table(tmp_path / "removed.parquet").to_pylist()
    assert removed == [{"old_id": 258, "token": b"bc", "score": 0, "new_ids": [65, 66]}]
    for limits in ({"keep": 260}, {"keep": 999}, {"min_count": 1}):
        with pytest.raises(UsageError, match="nothing to remove"):
            _prune(SMALL, {b"abc": 5, b"bc": 1}, tmp_path, **limits)


def test_protected_tokens_are_named_as_in_vocab_json_or_as_text() -> None:
    base = Base({**SMALL.ids, b" a": 259, "é".encode(): 260}, SMALL.merges, SMALL.added)
    vocabulary = base.model().vocabulary
    always = {*range(256), 300}
    assert protected_ids(vocabulary, ["Ġa", " a", "é", b"ab"]) == always | {256, 259, 260}
    assert protected_ids(vocabulary, ["<x>"]) == always
    with pytest.raises(UsageError, match="'zz' is to be protected, but is not a token"):
        protected_ids(vocabulary, ["zz"])


@pytest.mark.filterwarnings("ignore")  # of pre-tokens that the pattern would cut, of ids that move
def test_recorded_cases(tmp_path: Path) -> None:
    for case, base, counts in rules.recorded_cases("prune", tmp_path):
        options = {"min_count": case["min_count"], "protect": case["protect"], "output": base.parent / "pruned"}
        if not case["reached"]:
            with pytest.raises(UsageError, match=f"{case['size']} tokens are bytes, added or protected"):
                bpe_pipeline.prune(base, counts, keep=case["keep"], **options)
            assert not (base.parent / "pruned").exists()
            case["keep"] = case["size"]
        done = bpe_pipeline.prune(base, counts, keep=case["keep"], **options)
        removed = [(text_to_token(one["token"]), one["id"], one["score"]) for one in case["removed"]]
        assert [(one.token, one.old_id, one.score) for one in done.removed] == removed, base
        assert done.tokenizer.merges == [(text_to_token(left), text_to_token(right)) for left, right in case["merges"]]
        assert len(done.tokenizer) == case["size"]
        assert [[old, new] for new, old in done.id_map.items() if new != old] == case["moved"]
        rules.require_probes(case, base, done.tokenizer)


def test_ids_that_tokenizer_json_says_move_and_files_that_may_name_others_are_left_out(
    base: Path, counted: Path, tmp_path: Path
) -> None:
    home, new = shutil.copytree(base, tmp_path / "base"), tmp_path / "new"
    document = json.loads((base / "tokenizer.json").read_text())
    end = {"id": "<|user|>", "ids": [499], "tokens": ["<|user|>"]}
    template = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|user|>", "type_id": 0}}]
    steps = [
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing", "single": template, "pair": template, "special_tokens": {end["id"]: end}},
    ]
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 499, "pad_type_id": 0, "pad_token": "<|user|>"}
    document |= {"post_processor": {"type": "Sequence", "processors": steps}, "padding": padding}
    contents = {
        "tokenizer.json": document,
        "tokenizer_config.json": {"eos_token": "<|user|>", "eos_token_id": 499, "own": 7},
        "generation_config.json": {"eos_token_id": [499], "temperature": 0.5},
        "config.json": {"vocab_size": 500},
    }
    for name, content in contents.items():
        (home / name).write_text(json.dumps(content))
    (home / "special_tokens_map.json").unlink()
    (home / "README.md").write_text("of the base")
    (home / "corpus.txt").write_text("of a person")
    said = succeeded(run("prune", home, counted, "--keep", 400, "--output", new)).stderr
    left_out = "README.md, config.json, generation_config.json"
    assert f"not copied from {home}: {left_out}; ids have moved" in said
    assert "tokenizer_config.json has no eos_token_id any more" in said
    made = json.loads((new / "tokenizer.json").read_text())
    assert made["added_tokens"][1]["id"] == made["padding"]["pad_id"] == 399
    assert [one["type"] for one in made["post_processor"]["processors"]] == ["ByteLevel", "TemplateProcessing"]
    assert made["post_processor"]["processors"][1]["special_tokens"]["<|user|>"]["ids"] == [399]
    config = json.loads((new / "tokenizer_config.json").read_text())
    assert (config["eos_token"], config["own"], "eos_token_id" in config) == ("<|user|>", 7, False)
    theirs = pytest.importorskip("tokenizers").Tokenizer.from_file(str(new / "tokenizer.json"))
    assert theirs.encode("a").ids[-1] == 399
    assert not {"README.md", "config.json", "generation_config.json"} & {file.name for file in new.iterdir()}
    (new / "README.md").write_text("own")
    with pytest.warns(UserWarning, match=r"config.json; they are of the model"):
        bpe_pipeline.prune(home, counted, keep=400, keep_ids=True, output=tmp_path / "gaps")
    for name in ("README.md", "generation_config.json"):
        assert (tmp_path / "gaps" / name).read_bytes() == (home / name).read_bytes()
    assert json.loads((tmp_path / "gaps/tokenizer_config.json").read_text())["eos_token_id"] == 499
    with pytest.warns(UserWarning, match=r"README.md, config.json"):
        bpe_pipeline.prune(home, counted, keep=400, keep_ids=True, output=new, overwrite=True)
    assert (new / "README.md").read_text() == "own"


@pytest.mark.filterwarnings("ignore")  # of ids that move, and of what is left out
def test_an_id_of_a_post_processor_that_no_added_token_has_is_refused(base: Path, tmp_path: Path) -> None:
    document = json.loads((base / "tokenizer.json").read_text())
    other = {"id": "x", "ids": [300], "tokens": ["x"]}
    text = [{"Sequence": {"id": "A", "type_id": 0}}]
    document["post_processor"] = {
        "type": "TemplateProcessing",
        "single": text,
        "pair": text,
        "special_tokens": {"x": other},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"special_tokens.x.ids adds the id 300 to texts, which no special token has"):
        bpe_pipeline.prune(tmp_path, keep=400, output=tmp_path / "new")
