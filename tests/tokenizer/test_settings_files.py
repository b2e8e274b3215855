"""Files of settings of a base: chat templates are read as transformers does; where generation stops is kept."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import refused, run, succeeded
from published import BOS, EOT, PLAIN, made
from transformers import AutoTokenizer

import bpe_pipeline
from bpe_pipeline.base.errors import UsageError

MESSAGES = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]
GENERATION = {"eos_token_id": [417], "pad_token_id": 416, "suppress_tokens": [5], "temperature": 0.6, "top_p": 0.95}


def writing(mark: str) -> str:
    """Return a template that shows which one it is."""
    return mark + "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"


DEFAULT, TOOL_USE, OTHER = writing("default "), writing("tools "), writing("other ")
NAMED = {"default": DEFAULT, "tool_use": TOOL_USE, "other": OTHER}
FILES = {"chat_template.jinja": DEFAULT, "additional_chat_templates/tool_use.jinja": TOOL_USE}
FORMS: dict[str, tuple[Any, dict[str, str]]] = {  # the member of tokenizer_config.json, and files
    "text": (DEFAULT, {}),
    "list": ([{"name": name, "template": text} for name, text in NAMED.items()], {}),
    "object": (NAMED, {}),
    "file": (OTHER, {"chat_template.jinja": DEFAULT}),
    "directory": (None, FILES),
    "directory, and a list": ([{"name": "default", "template": OTHER}], FILES),
    "no default": ([{"name": "other", "template": OTHER}], {}),
}


def base(home: Path, form: str) -> Path:
    """Write a base with its templates in one of the forms."""
    member, files = FORMS[form]
    (home / "base" / "additional_chat_templates").mkdir(parents=True)
    made("gpt2", PLAIN).save(str(home / "base" / "tokenizer.json"))
    settings = {"bos_token": BOS, "eos_token": EOT, "tokenizer_class": "PreTrainedTokenizerFast", "own": 7}
    contents = {"tokenizer_config.json": settings | ({} if member is None else {"chat_template": member})}
    contents |= {"generation_config.json": GENERATION, "special_tokens_map.json": {"eos_token": EOT, "mask_token": BOS}}
    for name, text in (files | {name: json.dumps(value) for name, value in contents.items()}).items():
        (home / "base" / name).write_text(text)
    return home / "base"


def document(home: Path, name: str) -> Any:
    return json.loads((home / name).read_text())


@pytest.mark.parametrize("form", FORMS)
def test_templates_are_read_as_transformers_does_and_kept(form: str, tmp_path: Path) -> None:
    theirs = AutoTokenizer.from_pretrained(home := base(tmp_path, form))
    ours = bpe_pipeline.Tokenizer.load(home)
    for tools in (None, TOOLS) if form != "no default" else ():
        expected = theirs.apply_chat_template(MESSAGES, tools=tools, tokenize=False)
        assert ours.apply_chat_template(MESSAGES, tools=tools, tokenize=False) == expected
    counts = bpe_pipeline.combine({"abab": 9}, special_tokens=[BOS, EOT, EOT * 2], output=tmp_path / "run")
    bpe_pipeline.export(home, output=tmp_path / "export", export=["hf"], added_special_tokens=["<x>"])
    bpe_pipeline.extend(home, counts, add=1, output=tmp_path / "extend")
    ours.save(tmp_path / "save")
    for name in ("export", "extend", "save"):
        again = tmp_path / name
        assert AutoTokenizer.from_pretrained(again).chat_template == theirs.chat_template
        assert document(again, "generation_config.json") == GENERATION
        config = document(again, "tokenizer_config.json")
        assert (config["mask_token"], config["own"]) == (BOS, 7)
        assert not [*again.rglob("*.jinja")]
    assert run("verify", tmp_path / "extend").returncode == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_new_template_takes_the_place_of_the_default_alone(form: str, tmp_path: Path) -> None:
    theirs = AutoTokenizer.from_pretrained(home := base(tmp_path, form))
    (tmp_path / "new.jinja").write_text(writing("new "))
    options: dict[str, Any] = {"chat_template": str(tmp_path / "new.jinja"), "pad_token": "<pad>", "eos_token": BOS}
    done = bpe_pipeline.export(home, output=tmp_path / "out", export=["hf"], **options)
    again, before = AutoTokenizer.from_pretrained(tmp_path / "out"), theirs.chat_template
    others = {name: text for name, text in before.items() if name != "default"} if isinstance(before, dict) else {}
    assert again.chat_template == ({"default": writing("new ")} | others if others else writing("new "))
    assert document(tmp_path / "out", "generation_config.json") == GENERATION
    kept = "note: generation_config.json is kept as it is: change it by hand for the new roles ("
    assert f"{kept}eos_token_id [416], pad_token_id 419)" in done.notes


def test_what_would_be_replaced_needs_overwrite(tmp_path: Path) -> None:
    home = base(tmp_path, "directory")
    before = {file.name: file.read_bytes() for file in home.rglob("*") if file.is_file()}
    said = refused(run("export", home, "--special-token", "<x>", "--export", "hf", "-o", home), 2)
    assert "base has other content in special_tokens_map.json, tokenizer_config.json, tokenizer.json; choose" in said
    assert {file.name: file.read_bytes() for file in home.rglob("*") if file.is_file()} == before
    succeeded(run("export", home, "--special-token", "<x>", "--export", "hf", "-o", home, "--overwrite"))
    assert bpe_pipeline.Tokenizer.load(home).special_tokens["<x>"] == 419
    assert document(home, "generation_config.json") == GENERATION
    assert AutoTokenizer.from_pretrained(home).chat_template == {"default": DEFAULT, "tool_use": TOOL_USE}
    bpe_pipeline.export(home, export=["hf"])  # writes the same again
    (plain := tmp_path / "plain").mkdir()
    (plain / "chat_template.jinja").write_text(OTHER)
    made("gpt2", PLAIN).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UsageError, match=r"chat_template\.jinja would be read in place of the exported chat template"):
        bpe_pipeline.export(tmp_path / "tokenizer.json", output=plain, export=["hf"], overwrite=True)


END, RESERVED = "<|endoftext|>", "<|reserved_special_token_0|>"


@pytest.mark.parametrize(
    "settings",
    [
        {"mask_token": RESERVED, "image_token": {"content": RESERVED}, "add_eos_token": False},
        {"extra_special_tokens": {"image_token": RESERVED, "other_token": END}},
        {"model_specific_special_tokens": {"image_token": RESERVED, "other_token": END}},
        {"extra_special_tokens": [RESERVED, END]},
    ],
)
def test_settings_do_not_name_a_reserved_token_that_has_another_name_now(settings: Any, tmp_path: Path) -> None:
    bpe_pipeline.Tokenizer.from_merges([(b"a", b"b")], [END, RESERVED]).save(tmp_path / "base")
    (tmp_path / "base/tokenizer_config.json").write_text(json.dumps(settings | {"eos_token": END}))
    bpe_pipeline.export(tmp_path / "base", output=tmp_path / "new", export=["hf"], added_special_tokens=["<x>"])
    special = {END: 257, "<x>": 258}
    assert bpe_pipeline.load(tmp_path / "new").special_tokens == special
    assert AutoTokenizer.from_pretrained(tmp_path / "new").added_tokens_encoder == special
    assert "reserved" not in (tmp_path / "new/tokenizer_config.json").read_text()
