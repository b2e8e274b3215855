"""`count --like` and `extend`, from a corpus to a tokenizer that other libraries load."""

import json
import shutil
from pathlib import Path
from typing import Any

import peers
import pytest
from command import files_in, refused, run, succeeded
from vocabulary_rules import recorded_cases, require_probes

import pipeline
from pipeline.base.errors import RunDirectoryError, TrainingError, UsageError
from pipeline.merges.vocabulary import text_to_token

tokenizers = pytest.importorskip("tokenizers")
OTHER = "uus uusim jõulud õlu " * 50


@pytest.fixture(scope="module")
def base(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("base") / "run"
    options = ["--vocab-size", 500, "--pattern", "llama3", "--special-token", "<|user|>"]
    succeeded(run("train", text, "--output", output, *options))
    return output / "tokenizer"


@pytest.fixture(scope="module")
def counted(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("counted")
    (home / "other.txt").write_text(OTHER + "<|user|>" + peers.generated_text(7, 4000))
    succeeded(run("count", home / "other.txt", "--like", base, "--output", home / "run"))
    return home / "run"


@pytest.fixture(scope="module")
def extended(base: Path, counted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base with nine new tokens, not to be changed."""
    output = tmp_path_factory.mktemp("extended") / "new"
    pipeline.extend(base, counted, add=9, output=output)
    return output


@pytest.mark.filterwarnings("ignore")  # of pieces that the pattern would cut, of ids that move
def test_recorded_cases(tmp_path: Path) -> None:
    for case, base, counts in recorded_cases("extend", tmp_path):
        options = {"add": case["add"], "min_frequency": case["min_frequency"], "output": base.parent / "extended"}
        done = pipeline.extend(base, counts, **options)
        merges = [(text_to_token(left), text_to_token(right)) for left, right, _ in case["merges"]]
        assert done.tokenizer.merges == [*pipeline.load(base).merges, *merges], base
        assert {one.token: one.id for one in done.plan} == {text_to_token(t): i for t, i in case["new_ids"].items()}
        assert [{"id": one.id, "old_ids": list(one.old_ids)} for one in done.plan] == case["plan"]
        assert list(done.made_again) == case["revived"]
        assert {one.token: one.count for one in done.plan}.items() <= {
            (left + right, count) for (left, right), (_, _, count) in zip(merges, case["merges"], strict=True)
        }
        require_probes(case, base, done.tokenizer)


def test_old_ids_stay_and_tokenizers_and_transformers_agree(base: Path, counted: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    succeeded(run("extend", base, counted, "--add", 40, "--output", tmp_path / "new"))
    old, new = pipeline.load(base), pipeline.load(tmp_path / "new")
    assert new.vocab.items() >= old.vocab.items()
    assert [*new.vocab][-40:] == [*range(500, 540)]
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "new/tokenizer.json"))
    auto = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "new"))
    for seed in range(300):
        text = peers.generated_text(seed, 300) + ("<|user|> jõulud uus" if seed % 3 else "")
        ids = new.encode(text)
        assert ids == theirs.encode(text).ids
        assert seed > 20 or ids == auto(text)["input_ids"]


def test_all_else_in_the_files_stays(base: Path, counted: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "base")
    document = json.loads((base / "tokenizer.json").read_text())
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]  # as older files have them
    document["model"]["ignore_merges"] = True
    document["model"]["vocab"].pop("<|user|>")  # as in published files
    flags = {"add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    document["post_processor"] = {"type": "ByteLevel", **flags}
    (tmp_path / "base/tokenizer.json").write_text(json.dumps(document))
    (tmp_path / "base/chat_template.jinja").write_text("{{ messages }}")
    pipeline.extend(tmp_path / "base", counted, add=5, output=tmp_path / "new")
    found = json.loads((tmp_path / "new/tokenizer.json").read_text())
    listed, merges = found["model"].pop("vocab"), found["model"].pop("merges")
    before, old = document["model"].pop("vocab"), document["model"].pop("merges")
    assert found == document
    assert merges[: len(old)] == old
    assert [type(one) for one in merges[len(old) :]] == [str] * 5
    assert list(listed)[: len(before)] == list(before)
    assert listed["<|user|>"] == 499  # without it, tokenizers would number it after the new tokens
    for name in ("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"):
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "base" / name).read_bytes()
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "new/tokenizer.json"))
    assert theirs.encode("uus<|user|>").ids == pipeline.load(tmp_path / "new").encode("uus<|user|>")


def test_gpt2_files_are_extended_too_and_tiktoken_agrees(trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    (tmp_path / "base").mkdir()
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / "base" / name).write_bytes((trained / "tokenizer" / name).read_bytes())
    counts = pipeline.import_counts({" uus": 5, "uusim": 3}, output=tmp_path / "run")
    done = pipeline.extend(tmp_path / "base", counts, add=4, output=tmp_path / "new")
    encoding = done.tokenizer.to_tiktoken()  # the special token's id is between old and new ones
    for seed in range(50):
        text = peers.generated_text(seed, 200) + " uusim"
        assert encoding.encode(text, disallowed_special=()) == done.tokenizer.encode_ordinary(text)


def test_verify_makes_it_again(extended: Path, tmp_path: Path) -> None:
    home = shutil.copytree(extended, tmp_path / "new")
    assert pipeline.verify_run(home)["extend"].startswith("9 merges added")
    facts = json.loads(run("info", home, "--log-json").stdout)
    assert (facts["made_by"], facts["options"]["add"]) == ("extend", 9)
    document = json.loads((home / "tokenizer.json").read_text())
    document["model"]["merges"][-1:] = []
    (home / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(RunDirectoryError, match=r"tokenizer\.json is not what the base and the counts give"):
        pipeline.verify_run(home)


def test_counts_without_a_separator_are_warned_about(base: Path, text: Path, tmp_path: Path) -> None:
    succeeded(run("count", text, "--output", tmp_path / "run", "--pattern", "llama3"))
    result = succeeded(run("extend", base, tmp_path / "run", "--add", 1, "--output", tmp_path / "new"))
    assert "was counted without the special token '<|user|>'" in result.stderr


def test_the_same_command_is_repeated(base: Path, counted: Path, extended: Path, tmp_path: Path) -> None:
    home = shutil.copytree(extended, tmp_path / "new")
    half, foreign = (home / f".{name}.elsewhere-1.partial" for name in ("new-tokens.parquet", "x"))
    for left in (half, foreign):  # by a process of another machine, which was killed; and what is not ours
        left.touch()
    again = pipeline.extend(base, counted, add=9, output=home)
    assert len(again.plan) == 9
    assert files_in(home) == files_in(extended) | {foreign.name: b""}
    assert len(pipeline.extend(base, counted, add=8, output=home, overwrite=True).plan) == 8


def test_what_does_not_fit_is_refused_and_changes_nothing(
    base: Path, counted: Path, extended: Path, tmp_path: Path
) -> None:
    document = json.loads((base / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(document | {"normalizer": {"type": "NFC"}}))
    (tmp_path / "a.txt").write_text("a text")
    pipeline.load(extended).save(tmp_path / "other")
    pipeline.prune(base, counted, keep=300, keep_ids=True, output=tmp_path / "pruned")

    def counts(name: str, pattern: str) -> str:
        options = {"pattern": pattern, "special_tokens": ["<|endoftext|>", "<|user|>"]}
        return str(pipeline.import_counts({"e": 5}, output=tmp_path / name, **options))

    new = tmp_path / "new"

    def extend(tokenizer: Path, run: object, output: Path = new, **options: Any) -> None:
        pipeline.extend(tokenizer, run, add=8, output=output, **options)

    spent, gpt2, other = counts("spent", "llama3"), counts("gpt2", "gpt2"), tmp_path / "special"
    succeeded(
        run("count", tmp_path / "a.txt", "--output", other, "--pattern", "llama3", "--special-token", "<|other|>")
    )
    before = files_in(extended)
    pruned = {"output": tmp_path / "pruned", "min_count": 3, "keep_ids": True}
    for error, message, refusal in (
        (TrainingError, "nothing to learn", lambda: extend(base, spent)),
        (UsageError, "puts text into NFC", lambda: extend(tmp_path, counted)),
        (UsageError, "is the base itself", lambda: extend(base, counted, base, overwrite=True)),
        (RunDirectoryError, "is .* there and .* here; count the corpus with --like", lambda: extend(base, gpt2)),
        (RunDirectoryError, r"'<\|other\|>', which the tokenizer takes as text", lambda: extend(base, other)),
        (RunDirectoryError, "--add 9, not 8; choose another --output", lambda: extend(base, counted, extended)),
        (RunDirectoryError, f"another tokenizer, {base}; cho", lambda: extend(tmp_path / "other", counted, extended)),
        (RunDirectoryError, r"a run \(run.json\); choose", lambda: extend(base, counted, counted, overwrite=True)),
        (RunDirectoryError, "by `extend`, not `prune`", lambda: pipeline.prune(base, counted, keep=9, output=extended)),
        (UsageError, "needs either --keep or --min-count", lambda: pipeline.prune(base, counted, output=new)),
        (UsageError, "needs either", lambda: pipeline.prune(base, counted, keep=9, min_count=2, output=new)),
        (RunDirectoryError, "--keep 300, not without it; cho", lambda: pipeline.prune(base, counted, **pruned)),
        (
            RunDirectoryError,
            r"is an extended or pruned tokenizer \(made-from.json\)",
            lambda: pipeline.train(tmp_path / "a.txt", output=extended, vocab_size=260, overwrite=True),
        ),
    ):
        with pytest.raises(error, match=message):
            refusal()
    counting = ("count", base, "--output", tmp_path / "new", "--like")
    assert "puts text into NFC" in refused(run(*counting, tmp_path), 2)
    message = refused(run(*counting, base, "--pattern", "gpt2"), 2)
    assert "--pattern is what --like takes from the tokenizer" in message
    assert not new.exists()
    assert files_in(extended) == before


def test_a_repeated_command_that_fails_leaves_what_there_was(
    base: Path, counted: Path, extended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = shutil.copytree(extended, tmp_path / "new")

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeline.guests.adapt.extend.make_extended", stopped)
    with pytest.raises(KeyboardInterrupt):
        pipeline.extend(base, counted, add=9, output=home)
    assert files_in(home) == files_in(extended)


def test_a_run_keeps_its_own_tokenizer(base: Path, counted: Path, tmp_path: Path) -> None:
    one = pipeline.combine_runs([counted], output=tmp_path / "run")
    pipeline.merge_run(one, vocab_size=400)
    for command in (("extend", base, counted, "--add", 5), ("prune", base, counted, "--keep", 400)):
        reason = refused(run(*command, "--output", one / "tokenizer", "--overwrite"), 2)
        assert f"--output {one / 'tokenizer'} belongs to the run {one}" in reason
    pipeline.verify_run(one)


def test_no_new_token_is_a_copy(base: Path, counted: Path, tmp_path: Path) -> None:
    result = run("extend", base, counted, "--add", 0, "--output", tmp_path / "new")
    totals = [line.split()[-1] for line in result.stdout.splitlines() if line.startswith("tokens ")]
    assert totals == [totals[0]] * 2 != ["0"] * 2
    assert (tmp_path / "new" / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()


def test_pieces_and_merges_are_stages_of_their_own(base: Path, counted: Path, tmp_path: Path) -> None:
    result = succeeded(run("extend", base, counted, "--add", 20, "--output", tmp_path / "new", "--log-json"))
    events = [json.loads(line) for line in result.stdout.splitlines()]
    stages = [(event["event"], event["stage"]) for event in events if "stage" in event]
    assert [stage for stage in stages if stage[0] != "advanced"] == [
        (event, stage) for stage in ("encoding pieces", "merging") for event in ("stage_started", "stage_ended")
    ]
    advances = [event for event in events if (event.get("stage"), event["event"]) == ("encoding pieces", "advanced")]
    total = next(event["total"] for event in events if event["event"] == "stage_started")
    assert sum(event["amount"] for event in advances) == total
