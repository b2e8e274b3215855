"""Tokens that start, end and fill texts: in the files, in transformers, and what encoding adds."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import refused, run, run_here, succeeded
from transformers import AutoTokenizer, GenerationConfig

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.commands.report import EXTENT
from bpe_pipeline.tokenizer.named_templates import named_template

EOT = "<|endoftext|>"
Train = Callable[..., CompletedProcess[str]]
TEXTS = ["low lower", "", f"newest{EOT}wide", "<s>low"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("roles")
    (home / "a.txt").write_text(EOT.join(["low lower lowest", "newest widest", "wide new"] * 9))
    roles = ["--bos-token", "<s>", "--pad-token", "<pad>", "--add-bos"]
    succeeded(run("train", home / "a.txt", "--output", home / "run", "--vocab-size", 280, "--workers", 1, *roles))
    return home / "run"


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Train on a.txt, which is written with a text the first time, in `run`."""
    path = tmp_path / "a.txt"

    def train(*options: object, text: str = "low lower lowest newest widest wide new " * 9) -> CompletedProcess[str]:
        if not path.exists():
            path.write_text(text)
        return run_here("train", "a.txt", "--output", "run", *options, cwd=tmp_path)

    return train


def test_bos_is_added_as_transformers_does(trained: Path) -> None:
    ours = Tokenizer.load(trained / "tokenizer")
    theirs = AutoTokenizer.from_pretrained(trained / "tokenizer")
    core = ours.to_tokenizers()
    assert (theirs.bos_token, theirs.eos_token, theirs.pad_token) == ("<s>", EOT, "<pad>")
    for text in TEXTS:
        ids = ours.encode(text)
        assert ids == theirs(text).input_ids == core.encode(text).ids
        assert ids[0] == ours.special_tokens["<s>"]
        without = ours.encode(text, add_special_tokens=False)
        assert without == ids[1:] == theirs(text, add_special_tokens=False).input_ids
        assert ours.encode_to_numpy(text).tolist() == list(ours.encode_iterable(iter([text]))) == ids
        assert ours.count_tokens(text) == len(ids)
    assert theirs("low", "wide").input_ids == ours.encode("low") + ours.encode("wide")
    assert ours.encode_batch(TEXTS) == theirs(TEXTS).input_ids
    assert ours.encode_batch(TEXTS, add_special_tokens=False) == [ours.encode(text)[1:] for text in TEXTS]
    assert ours.encode_ordinary_batch(["low"]) == [ours.encode_ordinary("low")] == [ours.encode("low")[1:]]


def test_bos_survives_saving_and_checking(trained: Path, tmp_path: Path) -> None:
    ours = Tokenizer.load(trained / "tokenizer")
    AutoTokenizer.from_pretrained(trained / "tokenizer").save_pretrained(tmp_path / "theirs")
    ours.save(tmp_path / "ours")
    for copy in (tmp_path / "theirs", tmp_path / "ours"):
        assert [Tokenizer.load(copy).encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]
    checked = run("export", trained, "--output", tmp_path / "e", "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("the same ids") >= 3
    assert "as the merge list gives them" in bpe_pipeline.verify(trained)["tokenizer"]


def test_export_keeps_the_settings_of_others(tmp_path: Path) -> None:
    base = tmp_path / "base"
    Tokenizer.from_merges([(b"a", b"b")], ["<|endoftext|>", "<|reserved_1|>", "<x>"]).save(base)
    config = base / "tokenizer_config.json"
    kept = {"model_input_names": ["input_ids"], "clean_up_tokenization_spaces": True, "model_max_length": 4096}
    listed = {"additional_special_tokens": ["<|reserved_1|>", {"content": "<x>"}]}
    config.write_text(json.dumps({**json.loads(config.read_text()), **kept, **listed, "add_bos_token": True}))
    bpe_pipeline.export(base, output=tmp_path / "out", export=["hf"], added_special_tokens=["<new>"])
    found = json.loads((tmp_path / "out/tokenizer_config.json").read_text())
    assert kept.items() <= found.items()
    assert (found["additional_special_tokens"], "add_bos_token" in found) == ([{"content": "<x>"}], False)


@pytest.mark.parametrize("documents", ["separator", "offsets"])
@pytest.mark.parametrize("errors", ["replace", "skip"])
def test_each_document_of_files_starts_with_bos(trained: Path, tmp_path: Path, documents: str, errors: str) -> None:
    ours = Tokenizer.load(trained / "tokenizer")
    texts = ["low lower lowest " * 40, "", "<pad>newest widest", "<pad>", "wide new " * 300, "low"]
    filled = [text for text in texts if text]
    (tmp_path / "a.txt").write_text(EOT.join(texts))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in filled))
    end = [ours.special_tokens[EOT]] if documents == "separator" else []
    expected = [[*(ours.encode(text) if text else []), *end] for text in texts + filled]
    for size in ("1KiB", "61", "64MiB"):
        found = bpe_pipeline.encode(tmp_path, ours, chunk_size=size, documents=documents, errors=errors, workers=1)
        assert [list(document) for document in found] == expected, size


def test_roles_change_when_exported(trained: Path, tmp_path: Path) -> None:
    roles = ["--eos-token", "<pad>", "--pad-token", "<new>"]
    assert "give --output" in refused(run("export", trained, *roles), 2)
    assert run("export", trained, *roles, "--output", tmp_path / "e", "--export", "hf", "--check").returncode == 0
    theirs = AutoTokenizer.from_pretrained(tmp_path / "e")
    assert (theirs.bos_token, theirs.eos_token, theirs.pad_token) == ("<s>", "<pad>", "<new>")
    assert theirs.convert_tokens_to_ids("<new>") == Tokenizer.load(trained / "tokenizer").vocab_size
    model = Tokenizer.load(tmp_path / "e").model
    assert (model.separator, model.eos_token) == (EOT, "<pad>")
    with pytest.raises(UsageError, match="name it as the bos_token"):
        bpe_pipeline.train(__file__, vocab_size=300, add_bos=True)


CHATML = ["--special-token", "<|im_start|>", "--special-token", "<|im_end|>"]


def test_chat_template_leaves_the_end_of_documents_alone(train: Train, tmp_path: Path) -> None:
    home, text = tmp_path / "run/tokenizer", EOT.join(["low lower lowest", "newest widest", "wide new"] * 9)
    assert train("--vocab-size", 270, *CHATML, "--chat-template", "chatml", text=text).returncode == 0
    ours = Tokenizer.load(home)
    assert ours.model.eos_token == ours.model.separator == AutoTokenizer.from_pretrained(home).eos_token == EOT
    generation = GenerationConfig.from_pretrained(home)
    assert generation.eos_token_id == [ours.special_tokens[EOT], ours.special_tokens["<|im_end|>"]]
    encoded = bpe_pipeline.encode(tmp_path / "a.txt", ours)
    assert len(encoded) == 27
    assert {document[-1] for document in encoded} == {ours.special_tokens[EOT]}
    assert "generation_config.json" in bpe_pipeline.verify(tmp_path / "run")["tokenizer"]
    assert run("merge", tmp_path / "run").returncode == 0  # without a template nothing ends a turn
    assert not (home / "generation_config.json").exists()


def test_chat_template_of_a_file(train: Train, tmp_path: Path) -> None:
    turn = "<start_of_turn>{{ m.content }}<end_of_turn>"
    (tmp_path / "own.jinja").write_text(f"{{% for m in messages %}}{turn}{{% endfor %}}")
    special = ["--special-token", "<start_of_turn>", "--special-token", "<end_of_turn>"]
    assert train("--vocab-size", 265, "--chat-template", "own.jinja", *special).returncode == 0
    theirs = AutoTokenizer.from_pretrained(tmp_path / "run/tokenizer")
    ids = theirs.apply_chat_template([{"role": "user", "content": "low?"}], return_dict=False)
    assert theirs.decode(ids) == "<start_of_turn>low?<end_of_turn>"
    generation = json.loads((tmp_path / "run/tokenizer/generation_config.json").read_text())
    assert generation["eos_token_id"] == theirs.convert_tokens_to_ids([EOT, "<end_of_turn>"])


@pytest.mark.parametrize(
    ("jinja", "message"),
    [
        ("{{ '<|mine|>' }}", "own.jinja needs <|mine|>, which this vocabulary lacks"),
        ("{{ messages[0].content }}</s>", "own.jinja needs </s>, which"),
        ("<start_of_turn>{{ m.content }}<end_of_turn>", "own.jinja needs <start_of_turn>, <end_of_turn>"),
        ("<|im_start|>{% for m in messages %}", "is not valid Jinja (line 1: Unexpected end of template"),
        ("<|im_start|>{{ " + "(" * 3000 + ")" * 3000 + " }}", "is not valid Jinja (RecursionError: maximum recursion"),
        (None, "own.jinja does not exist"),
    ],
)
def test_a_template_file_with_other_marks_or_wrong_jinja_is_refused(jinja, message, train, tmp_path):
    if jinja is not None:
        (tmp_path / "own.jinja").write_text(jinja)
    assert message in refused(train(*CHATML, "--chat-template", "own.jinja"), 1 if jinja is None else 2)


def test_chat_template_option(train: Train, tmp_path: Path) -> None:
    assert "did you mean 'chatml'?" in refused(train("--chat-template", "chatlm"), 2)
    assert "the chat template chatml needs <|im_start|>, <|im_end|>" in refused(train("--chat-template", "chatml"), 2)
    assert not (tmp_path / "run").exists()
    assert train("--vocab-size", 262, "--chat-template", "chatml", *CHATML).returncode == 0
    assert run("export", tmp_path / "run", "--output", tmp_path / "e", "--export", "hf").returncode == 0
    for saved in (tmp_path / "run/tokenizer", tmp_path / "e"):
        assert Tokenizer.load(saved).model.chat_template == named_template("chatml")


def test_another_separator_than_the_corpus_has_is_warned_of(tmp_path: Path) -> None:
    ours = Tokenizer.from_merges([], [EOT, "<|im_end|>", "<doc>"])
    (tmp_path / "a.txt").write_text("low<doc>" * 231 + "low")
    with pytest.warns(UserWarning, match=r"'<doc>' occurs 231 times in the text, but '<\|endoftext\|>' is the separ"):
        assert len(bpe_pipeline.encode(tmp_path / "a.txt", ours, workers=1)) == 1
    with pytest.warns(UserWarning, match="ended 1 document: name"):
        bpe_pipeline.encode(tmp_path / "a.txt", ours, tmp_path / "shards", workers=1)
    (tmp_path / "b.txt").write_text(f"low{EOT}" * 5 + "low")
    with pytest.warns(UserWarning, match=r"'<\|endoftext\|>' occurs 5 times"):
        bpe_pipeline.encode(tmp_path / "b.txt", ours, separator="<|im_end|>", workers=1)
    (tmp_path / "c.txt").write_text(f"low<|im_end|>low<|im_end|>{EOT}" * 5)  # dialogs, each a document
    with pytest.warns(UserWarning, match=r"'<\|im_end\|>' 10 times; --special-tokens-in-text") as warned:
        assert len(bpe_pipeline.encode(tmp_path / "c.txt", ours, workers=1)) == 5
    assert len(warned) == 1


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.txt"])
def test_documents_that_would_end_as_turns_of_a_chat_are_warned_of(name: str, tmp_path: Path) -> None:
    """As with the tokenizer of an instruct model, whose eos ends a turn, also where no text says what separates."""
    home, corpus = tmp_path / "base", tmp_path / name
    bpe_pipeline.combine({"low": 5}, output=home, special_tokens=[EOT, "<|im_end|>"])
    bpe_pipeline.merge(home, vocab_size=260)
    config = home / "tokenizer" / "tokenizer_config.json"
    settings = json.loads(config.read_text()) | {"eos_token": "<|im_end|>"}
    config.write_text(json.dumps({key: value for key, value in settings.items() if "separator" not in key}))
    (home / "tokenizer" / "special_tokens_map.json").unlink()  # of the roles before
    if name == "a.parquet":
        pq.write_table(pa.table({"text": ["low", "lower"]}), corpus)
    else:
        corpus.write_text('{"text": "low"}\n' if name == "a.jsonl" else "low")
    said = r"documents end with '<\|im_end\|>', which ends turns .* again with --separator '<\|endoftext\|>'$"
    with pytest.warns(UserWarning, match=said):
        bpe_pipeline.encode(corpus, home, tmp_path / "shards", workers=1)
    for separator in (EOT, "<|im_end|>"):  # whoever says which one is not warned
        bpe_pipeline.encode(corpus, home, tmp_path / separator[2:5], workers=1, separator=separator)


PAD = ["--pad-token", "<pad>"]
ALONE, BOTH = {EOT: 269}, {EOT: 268, "<pad>": 269}


@pytest.mark.parametrize(
    ("before", "command", "said", "special"),
    [
        ([], ["merge", *PAD], r"'<|endoftext|>' 269 -> 268, 1 ordinary token gone, '<pad>' is 269", None),
        ([], ["train", *PAD], r"'<|endoftext|>' 269 -> 268", None),
        (PAD, ["train"], "'<pad>' 269 is gone", None),
        (PAD, ["train", "more.txt"], "is made again with --pad-token none in place of --pad-token '<pad>'", ALONE),
        (PAD, ["merge", "--pad-token", "<x>"], "--pad-token '<x>' in place of --pad-token '<pad>'", None),
        ([], ["merge", "--pad-token", "none"], "'none' would be a plain word", None),
        ([], ["merge", *PAD, "--overwrite"], "tokenizer: '<|endoftext|>' 269 -> 268", BOTH),
        (PAD, ["merge", "--overwrite"], "'<|endoftext|>' 268 -> 269, '<pad>' 269 is gone", ALONE),
        (PAD, ["merge", "--vocab-size", 265], "tokenizer-265 is as tokenizer: --pad-token '<pad>'", BOTH),
        ([], ["merge", "--pad-token", EOT], "--pad-token none: no id changes", ALONE),
        (PAD, ["merge"], "", BOTH),
    ],
)
def test_ids_that_exist_change_only_with_overwrite(before, command, said, special, train, tmp_path):
    (tmp_path / "more.txt").write_text("wide new low " * 9)
    assert train("--vocab-size", 270, *before).returncode == 0
    stored = Tokenizer.load(tmp_path / "run").special_tokens
    name, *options = command
    found = train("--vocab-size", 270, *options) if name == "train" else run_here("merge", tmp_path / "run", *options)
    assert said in found.stdout + found.stderr
    assert found.returncode == 0 if special else refused(found, found.returncode)
    assert Tokenizer.load(tmp_path / "run").special_tokens == (special or stored)
    bpe_pipeline.verify(tmp_path / "run")


@pytest.fixture
def chatty(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with a chat template and a model card, of 270 and 265 tokens."""
    monkeypatch.setenv(EXTENT, "page")
    assert train("--vocab-size", "270,265", *CHATML, "--chat-template", "chatml", "--workers", 1).returncode == 0
    return tmp_path / "run"


def test_merging_again_says_what_of_the_tokenizers_is_lost(chatty: Path) -> None:
    assert "its chat template" not in run_here("merge", chatty, "--chat-template", "chatml").stderr
    lost = run_here("merge", chatty)
    assert f"{chatty / 'tokenizer'} is made again without its chat template: --chat-template keeps it" in lost.stderr
    assert "removed" not in lost.stdout
    shown = run_here("merge", chatty, "--vocab-size", 270, "--overwrite").stdout.splitlines()
    assert [line.split(None, 1)[1] for line in shown if line.startswith("removed")] == ["tokenizer-265"]
    assert not (chatty / "tokenizer-265").exists()


@pytest.mark.parametrize("named", [".", "tokenizer.json"])
def test_roles_changed_from_within_the_directory_are_those_of_the_run_and_its_card(named: str, chatty: Path) -> None:
    home, eos = chatty / "tokenizer", ["--eos-token", "<|im_end|>"]
    for same in (["report", named], ["export", named, "--eos-token", EOT]):
        assert run_here(*same, cwd=home).returncode == 0
        assert (home / "README.md").exists()
    found = run_here("export", named, *eos, cwd=home)
    assert "the model card was of other special tokens and is removed; bpe-pipeline report . " in found.stderr
    assert not (home / "README.md").exists()
    assert "edited" not in bpe_pipeline.verify(chatty)["tokenizer"]
    (home / "README.md").write_text("my own")
    assert "model card" not in run_here("export", named, "--eos-token", EOT, cwd=home).stderr
    assert (home / "README.md").read_text() == "my own"


@pytest.mark.parametrize(
    "command",
    [
        ["merge", "--vocab-size", 264, "--special-token", "<low>"],
        ["merge", "--vocab-size", 265, "--pad-token", "<low>", "--overwrite"],
        ["train", "--vocab-size", 265, "--pad-token", "<low>"],
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_a_special_token_that_is_an_ordinary_token_leaves_nothing(command, train, tmp_path):
    name, *options = command
    if name == "merge":
        assert train("--pattern", "none", "--vocab-size", 265, text="<low>" * 27).returncode == 0
        found = run_here("merge", tmp_path / "run", *options)
    else:
        found = train("--pattern", "none", *options, text="<low>" * 27)
    assert "the special token '<low>': an ordinary token has the same name" in refused(found, 1)
    assert ("none" in bpe_pipeline.verify(tmp_path / "run")["tokenizer"]) == (name == "train")
    assert run_here("merge", tmp_path / "run").returncode == 0
    assert "<low>" not in Tokenizer.load(tmp_path / "run").special_tokens
    bpe_pipeline.verify(tmp_path / "run")
