"""Conversations to ids and labels by named templates: the recorded rows of LLaMA-Factory, and what templates refuse."""

import re
from pathlib import Path
from typing import Any

import pytest
from chat_cases import (
    MARKS,
    TEMPLATE_MODEL,
    cases,
    conversation,
    dialog,
    recorded_tokenizer,
    small_tokenizer,
    trained_text,
)

import bpe_pipeline
from bpe_pipeline.extensions.chat.encoder import with_template
from bpe_pipeline.tokenizer.chat_templates import render
from bpe_pipeline.tokenizer.named_templates import NAMES, named_template

SAME_IDS = ("llama3", "chatml", "qwen", "gemma", "deepseek3")
OPTIONS = {"train_on_prompt", "mask_history"}
DIALOG = dialog("the low", "lower")
TEMPLATED = bpe_pipeline.Tokenizer.from_model(TEMPLATE_MODEL)


def _text_alone(case: dict[str, Any]) -> bool:
    """Whether a row has the text of LLaMA-Factory, but other ids: a slot of its templates is encoded on its own."""
    template, said = case["options"]["template"], case["example"]["_prompt"] + case["example"]["_response"]
    return template not in SAME_IDS or any(message["content"] != message["content"].strip() for message in said)


def test_recorded_rows_are_equal() -> None:
    equal, texts, refused = 0, 0, 0
    for case in cases("sft"):
        options, tokenizer = case["options"], recorded_tokenizer(case["tokenizer"])
        template = options.get("template")
        if template is None or "split_special_tokens" in options or case["name"] == "placeholder in text":
            continue  # `{{idx}}` in a message is replaced there
        if template == "qwen3" and options.keys() & {"mask_history", "preserve_thinking"}:
            continue  # thoughts of earlier answers are removed there
        variables = {"date_string": "22 Nov 2026"}
        variables |= {"enable_thinking": False} if options.get("enable_thinking") is False else {}
        arguments = {"sequence_length": options["cutoff_len"], "template_kwargs": variables}
        arguments |= {name: value for name, value in options.items() if name in OPTIONS}
        arguments["special_tokens_in_messages"] = "tokens"
        row, expected = conversation(case["example"]), case["result"]
        if expected is None:
            continue  # turns that do not alternate, which templates take
        try:
            rows = list(bpe_pipeline.encode_chat([row], tokenizer, template, **arguments))
        except bpe_pipeline.UsageError:
            if template in NAMES and options["cutoff_len"] >= 512:
                assert _written(template, tokenizer, row) == _text_of(case), (template, case["name"])
            refused += 1
            continue
        if not _text_alone(case):
            assert rows == [{key: expected[key] for key in ("input_ids", "labels")}], (case["name"], arguments)
            equal += 1
        elif options["cutoff_len"] >= 512:
            assert tokenizer.decode(rows[0]["input_ids"]) == expected["text"], case["name"]
            texts += 1
    assert equal > 50
    assert texts > 20
    assert refused > 10


def _written(template: str, tokenizer: bpe_pipeline.Tokenizer, row: dict[str, Any]) -> str:
    model = with_template(tokenizer.model, named_template(template))
    return render(model, row["messages"], add_generation_prompt=False)


def _text_of(case: dict[str, Any]) -> str:
    """Return the recorded text; a tokenizer without a token for it has no bos there."""
    text: str = case["result"]["text"]
    return text if case["tokenizer"] == "chat" else "<|begin_of_text|>" + text


TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}]
CALL = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
CALLED = [
    {"role": "user", "content": "low"},
    {"role": "assistant", "tool_calls": [CALL, {**CALL, "function": {"name": "g", "arguments": '{"x":1}'}}]},
    {"role": "tool", "content": "7"},
    {"role": "tool", "content": "8"},
    {"role": "assistant", "content": "er"},
]
CALLS = (
    '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>\n'
    '<tool_call>\n{"name": "g", "arguments": {"x":1}}\n</tool_call><|im_end|>\n'
)
RESPONSES = (
    "<|im_start|>user\n<tool_response>\n7\n</tool_response>\n<tool_response>\n8\n</tool_response><|im_end|>\n"
    "<|im_start|>assistant\n"
)
NO_THOUGHT = "<think>\n\n</think>\n\n"
CALLING = {
    "llama3": (
        '[{"name": "f", "parameters": {"x": 1}}, {"name": "g", "parameters": {"x":1}}]<|eot_id|>'
        "<|start_header_id|>ipython<|end_header_id|>\n\n7<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n8"
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\ner<|eot_id|>"
    ),
    "qwen": f"{CALLS}{RESPONSES}er<|im_end|>\n",
    "qwen3": f"{NO_THOUGHT}{CALLS}{RESPONSES}{NO_THOUGHT}er<|im_end|>\n",
}


@pytest.mark.parametrize("template", NAMES)
def test_tools_are_written_or_a_row_with_them_is_dropped(template: str, caplog: pytest.LogCaptureFixture) -> None:
    model = TEMPLATED.model
    rows = list(bpe_pipeline.encode_chat([{"messages": CALLED, "tools": TOOLS}], TEMPLATED, template))
    if template in CALLING:
        text = TEMPLATED.decode(rows[0]["input_ids"])
        assert text.endswith(CALLING[template])
        assert '"description": "d"' in text
        trained = TEMPLATED.decode([id_ for id_ in rows[0]["labels"] if id_ >= 0])
        assert "".join(CALLING[template].split(RESPONSES)) == trained or template == "llama3"
    else:
        assert rows == []
        assert "does not take these messages: this template has no form for tools" in caplog.text
    for messages in ([*CALLED[:1], {"role": "assistant"}], [{"role": "user", "content": [{"type": "image"}]}]):
        with pytest.raises(bpe_pipeline.UsageError, match=r"has no content|has no attribute 'text'"):
            render(with_template(model, named_template(template)), messages, add_generation_prompt=False)


@pytest.mark.parametrize("template", NAMES)
def test_contents_may_be_lists_of_texts_and_rows_start_with_the_prompt(template: str) -> None:
    texts = [{"role": role, "content": role} for role in ("system", "user", "assistant", "user", "assistant")]
    lists = [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in texts]
    model = with_template(TEMPLATED.model, named_template(template))
    [text, same] = (render(model, messages, add_generation_prompt=False) for messages in (texts, lists))
    assert text == same
    for count in (2, 4):
        assert text.startswith(render(model, texts[:count], add_generation_prompt=True))


def test_thoughts_of_qwen3() -> None:
    said = "<think>\nlow\n</think>\n\ner"
    rows: list[dict[str, Any]] = [
        dialog("the", said),
        {"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "er", "reasoning": "low"}]},
        dialog("the", "er"),
    ]
    for variables, trained in (({}, [said, said, f"{NO_THOUGHT}er"]), ({"enable_thinking": False}, ["er"] * 3)):
        found = list(bpe_pipeline.encode_chat(rows, TEMPLATED, "qwen3", template_kwargs=variables))
        assert [trained_text(TEMPLATED, row) for row in found] == [f"{text}<|im_end|>\n" for text in trained]
        assert NO_THOUGHT in TEMPLATED.decode(found[2]["input_ids"])


@pytest.mark.parametrize(
    ("name", "special_tokens", "options", "message"),
    [
        ("lama3", MARKS, {}, "did you mean 'llama3'"),
        ("vicuna", MARKS, {}, "llama3, chatml, qwen, qwen3"),
        ("tokenizer", MARKS, {}, "template tokenizer: the tokenizer has no chat template; name one"),
        ("chatml", [], {}, "needs <|im_start|>, <|im_end|>, which"),
        ("deepseek3", [], {}, "needs <\uff5cUser\uff5c>, <\uff5cAssistant\uff5c>, which"),
        ("llama3", ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], {}, "needs <|begin_of_text|>, which"),
        ("chatml", MARKS, {"train_on_prompt": True, "mask_history": True}, "--train-on-prompt excludes --mask-history"),
        ("llama3", MARKS, {"special_tokens_in_messages": "all"}, "in_messages: expected one of tokens, text"),
        ("llama3", MARKS, {"template_kwargs": "[1]"}, "template_kwargs: expected an object in JSON, such as"),
        ("llama3", MARKS, {"template_kwargs": {"messages": []}}, "expected other names than messages, which the rows"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, special_tokens: Any, options: Any, message: str) -> None:
    tokenizer = small_tokenizer() if special_tokens is MARKS else bpe_pipeline.Tokenizer.from_merges([], special_tokens)
    with pytest.raises(bpe_pipeline.PipelineError, match=re.escape(message)):
        bpe_pipeline.encode_chat([DIALOG], tokenizer, name, **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<|mine|>{{ messages }}", "mine.jinja needs <|mine|>, which this vocabulary lacks: add"),
        ("{% if tools %}<|mine|>{% endif %}", "mine.jinja needs <|mine|>, which this vocabulary lacks: add"),
        ("{% if %}", "mine.jinja: it is not valid Jinja (line 1: "),
    ],
)
def test_a_file_that_does_not_fit_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text(text)
    with pytest.raises(bpe_pipeline.UsageError, match=re.escape(message)):
        bpe_pipeline.encode_chat([DIALOG], small_tokenizer(), str(tmp_path / "mine.jinja"))


def test_a_tokenizer_without_an_end_of_text_has_no_rows(caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = bpe_pipeline.Tokenizer.from_merges([], [])
    for template in ("default", "alpaca"):
        assert list(bpe_pipeline.encode_chat([DIALOG], tokenizer, template)) == []
    assert "the tokenizer has no eos_token" in caplog.text


def test_a_template_that_differs_from_the_tokenizers_own_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    model = small_tokenizer().model
    for own, warned in (("chatml", False), ("llama3", True)):
        tokenizer = bpe_pipeline.Tokenizer.from_model(with_template(model, named_template(own)))
        list(bpe_pipeline.encode_chat([DIALOG], tokenizer, "chatml"))
        assert ("the tokenizer's own writes '<|begin_of_text|>" in caplog.text) == warned
