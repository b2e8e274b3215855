"""What `extend` and `prune` make of a tokenizer and counts, as other libraries, `verify` and `report` find it."""

import json
import random
import re
import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import peers
import published
import pyarrow.parquet as pq
import pytest
from command import files_in, refused, run, succeeded

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, RunDirectoryError, UsageError

tokenizers = pytest.importorskip("tokenizers")


def planned(base: Path, counts: Path, add: int) -> Any:
    """Return what a dry run says of the tokens that it would add."""
    said = succeeded(run("extend", base, counts, "--add", add, "--dry-run", "--log-json")).stdout
    return json.loads(said.splitlines()[-1])


@pytest.mark.parametrize("asked", ["extend --add 40", "prune --keep 450 --keep-ids", "prune --keep 450"])
def test_tokenizers_transformers_and_tiktoken_agree(asked: str, base: Path, counted: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("tiktoken")
    command, *options = asked.split()
    result = succeeded(run(command, base, counted, *options, "--output", tmp_path))
    old, new = bpe_pipeline.load(base), bpe_pipeline.load(tmp_path)
    assert len(new) == (540 if command == "extend" else 450)
    moved = not (new.vocab.items() >= old.vocab.items() or new.vocab.items() <= old.vocab.items())
    assert moved == (asked == "prune --keep 450") == ("2 added tokens moved to other ids" in result.stderr)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    auto, encoding = transformers.AutoTokenizer.from_pretrained(str(tmp_path)), new.to_tiktoken()
    for seed in range(150):
        text = peers.generated_text(seed, 200) + ("<|user|> jõulud uus" if seed % 3 else "")
        ids = new.encode(text)
        assert ids == theirs.encode(text).ids
        assert seed > 20 or ids == auto(text)["input_ids"] == encoding.encode(text, allowed_special="all")


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.filterwarnings("ignore:.*counted without the special token")
def test_marks_take_reserved_ids_first_and_all_libraries_know_them(
    listed: bool, base: Path, counted: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    shutil.copytree(base, old := tmp_path / "old")
    reserved, marks = "<|reserved_special_token_0|>", ["<|im_start|>", "<|im_end|>"]
    document, config = (json.loads((old / name).read_text()) for name in ("tokenizer.json", "tokenizer_config.json"))
    document["added_tokens"].append({**document["added_tokens"][-1], "id": 500, "content": reserved})
    document["model"]["vocab"] |= {reserved: 500} if listed else {}
    config["added_tokens_decoder"] = {str(one.pop("id")): one for one in map(dict, document["added_tokens"])}
    config["additional_special_tokens"] = ["<|user|>", reserved]
    for name, content in (("tokenizer.json", document), ("tokenizer_config.json", config)):
        (old / name).write_text(json.dumps(content))
    words = [word for mark in marks for word in ("--special-token", mark)]
    result = succeeded(run("extend", old, counted, "--add", 20, *words, "--output", tmp_path / "new"))
    assert "'<|im_start|>' was never counted as text: the pre-token '_start' does not occur" in result.stdout
    assert f"'<|im_start|>' is 500, which was '{reserved}'" in result.stdout
    assert "'<|im_end|>' is 501, a new id" in result.stdout
    new = bpe_pipeline.load(tmp_path / "new")
    ids = {"<|endoftext|>": 498, "<|user|>": 499, "<|im_start|>": 500, "<|im_end|>": 501}
    assert (new.special_tokens, min(set(new.vocab) - set(bpe_pipeline.load(old).vocab) - {501})) == (ids, 502)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "new/tokenizer.json"))
    auto = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "new"))
    assert len(auto) == theirs.get_vocab_size() == 522
    for seed in range(20):
        text = f"<|im_start|>uus {peers.generated_text(seed, 200)}<|im_end|><|user|>\u0338{reserved}"
        assert new.encode(text) == theirs.encode(text).ids == auto.encode(text)
    assert auto.decode(auto.encode("uus<|im_end|> uus<|im_start|>"), skip_special_tokens=True) == "uus uus"
    assert "extend" in bpe_pipeline.verify(tmp_path / "new")
    with pytest.raises(UsageError, match=r"--first-id 470 with 7 new ids would take the id 470"):
        bpe_pipeline.extend(old, counted, add=6, first_id=470, added_special_tokens=marks, output=tmp_path / "other")
    gap = bpe_pipeline.extend(old, counted, add=6, first_id=600, added_special_tokens=marks, output=tmp_path / "gap")
    assert (gap.special_tokens, gap.plan[0].id) == ({"<|im_start|>": 500, "<|im_end|>": 600}, 601)


@pytest.mark.filterwarnings("ignore:the tokenizer has .* fewer than were asked for")
def test_savings_are_those_of_each_number_of_new_tokens_and_one_is_chosen(
    base: Path, counted: Path, tmp_path: Path
) -> None:
    make = partial(bpe_pipeline.extend, base, counted)
    plan = planned(base, counted, 40)
    assert [one["new_tokens"] for one in plan["savings"]] == [1, 2, 5, 10, 20, 40]
    for one in plan["savings"]:
        done = make(add=one["new_tokens"], output=tmp_path / str(one["new_tokens"]))
        assert (done.after, done.before) == (one["tokens"], plan["tokens_before"])
        assert one["saved"] == 1 - one["tokens"] / plan["tokens_before"]
    rows = pq.read_table(tmp_path / "40/new-tokens.parquet")["tokens_after"].to_pylist()
    assert rows[9] == plan["savings"][3]["tokens"]
    everything = make(add=3000, output=tmp_path / "all")
    tokens = [everything.before, *pq.read_table(tmp_path / "all/new-tokens.parquet")["tokens_after"].to_pylist()]
    gains = [1 - tokens[min(2 * n, len(tokens) - 1)] / tokens[n] for n in range(1, len(tokens))]
    expected = max(n for n, gain in enumerate(gains, 1) if gain >= 0.02) + 1
    done = make(stop_at_saving="2%", output=tmp_path / "chosen")
    assert len(done.plan) == expected
    assert done.stopped.startswith(f"at {expected:,} tokens: doubling them would save less than 2.00%")
    assert done.tokenizer.merges == make(add=expected, output=tmp_path / "same").tokenizer.merges
    assert "extend" in bpe_pipeline.verify(tmp_path / "chosen")
    dry = succeeded(run("extend", base, counted, "--stop-at-saving", "2%", "--dry-run")).stdout
    assert f"{done.stopped}\n" in dry
    marked = [int(row.split()[0].replace(",", "")) for row in dry.partition("doubling\n")[2].splitlines()]
    assert marked[0] == 1
    assert all(2 * one <= other <= 2 * one + 1 for one, other in pairwise(marked))
    for missing in ([], ["--stop-at-saving", "200%"]):
        assert "--stop-at-saving" in refused(run("extend", base, counted, *missing, "--output", tmp_path / "none"), 2)


def test_savings_of_a_run_are_those_of_each_of_its_inputs(base: Path, tmp_path: Path) -> None:
    for name, text in {"a": "low lower lowest ", "b": "j\xf5ulud \xf5lu uusim "}.items():
        (tmp_path / f"{name}.txt").write_text(text * 70)
    paths = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    succeeded(run("count", *paths, "--like", base, "--output", tmp_path / "run"))
    plan = planned(base, tmp_path / "run", 10)
    assert list(plan["runs"]) == paths
    totals = [sum(of_input) for of_input in zip(*plan["runs"].values(), strict=True)]
    assert totals == [plan["tokens_before"], *(one["tokens"] for one in plan["savings"])]


def test_savings_of_a_combined_run_are_those_of_each_of_its_runs(base: Path, counted: Path, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("jõulud õlu uusim " * 70)
    succeeded(run("count", tmp_path / "b.txt", "--like", base, "--output", tmp_path / "b"))
    both = bpe_pipeline.combine([counted, tmp_path / "b"], ["1", "3"], output=tmp_path / "both")
    shown = succeeded(run("extend", base, both, "--add", 40, "--dry-run")).stdout
    assert re.search(r"^  new tokens +tokens +saved +by the last doubling +run +b$", shown, re.MULTILINE)
    plan = planned(base, both, 40)
    assert list(plan["runs"]) == ["run", "b"]
    text = (tmp_path / "b.txt").read_text()
    for at, count in enumerate([0, *(one["new_tokens"] for one in plan["savings"])]):
        done = bpe_pipeline.extend(base, both, add=count, output=tmp_path / str(count)) if count else None
        tokenizer = bpe_pipeline.load(base) if done is None else done.tokenizer
        assert plan["runs"]["b"][at] == len(tokenizer.encode(text))
        of_all = plan["tokens_before"] if done is None else done.after
        assert plan["runs"]["run"][at] + 3 * plan["runs"]["b"][at] == of_all
    (tmp_path / "b" / "run.json").unlink()
    assert list(planned(base, both, 40)["runs"]) == ["run"]
    shutil.rmtree(tmp_path / "b")
    done = succeeded(run("extend", base, both, "--add", 40, "--dry-run"))
    assert f"no savings of {tmp_path / 'b'}" in done.stderr


@pytest.fixture(scope="module")
def mixture(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Counts of a long text with a token for each word, and of a short one in a script that the base does not know."""
    home, chance = tmp_path_factory.mktemp("mixture"), random.Random(4)
    words = ["".join(chance.choices("აბგდევზთიკლმ", k=chance.randint(2, 6))) for _ in range(30)]
    known = [token.decode() for token in bpe_pipeline.load(base).vocab.values() if re.fullmatch(rb" [a-z]+", token)]
    for name, text in (
        ("en", "".join(chance.choices(known, k=40_000))),
        ("ka", " ".join(chance.choices(words, k=150))),
    ):
        (home / f"{name}.txt").write_text(text)
        succeeded(run("count", home / f"{name}.txt", "--like", base, "--output", home / name))
    return bpe_pipeline.combine([home / "en", home / "ka"], output=home / "mixture")


def tokens_by_number(made: Path, text: str, last: int = 1000) -> list[int]:
    """Return how many tokens the library tokenizers makes of a text with each of the last numbers of new ones."""
    document = json.loads((made / "tokenizer.json").read_text())
    merges, new = document["model"]["merges"], pq.read_table(made / "new-tokens.parquet").num_rows
    found = []
    for number in range(new + 1)[-last:]:
        document["model"]["merges"] = merges[: len(merges) - new + number]
        found.append(len(tokenizers.Tokenizer.from_str(json.dumps(document)).encode(text).ids))
    return found


@pytest.mark.filterwarnings("ignore:the tokenizer has .* fewer than were asked for")
def test_a_saving_is_that_of_the_language_that_needs_most(base: Path, mixture: Path, tmp_path: Path) -> None:
    everything, text = tmp_path / "all", mixture.with_name("ka.txt").read_text()
    bpe_pipeline.extend(base, mixture, add=3000, output=everything)
    tokens = tokens_by_number(everything, text)
    gains = [1 - tokens[min(2 * number, len(tokens) - 1)] / tokens[number] for number in range(1, len(tokens))]
    expected = max(number for number, gain in enumerate(gains, 1) if gain >= 0.1) + 1
    done = bpe_pipeline.extend(base, mixture, stop_at_saving="10%", output=tmp_path / "chosen")
    assert len(done.plan) == expected > 10
    assert done.stopped.startswith(f"at {expected} tokens, as ka needs; en: 1 token: no doubling saves 10.00%")
    assert f"; ka: {expected} tokens: doubling them would save less than 10.00%" in done.stopped
    assert "extend" in bpe_pipeline.verify(tmp_path / "chosen")
    dry = ("extend", base, mixture, "--stop-at-saving", "10%", "--dry-run")
    assert f"new tokens     {expected}\n" in succeeded(run(*dry)).stdout
    other = shutil.copytree(mixture.with_name("ka"), tmp_path / "ka")
    alone = bpe_pipeline.combine([mixture.with_name("en"), other], output=tmp_path / "mixture")
    shutil.rmtree(other)
    message = refused(run("extend", base, alone, "--stop-at-saving", "10%", "--output", tmp_path / "none"), 1)
    assert f"chooses by the tokens of each run that was combined: no savings of {other}" in message
    asked = {"stop_at_saving": "90%", "output": tmp_path / "none"}
    assert "at 1 token" in (found := bpe_pipeline.extend(base, mixture.with_name("ka"), **asked).stopped)
    assert "no doubling saves 90.00% of the tokens; the largest saving is" in found


@pytest.mark.filterwarnings("ignore:the tokenizer has .* fewer than were asked for")
def test_occurrences_of_the_last_merge_are_those_without_weights(base: Path, mixture: Path, tmp_path: Path) -> None:
    runs = [mixture.with_name("en"), mixture.with_name("ka")]
    weighted = bpe_pipeline.combine(runs, [2, 7], output=tmp_path / "weighted")
    for counts, ending in ((mixture, ""), (weighted, ", without weights")):
        made = tmp_path / f"{counts.name}-made"
        result = succeeded(run("extend", base, counts, "--add", 25, "--output", made))
        texts = [mixture.with_name(f"{name}.txt").read_text() for name in ("en", "ka")]
        before, after = map(sum, zip(*(tokens_by_number(made, text, 2) for text in texts), strict=True))
        assert f"last merge     occurred {before - after} times{ending}\n" in result.stdout


def test_pairs_that_occur_once_are_learned_from_imported_counts_only(base: Path, tmp_path: Path) -> None:
    (tmp_path / "once.txt").write_text("qzjxvkw")
    succeeded(run("count", tmp_path / "once.txt", "--like", base, "--output", tmp_path / "once"))
    words = ("extend", base, tmp_path / "once", "--add", 3, "--output", tmp_path / "made")
    assert "no two neighbouring tokens that may be joined occur 2 times" in refused(run(*words), 1)
    assert "new tokens     3" in succeeded(run(*words, "--min-frequency", 1)).stdout
    special = bpe_pipeline.load(base).special_tokens
    imported = bpe_pipeline.combine(
        {"qzjxvkw": 1}, pattern="llama3", special_tokens=[*special], output=tmp_path / "imported"
    )
    assert len(bpe_pipeline.extend(base, imported, add=3, output=tmp_path / "of-counts").plan) == 3


def test_verify_compares_each_file_with_what_was_written(extended: Path, pruned: Path, tmp_path: Path) -> None:
    added, fewer = (shutil.copytree(one, tmp_path / one.name) for one in (extended, pruned))
    assert {"extend", "prune"} <= {*bpe_pipeline.verify(added), *bpe_pipeline.verify(fewer)}
    facts = json.loads(run("info", added, "--json").stdout)
    assert (facts["made_by"], facts["options"]["add"]) == ("extend", 9)
    config = json.loads((added / "tokenizer_config.json").read_text())
    (added / "tokenizer_config.json").write_text(json.dumps(config | {"pad_token": "<|user|>"}))
    assert bpe_pipeline.verify(added)["edited"] == "with tokens that exist: tokenizer_config.json"
    (added / "tokenizer_config.json").write_text(json.dumps(config | {"eos_token_id": 9999}))
    with pytest.raises(InputError, match="eos_token_id names 9999, which is not one of the special tokens"):
        bpe_pipeline.verify(added)
    document = json.loads((added / "tokenizer.json").read_text())
    document["model"]["merges"][-1:] = []
    (added / "tokenizer.json").write_text(json.dumps(document))
    (added / "tokenizer_config.json").write_text(json.dumps(config))
    pq.write_table(pq.read_table(fewer / "removed.parquet").slice(1), fewer / "removed.parquet")
    for home, name in ((added, r"tokenizer\.json"), (fewer, r"removed\.parquet")):
        with pytest.raises(RunDirectoryError, match=f"{name} is not as it was written"):
            bpe_pipeline.verify(home)
    document = json.loads((fewer / "made-from.json").read_text())
    (fewer / "made-from.json").write_text(json.dumps(document | {"run": str(extended)}))
    with pytest.raises(RunDirectoryError, match="altered"):
        bpe_pipeline.verify(fewer)


@pytest.mark.filterwarnings("ignore:2 added tokens moved", "ignore:not copied from")
def test_report_says_what_changed_and_what_is_missing(
    base: Path, counted: Path, extended: Path, pruned: Path, tmp_path: Path
) -> None:
    text = (counted.parent / "other.txt").read_text()
    for home in (extended, pruned):
        old, new = bpe_pipeline.load(base), bpe_pipeline.load(home)
        facts = json.loads(succeeded(run("report", home, "--json")).stdout)
        totals = [len(one.encode(text)) - 1 for one in (old, new)]  # without the separator
        assert [facts["tokens_before"], facts["tokens_after"]] == totals
        assert (facts["vocabulary_before"], facts["vocabulary_after"]) == (500, len(new))
        assert (facts["added"], facts["removed"]) == (max(len(new) - 500, 0), max(500 - len(new), 0))
    own, old = shutil.copytree(counted, tmp_path / "run"), shutil.copytree(base, tmp_path / "old")
    bpe_pipeline.prune(old, own, keep=450, output=tmp_path / "new")
    assert "is no trained tokenizer: leave out --held-out" in refused(
        run("report", tmp_path / "new", "--held-out", base), 2
    )
    shutil.rmtree(own)
    assert f"{own}, which must be there as they were: " in refused(run("report", tmp_path / "new"), 1)
    bpe_pipeline.combine([counted], [2], output=own)
    message = refused(run("report", tmp_path / "new"), 1)
    assert f"{own} has other counts than {tmp_path / 'new'} was made from" in message
    shutil.copy(extended / "tokenizer.json", old)
    assert f"{old} is not the tokenizer that {tmp_path / 'new'} was made" in refused(run("report", tmp_path / "new"), 1)


def test_the_same_command_is_repeated_or_fails_whole(base: Path, counted: Path, extended: Path, tmp_path: Path) -> None:
    home = shutil.copytree(extended, tmp_path / "new")
    half, foreign = (home / f".{name}.elsewhere-1.partial" for name in ("new-tokens.parquet", "x"))
    for left in (half, foreign):  # by a process of another machine, which was killed; and what is not ours
        left.touch()
    assert len(bpe_pipeline.extend(base, counted, add=9, output=home).plan) == 9
    assert files_in(home) == files_in(extended) | {foreign.name: b""}
    failing = patch("bpe_pipeline.extensions.adapt.extend._write_extended", side_effect=KeyboardInterrupt)
    with failing, pytest.raises(KeyboardInterrupt):
        bpe_pipeline.extend(base, counted, add=9, output=home)
    assert files_in(home) == files_in(extended) | {foreign.name: b""}
    assert len(bpe_pipeline.extend(base, counted, add=8, output=home, overwrite=True).plan) == 8


def test_what_does_not_fit_is_refused_and_changes_nothing(
    base: Path, counted: Path, extended: Path, pruned: Path, tmp_path: Path
) -> None:
    document, normal = json.loads((base / "tokenizer.json").read_text()), tmp_path / "normal.json"
    normal.write_text(json.dumps(document | {"normalizer": {"type": "NFC"}}))
    space = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document | {"pre_tokenizer": space}))
    bpe_pipeline.load(extended).save(tmp_path / "other")
    gpt2 = bpe_pipeline.combine({"e": 5}, output=tmp_path / "gpt2")
    other, new = tmp_path / "special", tmp_path / "new"
    special = ("--pattern", "llama3", "--special-token", "<|other|>")
    succeeded(run("count", counted.parent / "other.txt", "--output", other, *special))
    double = bpe_pipeline.combine([counted], [2], output=tmp_path / "double")

    def extend(tokenizer: Path, run: object, output: Path = new, **options: Any) -> None:
        bpe_pipeline.extend(tokenizer, run, add=8, output=output, **options)

    prune = partial(bpe_pipeline.prune, base, counted, output=new)
    train = partial(bpe_pipeline.train, counted.parent / "other.txt", output=extended, vocab_size=260, overwrite=True)
    before, copy = files_in(extended), shutil.copytree(base, tmp_path / "copy")
    for error, message, refusal in (
        (UsageError, "puts a space in front of text", lambda: extend(tmp_path, counted)),
        (RunDirectoryError, "the text is 'as it is' there and 'in NFC' here", lambda: extend(normal, counted)),
        (RunDirectoryError, "belongs to the run", lambda: extend(base, counted, base, overwrite=True)),
        (UsageError, "is the base itself", lambda: extend(copy, counted, copy, overwrite=True)),
        (RunDirectoryError, "is .* there and .* here; count the corpus with --like", lambda: extend(base, gpt2)),
        (RunDirectoryError, r"'<\|other\|>', which the tokenizer takes as text", lambda: extend(base, other)),
        (RunDirectoryError, f"from other counts, those of {counted}; cho", lambda: extend(base, double, extended)),
        (RunDirectoryError, "--add 9, not 8; choose another --output", lambda: extend(base, counted, extended)),
        (RunDirectoryError, f"another tokenizer, {base}; cho", lambda: extend(tmp_path / "other", counted, extended)),
        (RunDirectoryError, r"a run \(run.json\); choose", lambda: extend(base, counted, counted, overwrite=True)),
        (RunDirectoryError, "by `extend`, not `prune`", lambda: prune(output=extended, keep=9)),
        (UsageError, "needs either --keep or --min-count", prune),
        (UsageError, "needs either", lambda: prune(keep=9, min_count=2)),
        (RunDirectoryError, "without --keep, not with 9; cho", lambda: prune(output=pruned, keep=9)),
        (RunDirectoryError, r"is an extended or pruned tokenizer \(made-from.json\)", train),
    ):
        with pytest.raises(error, match=message):
            refusal()
    counting = ("count", base, "--output", new, "--like")
    assert "puts a space in front of text" in refused(run(*counting, tmp_path), 2)
    for option, words in (("--pattern", ("--pattern", "gpt2")), ("--special-token", ("--no-special-tokens",))):
        message = refused(run(*counting, base, *words), 2)
        assert f"{option} is what --like takes from the tokenizer" in message
    assert not new.exists()
    assert files_in(extended) == before


def test_a_run_keeps_its_own_tokenizer(base: Path, counted: Path, tmp_path: Path) -> None:
    one = bpe_pipeline.combine([counted], output=tmp_path / "run")
    bpe_pipeline.merge(one, vocab_size=400)
    changing = ("extend", base, counted, "--add", 5), ("prune", base, counted, "--keep", 400)
    for command in (*changing, ("combine", counted), ("count", counted.parent / "other.txt")):
        reason = refused(run(*command, "--output", one / "tokenizer", "--overwrite"), 1)
        assert f"{one / 'tokenizer'} belongs to the run {one}" in reason
    bpe_pipeline.verify(one)


def test_a_vocabulary_of_its_own_takes_pattern_normal_form_and_marks(tmp_path: Path) -> None:
    theirs, _ = published.pair("qwen2", "spaces")
    theirs.save(str(tmp_path / "tokenizer.json"))
    config = {"eos_token": published.EOT, "pad_token": published.BOS}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "a.txt").write_text(f"e\u0301 the 12{published.EOT}lower 34" * 50)
    words = ["train", tmp_path / "a.txt", "--vocab-size", 270, "--quiet"]
    succeeded(run(*words, "--like", tmp_path, "--output", tmp_path / "like", "--eos-token", published.BOS))
    marks = [word for one in published.PLAIN for word in ("--special-token", one.content)]
    roles = ("--eos-token", published.BOS, "--pad-token", published.BOS)
    spelled = ("--pattern", "qwen2", "--normalize", "nfc", "--no-special-tokens", *marks, *roles)
    succeeded(run(*words, *spelled, "--output", tmp_path / "spelled"))
    made = [files_in(tmp_path / name / "tokenizer") for name in ("like", "spelled")]
    assert made[0] == made[1]
    assert "--special-token is what --like takes" in refused(run(*words, "--like", tmp_path, *marks), 2)
    plan = succeeded(run(*words, "--like", tmp_path, "--output", tmp_path / "new", "--dry-run")).stdout
    assert str(tmp_path / "new") in plan
