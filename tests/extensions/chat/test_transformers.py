"""Rows are those of transformers' `apply_chat_template`: ids, and the mask of what is generated.

Templates without marks have no mask there; labels are compared with those of an oracle that renders prefixes.
"""

import os
import re
import tracemalloc
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import samples
from chat_cases import CALLS, GENERATION, TEMPLATE_MODEL, THINKING, TOOL, dialog, trained_text, with_template

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.tokenizer.model import ChatTemplate, Preparation
from bpe_pipeline.tokenizer.named_templates import NAMES, named_template

DATA = Path(os.environ.get("BPE_PIPELINE_TEST_DATA", "/nowhere/data"))
TEMPLATES = sorted((DATA.parent / "trl").glob("**/*.jinja"))  # unpacked from the wheel of TRL
SAID = "<think>\nlow\n</think>\n\nlower"
ASKED, LAST = {"role": "user", "content": "the"}, {"role": "assistant", "content": "low"}
ENDING = {"role": "assistant", "content": "lower"}
ANSWERED = {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "9"}
BLANKS = {**ENDING, "content": " \nlower\n\nlow e\u0301 \u0938\u094d\u0924 \U0001f600 "}
DIALOGS: list[dict[str, Any]] = [
    *({"messages": [*system, ASKED, ENDING]} for system in ([], [{"role": "system", "content": "Be."}])),
    {"messages": [{"role": "system", "content": ""}, ASKED, ENDING]},
    {"messages": [{"role": "developer", "content": "Be."}, ASKED, ENDING]},
    {"messages": [ASKED, LAST, ASKED, LAST, ASKED, BLANKS]},
    {"messages": [ASKED, {**ENDING, "content": SAID}, ASKED, {**ENDING, "content": SAID}]},
    {"messages": [ASKED, {**LAST, "reasoning": "why"}, ASKED, {**ENDING, "reasoning_content": "how"}]},
    {"messages": [ASKED, ENDING], "tools": [TOOL]},
    *(
        {"messages": [ASKED, {**LAST, "content": text, "tool_calls": CALLS}, ANSWERED, ENDING], "tools": [TOOL]}
        for text in ("", None)
    ),
    {"messages": [ASKED, {**LAST, "thinking": "so", "tool_calls": CALLS * 2}, ANSWERED, ANSWERED, ENDING, ASKED, LAST]},
    {"messages": [ASKED, ENDING], "chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "high"}},
    {"messages": [ASKED, ASKED, ENDING, ASKED]},
    {"messages": [{**said, "content": [{"type": "text", "text": said["content"]}]} for said in (ASKED, ENDING)]},
]
MODELS = {
    "few merges": TEMPLATE_MODEL,
    "nfc": replace(TEMPLATE_MODEL, preparation=Preparation(nfc=True)),
    "llama3": replace(
        samples.tokenizer("llama3", (*TEMPLATE_MODEL.vocabulary.special_tokens,)).model, roles=TEMPLATE_MODEL.roles
    ),
}


@cache
def _both(model: str, jinja: str) -> tuple[Tokenizer, Any]:
    """Return a tokenizer with a template, and the same in transformers."""
    tokenizer = Tokenizer.from_model(replace(MODELS[model], chat_template=ChatTemplate(jinja)))
    return tokenizer, tokenizer.to_transformers()


def _expected(theirs: Any, row: dict[str, Any], *, marked: bool) -> dict[str, list[int]] | None:
    """Return the row of transformers; None if it takes no such row, or has no answer in it."""
    variables = {name: row.get(name) for name in ("tools", "documents")} | row.get("chat_template_kwargs", {})
    try:
        made = theirs.apply_chat_template(row["messages"], **variables, return_assistant_tokens_mask=True)
        text = theirs.apply_chat_template(row["messages"], **variables, tokenize=False)
    except Exception:
        return None
    mask = made["assistant_masks"]
    if not marked:
        spans = _spans_by_prefixes(theirs, row["messages"], variables, text)
        offsets = theirs(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        mask = [any(low < stop and high > start for start, stop in spans) for low, high in offsets]
    labels = [id_ if generated else -100 for id_, generated in zip(made["input_ids"], mask, strict=True)]
    return {"input_ids": made["input_ids"], "labels": labels} if any(mask) else None


def _spans_by_prefixes(theirs: Any, messages: list[Any], variables: Any, text: str) -> list[tuple[int, int]]:
    def written(count: int, *, prompt: bool = False) -> str:
        return str(
            theirs.apply_chat_template(messages[:count], tokenize=False, add_generation_prompt=prompt, **variables)
        )

    spans = []
    for number in (at for at, message in enumerate(messages) if message["role"] == "assistant"):
        try:
            upto, prompt = written(number + 1), written(number, prompt=True)
            start = len(prompt)
            if not upto.startswith(prompt):
                before = written(number) if number else ""
                ends = (at for at, character in enumerate(prompt, 1) if character in "> ]\n")
                start = max((at for at in ends if upto.startswith(prompt[:at])), default=0)
                start = start if start > len(before) and upto.startswith(before) else len(upto)
        except Exception:
            continue
        if text.startswith(upto):
            spans.append((start, len(upto)))
    return spans


def _compare(model: str, jinja: str, row: dict[str, Any]) -> bool:
    """Compare a row with transformers' row; return whether there is one."""
    tokenizer, theirs = _both(model, jinja)
    expected = _expected(theirs, row, marked=re.search(r"{%-?\s*generation", jinja) is not None)
    options: dict[str, Any] = {"sequence_length": 1 << 20, "special_tokens_in_messages": "tokens"}
    assert next(bpe_pipeline.encode_chat([row], tokenizer, **options), None) == expected, row
    return expected is not None


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_rows_by_named_templates_are_those_of_transformers(name: str, model: str) -> None:
    jinja = named_template(name).jinja
    assert sum(_compare(model, jinja, row) for row in DIALOGS) >= 6
    assert sum(_compare(model, GENERATION.sub("", jinja), row) for row in DIALOGS[:7]) >= 4


def test_rows_at_random_are_those_of_transformers() -> None:
    chosen = Random(61)
    words = [
        "low",
        "er",
        "the",
        "\n",
        "  ",
        "",
        "é",
        "\U0001f600",
        "x<",
        "<think>",
        "</think>",
        "<|im_end|>",
        "[INST]",
        "1",
    ]

    def message(role: str) -> dict[str, Any]:
        said: dict[str, Any] = {"role": role, "content": " ".join(chosen.choices(words, k=chosen.randint(0, 9)))}
        if chosen.random() < 0.1:
            said["content"] = [{"type": "text", "text": said["content"]}]
        if role == "assistant" and chosen.random() < 0.1:
            said |= chosen.choice(({"tool_calls": CALLS}, {"reasoning_content": "why"}, {"content": None}))
        return said

    compared = 0
    for _ in range(1000):
        roles = ["system"] * (chosen.random() < 0.3) + ["user", "assistant"] * chosen.randint(1, 4)
        roles = [role if chosen.random() < 0.95 else chosen.choice(("user", "assistant", "tool")) for role in roles]
        jinja = named_template(chosen.choice(NAMES)).jinja
        jinja = chosen.choice((jinja, GENERATION.sub("", jinja), THINKING))
        row: dict[str, Any] = {"messages": [*map(message, roles)], **chosen.choice(({}, {}, {"tools": [TOOL]}))}
        compared += _compare(chosen.choice([*MODELS]), jinja, row)
    assert compared > 600


@pytest.mark.slow
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_rows_by_published_templates_are_those_of_transformers(path: Path) -> None:
    jinja = path.read_text()
    assert sum(_compare(model, jinja, row) for model in MODELS for row in DIALOGS)


def test_answers_that_are_rewritten_later_are_not_trained_on(caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = with_template(THINKING)
    dialogs = [dialog("a", "b", "c", "d"), dialog("a", SAID, "c", SAID)]
    rows = list(bpe_pipeline.encode_chat(dialogs, tokenizer))
    trained = [trained_text(tokenizer, row) for row in rows]
    assert trained == ["<think>\n\n</think>\n\nd<|im_end|>\n", f"{SAID}<|im_end|>\n"]
    assert "2 answers not trained on: the chat template rewrites them in later turns (first: row 0" in caplog.text


TYPED = "<|im_end|>\n<|im_start|>assistant\n"
EVERYTHING = (
    "{{ tools | tojson }}{{ documents | tojson }}{{ extra }}{% for m in messages %}<|im_start|>{{ m | WRITTEN }}"
    "{% generation %}{{ m.content }}{% endgeneration %}<|im_end|>\n{% endfor %}"
)


@pytest.mark.parametrize("written", ["tojson", "tojson(ensure_ascii=True)", "string"])
def test_special_tokens_in_messages_are_text(written: str, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = with_template(EVERYTHING.replace("WRITTEN", written))
    typed = {"a": TYPED, "b": [{TYPED: TYPED}]}
    calls = [{"id": TYPED, "function": {"name": "f", "arguments": typed}}]
    said = {**LAST, "reasoning_content": f"\ud800{TYPED}\ud801", "tool_calls": calls}
    row = {"messages": [{**ASKED, "name": TYPED}, said, {**LAST, "content": TYPED}], "documents": [{"text": TYPED}]}
    row["chat_template_kwargs"] = {"extra": TYPED}  # type: ignore[assignment]
    [found] = bpe_pipeline.encode_chat([row], tokenizer)
    ends = [tokenizer.special_tokens[text] for text in ("<|im_start|>", "<|im_end|>")]
    assert [found["input_ids"].count(end) for end in ends] == [3, 3]
    assert "ud80" not in tokenizer.decode(found["input_ids"])
    assert trained_text(tokenizer, found) == f"thelow{TYPED}"
    assert "special tokens in messages taken as text (first: row 0)" in caplog.text
    options: dict[str, Any] = {"special_tokens_in_messages": "refuse"}
    with pytest.raises(bpe_pipeline.SpecialTokenError, match=r"a message contains the special token '<\|im_"):
        list(bpe_pipeline.encode_chat([row], tokenizer, **options))


@pytest.mark.parametrize(
    ("jinja", "reason"),
    [
        ("{{ raise_exception('no') }}", "does not take them (first: row 0, the chat template does not take these "),
        ("{{ add_generation_prompt }}", "it writes no answer to train on"),
        ("{% for _ in range(200) %}{% endfor %}", "takes more than 100 steps"),
    ],
)
def test_a_row_that_a_template_does_not_take_is_dropped(
    jinja: str, reason: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bpe_pipeline.tokenizer.jinja_environment._MOST_STEPS", 100)
    assert list(bpe_pipeline.encode_chat(DIALOGS[:1], with_template(jinja))) == []
    assert reason in caplog.text


def test_tokens_that_take_white_space_in_are_followed() -> None:
    tokenizer = with_template(named_template("llama3").jinja, preparation=Preparation(space_in_front=True))
    [row] = bpe_pipeline.encode_chat([dialog("the", "low")], tokenizer)
    assert trained_text(tokenizer, row).replace(" ", "") == "low<|eot_id|>"


@pytest.mark.parametrize("jinja", [named_template("chatml").jinja, GENERATION.sub("", named_template("chatml").jinja)])
def test_a_long_row_takes_few_bytes_a_character(jinja: str) -> None:
    size = 1 << 17
    rows = bpe_pipeline.encode_chat([dialog("low", "a" * size)], with_template(jinja))
    tracemalloc.start()
    try:
        next(rows)
        assert tracemalloc.get_traced_memory()[1] < 30 * size
    finally:
        tracemalloc.stop()
