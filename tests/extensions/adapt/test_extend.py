"""Extending a vocabulary, compared with its definition and with recorded cases, and the files that it writes."""

import itertools
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import counter_files
import peers
import published
import pyarrow.parquet as pq
import pytest
import samples
import vocabulary_rules as rules
from command import refused, run, succeeded
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from merge_cases import rule_values
from vocabulary_rules import Base

import bpe_pipeline
from bpe_pipeline.base.errors import TrainingError, UsageError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.extensions.adapt.change_worker import ChangeTask
from bpe_pipeline.extensions.adapt.extend_worker import PLAN_NAME, Learned, extended, learn, start_of, write_table
from bpe_pipeline.merges.vocabulary import text_to_token
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS

BIG = 1 << 40
SMALL = rules.base_of_case(
    {
        "vocab": {"lo": 256, "low": 257, "wid": 258, "wide": 259},
        "added_tokens": {"<x>": 300},
        "ignore_merges": False,
        "merges": [("l", "o"), ("lo", "w"), ("wid", "e")],
    }
)


def _learn(base: Base, counter: dict[bytes, int], add: int, home: Path, **options: Any) -> Learned:
    model = base.model()
    how = {name: options.pop(name, one) for name, one in (("threads", 1), ("grant", Grant(BIG, BIG, 0, 0)))}
    asked = {"add": add, "first_id": None, "stop_at_saving": None}
    path = counter_files.write(home / "counter", counter, partitions=2)
    return learn(ChangeTask((path, "f"), model, asked | options, **how))


def _pairs(base: Base, learned: Learned) -> list[tuple[bytes, bytes, int]]:
    tokens = extended(base.model(), learned).vocabulary.tokens
    rows = zip(learned.left, learned.right, learned.counts, strict=True)
    return [(tokens[left], tokens[right], count) for left, right, count in rows]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=180, deadline=None)
@given(
    base=rules.bases(),
    counter=rules.counters,
    add=st.integers(1, 8),
    options=st.fixed_dictionaries({"min_frequency": st.integers(1, 3)}, optional=rule_values),
    texts=st.lists(rules.pre_tokens),
    gap=st.integers(0, 3).map(lambda number: not number),
)
@example(base=SMALL, counter={b"wid": 9, b"wide": 8, b"<x>": 7}, add=9, options={}, texts=[], gap=False)
def test_merges_and_ids_are_those_of_the_definition(
    base: Base,
    counter: dict[bytes, int],
    add: int,
    options: dict[str, Any],
    texts: list[bytes],
    gap: bool,
    tmp_path: Path,
) -> None:
    if gap:  # in the ids, from which the first new one is taken: it decides ties
        moved = {token: id_ + 40 * (id_ > 257) for token, id_ in base.ids.items()}
        base, options = Base(moved, base.merges, {}, base.whole_pre_tokens), {**options, "first_id": 258}
    expected = rules.extend_by_rules(base, counter, add, **options)
    if not expected.merges:
        with pytest.raises(TrainingError, match="nothing to learn"):
            _learn(base, counter, add, tmp_path, **options)
        return
    learned = _learn(base, counter, add, tmp_path, **options)
    old = base.model()
    assert _pairs(base, learned) == expected.merges
    assert {one.token: one.id for one in learned.new} == expected.new_ids
    assert list(learned.made_again) == expected.made_again
    assert all(list(one.old_ids) == [base.ids[token] for token in base.merged(one.token)] for one in learned.new)
    encoders = old.encoder(), extended(old, learned).encoder()
    totals = [sum(len(one.encode_pre_tokens([pre_token])) * n for pre_token, n in counter.items()) for one in encoders]
    assert [learned.tokens[0], learned.after] == totals
    fires = {(base.ids.get(left), base.ids.get(right)) for left, right, _ in expected.merges}
    for text in (*texts, *counter):
        before, after = (one.encode_pre_tokens([text]) for one in encoders)
        assert before == base.encode(text)
        whole = base.whole_pre_tokens and text in base.ids
        assert (after == before) == (whole or not fires & {*itertools.pairwise(before)})


def test_threads_and_partitions_change_nothing(tmp_path: Path) -> None:
    counter = {bytes([97 + n % 7, 97 + n % 5, 97 + n % 3, 108, 111, 119]) * (1 + n % 4): 1 + n % 9 for n in range(4000)}
    found = [_learn(SMALL, counter, 60, tmp_path, threads=threads) for threads in (1, 2, 3)]
    assert found[0] == found[1] == found[2]
    assert _pairs(SMALL, found[0]) == rules.extend_by_rules(SMALL, counter, 60).merges


def test_the_table_of_new_tokens_has_a_row_a_token(tmp_path: Path) -> None:
    learned = _learn(SMALL, {b"lowlow": 3, b"low": 9}, 5, tmp_path)
    write_table((learned, tmp_path))
    names = ["id", "token", "text", "left_id", "right_id", "count", "old_ids", "tokens_after"]
    row = [301, b"lowlow", "lowlow", 257, 257, 3, [257, 257], 12]
    assert pq.read_table(tmp_path / PLAN_NAME).to_pylist() == [dict(zip(names, row, strict=True))]
    assert (learned.exhausted, learned.tokens[0], learned.after) == (True, 15, 12)
    write_table((_learn(SMALL, {"\u00e9\u00e8 x".encode(): 3}, 5, tmp_path), tmp_path))
    tokens, texts = (pq.read_table(tmp_path / PLAN_NAME)[name].to_pylist() for name in ("token", "text"))
    assert tokens[-1] == "\u00e9\u00e8 x".encode()
    assert texts == [one.decode(errors="backslashreplace") for one in tokens]
    assert {"\u00e9\u00e8 x", "\\xc3"} <= {texts[-1], "\\xc3"}


def test_ids_that_are_taken_and_too_little_memory_are_refused_with_numbers(tmp_path: Path) -> None:
    for first_id, add, taken in ((257, 1, 257), (299, 2, 300), (260, 100, 300)):
        with pytest.raises(UsageError, match=rf"would take the id {taken}.*--first-id 301"):
            start_of(SMALL.model(), add, first_id)
    with pytest.raises(UsageError, match=r"extending with 1 pre-tokens takes .*give --memory-limit \d+MiB"):
        _learn(SMALL, {b"lowlow": 3}, 1, tmp_path, grant=Grant(1000, 1000, 0, 0))


@pytest.mark.filterwarnings("ignore")  # of pre-tokens that the pattern would cut, of ids that move
def test_recorded_cases(tmp_path: Path) -> None:
    for case, base, counts in rules.recorded_cases("extend", tmp_path):
        options = {"add": case["add"], "min_frequency": case["min_frequency"], "output": base.parent / "extended"}
        done = bpe_pipeline.extend(base, counts, **options)
        merges = [(text_to_token(left), text_to_token(right)) for left, right, _ in case["merges"]]
        assert done.tokenizer.merges == [*bpe_pipeline.load(base).merges, *merges], base
        assert [{"id": one.id, "old_ids": list(one.old_ids)} for one in done.plan] == case["plan"]
        assert list(done.made_again) == case["revived"]
        rules.require_probes(case, base, done.tokenizer)


@pytest.mark.filterwarnings("ignore:not copied from")
def test_all_else_of_the_tokenizer_stays_and_other_files_are_copied(base: Path, counted: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "base")
    document = json.loads((base / "tokenizer.json").read_text())
    old = document["model"]["merges"]
    document["model"]["merges"] = [" ".join(pair) for pair in old]  # as older files have them
    document["model"]["ignore_merges"] = True
    document["model"]["vocab"].pop("<|user|>")  # as in published files
    flags = {"add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    document["post_processor"] = {"type": "ByteLevel", **flags}
    (tmp_path / "base/tokenizer.json").write_text(json.dumps(document))
    others = {"README.md": "of the base", "generation_config.json": "{}"}
    for name, text in (others | {"chat_template.jinja": "{{ messages }}", "config.json": "{}"}).items():
        (tmp_path / "base" / name).write_text(text)
    bpe_pipeline.extend(tmp_path / "base", counted, add=5, output=tmp_path / "new")
    found = json.loads((tmp_path / "new/tokenizer.json").read_text())
    listed, merges = found["model"].pop("vocab"), found["model"].pop("merges")
    before, _ = document["model"].pop("vocab"), document["model"].pop("merges")
    assert found == document
    assert (merges[: len(old)], len(merges)) == (old, len(old) + 5)
    assert list(listed.items())[: len(before)] == list(before.items())
    assert listed["<|user|>"] == 499  # without it, tokenizers would number it after the new tokens
    old_config, config = (json.loads((tmp_path / one / "tokenizer_config.json").read_text()) for one in ("base", "new"))
    assert config == {**old_config, "chat_template": "{{ messages }}"}
    for name in ("special_tokens_map.json", *others):
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "base" / name).read_bytes()
    assert not (tmp_path / "new" / "config.json").exists()
    theirs = pytest.importorskip("tokenizers").Tokenizer.from_file(str(tmp_path / "new/tokenizer.json"))
    assert theirs.encode("uus<|user|>").ids == bpe_pipeline.load(tmp_path / "new").encode("uus<|user|>")


@pytest.mark.parametrize("chunk_size", ["64MiB", "700"])
def test_what_only_separates_documents_is_no_token_and_no_text(base: Path, chunk_size: str, tmp_path: Path) -> None:
    parts = [peers.generated_text(seed, 60) for seed in range(60)]
    (tmp_path / "a.txt").write_text("<|eot|>".join(parts[:30]) + "<|end_of_text|>" + "<|end_of_text|>".join(parts[30:]))
    words = ["count", tmp_path / "a.txt", "--like", base, "--chunk-size", chunk_size, "--output", tmp_path / "run"]
    assert "--split-at, if the tokenizer is not" in succeeded(run(*words)).stderr
    result = succeeded(run(*words, "--overwrite", "--split-at", "<|end_of_text|>", "--split-at", "<|eot|>"))
    assert "<|end_of_text|>" not in result.stderr
    counts = counter_files.read(tmp_path / "run" / "counter.parquet")
    expected = Counter(
        pre_token.encode() for part in parts for pre_token in bpe_pipeline.load(base).model.pattern.cut(part)
    )
    assert counts == expected
    assert "not without it" in refused(run(*words), 1)
    done = bpe_pipeline.extend(base, tmp_path / "run", add=30, output=tmp_path / "new")
    assert not any(b"end_of" in one.token for one in done.plan)


def test_gpt2_files_are_extended_too(tmp_path: Path) -> None:
    FORMATS["gpt2"].write((old := samples.tokenizer("gpt2", ("<|endoftext|>",))).model, tmp_path / "base")
    counts = bpe_pipeline.combine({" uus": 5, "uusim": 3}, output=tmp_path / "run")
    done = bpe_pipeline.extend(tmp_path / "base", counts, add=4, output=tmp_path / "new")
    assert bpe_pipeline.load(tmp_path / "new").merges == done.tokenizer.merges
    assert done.tokenizer.merges[: len(old.merges)] == old.merges


def test_no_new_token_is_a_copy(base: Path, counted: Path, tmp_path: Path) -> None:
    result = run("extend", base, counted, "--add", 0, "--output", tmp_path / "new")
    totals = [line.split()[-1] for line in result.stdout.splitlines() if line.startswith("tokens ")]
    assert totals == [totals[0]] * 2 != ["0"] * 2
    assert (tmp_path / "new" / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()


def test_pre_tokens_and_merges_are_stages_and_a_missing_separator_warns(
    base: Path, counted: Path, tmp_path: Path
) -> None:
    succeeded(run("count", counted.parent / "other.txt", "--output", tmp_path / "run", "--pattern", "llama3"))
    words = ["extend", base, tmp_path / "run", "--add", 20, "--output", tmp_path / "new", "--log-json"]
    events = [json.loads(line) for line in succeeded(run(*words)).stdout.splitlines()]
    assert any("was counted without the special token '<|user|>'" in event.get("text", "") for event in events)
    stages = [(event["event"], event["stage"]) for event in events if "stage" in event]
    assert [stage for stage in stages if stage[0] != "advanced"] == [
        (event, stage) for stage in ("encoding pre-tokens", "merging") for event in ("stage_started", "stage_ended")
    ]
    advances = [
        event for event in events if (event.get("stage"), event["event"]) == ("encoding pre-tokens", "advanced")
    ]
    total = next(event["total"] for event in events if event["event"] == "stage_started")
    assert sum(event["amount"] for event in advances) == total


@pytest.mark.parametrize("shape", ["gpt2", "neox", "deepseek", "coder", "line ends", "llama3", "starcoder", "whisper"])
def test_tokenizers_in_published_shapes_are_counted_like_extended_and_pruned(shape: str, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    theirs, ours = published.pair(shape, "plain")
    theirs.save(str(tmp_path / "base/tokenizer.json"))
    text = "the lowest wider 漢字かな newest e\u0301 12345,\n" * 50
    (tmp_path / "a.txt").write_text(f"{text}{published.EOT}{text}")
    words = ["count", tmp_path / "a.txt", "--like", tmp_path / "base", "--output", tmp_path / "run", "--quiet"]
    succeeded(run(*words, "--chunk-size", "1KiB"))
    cut = Counter(ours.pattern.cut(nfc(text) if ours.model.preparation.nfc else text))
    counted = pq.read_table(tmp_path / "run/counter.parquet").to_pylist()
    assert {row["pre_token"].decode(): row["count"] for row in counted} == {
        pre_token: 2 * count for pre_token, count in cut.items()
    }
    made = [bpe_pipeline.extend(tmp_path / "base", tmp_path / "run", add=5, output=tmp_path / "new").tokenizer]
    with pytest.warns(UserWarning, match="3 added tokens moved"):
        made.append(
            bpe_pipeline.prune(tmp_path / "base", tmp_path / "run", keep=350, output=tmp_path / "less").tokenizer
        )
    for ours, name in zip(made, ("new", "less"), strict=True):
        theirs = pytest.importorskip("tokenizers").Tokenizer.from_file(str(tmp_path / name / "tokenizer.json"))
        assert [ours.encode(text) for text in published.HARD] == [theirs.encode(text).ids for text in published.HARD]


def test_a_run_of_another_pattern_is_refused_by_the_names_of_both(text: Path, tmp_path: Path) -> None:
    bpe_pipeline.train(text, output=tmp_path / "base", vocab_size=300, pattern="o200k+digits1")
    for pattern, shown in (("gpt2", "gpt2"), (r"\w+|\W+", "one without a name")):
        bpe_pipeline.count(text, output=tmp_path / shown, pattern=pattern)
        words = ["extend", tmp_path / "base", tmp_path / shown, "--add", 9, "--output", tmp_path / "new"]
        line = refused(run(*words), 1)
        assert f"the pattern is {shown} there and o200k+digits1 here; count the corpus with --like" in line
