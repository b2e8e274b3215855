"""Marks in the data of what is trained on: they are followed, by templates with marks of generation and without."""

from typing import Any

import pytest
from chat_cases import GENERATION, trained_text, turns, with_template

import bpe_pipeline
from bpe_pipeline.tokenizer.named_templates import named_template

CHATML = named_template("chatml").jinja
BAD = [{"weight": 0}, {"train": False}, {"trainable": "false"}, {"loss_mask": 0.0}, {"training": 0}, {"loss": False}]


def _encoded(jinja: str, messages: list[dict[str, Any]], **options: Any) -> list[str]:
    """Return what is trained on of a row with these messages, or nothing if it is dropped."""
    tokenizer = with_template(jinja)
    rows = bpe_pipeline.encode_chat([{"messages": messages}], tokenizer, **options)
    return [trained_text(tokenizer, row) for row in rows]


@pytest.mark.parametrize("mark", BAD)
@pytest.mark.parametrize("jinja", [CHATML, GENERATION.sub("", CHATML)])
def test_an_answer_that_is_marked_is_not_trained_on(mark: dict[str, Any], jinja: str) -> None:
    for at in range(3):
        marks: list[dict[str, Any]] = [{}, {}, {"weight": 1}]
        marks[at] = mark
        messages = [turn for number, more in enumerate(marks) for turn in turns("low", f"er{number}", **more)]
        answers = [f"er{number}<|im_end|>\n" for number in range(3) if number != at]
        assert _encoded(jinja, messages) == ["".join(answers)]
    whole = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in (("user", "low"), ("assistant", "er")))
    assert _encoded(jinja, turns("low", "er", **mark), train_on_prompt=True) == [whole.replace("er<|im_end|>\n", "")]
    assert _encoded(jinja, turns("low", "er", **mark)) == []


@pytest.mark.parametrize("jinja", [CHATML, GENERATION.sub("", CHATML)])
def test_what_is_not_understood_is_dropped(jinja: str, caplog: pytest.LogCaptureFixture) -> None:
    asked, answer = turns("low", "er")
    assert _encoded(jinja, [{**asked, "weight": 1}, answer]) == []
    assert _encoded(jinja, [{**asked, "weight": 0}, answer], train_on_prompt=True) == []
    for mark in (0.5, [0, 1], "no"):
        assert _encoded(jinja, [asked, {**answer, "weight": mark}]) == []
    assert caplog.text.count("what changes how they are trained on is not understood") == 5
    assert _encoded(jinja, [{**asked, "weight": 0}, answer]) == ["er<|im_end|>\n"]


def test_history_is_masked() -> None:
    messages = [*turns("low", "a"), *turns("the", "b")]
    assert _encoded(CHATML, messages, mask_history=True) == ["b<|im_end|>\n"]
    assert _encoded(CHATML, [*messages[:3], {**messages[3], "weight": 0}], mask_history=True) == []
