"""`prune`, from a corpus to a tokenizer that other libraries load."""

import json
import shutil
from pathlib import Path
from typing import Any

import peers
import pyarrow.parquet as pq
import pytest
from command import refused, run, succeeded
from vocabulary_rules import recorded_cases, require_probes

import pipeline
from pipeline.base.errors import ExportRefusedError, RunDirectoryError, UsageError
from pipeline.merges.vocabulary import text_to_token

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def counted(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("counted")
    (home / "own.txt").write_text(peers.generated_text(1, 2000))
    succeeded(run("count", home / "own.txt", "--like", trained, "--output", home / "run"))
    return home / "run"


@pytest.mark.filterwarnings("ignore")  # of pieces that the pattern would cut, of ids that move
def test_recorded_cases(tmp_path: Path) -> None:
    for case, base, counts in recorded_cases("prune", tmp_path):
        options = {"min_count": case["min_count"], "protect": case["protect"], "output": base.parent / "pruned"}
        if not case["reached"]:
            with pytest.raises(UsageError, match=f"{case['size']} tokens are bytes, added or protected"):
                pipeline.prune(base, counts, keep=case["keep"], **options)
            assert not (base.parent / "pruned").exists()
            case["keep"] = case["size"]
        done = pipeline.prune(base, counts, keep=case["keep"], **options)
        removed = [(text_to_token(one["token"]), one["id"], one["score"]) for one in case["removed"]]
        assert [(one.token, one.old_id, one.score) for one in done.removed] == removed, base
        assert done.tokenizer.merges == [(text_to_token(left), text_to_token(right)) for left, right in case["merges"]]
        assert len(done.tokenizer) == case["size"]
        assert [[old, new] for new, old in done.id_map.items() if new != old] == case["moved"]
        require_probes(case, base, done.tokenizer)


@pytest.mark.parametrize("keep_ids", [False, True])
def test_kept_tokens_encode_as_before_in_other_libraries(
    keep_ids: bool, trained: Path, counted: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("tiktoken")
    flag = ["--keep-ids"] if keep_ids else []
    result = succeeded(run("prune", trained, counted, "--keep", 450, "--output", tmp_path / "new", *flag))
    assert ("1 added token moved to other ids" in result.stderr) != keep_ids
    rows = pq.read_table(tmp_path / "new/id-map.parquet").to_pylist()
    new_of = {row["old_id"]: row["new_id"] for row in rows}
    assert len(rows) == 450
    assert [*new_of] == [*new_of.values()] if keep_ids else [*new_of.values()] == [*range(450)]
    before = tokenizers.Tokenizer.from_file(str(trained / "tokenizer/tokenizer.json"))
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "new/tokenizer.json"))
    auto = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "new"))
    new = pipeline.load(tmp_path / "new")
    encoding, kept = new.to_tiktoken(), 0
    for seed in range(300):
        text = peers.generated_text(seed, 60)
        ids = new.encode(text + "<|endoftext|>")
        assert ids == theirs.encode(text + "<|endoftext|>").ids
        assert seed > 20 or ids == auto(text + "<|endoftext|>")["input_ids"]
        assert seed > 50 or ids[:-1] == encoding.encode(text)
        for word in text.split(" "):
            old = before.encode(word).ids
            if new_of.keys() >= {*old}:
                kept += 1
                assert theirs.encode(word).ids == [new_of[id_] for id_ in old]
    assert kept > 100


@pytest.mark.filterwarnings("ignore:1 added token moved")
def test_ids_in_the_other_files_move_too(trained: Path, counted: Path, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    document = json.loads((trained / "tokenizer/tokenizer.json").read_text())
    end = {"id": "<|endoftext|>", "ids": [599], "tokens": ["<|endoftext|>"]}
    template = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}]
    steps = [{"type": "TemplateProcessing", "single": template, "pair": template, "special_tokens": {end["id"]: end}}]
    document["post_processor"] = {"type": "Sequence", "processors": steps}
    (tmp_path / "base/tokenizer.json").write_text(json.dumps(document))
    config = {"eos_token": "<|endoftext|>", "added_tokens_decoder": {"599": {"content": "<|endoftext|>"}}}
    (tmp_path / "base/tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "base/generation_config.json").write_text(json.dumps({"eos_token_id": [599], "pad_token_id": 599}))
    pipeline.prune(tmp_path / "base", counted, keep=400, output=tmp_path / "new")
    found = json.loads((tmp_path / "new/tokenizer.json").read_text())
    assert found["added_tokens"][0]["id"] == 399
    assert found["post_processor"]["processors"][0]["special_tokens"]["<|endoftext|>"]["ids"] == [399]
    assert [*json.loads((tmp_path / "new/tokenizer_config.json").read_text())["added_tokens_decoder"]] == ["399"]
    generation = json.loads((tmp_path / "new/generation_config.json").read_text())
    assert generation == {"eos_token_id": [399], "pad_token_id": 399}
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "new/tokenizer.json")).encode("a").ids[-1] == 399


@pytest.mark.parametrize(
    ("name", "change", "id_"),
    [
        ("tokenizer_config.json", {"added_tokens_decoder": {"9999": {"content": "<x>"}}}, "'9999'"),
        ("tokenizer_config.json", {"eos_token_id": [598]}, "598"),
    ],
)
def test_a_file_that_names_a_token_that_goes_is_refused(
    name: str, change: dict[str, Any], id_: str, trained: Path, counted: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained / "tokenizer", tmp_path / "base")
    document = json.loads((tmp_path / "base" / name).read_text())
    (tmp_path / "base" / name).write_text(json.dumps(document | change))
    with pytest.raises(ExportRefusedError, match=rf"{name} names the token id {id_}, which no token has that stays"):
        pipeline.prune(tmp_path / "base", counted, keep=400, output=tmp_path / "new", workers=1)


def test_verify_makes_it_again(trained: Path, counted: Path, tmp_path: Path) -> None:
    (tmp_path / "protected.txt").write_text("Ġthe\ne\n")
    home, limits = tmp_path / "new", ["--min-count", 3, "--protect", tmp_path / "protected.txt"]
    succeeded(run("prune", trained, counted, *limits, "--output", home))
    assert " removed, each the right one" in run("verify", home).stdout
    pq.write_table(pq.read_table(home / "removed.parquet").slice(1), home / "removed.parquet")
    with pytest.raises(RunDirectoryError, match=r"removed\.parquet is not what the base and the counts give"):
        pipeline.verify_run(home)
    other = pipeline.import_counts({"a": 1}, output=tmp_path / "other")
    document = json.loads((home / "made-from.json").read_text())
    (home / "made-from.json").write_text(json.dumps(document | {"run": str(other)}))
    with pytest.raises(RunDirectoryError, match="altered"):
        pipeline.verify_run(home)


@pytest.mark.filterwarnings("ignore:1 added token moved")
def test_report_says_what_changed_and_what_is_missing(trained: Path, counted: Path, text: Path, tmp_path: Path) -> None:
    shutil.copytree(counted, tmp_path / "run")
    made = {
        "extend": pipeline.extend(trained / "tokenizer", tmp_path / "run", add=7, output=tmp_path / "extend"),
        "prune": pipeline.prune(trained, tmp_path / "run", keep=450, output=tmp_path / "prune"),
    }
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "prune/tokenizer.json"))
    assert made["prune"].after == len(theirs.encode(peers.generated_text(1, 2000)).ids)
    for name, changed in made.items():
        facts = json.loads(succeeded(run("report", tmp_path / name, "--log-json")).stdout)
        assert (facts["tokens_before"], facts["tokens_after"]) == (changed.before, changed.after)
        assert (facts["vocabulary_before"], facts["vocabulary_after"]) == (600, len(changed.tokenizer))
        assert (facts["added"], facts["removed"]) == ((7, 0) if name == "extend" else (0, 150))
    assert "is only printed: leave out --held-out" in refused(run("report", tmp_path / "prune", "--held-out", text), 2)
    shutil.rmtree(tmp_path / "run")
    missing = refused(run("report", tmp_path / "prune"), 1)
    assert f"{tmp_path / 'run'}, which must be there as they were: " in missing
