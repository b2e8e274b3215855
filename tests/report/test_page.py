"""The report of a run: what is written, when, and that a browser shows it without any request."""

import json
import math
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import object_store
import pytest
import terminal
from browser import COLLISIONS, too_low_contrasts, wait_for
from command import refused, run, run_here

import pipeline
from pipeline.report import page
from pipeline.report.page import element, escaped, table
from pipeline.report.tables import Table

HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module", autouse=True)
def whole_report() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BPE_PIPELINE_REPORT", "page")
        yield


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose file names, special tokens and text would all run code in a page without escaping."""
    home = tmp_path_factory.mktemp("reported")
    corpus = home / "corpus"
    corpus.mkdir()
    markup = "<script>alert(2)</script><img src=http://example.com/x onerror=alert(3)> &amp; "
    for name, text in (
        ("<img src=x onerror=alert(4)>.txt", markup * 200),
        ("words.txt", "the low lower lowest The LOW \xe9t\xe9 привет, мир! 東京 " * 400),
        ("other.txt", "http://example.org/index.html ---------------- 12345 " * 100),
    ):
        (corpus / name).write_text(text)
    bad = corpus / "bad.txt"
    bad.write_bytes(b"not \xff UTF-8 " * 20)
    options = ["--vocab-size", 350, "--special-token", HOSTILE, "--workers", 1]
    result = run("train", corpus, "--output", home / "run<b>", *options)
    assert result.returncode == 0, result.stderr
    assert "warning" not in result.stderr
    return home / "run<b>"


def numbers_of(directory: Path) -> dict[str, Any]:
    numbers: dict[str, Any] = json.loads((directory / "report.json").read_text())["numbers"]
    return numbers


def figures_of(page: Path) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(page.read_text().rpartition('id="figures">')[2].partition("</script>")[0])
    return figures


KEYS = {
    "": {
        *("tokenizers", "vocabulary", "shapes", "merged", "sample", "references", "sentences", "ginis", "machine"),
        "hidden_size",
    },
    "vocabulary": {
        *("tokens", "bytes", "special_tokens", "lengths", "scripts", "longest", "variants", "partial", "unreachable"),
        *("urls", "repeats", "never_used", "numbers", "indentation"),
    },
    "merged": {"merges", "bytes", "curve", "marked", "ranks"},
    "sample": {"held_out", "description", "bytes", "texts", "tokenizers", "single_source"},
}


def test_report_json_has_the_documented_keys(reported: Path) -> None:
    numbers = numbers_of(reported)
    for name, keys in KEYS.items():
        assert set(numbers[name] if name else numbers) == keys
    page = (Path(__file__).parents[2] / "docs" / "pages" / "how-to" / "report.md").read_text()
    assert [key for keys in KEYS.values() for key in keys if f"`{key}`" not in page] == []
    assert numbers["tokenizers"] == [["this tokenizer", 350]]
    assert numbers["vocabulary"]["special_tokens"] == [
        {"text": "<|endoftext|>", "id": 348, "roles": "eos, separator"},
        {"text": HOSTILE, "id": 349, "roles": ""},
    ]
    [last] = [size for size in numbers["merged"]["marked"] if size["vocab_size"] == 350]
    document = json.loads((reported / "report.json").read_text())
    assert last["bytes_per_token"] == pytest.approx(document["bytes_per_token"])
    assert last["tokens"] == document["vocabulary"]["tokens"]
    assert set(document["stages"]) == {"counting", "combining", "merging", "exporting", "reporting"}
    assert set(document["stage_peak_bytes"]) == set(document["stages"])
    assert max(document["stage_peak_bytes"].values()) <= document["peak_memory_bytes"]


def test_numbers_match_the_tokenizer(reported: Path) -> None:
    numbers = numbers_of(reported)
    tokenizer = pipeline.Tokenizer.load(reported / "tokenizer")
    assert numbers["vocabulary"]["tokens"] == len(tokenizer.vocabulary.tokens)
    assert numbers["vocabulary"]["unreachable"]["count"] == 0
    assert numbers["sample"]["held_out"] is False
    for sentence in numbers["sentences"]:
        [cut] = sentence["cuts"]
        ids = [id_ for part, _ in cut for id_ in part]
        assert ids == tokenizer.encode_ordinary(sentence["text"])
        assert sentence["counts"][0] == len(ids)
        assert sentence["fallback"] == [
            sum(len(tokenizer.vocab[id_]) == 1 and tokenizer.vocab[id_][0] > 127 for id_ in ids) / len(ids)
        ]
        assert len(sentence["counts"]) == 1 + len(numbers["references"]) == len(numbers["ginis"])


def test_single_bytes_by_language_are_those_of_tokenizers(reported: Path) -> None:
    """In the byte alphabet a token of one letter is one byte; ASCII, which is a character alone, keeps its letter."""
    other = pytest.importorskip("tokenizers").Tokenizer.from_file(str(reported / "tokenizer" / "tokenizer.json"))
    found = {one["language"]: one["fallback"] for one in numbers_of(reported)["sentences"]}
    assert found["English"] == [0]
    assert found["Korean"][0] > 0.5
    text = (reported / "report.txt").read_text().partition("Single bytes by language\n")[2].partition("\n\n")[0]
    for one in numbers_of(reported)["sentences"]:
        tokens = other.encode(one["text"], add_special_tokens=False).tokens
        alone = [token for token in tokens if len(token) == 1 and token not in "ĠĊ" and not token.isascii()]
        assert found[one["language"]] == [len(alone) / len(tokens)]
        assert f"{len(alone) / len(tokens):.1%}" in text.partition(f"  {one['language']} ")[2].splitlines()[0]


def test_report_txt_has_tables_below_the_summary(reported: Path) -> None:
    head, _, below = (reported / "report.txt").read_text().partition("\n\n")
    assert head.startswith("run ")
    assert "\nnext " in head
    assert below.startswith("Verdict\n  How short: ")
    for title in ("Bytes per token by size", "Tokens by script", "Tokens that deserve a look", "NOT held out"):
        assert title in below
    assert all(line.isprintable() for line in below.splitlines())


def test_report_with_held_out_text_and_other_tokenizers(reported: Path, tmp_path: Path) -> None:
    copied = tmp_path / "run"
    shutil.copytree(reported, copied)
    (tmp_path / "unseen.txt").write_text("lower lowest unseen words\n" * 50)
    other = pipeline.train([tmp_path / "unseen.txt"], output=tmp_path / "other", vocab_size=270)
    before = json.loads((copied / "report.json").read_text())
    arguments = ["--held-out", tmp_path / "unseen.txt", "--compare", tmp_path / "other", copied, "--hidden-size", 64]
    result = run("report", copied, *arguments)
    assert result.returncode == 0, result.stderr
    assert str(copied / "report.txt") in result.stdout
    after = json.loads((copied / "report.json").read_text())
    assert {name: value for name, value in after.items() if name != "numbers"} == {
        name: value for name, value in before.items() if name != "numbers"
    }
    numbers = after["numbers"]
    assert numbers["tokenizers"] == [["this tokenizer", 350], ["other", 270], ["run", 350]]
    embedding = (copied / "report.txt").read_text().split("hidden size of 64\n")[1].splitlines()
    assert embedding[1].split() == ["this", "tokenizer", "350", f"{350 * 64:,}", f"{2 * 350 * 64:,}"]
    assert numbers["sample"]["held_out"] is True
    measured = numbers["sample"]["tokenizers"]
    text = (tmp_path / "unseen.txt").read_text()
    assert [one["whole"]["bytes"] for one in measured] == [len(text)] * 3
    assert measured[1]["whole"]["tokens"] == len(other.encode(text))
    assert "held out: not trained on" in (copied / "report.txt").read_text()
    if (copied / "report.html").exists():
        curve = figures_of(copied / "report.html")["size-curve"]
        least, most = curve["layout"]["xaxis"]["range"]
        assert math.log10(256) - least > 0.05 * (most - least), "the tick 256 touches the other axis' 0"
        _, *points = curve["data"]
        assert [(one["x"], one["y"]) for one in points] == [
            ([size], [one["whole"]["bytes_per_token"]])
            for (_, size), one in zip(numbers["tokenizers"], measured, strict=True)
        ]
    elsewhere = run("report", copied, "--output", tmp_path / "page.html")
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert json.loads((tmp_path / "page.json").read_text())["numbers"]["sample"]["held_out"] is False
    assert json.loads((copied / "report.json").read_text()) == after


def test_held_out_text_of_the_training_corpus_is_called_so(reported: Path, tmp_path: Path) -> None:
    [trained_on, *_] = [Path(file["path"]) for file in json.loads((reported / "run.json").read_text())["files"]]
    copied, unseen, link = tmp_path / "copy.txt", tmp_path / "unseen.txt", tmp_path / "link.txt"
    shutil.copy(trained_on, copied)
    unseen.write_text("lower lowest unseen words\n" * 50)
    link.symlink_to(trained_on)
    for number, names in enumerate(([trained_on], [copied], [link], [unseen, copied])):
        page = tmp_path / f"{number}.html"
        arguments = [word for name in names for word in ("--held-out", name)]
        result = run("report", reported, "--output", page, *arguments)
        assert result.returncode == 0, result.stderr
        assert f"text that was trained on: 1 of {len(names)} file" in result.stderr
        assert str(names[-1]) in result.stderr
        sample = json.loads(page.with_suffix(".json").read_text())["numbers"]["sample"]
        assert sample["held_out"] is False
        assert f"In the training corpus, itself or as a copy: 1 of {len(names)} file" in sample["description"]
    counted = pipeline.import_counts({"low": 5, "lower": 2}, output=tmp_path / "counted")
    pipeline.merge_run(counted, vocab_size=257)
    assert run("report", counted, "--held-out", unseen).returncode == 0
    assert "257 has no merges: every byte is a token" in (counted / "report.txt").read_text()
    assert "Not checked: the run has no list of its corpus" in numbers_of(counted)["sample"]["description"]


def test_model_card_is_read_by_hubs_and_kept_if_edited(
    reported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "run"
    shutil.copytree(reported, copied)
    card = copied / "tokenizer" / "README.md"
    text = card.read_text()
    assert "<script>" not in text
    assert "| vocabulary | 350 tokens, byte-level BPE |" in text
    assert f"{numbers_of(copied)['merged']['marked'][-1]['bytes_per_token']:.3f} bytes per token" in text
    assert run("report", copied).returncode == 0
    assert card.read_text() == text
    card.write_text("my own words")
    result = run("report", copied)
    assert card.read_text() == "my own words"
    assert "README.md" not in result.stdout
    monkeypatch.setenv("BPE_PIPELINE_REPORT", "page")
    result = run("merge", copied, "--vocab-size", 300)
    assert f"tokenizer        {copied}/tokenizer-300 (" in result.stdout
    [listed] = re.findall("^tokenizer .*", (copied / "report.txt").read_text(), re.MULTILINE)
    assert listed.endswith(", README.md)")
    assert "| vocabulary | 300 tokens" in (copied / "tokenizer-300" / "README.md").read_text()
    assert card.read_text() == "my own words"
    hub = pytest.importorskip("huggingface_hub")
    assert hub.ModelCard(text).data.to_dict() == {"library_name": "transformers", "tags": ["tokenizer", "bpe"]}


def test_a_report_and_a_card_are_of_the_tokenizer_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.report.page.plotly_script", lambda: None)
    (tmp_path / "a.txt").write_text("".join(f"low {number * 7919 % 1000} lower lowest " for number in range(800)))
    own, padded = ["--vocab-size", 290], ["--vocab-size", 310, "--pad-token", "<pad>", "--reserve-tokens", 9]
    for output, options in (("run", own), ("alone-290", own), ("alone-310", padded)):
        assert run("train", tmp_path / "a.txt", "--output", tmp_path / output, *options).returncode == 0
    run_directory = tmp_path / "run"
    assert run("merge", run_directory, *padded).returncode == 0
    for named, home in ((".", "tokenizer"), ("tokenizer-310", "tokenizer-310"), ("tokenizer", "tokenizer")):
        assert run("report", run_directory / named).returncode == 0
        tokenizer = pipeline.load(run_directory / home)
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
        assert run("report", alone).returncode == 0
        assert card == (alone / "tokenizer" / "README.md").read_text()
        verdict = re.compile("^Verdict\n.*?\n\n", re.MULTILINE | re.DOTALL)
        assert verdict.findall(text) == verdict.findall((alone / "report.txt").read_text())
    assert "none of the tokenizers" in refused(run("report", run_directory / "counts"), 1)
    monkeypatch.setenv("BPE_PIPELINE_REPORT", "none")
    assert run("merge", run_directory, *padded).returncode == 0
    assert not (run_directory / "tokenizer-310" / "README.md").exists()
    shutil.copy(run_directory / "tokenizer-310" / "tokenizer.json", run_directory / "tokenizer")
    assert "is not the tokenizer that the run's options" in refused(run("report", run_directory), 1)


def test_report_ignores_a_damaged_report_json(reported: Path, tmp_path: Path) -> None:
    copied = tmp_path / "run"
    shutil.copytree(reported, copied)
    for damage in ('{"stages": {"counting": "<b>"}}', "{" * 100_000):
        (copied / "report.json").write_text(damage)
        assert run("report", copied).returncode == 0
        assert numbers_of(copied)["merged"]["merges"] == numbers_of(reported)["merged"]["merges"]


def test_report_refusals_are_one_line(reported: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b c")
    assert run("count", tmp_path / "a.txt", "--output", tmp_path / "counted").returncode == 0
    assert "merge" in refused(run("report", tmp_path / "counted"), 2)
    refused(run("report", tmp_path / "nothing"), 1)
    assert "does not exist" in refused(run("report", reported, "--compare", tmp_path / "nothing"), 1)
    assert "to compare with it, use --compare" in refused(run("report", reported, reported), 2)
    assert "does not exist" in refused(run("report", reported, "--held-out", tmp_path / "nothing"), 1)
    assert "--memory-limit" in refused(run("report", reported, "--memory-limit", "40MiB"), 2)


def test_failed_report_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("of our own making")

    (tmp_path / "a.txt").write_text("the low lower " * 50)
    monkeypatch.setattr("pipeline.commands.report.choose", fail)
    with pytest.warns(UserWarning, match="no numbers in the report: ZeroDivisionError"):
        pipeline.train([tmp_path / "a.txt"], output=tmp_path / "run", vocab_size=280)
    assert json.loads((tmp_path / "run" / "report.json").read_text())["numbers"] is None
    assert pipeline.Tokenizer.load(tmp_path / "run" / "tokenizer").vocab_size <= 280


def test_missing_plotly_is_a_hint(reported: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pipeline.commands.report import run_report
    from pipeline.run.options import make_options
    from pipeline.run.workers import executor_here

    monkeypatch.setattr(page, "plotly_script", lambda: None)
    options = make_options({})
    with executor_here(options) as executor:
        found = run_report(reported, options, executor, outputs=(tmp_path / "page.html", tmp_path / "page.json"))
    assert found.written == (tmp_path / "page.json",)
    assert "pip install 'bpe-pipeline[report]'" in found.hint
    (tmp_path / "a.txt").write_text("the low lower " * 50)
    pipeline.train([tmp_path / "a.txt"], output=tmp_path / "run", vocab_size=260)
    assert not (tmp_path / "run" / "report.html").exists()
    named = json.loads((tmp_path / "run" / "report.json").read_text())["report"]
    assert named == f"{tmp_path / 'run' / 'report.txt'} (as a page with plots: pip install 'bpe-pipeline[report]')"


def test_small_memory_limit_omits_the_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the low lower " * 50)
    result = run(
        "train", tmp_path / "a.txt", "--output", tmp_path / "run", "--vocab-size", 270, "--memory-limit", "144MiB"
    )
    assert result.returncode == 0, result.stderr
    if "no numbers in the report" in result.stderr:
        assert json.loads((tmp_path / "run" / "report.json").read_text())["numbers"] is None


def test_run_in_an_object_store_has_its_report_there(store: object_store.Store, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the low lower " * 50)
    pipeline.train([tmp_path / "a.txt"], output=store.uri("runs/a"), vocab_size=262)
    first = json.loads(store.get("runs/a/report.json"))["numbers"]
    assert b"</html>" in store.get("runs/a/report.html")
    result = run("report", store.uri("runs/a"), "--compare", store.uri("runs/a"))
    assert result.returncode == 0, result.stderr
    again = json.loads(store.get("runs/a/report.json"))["numbers"]
    assert again["tokenizers"] == [["this tokenizer", 262], ["a", 262]]
    assert again["merged"] == first["merged"]


def test_environment_limits_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("the low lower " * 50)
    for extent, numbers in (("text", True), ("none", False)):
        monkeypatch.setenv("BPE_PIPELINE_REPORT", extent)
        pipeline.train([tmp_path / "a.txt"], output=tmp_path / extent, vocab_size=260)
        assert not (tmp_path / extent / "report.html").exists()
        assert (numbers_of(tmp_path / extent) is not None) == numbers


def test_markup_escapes_texts() -> None:
    assert element("b", "<i>", class_='"x') == '<b class="&quot;x">&lt;i&gt;</b>'
    assert escaped(element("b", 1)) == "<b>1</b>"
    for headers in ((), ("<script>", "<script>")):
        assert "<script>" not in table(Table("<script>", headers, (("<script>", "<script>"),), "<script>"), "<script>")


# In a browser


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 390])
def test_page_in_a_browser_in_both_colour_schemes(reported: Path, browser: Any, width: int) -> None:
    if not (reported / "report.html").exists():
        pytest.skip("needs plotly")
    context = browser.new_context(color_scheme="light", viewport={"width": width, "height": 844})
    view = context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    address = (reported / "report.html").as_uri()
    view.on("request", lambda request: asked.append(request.url))
    view.on("pageerror", lambda error: wrong.append(str(error)))
    view.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    view.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
    context.route("**/*", lambda route: route.continue_() if route.request.url == address else route.abort())
    view.goto(address)
    wait_for(view, "document.querySelectorAll('figure .trace path').length >= 20")
    assert asked == [address]
    assert wrong == []
    for name in ("size-curve", "ranks", "lengths", "scripts"):
        drawn = view.evaluate(
            "name => [...document.querySelectorAll(`#${name} .trace path`)].filter(p => p.getBBox().width > 0).length",
            name,
        )
        assert drawn > 0, f"{name} is empty"
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert view.evaluate("document.querySelectorAll('script').length") == 5  # one is plotly's, unpacked
    assert view.evaluate(COLLISIONS) == []
    assert (reported / "report.html").stat().st_size < 5e6
    assert view.evaluate("document.querySelectorAll('main img, main b[onerror]').length") == 0
    assert HOSTILE in view.inner_text("main")
    view.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert too_low_contrasts(view) == {}
    sizes = view.evaluate(
        "[...document.querySelectorAll('p, td, code')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 11.5
    colour = "getComputedStyle(document.querySelector('#ranks .xtick text')).fill"
    light = view.evaluate(colour)
    view.emulate_media(color_scheme="dark")
    wait_for(view, f"{colour} !== '{light}'")
    assert view.evaluate(COLLISIONS) == []
    assert too_low_contrasts(view) == {}
    assert asked == [address]
    assert wrong == []
    context.close()


def test_search_finds_every_token_with_the_keyboard(reported: Path, browser: Any) -> None:
    if not (reported / "report.html").exists():
        pytest.skip("needs plotly")
    tokenizer = pipeline.Tokenizer.load(reported / "tokenizer")
    view = browser.new_page()
    view.goto((reported / "report.html").as_uri())
    wait_for(view, "document.querySelector('#ranks .xtick text') !== null")
    assert view.evaluate("document.querySelector('label[for=search]').textContent").startswith("Search all 350 tokens")
    view.evaluate("document.querySelector('h1').focus()")
    for _ in range(40):
        view.keyboard.press("Tab")
        if view.evaluate("document.activeElement.id") == "search":
            break
    for wanted, expected in (
        (" low", sum(token.lower().find(b" low") >= 0 for token in tokenizer.vocab.values())),
        ("300", sum(b"300" in token for token in tokenizer.vocab.values()) + 1),
        ("no such token", 0),
    ):
        view.keyboard.press("Control+a")
        view.keyboard.type(wanted)
        wait_for(view, f"document.getElementById('found').textContent.startsWith('{expected} found')")
        assert view.evaluate("document.querySelectorAll('#results li').length") == expected
    view.close()


@pytest.mark.skipif("BPE_PIPELINE_PICTURES" not in os.environ, reason="BPE_PIPELINE_PICTURES names no directory")
def test_pictures_for_the_docs(browser: Any, tmp_path: Path) -> None:
    """Make docs/pages/images: BPE_PIPELINE_PICTURES=docs/pages/images python -m pytest -n0 -k pictures."""
    for name, pattern in (("run", "gpt2"), ("other", "llama3")):
        trained = run("train", "--output", name, "--vocab-size", "16k", "--pattern", pattern, cwd=tmp_path)
        assert trained.returncode == 0, trained.stderr
    result = run("report", "run", "--compare", "other", "gpt2", "o200k", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
        view = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 1100})
        view.goto((tmp_path / "run" / "report.html").as_uri())
        wait_for(view, "document.querySelector('#ranks .xtick text') !== null")
        view.screenshot(path=Path(os.environ["BPE_PIPELINE_PICTURES"]) / f"report-{scheme}-{width}.png")
        view.close()


@pytest.mark.skipif("BPE_PIPELINE_PICTURES" not in os.environ, reason="BPE_PIPELINE_PICTURES names no directory")
def test_pictures_of_the_terminal(browser: Any, tmp_path: Path) -> None:
    """Make docs/pages/images as above: a run half way and at its end, two tokenizers compared, a text explained."""
    images = Path(os.environ["BPE_PIPELINE_PICTURES"])
    environment = {"COLUMNS": "118", "COLORTERM": "truecolor", "BPE_PIPELINE_REPORT": "page"}

    def shown(*words: str) -> dict[str, list[str]]:
        return {shlex.join(["bpe-pipeline", *words]): terminal.screens(
            terminal.output_on_a_terminal(words, tmp_path, **environment))}  # fmt: skip

    corpus = Path(os.environ["BPE_PIPELINE_TEST_DATA"])
    shutil.copytree(corpus, tmp_path / "corpus", ignore=shutil.ignore_patterns("*.zst", "*.md"))
    [(command, seen)] = shown("train", "corpus", "--output", "runs/a", "--vocab-size", "32k").items()
    half = min(seen, key=lambda one: abs(int((re.findall(r"merging.* (\d+)%", one) or [0])[-1]) - 50))
    terminal.photograph(browser, {command: half}, images / "terminal-progress.png")
    terminal.photograph(browser, {command: seen[-1]}, images / "terminal-train.png")
    explained = shown("explain", "--tokenizer", "runs/a", "1,234 lanterns")
    terminal.photograph(browser, {name: one[-1] for name, one in explained.items()}, images / "terminal-explain.png")


def test_plotly_accepts_the_figures(reported: Path) -> None:
    graphs = pytest.importorskip("plotly.graph_objects")
    if not (reported / "report.html").exists():
        pytest.skip("needs plotly")
    figures = figures_of(reported / "report.html")
    assert len(figures) == 4
    for figure in figures.values():
        plain = re.sub(r"var\(--\w+\)", "#123456", json.dumps(figure))
        graphs.Figure(json.loads(plain))  # it checks every name and value


@pytest.mark.usefixtures("in_process")
def test_text_that_is_missing_in_the_sample_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "plotly_script", lambda: None)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("the low lower " * 9)
    pipeline.train([tmp_path / "a.txt", tmp_path / "b.txt"], output=tmp_path / "run", vocab_size=260)
    for name, missing in (("", []), ("a.txt", ["a part of its sample: 1 of 2"]), ("b.txt", ["the sample: 2 of 2"])):
        if name:
            (tmp_path / name).unlink()
        result = run_here("report", tmp_path / "run")
        assert result.returncode == 0, result.stderr
        assert re.findall("the report is without (.*) files", result.stderr) == missing
