"""The report of a run: what is written, and when."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import object_store
import pytest
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline.reports import drawing
from bpe_pipeline.reports.html import html_of, templates
from bpe_pipeline.reports.numbers import SENTENCES
from bpe_pipeline.reports.parts import Items, Rows, Table
from bpe_pipeline.reports.tables import size_figures


@pytest.fixture
def copied(reported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(reported, tmp_path / "run"))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("the low lower " * 50)
    return tmp_path / "a.txt"


def numbers_of(directory: Path, name: str = "report.json") -> Any:
    return json.loads((directory / name).read_text())["numbers"]


KEYS = {
    "": "tokenizers vocabulary scripts merged sample references sentences ginis machine",
    "vocabulary": "tokens bytes special_tokens groups",
    "merged": "merges bytes curve marked rare_merges",
    "sample": "held_out description bytes texts tokenizers parallel curve losses rewritten",
}


def test_report_json_has_the_documented_keys_and_numbers_that_agree(reported: Path) -> None:
    document, numbers = json.loads((reported / "report.json").read_text()), numbers_of(reported)
    for name, keys in KEYS.items():
        assert set(numbers[name] if name else numbers) == set(keys.split())
    page = (Path(__file__).parents[2] / "docs" / "pages" / "how-to" / "report.md").read_text()
    assert [key for keys in KEYS.values() for key in keys.split() if f"`{key}`" not in page] == []
    special = [tuple(one[key] for key in ("text", "id", "roles")) for one in numbers["vocabulary"]["special_tokens"]]
    assert special == [("<|endoftext|>", 348, "eos, separator"), ("</script><script>alert(1)</script>", 349, "")]
    [last] = [size for size in numbers["merged"]["marked"] if size["vocab_size"] == 350]
    assert last["bytes_per_token"] == pytest.approx(document["bytes_per_token"])
    assert last["tokens"] == document["vocabulary"]["tokens"]
    assert {*document["stage_peak_bytes"]} == {*document["stages"]}
    assert max(document["stage_peak_bytes"].values()) <= document["peak_memory_bytes"]


def test_numbers_match_the_tokenizer(reported: Path) -> None:
    numbers = numbers_of(reported)
    tokenizer = bpe_pipeline.Tokenizer.load(reported / "tokenizer")
    assert numbers["tokenizers"] == [["this tokenizer", 350]]
    assert numbers["vocabulary"]["tokens"] == len(tokenizer.vocabulary.tokens)
    assert numbers["vocabulary"]["groups"]["unreachable"]["count"] == 0
    assert numbers["sample"]["held_out"] is False
    assert {one["language"]: one["counts"][0] for one in numbers["sentences"]} == {
        language: len(tokenizer.encode_ordinary(text)) for language, text in SENTENCES.items()
    }
    assert {len(one["counts"]) for one in numbers["sentences"]} == {len(numbers["ginis"])}
    assert len(numbers["ginis"]) == 1 + len(numbers["references"])


def test_report_with_held_out_text_and_other_tokenizers(copied: Path, tmp_path: Path) -> None:
    unseen = tmp_path / "unseen.txt"
    unseen.write_text("lower lowest unseen words\n" * 50)
    other = bpe_pipeline.train([unseen], output=tmp_path / "other", vocab_size=270)
    before = json.loads((copied / "report.json").read_text())
    arguments = ["--held-out", unseen, "--compare", tmp_path / "other", copied]
    assert str(copied / "report.txt") in succeeded(run("report", copied, *arguments)).stdout
    after = json.loads((copied / "report.json").read_text())
    numbers = after["numbers"]
    assert [after[name] for name in ("pattern", "corpus", "vocabulary", "refused")] == [
        before[name] for name in ("pattern", "corpus", "vocabulary", "refused")
    ]
    assert numbers["tokenizers"] == [["this tokenizer", 350], ["other", 270], ["run", 350]]
    text = (copied / "report.txt").read_text()
    assert numbers["sample"]["held_out"] is True
    measured = [one["whole"] for one in numbers["sample"]["tokenizers"]]
    assert [one["bytes"] for one in measured] == [unseen.stat().st_size] * 3
    assert measured[1]["tokens"] == len(other.encode(unseen.read_text()))
    assert "held out: not in the run's list of files" in text
    figures = json.loads((copied / "report.html").read_text().rpartition('id="figures">')[2].partition("</script>")[0])
    lines, points = figures["figures"]["size-curve"]["layer"]
    training, held_out = ("this tokenizer, training corpus", "this tokenizer, held-out text")
    assert {one["series"] for one in lines["data"]["values"]} == {training, held_out}
    sizes = [size for _, size in numbers["tokenizers"]]
    rates = [round(one["numbers"]["bytes_per_token"], 4) for one in measured]
    drawn = {(one["series"], one["x"], one["y"]) for one in points["data"]["values"]}
    names = [held_out, "other, held-out text", "run, held-out text"]
    assert set(zip(names, sizes, rates, strict=True)) <= drawn
    succeeded(run("report", copied, "--output", tmp_path / "page.html"))
    assert numbers_of(tmp_path, "page.json")["sample"]["held_out"] is False
    assert json.loads((copied / "report.json").read_text()) == after


def test_the_tokenizer_has_the_name_that_it_is_given(copied: Path, tmp_path: Path) -> None:
    made = bpe_pipeline.report(copied, name="ours", output=tmp_path / "page.html")
    assert numbers_of(tmp_path, "page.json")["tokenizers"] == [["ours", 350]]
    assert size_figures(made.numbers)[0].series[0].name == "ours, training corpus"
    assert "a label twice" in refused(run("report", copied, "--name", "ours", "--compare", f"ours={copied}"), 2)


@pytest.mark.slow
def test_parallel_files_labels_and_figures_as_files(copied: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    texts = {"sw": "lower lower привет\n" * 9, "en": "the low lower\n" * 9, "zh": "東京 low\n" * 9}
    for name, text in texts.items():
        (tmp_path / f"dev.{name}").write_text(text)
    parallel, figures = [f"{name}={tmp_path}/dev.{name}" for name in texts], tmp_path / "figures"
    words = ["--held-out", *parallel, "--compare", f"a $label$={copied}", "--figures", figures]
    succeeded(run("report", copied, *words))
    sample, tokenizer = numbers_of(copied)["sample"], bpe_pipeline.load(copied)
    assert sample["parallel"] == list(texts)
    tokens = {name: sum(map(len, map(tokenizer.encode_ordinary, text.splitlines()))) for name, text in texts.items()}
    assert sample["tokenizers"][0]["costs"] == {name: count / 9 for name, count in tokens.items()}
    rows = list(csv.reader((figures / "languages.csv").read_text().splitlines()))
    assert rows[0] == ["series", "tokens relative to en", "y"]
    found = {(name, language): float(ratio) for name, ratio, language in rows[1:]}
    ratios = {name: pytest.approx(count / tokens["en"], abs=1e-4) for name, count in tokens.items()}
    assert found == {(name, one): ratio for name in ("this tokenizer", "a $label$") for one, ratio in ratios.items()}
    assert " times the tokens of en for the same held-out text" in (copied / "report.txt").read_text()
    drawn = {path.name: path.read_bytes() for path in figures.iterdir()}
    for name in ("size-curve", "languages"):
        assert b"a $label$" in drawn[f"{name}.svg"]
        assert drawn[f"{name}.pdf"].startswith(b"%PDF")
    assert "is not empty" in refused(run("report", copied, *words), 1)
    succeeded(run("report", copied, *words, "--overwrite"))
    assert {path.name: path.read_bytes() for path in figures.iterdir()} == drawn
    shown = bpe_pipeline.report(copied, held_out=parallel)._repr_html_()
    assert "<h3>Verdict</h3>" in shown
    assert shown.count("data:image/svg+xml") == 2
    assert "a label twice" in refused(run("report", copied, "--compare", f"x={copied}", f"x={copied}"), 2)


def test_languages_without_the_same_text_cost_tokens_a_character(copied: Path, tmp_path: Path) -> None:
    texts = {"sw": "lower lower привет\n" * 9, "en": "the low lower\n" * 8}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    sample = bpe_pipeline.report(copied, held_out=[f"{name}={tmp_path / name}" for name in texts]).numbers.sample
    assert sample.parallel == ()
    assert "Their lines differ (sw 9, en 8), so they are not compared as translations." in sample.description
    encode, measured = bpe_pipeline.load(copied).encode_ordinary, sample.tokenizers[0]
    lines = {name: text.splitlines()[0] for name, text in texts.items()}
    assert measured.costs == pytest.approx({name: len(encode(line)) / len(line) for name, line in lines.items()})
    assert measured.languages["worst"] == pytest.approx(max(measured.costs.values()) / measured.costs["en"])
    (tmp_path / "empty").write_text("\n\n")
    named = [f"{name}={tmp_path / name}" for name in ("en", "empty")]
    [measured] = bpe_pipeline.report(copied, held_out=named).numbers.sample.tokenizers
    assert (measured.costs["empty"], measured.languages["worst"]) == (0, 1)


def test_a_combined_run_has_a_sample_of_the_texts_of_its_runs(small: Path, tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("one", "two")]
    for path in runs:
        text = path.with_suffix(".txt")
        text.write_text(f"{small.read_text()} {path.name}")
        bpe_pipeline.count(text, output=path)
    combined = bpe_pipeline.combine(runs, output=tmp_path / "both")
    bpe_pipeline.merge(combined, vocab_size=262)
    for names in ({"one", "two"}, {"two"}):
        sources = bpe_pipeline.report(combined).numbers.sample.tokenizers[0].sources
        assert {source.name for source in sources} == names
        shutil.rmtree(runs[0], ignore_errors=True)


def test_held_out_text_of_the_training_corpus_is_called_so(reported: Path, tmp_path: Path) -> None:
    [trained_on, *_] = [Path(file["path"]) for file in json.loads((reported / "run.json").read_text())["files"]]
    same, unseen, link = tmp_path / "copy.txt", tmp_path / "unseen.txt", tmp_path / "link.txt"
    shutil.copy(trained_on, same)
    unseen.write_text("lower lowest unseen words\n" * 50)
    link.symlink_to(trained_on)
    for number, names in enumerate(([trained_on], [same], [link], [unseen, same])):
        arguments = [word for name in names for word in ("--held-out", name)]
        result = succeeded(run("report", reported, "--output", tmp_path / f"{number}.html", *arguments))
        assert f"text that was trained on: 1 of {len(names)} file" in result.stderr
        assert str(names[-1]) in result.stderr
        sample = numbers_of(tmp_path, f"{number}.json")["sample"]
        assert sample["held_out"] is False
        assert f"In the training corpus, itself or as a copy: 1 of {len(names)} file" in sample["description"]
    counted = bpe_pipeline.combine({"low": 5, "lower": 2}, output=tmp_path / "counted")
    bpe_pipeline.merge(counted, vocab_size=257)
    succeeded(run("report", counted, "--held-out", unseen))
    assert "257 has no merges: every byte is a token" in (counted / "report.txt").read_text()
    assert "Not checked: the run has no list of its corpus" in numbers_of(counted)["sample"]["description"]


def test_invalid_text_that_is_held_out_is_counted(reported: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"low \xff\xfe lower \xe2\x82 \xef\xbf\xbd lowest")
    words = ("--held-out", tmp_path / "bad.txt", "--output", tmp_path / "page.html")
    said = f"3 invalid UTF-8 sequences replaced by U+FFFD (first: {tmp_path / 'bad.txt'})"
    assert f"warning: --held-out: {said}" in succeeded(run("report", reported, *words)).stderr
    sample = numbers_of(tmp_path, "page.json")["sample"]
    assert sample["losses"] == {"replacements": {"count": 3, "examples": [str(tmp_path / "bad.txt")]}}
    assert said in sample["description"]


def test_model_card_is_read_by_hubs_and_kept_if_edited(copied: Path) -> None:
    card = copied / "tokenizer" / "README.md"
    text = card.read_text()
    assert "<script>" not in text
    assert "| vocabulary | 350 tokens, byte-level BPE |" in text
    assert f"{numbers_of(copied)['merged']['marked'][-1]['bytes_per_token']:.3f} bytes per token" in text
    succeeded(run("report", copied))
    assert card.read_text() == text
    card.write_text("my own words")
    assert "README.md" not in run("report", copied).stdout
    result = [run("merge", copied, "--vocab-size", size) for size in (350, 350, 300)][-1]
    assert card.read_text() == "my own words"
    assert f"tokenizer        {copied}/tokenizer-300 (" in result.stdout
    [listed] = re.findall("^tokenizer .*", (copied / "report.txt").read_text(), re.MULTILINE)
    assert listed.endswith(", README.md)")
    assert "| vocabulary | 300 tokens" in (copied / "tokenizer-300" / "README.md").read_text()
    hub = pytest.importorskip("huggingface_hub")
    assert hub.ModelCard(text).data.to_dict() == {"library_name": "transformers", "tags": ["tokenizer", "bpe"]}


def test_a_report_and_a_card_are_of_the_named_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "can_draw", lambda: False)
    (tmp_path / "a.txt").write_text("".join(f"low {number * 7919 % 1000} lower lowest " for number in range(800)))
    own, padded = ["--vocab-size", 290], ["--vocab-size", 310, "--pad-token", "<pad>", "--reserve-tokens", 9]
    for output, options in (("run", own), ("alone-290", own), ("alone-310", padded)):
        succeeded(run("train", tmp_path / "a.txt", "--output", tmp_path / output, *options))
    run_directory = tmp_path / "run"
    succeeded(run("merge", run_directory, *padded))
    for named, home in ((".", "tokenizer"), ("tokenizer-310", "tokenizer-310"), ("tokenizer", "tokenizer")):
        succeeded(run("report", run_directory / named))
        tokenizer = bpe_pipeline.load(run_directory / home)
        size = len(tokenizer)
        document, numbers = json.loads((run_directory / "report.json").read_text()), numbers_of(run_directory)
        assert numbers["tokenizers"][0][1] == document["vocabulary"]["vocab_size"] == size
        assert document["tokenizer_directory"] == str(run_directory / home)
        assert {one["text"]: one["id"] for one in numbers["vocabulary"]["special_tokens"]} == tokenizer.special_tokens
        assert numbers["merged"]["merges"] == len(tokenizer.merges)
        assert document["vocabulary"]["tokens"] == numbers["merged"]["curve"][-1]["tokens"]
        text, card = (run_directory / "report.txt").read_text(), (run_directory / home / "README.md").read_text()
        assert f"{size} tokens (256 bytes, {len(tokenizer.merges)} merges" in text.partition("\n\n")[0]
        alone = tmp_path / f"alone-{size}"
        succeeded(run("report", alone))
        assert card == (alone / "tokenizer" / "README.md").read_text()
        verdict = re.compile("^Verdict\n.*?\n\n", re.MULTILINE | re.DOTALL)
        assert verdict.findall(text) == verdict.findall((alone / "report.txt").read_text())
    assert "none of the tokenizers" in refused(run("report", run_directory / "counts"), 1)
    monkeypatch.setenv("BPE_PIPELINE_REPORT", "none")
    succeeded(run("merge", run_directory, *padded))
    assert not (run_directory / "tokenizer-310" / "README.md").exists()
    shutil.copy(run_directory / "tokenizer-310" / "tokenizer.json", run_directory / "tokenizer")
    assert "is not the tokenizer that the run's options" in refused(run("report", run_directory), 1)


def test_report_refusals_are_one_line(reported: Path, small: Path, tmp_path: Path) -> None:
    counted, nothing, empty = tmp_path / "counted", tmp_path / "nothing", tmp_path / "empty.txt"
    empty.touch()
    succeeded(run("count", small, "--output", counted))
    unmerged = shutil.copytree(reported, tmp_path / "unmerged")
    (unmerged / "merges.parquet").unlink()
    for words, code, said in (
        ([unmerged], 1, "unmerged/merges.parquet is missing or belongs to another run: merge first"),
        ([counted], 2, "merge"),
        ([nothing], 1, "holds no run"),
        ([reported, "--compare", nothing], 1, "does not exist"),
        ([reported, reported], 2, "to compare with it, use --compare"),
        ([reported, "--held-out", nothing], 1, "does not exist"),
        ([reported, "--held-out", empty], 2, f"--held-out names no text: {empty} has no bytes"),
        ([reported, "--held-out", f"en={small}", f"sw={empty}"], 2, f"--held-out names no text: {empty} has no bytes"),
        ([reported, "--memory-limit", "40MiB"], 2, "--memory-limit"),
    ):
        assert said in refused(run("report", *words), code)


@pytest.mark.usefixtures("in_process")
def test_numbers_that_cannot_be_made_are_left_out(small: Path, tmp_path: Path) -> None:
    broken = ("choose", lambda *_: 1 / 0, "ZeroDivisionError")
    for name, replacement, said in (broken, ("shortage_of", lambda *_: "2 GiB of 1 GiB", "they take 2 GiB of 1 GiB")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"bpe_pipeline.commands.report.{name}", replacement)
            result = succeeded(run("train", small, "--output", tmp_path / name, "--vocab-size", 270))
        assert f"no numbers in the report: {said}" in result.stderr
        assert numbers_of(tmp_path / name) is None
        assert bpe_pipeline.load(tmp_path / name).vocab_size <= 270


@pytest.mark.usefixtures("in_process")
def test_less_of_a_report_without_vl_convert_or_as_it_is_set(small: Path, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(drawing, "can_draw", lambda: False)
    bpe_pipeline.train(small, output=tmp_path / "run", vocab_size=260)
    assert "<figure>" not in (tmp_path / "run" / "report.html").read_text()
    hint = "pip install 'bpe-pipeline[report]'"
    named = json.loads((tmp_path / "run" / "report.json").read_text())["report"]
    assert named == f"{tmp_path / 'run' / 'report.html'} (with figures: {hint})"
    shown = succeeded(run("report", tmp_path / "run", "--output", tmp_path / "page.html"))
    assert "Search all 260 tokens" in (tmp_path / "page.html").read_text()
    assert hint in shown.stderr
    monkeypatch.undo()
    for extent, numbers in (("text", True), ("none", False)):
        monkeypatch.setenv("BPE_PIPELINE_REPORT", extent)
        bpe_pipeline.train(small, output=tmp_path / extent, vocab_size=260)
        assert not (tmp_path / extent / "report.html").exists()
        assert (numbers_of(tmp_path / extent) is not None) == numbers


@pytest.mark.slow
def test_run_in_an_object_store_has_its_report_there(store: object_store.Store, small: Path) -> None:
    bpe_pipeline.train(small, output=store.uri("runs/a"), vocab_size=262)
    first = json.loads(store.get("runs/a/report.json"))["numbers"]
    assert b"</html>" in store.get("runs/a/report.html")
    succeeded(run("report", store.uri("runs/a"), "--compare", store.uri("runs/a")))
    again = json.loads(store.get("runs/a/report.json"))["numbers"]
    assert again["tokenizers"] == [["this tokenizer", 262], ["a", 262]]
    assert again["merged"] == first["merged"]


def test_markup_escapes_texts() -> None:
    template = templates().from_string('<b class="{{ name }}">{{ text }}</b>')
    assert template.render(name='"x', text="<i>\x00\u202e") == '<b class="&#34;x">&lt;i&gt;\\u0000\\u202e</b>'
    twice = (("<script>", "<script>"),)
    for part in (Rows(twice, "<script>"), Table("<script>", *twice, twice, "<script>"), Items("<script>", twice)):
        assert "<script>" not in html_of(part)


def test_missing_text_of_the_sample_is_a_warning(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "can_draw", lambda: False)
    corpus = [small, Path(shutil.copy(small, tmp_path / "b.txt"))]
    bpe_pipeline.train(corpus, output=tmp_path / "run", vocab_size=260)
    for gone, missing in ((None, []), (small, ["a part of its sample: 1 of 2"]), (corpus[1], ["the sample: 2 of 2"])):
        if gone:
            gone.unlink()
        result = succeeded(run("report", tmp_path / "run"))
        assert re.findall("the report is without (.*) files", result.stderr) == missing
