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
from bpe_pipeline.base.errors import ExportRefusedError, PipelineError, UsageError
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
    assert "10 tokens removed" in succeeded(run("verify", tmp_path / "pruned")).stdout
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


@pytest.mark.filterwarnings("ignore:2 added tokens moved")
def test_ids_in_the_other_files_move_too_or_are_refused(base: Path, counted: Path, tmp_path: Path) -> None:
    home, new = shutil.copytree(base, tmp_path / "base"), tmp_path / "new"
    document = json.loads((base / "tokenizer.json").read_text())
    end = {"id": "<|user|>", "ids": [499], "tokens": ["<|user|>"]}
    template = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|user|>", "type_id": 0}}]
    steps = [{"type": "TemplateProcessing", "single": template, "pair": template, "special_tokens": {end["id"]: end}}]
    document["post_processor"] = {"type": "Sequence", "processors": steps}
    config = {"eos_token": "<|user|>", "added_tokens_decoder": {"499": {"content": "<|user|>"}}}
    generation = {"eos_token_id": [499], "pad_token_id": 499}
    named = {"tokenizer.json": document, "tokenizer_config.json": config, "generation_config.json": generation}
    for name, content in named.items():
        (home / name).write_text(json.dumps(content))
    bpe_pipeline.prune(home, counted, keep=400, output=new)
    moved = {name: json.loads((new / name).read_text()) for name in named}
    assert moved["tokenizer.json"]["added_tokens"][1]["id"] == 399
    assert moved["tokenizer.json"]["post_processor"]["processors"][0]["special_tokens"]["<|user|>"]["ids"] == [399]
    assert [*moved["tokenizer_config.json"]["added_tokens_decoder"]] == ["399"]
    assert moved["generation_config.json"] == {"eos_token_id": [399], "pad_token_id": 399}
    theirs = pytest.importorskip("tokenizers").Tokenizer.from_file(str(new / "tokenizer.json"))
    assert theirs.encode("a").ids[-1] == 399
    decoder = {"added_tokens_decoder": {"9999": {"content": "<x>"}}}
    for change, reason in (
        (decoder, "9999 has the id 9999, but"),
        ({"eos_token_id": [497]}, "names the token id 497,"),
    ):
        (home / "tokenizer_config.json").write_text(json.dumps(config | change))
        with pytest.raises(PipelineError, match=reason):
            bpe_pipeline.prune(home, counted, keep=400, output=tmp_path / "other")


@pytest.mark.filterwarnings("ignore:2 added tokens moved")
def test_every_id_of_generation_config_moves_or_is_left_out_by_name(base: Path, counted: Path, tmp_path: Path) -> None:
    """Members as transformers has them; positions, layers, numbers and keys are no ids."""
    shutil.copytree(base, tmp_path / "base")
    before = bpe_pipeline.Tokenizer.load(base)
    end, whole = (
        before.special_tokens["<|endoftext|>"],
        bpe_pipeline.prune(base, counted, keep=400, output=tmp_path / "a"),
    )
    new_of = {old: new for new, old in whole.id_map.items()}
    gone, other = whole.removed[0].old_id, max(old for old in new_of if old != end)
    generation: dict[str, Any] = {
        "eos_token_id": [end, other],
        "pad_token_id": None,
        "decoder_start_token_id": -1,
        "max_new_tokens": end,
        "suppress_tokens": [7, gone, other],
        "begin_suppress_tokens": [gone],
        "bad_words_ids": [[7, gone], [other, 7]],
        "force_words_ids": [[[other], [gone]], [[7, other]]],
        "forced_decoder_ids": [[1, other], [2, None], [3, gone]],
        "lang_to_id": {"<|en|>": other},
        "task_to_id": {"translate": end},
        "alignment_heads": [[3, end], [other, 1]],
        "sequence_bias": [[[other, 7], end], [[gone], 2.0]],
        "temperature": 0.6,
        "do_sample": True,
        "nested": {"eos_token_id": end, "deep": {"suppress_tokens": [other]}, "hashing_key": other},
        "stages": [{"eos_token_id": end}, {"bad_words_ids": [[other]]}],
    }
    (tmp_path / "base" / "generation_config.json").write_text(json.dumps(generation))
    with pytest.warns(
        UserWarning, match=f"suppress_tokens without {gone}, begin_.* without {gone}, bad_words_ids"
    ) as said:
        bpe_pipeline.prune(tmp_path / "base", counted, keep=400, output=tmp_path / "b")
    assert not any("generation_config.json by id-map" in str(one.message) for one in said)
    end, other = new_of[end], new_of[other]
    seven = new_of[7]
    assert json.loads((tmp_path / "b" / "generation_config.json").read_text()) == generation | {
        "eos_token_id": [end, other],
        "suppress_tokens": [seven, other],
        "begin_suppress_tokens": [],
        "bad_words_ids": [[other, seven]],
        "force_words_ids": [[[other]], [[seven, other]]],
        "forced_decoder_ids": [[1, other], [2, None]],
        "lang_to_id": {"<|en|>": other},
        "task_to_id": {"translate": end},
        "sequence_bias": [[[other, seven], generation["sequence_bias"][0][1]]],
        "nested": {
            "eos_token_id": end,
            "deep": {"suppress_tokens": [other]},
            "hashing_key": generation["nested"]["hashing_key"],
        },
        "stages": [{"eos_token_id": end}, {"bad_words_ids": [[other]]}],
    }
    old = before.special_tokens["<|endoftext|>"]
    for unknown in (
        {"sequence_bias": 7},
        {"eos_token_id": str(old)},
        {"eos_id": old},
        {"image_token_index": old},
        {"lang_to_id": {"a": {"b": old}}},
    ):
        (tmp_path / "base" / "generation_config.json").write_text(json.dumps(unknown))
        with pytest.raises(ExportRefusedError, match=f"{next(iter(unknown))} names ids in a form that is not known"):
            bpe_pipeline.prune(tmp_path / "base", counted, keep=400, output=tmp_path / "c")
