"""Templates: names, files of one's own, and vocabularies that lack their marks."""

import re
from pathlib import Path

import pytest
from chat_cases import small_tokenizer

import pipeline

EOT = "<|endoftext|>"
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
        ('user: ["<|mine|>{{content}}<|im_end|>"]', "mine: the vocabulary has no special token <|mine|>;"),
        ('like: chatml\nmarks: []\nuser: ["<\uff5cUser\uff5c>{{content}}"]', "no special token <\uff5cUser\uff5c>;"),
        ('assistant: ["{{content}}</s>"]', "no special token </s>;"),
        ('prefix: ["<start_of_turn>"]\nmarks: ["<x>"]', "no special token <x> <start_of_turn>;"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_an_error_that_names_the_field_or_the_marks(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(pipeline.PipelineError, match=re.escape(message)):
        pipeline.encode_chat([DIALOG], small_tokenizer(), template=str(path))


@pytest.mark.parametrize(
    ("name", "special_tokens", "message"),
    [
        ("lama3", [EOT], "did you mean 'llama3'"),
        ("zzz", [EOT], "llama3, chatml, qwen, qwen3"),
        ("chatml", [EOT], "<|im_start|> <|im_end|>; add"),
        ("deepseek3", [EOT], "<\uff5cUser\uff5c> <\uff5cAssistant\uff5c>; add"),
        ("default", [], "the tokenizer has none"),
    ],
)
def test_a_name_that_does_not_fit_is_refused(name: str, special_tokens: list[str], message: str) -> None:
    with pytest.raises(pipeline.PipelineError, match=re.escape(message)):
        pipeline.encode_chat([DIALOG], pipeline.Tokenizer.from_merges([], special_tokens), template=name)
