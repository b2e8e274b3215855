"""`count --like` and `extend`, from a corpus to a tokenizer that other libraries load."""

import itertools
import json
import shutil
from pathlib import Path

import peers
import pytest
from command import refused, run
from vocabulary_rules import recorded_cases, require_probes

import pipeline
from pipeline.base.errors import RunDirectoryError, TrainingError, UsageError
from pipeline.merges.vocabulary import text_to_token

tokenizers = pytest.importorskip("tokenizers")
OTHER = "uus uusim jõulud õlu " * 50


@pytest.fixture(scope="module")
def base(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("base") / "run"
    special = ["--special-token", "<|user|>"]
    assert run("train", text, "--output", output, "--vocab-size", 500, "--pattern", "llama3", *special).returncode == 0
    return output / "tokenizer"


@pytest.fixture(scope="module")
def counted(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("counted")
    (home / "other.txt").write_text(OTHER + "<|user|>" + peers.generated_text(7, 4000))
    result = run("count", home / "other.txt", "--like", base, "--output", home / "run")
    assert result.returncode == 0, result.stderr
    return home / "run"


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
    result = run("extend", base, counted, "--add", 40, "--output", tmp_path / "new")
    assert result.returncode == 0, result.stderr
    old, new = pipeline.load(base), pipeline.load(tmp_path / "new")
    assert new.vocab.items() >= old.vocab.items()
    assert [*new.vocab][-40:] == [*range(500, 540)]
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "new/tokenizer.json"))
    auto = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "new"))
    before = tokenizers.Tokenizer.from_file(str(base / "tokenizer.json"))
    fires = {*zip(new.vocabulary.left[-40:], new.vocabulary.right[-40:], strict=True)}
    changed = 0
    for seed in range(300):
        text = peers.generated_text(seed, 300) + ("<|user|> jõulud uus" if seed % 3 else "")
        ids = new.encode(text)
        assert ids == theirs.encode(text).ids
        assert seed > 20 or ids == auto(text)["input_ids"]
        pieces = theirs.pre_tokenizer.pre_tokenize_str(text) if "<|user|>" not in text else []
        for piece, _ in pieces:
            one = before.encode(bytes_of(piece)).ids
            if not fires & {*itertools.pairwise(one)}:
                assert theirs.encode(bytes_of(piece)).ids == one
            else:
                changed += 1
    assert changed


def bytes_of(piece: str) -> str:
    return text_to_token(piece).decode(errors="replace")


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
    tiktoken = pytest.importorskip("tiktoken")
    del tiktoken
    (tmp_path / "base").mkdir()
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / "base" / name).write_bytes((trained / "tokenizer" / name).read_bytes())
    counts = pipeline.import_counts({"Ġuus".replace("Ġ", " "): 5, "uusim": 3}, output=tmp_path / "run")
    done = pipeline.extend(tmp_path / "base", counts, add=4, output=tmp_path / "new")
    encoding = done.tokenizer.to_tiktoken()  # the special token's id is between old and new ones
    for seed in range(50):
        text = peers.generated_text(seed, 200) + " uusim"
        assert encoding.encode(text, disallowed_special=()) == done.tokenizer.encode_ordinary(text)


def test_verify_makes_it_again(base: Path, counted: Path, tmp_path: Path) -> None:
    pipeline.extend(base, counted, add=30, output=tmp_path / "new")
    found = pipeline.verify_run(tmp_path / "new")
    assert found["extend"].startswith("30 merges added")
    facts = json.loads(run("info", tmp_path / "new", "--log-json").stdout)
    assert (facts["made_by"], facts["options"]["add"]) == ("extend", 30)
    document = json.loads((tmp_path / "new/tokenizer.json").read_text())
    document["model"]["merges"][-1:] = []
    (tmp_path / "new/tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(RunDirectoryError, match=r"tokenizer\.json is not what the base and the counts give"):
        pipeline.verify_run(tmp_path / "new")


def test_a_run_that_was_cut_differently_is_refused_by_name_and_without_a_separator_warned_about(
    base: Path, text: Path, tmp_path: Path
) -> None:
    run("count", text, "--output", tmp_path / "gpt2", "--special-token", "<|user|>")
    with pytest.raises(RunDirectoryError, match=r"the pattern is .* there and .* here; count the corpus with --like"):
        pipeline.extend(base, tmp_path / "gpt2", add=1, output=tmp_path / "new")
    run("count", text, "--output", tmp_path / "s", "--pattern", "llama3", "--special-token", "<|other|>")
    with pytest.raises(RunDirectoryError, match=r"--special-token '<\|other\|>', which the tokenizer takes as text"):
        pipeline.extend(base, tmp_path / "s", add=1, output=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert run("count", text, "--output", tmp_path / "run", "--pattern", "llama3").returncode == 0
    result = run("extend", base, tmp_path / "run", "--add", 1, "--output", tmp_path / "new")
    assert "was counted without the special token '<|user|>'" in result.stderr
    assert result.returncode == 0


def test_the_same_command_is_repeated_and_another_one_refused(base: Path, counted: Path, tmp_path: Path) -> None:
    first = pipeline.extend(base, counted, add=9, output=tmp_path / "new")
    half, foreign = (tmp_path / "new" / f".{name}.elsewhere-1.partial" for name in ("new-tokens.parquet", "x"))
    for left in (half, foreign):  # by a process of another machine, which was killed; and what is not ours
        left.touch()
    assert pipeline.extend(base, counted, add=9, output=tmp_path / "new").plan == first.plan
    assert not half.exists()
    assert foreign.exists()
    with pytest.raises(RunDirectoryError, match="--add 9, not 8; choose another --output"):
        pipeline.extend(base, counted, add=8, output=tmp_path / "new")
    assert len(pipeline.extend(base, counted, add=8, output=tmp_path / "new", overwrite=True).plan) == 8
    with pytest.raises(RunDirectoryError, match="made by `extend`, not `prune`"):
        pipeline.prune(base, counted, keep=300, output=tmp_path / "new")
    pipeline.Tokenizer.load(tmp_path / "new").save(tmp_path / "other")
    with pytest.raises(RunDirectoryError, match=f"from another tokenizer, {base}; choose another --output"):
        pipeline.extend(tmp_path / "other", counted, add=8, output=tmp_path / "new")
    pipeline.prune(base, counted, keep=300, keep_ids=True, output=tmp_path / "pruned")
    with pytest.raises(RunDirectoryError, match="was done with --keep 300, not without it; choose another"):
        pipeline.prune(base, counted, min_count=3, keep_ids=True, output=tmp_path / "pruned")
    with pytest.raises(UsageError, match="is the base itself"):
        pipeline.extend(base, counted, add=8, output=base, overwrite=True)


def test_runs_and_extended_tokenizers_do_not_share_a_directory(base: Path, counted: Path, tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"is a run \(run.json\); choose another --output"):
        pipeline.extend(base, counted, add=8, output=counted, overwrite=True)
    pipeline.extend(base, counted, add=8, output=tmp_path / "new")
    (tmp_path / "a.txt").write_text("a text")
    with pytest.raises(RunDirectoryError, match=r"is an extended or pruned tokenizer \(made-from.json\)"):
        pipeline.train(tmp_path / "a.txt", output=tmp_path / "new", vocab_size=260, overwrite=True)


def test_a_repeated_command_that_fails_leaves_what_there_was(
    base: Path, counted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.extend(base, counted, add=9, output=tmp_path / "new")
    before = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir() if path.is_file()}

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeline.commands.extend.make_extended", stopped)
    with pytest.raises(KeyboardInterrupt):
        pipeline.extend(base, counted, add=9, output=tmp_path / "new")
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir() if path.is_file()} == before


def test_a_run_keeps_its_own_tokenizer(base: Path, counted: Path, tmp_path: Path) -> None:
    one = tmp_path / "run"
    assert run("combine", counted, "--output", one, "--quiet").returncode == 0
    assert run("merge", one, "--vocab-size", 400, "--quiet").returncode == 0
    for command in (("extend", base, counted, "--add", 5), ("prune", base, counted, "--keep", 400)):
        reason = refused(run(*command, "--output", one / "tokenizer", "--overwrite"), 2)
        assert f"--output {one / 'tokenizer'} belongs to the run {one}" in reason
    assert run("verify", one).returncode == 0


def test_no_new_token_is_a_copy(base: Path, counted: Path, tmp_path: Path) -> None:
    result = run("extend", base, counted, "--add", 0, "--output", tmp_path / "new")
    totals = [line.split()[-1] for line in result.stdout.splitlines() if line.startswith("tokens ")]
    assert (len(totals), len(set(totals))) == (2, 1)
    assert totals[0] != "0"
    assert (tmp_path / "new" / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()


def test_a_failure_leaves_nothing(base: Path, tmp_path: Path) -> None:
    counts = pipeline.import_counts(
        {"e": 5}, output=tmp_path / "run", pattern="llama3", special_tokens=["<|endoftext|>", "<|user|>"]
    )
    with pytest.raises(TrainingError, match="nothing to learn"):
        pipeline.extend(base, counts, add=8, output=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_tokenizer_that_normalizes_and_options_beside_like_are_refused(
    base: Path, counted: Path, tmp_path: Path
) -> None:
    document = json.loads((base / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(document | {"normalizer": {"type": "NFC"}}))
    with pytest.raises(UsageError, match="puts text into NFC"):
        pipeline.extend(tmp_path, counted, add=8, output=tmp_path / "new")
    counting = ("count", base, "--output", tmp_path / "run", "--like")
    assert "puts text into NFC" in refused(run(*counting, tmp_path), 2)
    message = refused(run(*counting, base, "--pattern", "gpt2"), 2)
    assert "--pattern is what --like takes from the tokenizer" in message


def test_pieces_and_merges_are_stages_of_their_own(base: Path, counted: Path, tmp_path: Path) -> None:
    result = run("extend", base, counted, "--add", 20, "--output", tmp_path / "new", "--log-json")
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    stages = [(event["event"], event["stage"]) for event in events if "stage" in event]
    assert [stage for stage in stages if stage[0] != "advanced"] == [
        (event, stage) for stage in ("encoding pieces", "merging") for event in ("stage_started", "stage_ended")
    ]
    done = sum(
        event["amount"] for event in events if (event.get("stage"), event["event"]) == ("encoding pieces", "advanced")
    )
    assert done == next(event["total"] for event in events if event["event"] == "stage_started")
