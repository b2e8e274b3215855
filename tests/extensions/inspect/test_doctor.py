"""Each defect of a tokenizer directory is found, with a remedy; a sound one has none. Exit codes of `doctor`."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import published
import pytest
import samples
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.extensions.inspect import doctor
from bpe_pipeline.extensions.inspect.doctor import examine
from bpe_pipeline.extensions.inspect.findings import ADVICE, FINE, NOT_CHECKED, WRONG, Examined
from bpe_pipeline.pattern.presets import resolve
from bpe_pipeline.reports.result import Advice
from bpe_pipeline.run import manifest
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS

EOT, PAD = "<|endoftext|>", "<|pad|>"


def made(home: Path, **options: Any) -> Path:
    for name in ("hf", "gpt2", "tiktoken"):
        FORMATS[name].write(samples.tokenizer("gpt2", (EOT, PAD), **options).model, home)
    return home


def texts_of(home: Path, outcome: str) -> str:
    return "\n".join(one.because for one in examine(home, [], None) if one.outcome == outcome)


def test_exit_codes_and_json(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    empty = run("doctor", tmp_path / "empty")
    assert (empty.returncode, empty.stdout.split(":")[0]) == (3, "not checked")
    unchecked = run("doctor", made(tmp_path, pad_token=PAD), "--strict")  # the page has what is fine
    assert (unchecked.returncode, unchecked.stdout.count("not checked")) == (3, 1)  # there are no counts
    document = json.loads(succeeded(run("doctor", trained, "--json")).stdout)
    assert document["wrong"] == 0
    assert [one["about"] for one in document["findings"] if one["outcome"] == ADVICE] == ["special tokens"]  # no pad
    assert bpe_pipeline.doctor(trained).to_json() == document
    strict = run("doctor", trained, "--strict")
    assert str(bpe_pipeline.doctor(trained)) + "\n" == strict.stdout
    assert (strict.returncode, strict.stdout.count("remedy: ")) == (1, 1)
    (tmp_path / "a.txt").write_text("a text")
    succeeded(run("count", tmp_path / "a.txt", "--output", tmp_path / "run"))
    assert "does not exist" in refused(run("doctor", tmp_path / "nowhere"), 3)
    assert "has no tokenizer yet: bpe-pipeline merge" in refused(run("doctor", tmp_path / "run"), 3)
    assert "run.json" in refused(run("doctor", trained, "--counts", tmp_path), 3)
    (nothing := tmp_path / "nothing.txt").touch()
    line = refused(run("doctor", trained, "--sample", nothing), 2)  # as `report --held-out`
    assert f"--sample names no text: {nothing} has no bytes" in line


@pytest.mark.parametrize(
    ("outcomes", "plain", "strict"),
    [
        ((FINE,), 0, 0),
        ((FINE, NOT_CHECKED), 0, 3),
        ((NOT_CHECKED,), 3, 3),
        ((ADVICE, NOT_CHECKED), 0, 1),
        ((WRONG, NOT_CHECKED), 1, 1),
    ],
)
def test_exit_code_of_findings(outcomes: tuple[str, ...], plain: int, strict: int) -> None:
    found = Examined(Path("x"), tuple(Advice("files", "", "said", outcome=one) for one in outcomes))
    assert (found.exit_code, replace(found, strict=True).exit_code) == (plain, strict)


def test_findings_of_a_kind_are_cut_and_existing_tokens_proposed(tmp_path: Path) -> None:
    names = ["<|" + "x" * length for length in range(1, 9)]
    Tokenizer.from_merges([(b"a", b"b")], [*names, "</s>", "<|reserved_3|>"]).save(tmp_path)
    shown = run("doctor", tmp_path).stdout
    assert (shown.count("' begins '"), shown.count("... and 2 more: --json has all")) == (5, 1)
    assert shown.count("remedy: rename one of them") == 1
    assert "--pad-token '<|reserved_3|>'" in shown
    for special, proposed in (
        (["<|reserved_3|>", "<|finetune_right_pad_id|>"], "'<|finetune_right_pad_id|>'"),
        (["<|right_pad|>"], "'<|right_pad|>'"),
        (["<padded>"], "'<|pad|>'"),
    ):
        assert doctor._existing(dict.fromkeys(special, 1), "pad", "<|pad|>") == proposed


@pytest.mark.parametrize(
    ("shape", "of", "cause"),
    [
        ("llama3", "GPT2Tokenizer", "its class GPT2Tokenizer has a pre-tokenizer of its own in place of the file's"),
        ("gpt2", "Qwen2Tokenizer", "which puts text into NFC where the file says no form"),
    ],
)
def test_what_transformers_does_in_another_way_is_named(shape: str, of: str, cause: str, tmp_path: Path) -> None:
    theirs, _ = published.pair(shape, "plain")
    theirs.save(str(tmp_path / "tokenizer.json"))
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"tokenizer_class": of}))
    found = examine(tmp_path, [], None)
    [said] = [one for one in found if one.about == "runtimes" and one.outcome == ADVICE]
    assert cause in said.because
    assert WRONG not in {one.outcome for one in found}
    config.write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))  # the remedy
    assert "runtimes" not in {one.about for one in examine(tmp_path, [], None) if one.outcome != FINE}


def _text(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def edit(home: Path) -> None:
        text = (home / name).read_text() if (home / name).exists() else "{}"
        (home / name).write_text(change(text))

    return edit


def _edit(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    return _text(name, lambda text: json.dumps((document := json.loads(text), change(document))[0]))


def _shorter(name: str) -> Callable[[Path], None]:
    return _text(name, lambda text: "".join(text.splitlines(keepends=True)[:-1]))


DEFECTS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a merge is missing": (_edit("tokenizer.json", lambda d: d["model"]["merges"].pop()), ADVICE, "never make 1 token"),
    "other merges": (_shorter("merges.txt"), WRONG, "vocab.json, merges.txt and tokenizer.json disagree"),
    "other ranks": (_shorter("tokenizer.tiktoken"), WRONG, "tokenizer.tiktoken and tokenizer.json disagree"),
    "ranks are damaged": (_text("tokenizer.tiktoken", lambda _: "?"), WRONG, "base64"),
    "not JSON": (_text("tokenizer.json", lambda _: "{"), WRONG, "tokenizer.json"),
    "an eos that is none": (
        _edit("tokenizer_config.json", lambda d: d.update(eos_token="<none>")),
        WRONG,
        "'<none>', which tokenizer.json does not list",
    ),
    "too few rows": (_edit("config.json", lambda d: d.update(vocab_size=300)), WRONG, "vocab_size is 300"),
    "another eos id": (_edit("config.json", lambda d: d.update(eos_token_id=[1, 2])), WRONG, "eos_token_id is [1, 2]"),
    "a template without its marks": (
        _edit("tokenizer_config.json", lambda d: d.update(chat_template="<|im_start|>{{ messages }}<|im_end|>")),
        WRONG,
        "the chat template writes <|im_start|>, <|im_end|>",
    ),
    "a program is not run": (
        _text("tiktoken_encoding.py", lambda text: f"{text}\nPath(__file__).with_name('ran').touch()\n"),
        NOT_CHECKED,
        "is not run",
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found_with_a_remedy(name: str, tmp_path: Path) -> None:
    damage, outcome, message = DEFECTS[name]
    damage(made(tmp_path, pad_token=PAD))
    found = examine(tmp_path, [], None)
    assert message in "\n".join(one.because for one in found if one.outcome == outcome)
    assert all(one.take for one in found if one.outcome in (WRONG, ADVICE))
    assert not (tmp_path / "ran").exists()


def test_a_gguf_file_of_another_tokenizer_is_found(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="the gguf package is not installed")
    FORMATS["gguf"].write(Tokenizer.load(made(tmp_path)).model, tmp_path)
    assert "tokenizer.gguf say the same" in texts_of(tmp_path, FINE)
    for other in (samples.trained("gpt2")[:-1], samples.trained("llama3")):
        FORMATS["gguf"].write(Tokenizer.from_merges(other, [EOT, PAD]).model, tmp_path)
        assert "tokenizer.gguf and tokenizer.json disagree" in texts_of(tmp_path, WRONG)
    (tmp_path / "tokenizer.gguf").write_bytes(b"no")
    assert "holds no byte-level BPE" in texts_of(tmp_path, WRONG)


def test_special_tokens_that_collide_or_are_missing_are_found(tmp_path: Path) -> None:
    Tokenizer.from_merges([(b"a", b"b")], ["user", "<x>", "<x>y", "<|im_start|>"]).save(tmp_path)
    advice = texts_of(tmp_path, ADVICE)
    for message in ("user can occur in any text", "'<x>' begins '<x>y'", "no pad token", "no chat template"):
        assert message in advice
    Tokenizer.from_merges([(b"a", b"b")]).save(tmp_path / "bare")
    assert "no eos token" in texts_of(tmp_path / "bare", ADVICE)
    model = Tokenizer.from_merges([(b"a", b"b")], ["ab"]).model
    [found] = [one.because for one in doctor._special_tokens(model, Path("x")) if one.outcome == WRONG]
    assert "special token 257 and the ordinary token 256" in found


def test_an_added_token_in_the_byte_alphabet_is_decoded_as_by_tokenizers(tmp_path: Path) -> None:
    Tokenizer.from_merges([(b" ", b"f"), (b" f", b"o")], ["<x>"]).save(tmp_path)
    document = json.loads((tmp_path / "tokenizer.json").read_text())
    document["added_tokens"].insert(0, {**document["added_tokens"][0], "id": 257, "content": "\u0120fo"})
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    assert "'\u0120fo': its characters are those" in texts_of(tmp_path, ADVICE)
    assert not texts_of(tmp_path, WRONG)


@pytest.mark.parametrize("name", ["qwen2", "space in front", "llama3"])
def test_tokenizers_of_others_agree_with_their_runtimes(name: str, tmp_path: Path) -> None:
    theirs, _ = published.pair(name, "plain")
    theirs.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    found = examine(tmp_path, samples.HARD_TEXTS, None)
    assert WRONG not in {one.outcome for one in found}
    assert ((ADVICE, "round trip") in {(one.outcome, one.about) for one in found}) == (name != "llama3")


def test_tokens_that_a_corpus_never_has_are_counted(tmp_path: Path) -> None:
    counter = {"low": 5, "lower": 2, "widest": 3, "newest": 6}
    run = manifest.require(bpe_pipeline.combine(counter, output=tmp_path / "run", special_tokens=[]))
    merges = [(b"l", b"o"), (b"lo", b"w"), (b"x", b"y"), (b"xy", b"z"), (b"e", b"s"), (b"es", b"t")]
    Tokenizer.from_merges(merges).save(tmp_path / "a")
    found = "\n".join(one.because for one in examine(tmp_path / "a", [], run) if one.outcome == ADVICE)
    for said in (
        "2 tokens of several bytes",
        "(0.76% of all); 2 occur only as parts",
        "b'xy', b'xyz'",
    ):  # lo, es: parts
        assert said in found
    [record] = [
        one
        for one in bpe_pipeline.doctor(tmp_path / "a", counts=tmp_path / "run").to_json()["findings"]
        if "parts" in one["evidence"]
    ]
    assert record["evidence"] == {"tokens": 2, "parts": 2, "of": 262, "run": str(tmp_path / "run")}
    assert list(record) == [one.name for one in fields(Advice)]  # as all other advice


def _model(kind: str) -> str:
    return json.dumps({"version": "1.0", "model": {"type": kind}, "decoder": None})


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        *(("tokenizer.json", _model(kind), kind) for kind in ("WordPiece", "Unigram")),
        ("tokenizer.json", _model("BPE"), "pre_tokenizer is null"),
        ("tokenizer.json", '{"version', "not valid JSON"),
        ("vocab.txt", "[UNK]\n", "a WordPiece vocabulary"),
        ("tokenizer.model", "x", "a SentencePiece model"),
        ("model.gguf", "GGUF", "a GGUF file"),
        ("ranks.tiktoken", "IQ== 0\n", "a tiktoken rank file"),
    ],
)
def test_a_tokenizer_of_another_kind_is_one_finding(name: str, content: str, named: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    for path in (tmp_path, tmp_path / name):
        result = run("doctor", path)
        finding, remedy = result.stdout.splitlines()
        damaged = "JSON" in named
        assert (result.returncode, finding.split(":")[0]) == ((1, "wrong") if damaged else (3, "not checked"))
        assert named in finding
        assert ("byte-level BPE" in remedy) != damaged


def test_superwords_are_looked_for_in_their_own_counts(tmp_path: Path, trained: Path) -> None:
    corpus, home = tmp_path / "corpus.txt", tmp_path / "run"
    corpus.write_text("at the end of the day, at the end of the year. " * 50)
    asked = ["--pattern", "superbpe", "--vocab-size", 290, "--superwords-from", 270, "--output", home, "--quiet"]
    succeeded(run("train", corpus, *asked))
    found = json.loads(run("doctor", home, "--json").stdout)["findings"]
    [said] = [one["because"] for one in found if "never occur" in one["because"]]
    assert said.startswith("0 tokens")
    assert "were not split as the tokenizer splits" in run("doctor", trained, "--counts", home).stdout


@pytest.mark.parametrize("name", ["o200k+digits1", "cl100k+digits2", "deepseek-v3+digits1", "qwen2+digits2"])
def test_a_pattern_with_a_suffix_keeps_its_name_and_no_file_of_ours_is_accused(
    name: str, text: Path, tmp_path: Path
) -> None:
    succeeded(run("train", text, "--output", tmp_path / "run", "--vocab-size", 300, "--pattern", name))
    assert bpe_pipeline.load(tmp_path / "run").model.pattern.name == resolve(name)
    found = succeeded(run("doctor", tmp_path / "run", "--json")).stdout
    assert "did not write" not in found
    assert "tiktoken with tiktoken" in found


def test_a_file_that_is_no_tokenizer_says_what_to_name(tmp_path: Path) -> None:
    for name, content in (("a.txt", "low lower"), ("report.json", "{}")):
        (tmp_path / name).write_text(content)
        [one] = bpe_pipeline.doctor(tmp_path / name).findings
        assert (one.outcome, one.about) == ("wrong", "files")
        assert one.take.startswith("name a run, a tokenizer's directory or its tokenizer.json; ")
