"""Each defect of a tokenizer directory is found, with a remedy; a sound one has none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import published
import pytest
import samples

import pipeline
from pipeline import Tokenizer
from pipeline.run import manifest
from pipeline.tokenizer import doctor
from pipeline.tokenizer.doctor import ADVICE, FINE, NOT_CHECKED, WRONG, Finding, examine
from pipeline.tokenizer.formats.save import EXPORTS

EOT = "<|endoftext|>"


def made(home: Path, specials: tuple[str, ...] = (EOT, "<|pad|>"), **options: Any) -> Path:
    tokenizer = Tokenizer.from_merges(samples.trained("gpt2"), specials, **options)
    for name in ("hf", "gpt2", "tiktoken"):
        EXPORTS[name](tokenizer.model, home)
    return home


def outcomes(found: list[Finding]) -> set[tuple[str, str]]:
    return {(one.outcome, one.what) for one in found if one.outcome in (WRONG, ADVICE)}


def texts_of(found: list[Finding], outcome: str) -> str:
    return "\n".join(one.message for one in found if one.outcome == outcome)


def test_a_sound_tokenizer_is_fine_in_every_runtime(tmp_path: Path) -> None:
    found = examine(made(tmp_path, pad_token="<|pad|>"), ["some text"], None)
    assert outcomes(found) == set()
    libraries = [one.message.split(":")[0] for one in found if one.what == "runtimes" and one.outcome == FINE]
    assert [line.split()[0] for line in libraries] == ["hf", "hf", "gpt2", "tiktoken"]


def _edit(name: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    def edit(home: Path) -> None:
        document = json.loads((home / name).read_text()) if (home / name).exists() else {}
        change(document)
        (home / name).write_text(json.dumps(document))

    return edit


def _line(name: str, index: int) -> Callable[[Path], None]:
    def edit(home: Path) -> None:
        lines = (home / name).read_text().splitlines()
        del lines[index]
        (home / name).write_text("\n".join(lines) + "\n")

    return edit


DEFECTS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a merge is missing": (_edit("tokenizer.json", lambda d: d["model"]["merges"].pop()), ADVICE, "never make 1 token"),
    "merges.txt is of another": (_line("merges.txt", 5), WRONG, "vocab.json, merges.txt and tokenizer.json disagree"),
    "ranks are of another": (_line("tokenizer.tiktoken", -1), WRONG, "tokenizer.tiktoken and tokenizer.json disagree"),
    "ranks are damaged": (lambda home: (home / "tokenizer.tiktoken").write_text("?"), WRONG, "base64"),
    "not JSON": (lambda home: (home / "tokenizer.json").write_text("{"), WRONG, "tokenizer.json"),
    "an eos that is none": (
        _edit("tokenizer_config.json", lambda d: d.update(eos_token="<none>")), WRONG, "'<none>', which is not one",
    ),
    "too few rows": (_edit("config.json", lambda d: d.update(vocab_size=300)), WRONG, "vocab_size is 300"),
    "another eos id": (_edit("config.json", lambda d: d.update(eos_token_id=[1, 2])), WRONG, "eos_token_id is [1, 2]"),
    "a template without its marks": (
        _edit("tokenizer_config.json", lambda d: d.update(chat_template="<|im_start|>{{ messages }}<|im_end|>")),
        WRONG, "the chat template writes <|im_start|>, <|im_end|>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found_with_a_remedy(name: str, tmp_path: Path) -> None:
    damage, outcome, message = DEFECTS[name]
    damage(made(tmp_path, pad_token="<|pad|>"))
    found = examine(tmp_path, [], None)
    assert message in texts_of(found, outcome)
    assert all(one.remedy for one in found if one.outcome in (WRONG, ADVICE))


def test_a_gguf_file_of_another_tokenizer_is_found(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="the gguf package is not installed")
    made(tmp_path)
    model = Tokenizer.load(tmp_path).model
    EXPORTS["gguf"](model, tmp_path)
    found = examine(tmp_path, [], None)
    assert "tokenizer.gguf say the same" in texts_of(found, FINE)
    for other in (samples.trained("gpt2")[:-1], samples.trained("llama3")):
        EXPORTS["gguf"](Tokenizer.from_merges(other, [EOT, "<|pad|>"]).model, tmp_path)
        assert "tokenizer.gguf and tokenizer.json disagree" in texts_of(examine(tmp_path, [], None), WRONG)
    (tmp_path / "tokenizer.gguf").write_bytes(b"no")
    assert "holds no byte-level BPE" in texts_of(examine(tmp_path, [], None), WRONG)


def test_special_tokens_that_collide_or_are_missing_are_found(tmp_path: Path) -> None:
    Tokenizer.from_merges([(b"a", b"b")], ["user", "<x>", "<x>y", "<|im_start|>"]).save(tmp_path)
    advice = texts_of(examine(tmp_path, [], None), ADVICE)
    for message in ("user can occur in any text", "'<x>' begins '<x>y'", "no pad token", "no chat template"):
        assert message in advice
    Tokenizer.from_merges([(b"a", b"b")]).save(tmp_path / "bare")
    assert "no eos token" in texts_of(examine(tmp_path / "bare", [], None), ADVICE)


def test_a_special_token_with_the_bytes_of_an_ordinary_one_is_found() -> None:
    model = Tokenizer.from_merges([(b"a", b"b")], ["ab"]).model
    [found] = [one for one in doctor._special_tokens(model, Path("x")) if one.outcome == WRONG]
    assert "special token 257 and the ordinary token 256" in found.message


@pytest.mark.parametrize("name", ["qwen2", "space in front", "llama3"])
def test_tokenizers_of_others_agree_with_their_runtimes(name: str, tmp_path: Path) -> None:
    theirs, _ = published.pair(name, "plain")
    theirs.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    found = examine(tmp_path, samples.HARD_TEXTS, None)
    assert texts_of(found, WRONG) == ""
    changed = any(one.what == "round trip" and one.outcome == ADVICE for one in found)
    assert changed == (name != "llama3")


def test_a_program_in_the_directory_is_not_run(tmp_path: Path) -> None:
    made(tmp_path)
    with (tmp_path / "tiktoken_encoding.py").open("a") as file:
        file.write(f"\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    found = examine(tmp_path, [], None)
    assert "is not run" in texts_of(found, NOT_CHECKED)
    assert not (tmp_path / "ran").exists()


def test_tokens_that_a_corpus_never_has_are_counted(tmp_path: Path) -> None:
    counter = {"low": 5, "lower": 2, "widest": 3, "newest": 6}
    run = manifest.require(pipeline.import_counts(counter, output=tmp_path / "run", special_tokens=[]))
    merges = [(b"l", b"o"), (b"lo", b"w"), (b"x", b"y"), (b"xy", b"z"), (b"e", b"s"), (b"es", b"t")]
    Tokenizer.from_merges(merges).save(tmp_path / "a")
    found = texts_of(examine(tmp_path / "a", [], run), ADVICE)
    assert "2 tokens of several bytes" in found  # xy and xyz
    assert "2 occur only as parts" in found  # lo and es
    assert "b'xy', b'xyz'" in found
