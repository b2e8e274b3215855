"""Templates: names, files of one's own, and vocabularies that lack their marks."""

import re
from pathlib import Path

import pytest
from chat_cases import small_tokenizer

import pipeline
from pipeline.shards.chat.templates import missing_marks, template_named

DIALOG = {"messages": [{"role": "user", "content": "low"}, {"role": "assistant", "content": "er"}]}


def test_a_template_of_ones_own_may_be_like_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text('like: chatml\nuser: ["Q {{content}}\\n", {id: eos}]\ndefault_system: ""\n')
    row = next(pipeline.encode_chat([DIALOG], small_tokenizer(), template=str(path)))
    assert small_tokenizer().decode(row["input_ids"]) == "Q low\n<|im_end|>er<|im_end|>\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user: 3", "is no slot"), ("user: [low]", "needs a text with"),
        ('prefix: ["{{content}}"]', "must not have"), ("nonsense: 1", "the field 'nonsense' is unknown"),
        ("like: none", "which is unknown"), ("kind: odd", "kind must be one of plain"),
        ("replace_eos: true", "replace_eos needs stop_words"), ("efficient_eos: 1", "efficient_eos is 1"),
        ("[", "cannot be read"), ("- a", "must hold the fields"),
    ],
)  # fmt: skip
def test_a_wrong_template_is_an_error_that_names_the_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(pipeline.PipelineError, match=message):
        template_named(str(path))


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(pipeline.PipelineError, match="did you mean 'llama3'"):
        template_named("lama3")
    with pytest.raises(pipeline.PipelineError, match="llama3, chatml, qwen, qwen3"):
        template_named("zzz")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('user: ["<|mine|>{{content}}<|im_end|>"]', "<|mine|>"),
        ('like: chatml\nmarks: []\nuser: ["<\uff5cUser\uff5c>{{content}}"]', "<\uff5cUser\uff5c>"),
        ('assistant: ["{{content}}</s>"]', "</s>"),
        ('prefix: ["<start_of_turn>"]\nmarks: ["<x>"]', "<x> <start_of_turn>"),
    ],
)
def test_marks_in_a_file_that_the_vocabulary_lacks_are_refused(tmp_path: Path, text: str, missing: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    named = re.escape(f"mine: the vocabulary has no special token {missing};")
    with pytest.raises(pipeline.PipelineError, match=named):
        pipeline.encode_chat([DIALOG], small_tokenizer(), template=str(path))


def test_missing_marks_are_named() -> None:
    plain = pipeline.Tokenizer.from_merges([], ["<|endoftext|>"])
    assert missing_marks(template_named("chatml"), plain.model) == ["<|im_start|>", "<|im_end|>"]
    for name, marks, model in (
        ("chatml", r"<\|im_start\|> <\|im_end\|>; add", plain),
        ("deepseek3", "<\uff5cUser\uff5c> <\uff5cAssistant\uff5c>; add", plain),
        ("default", "the tokenizer has none", pipeline.Tokenizer.from_merges([], [])),
    ):
        with pytest.raises(pipeline.PipelineError, match=marks):
            pipeline.encode_chat([DIALOG], model, template=name)
