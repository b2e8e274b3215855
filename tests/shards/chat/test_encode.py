"""Conversations to ids and labels: the recorded results of LLaMA-Factory, and the rules by themselves."""

from typing import Any

import pytest
from chat_cases import cases, conversation, recorded_tokenizer, small_tokenizer

import pipeline
from pipeline.shards.chat.encoder import infer_seqlen

DIALOG = {"messages": [{"role": "user", "content": "the low"}, {"role": "assistant", "content": "lower"}]}
RECORDED_ON = "22 Nov 2026"  # which a template writes before tools
NOT_HERE = {"split_special_tokens"}  # never useful


def test_recorded_rows_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.shards.chat.encode.today", lambda: RECORDED_ON)
    equal = refused = 0
    for case in cases("sft"):
        options: dict[str, Any] = dict(case["options"])
        template, after = options.pop("template", None), case["tokenizer_after"]
        if template is None or NOT_HERE & set(options):
            continue
        arguments = {"template": template, "sequence_length": options.pop("cutoff_len"), **options}
        tokenizer, dialog = recorded_tokenizer(case["tokenizer"]), conversation(case["example"])
        if after["size_after"] > after["size_before"]:  # marks would be added behind the model's last id
            with pytest.raises(pipeline.PipelineError, match="no special token <"):
                list(pipeline.encode_chat([dialog], tokenizer, **arguments))
            refused += 1
            continue
        expected = [] if case["result"] is None else [{key: case["result"][key] for key in ("input_ids", "labels")}]
        assert list(pipeline.encode_chat([dialog], tokenizer, **arguments)) == expected, (case["name"], arguments)
        equal += 1
    assert equal > 150
    assert refused > 5


def test_defaults_are_llama3_and_4096_ids() -> None:
    long = {"messages": [DIALOG["messages"][0], {"role": "assistant", "content": "low " * 9000}]}
    tokenizer = small_tokenizer()
    named = pipeline.encode_chat([DIALOG, long], tokenizer, template="llama3", sequence_length=4096)
    rows = list(pipeline.encode_chat([DIALOG, long], tokenizer))
    assert rows == list(named)
    assert len(rows[1]["input_ids"]) == 4096


def test_recorded_lengths_are_equal() -> None:
    for source, target, limit, *expected in cases("infer_seqlen"):
        if limit or source or target:
            assert list(infer_seqlen(source, target, limit)) == expected


def test_special_tokens_in_the_text_are_recognised() -> None:
    tokenizer = small_tokenizer()
    dialog = {"messages": [{"role": "user", "content": "<|eot_id|>"}, {"role": "assistant", "content": "low"}]}
    row = next(pipeline.encode_chat([dialog], tokenizer, template="llama3"))
    assert row["input_ids"].count(tokenizer.special_tokens["<|eot_id|>"]) == 3
    assert tokenizer.decode(row["input_ids"]).startswith("<|begin_of_text|><|start_header_id|>user")


def test_tools_and_calls_of_them() -> None:
    tools = (
        '[{"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "int"}}}}]'
    )
    messages = [
        {"role": "user", "content": "a"},
        {"role": "function", "content": '{"name": "f", "arguments": {"x": 1}}'},
        {"role": "observation", "content": "1"},
        {"role": "assistant", "content": "b"},
    ]
    texts = {}
    for template in ("llama3", "qwen", "default"):
        rows = pipeline.encode_chat([{"messages": messages, "tools": tools}], small_tokenizer(), template=template)
        texts[template] = small_tokenizer().decode(next(rows)["input_ids"])
    assert '{"name": "f", "parameters": {"x": 1}}<|eot_id|>' in texts["llama3"]
    assert "<tool_call>\n" + '{"name": "f", "arguments": {"x": 1}}' in texts["qwen"]
    assert 'Action: f\nAction Input: {"x": 1}<|endoftext|>' in texts["default"]
    assert "> Tool Name: f\nTool Description: d\nTool Args:\n  - x (int): \n" in texts["default"]


@pytest.mark.parametrize(
    ("settings", "text", "learned"),
    [
        ({}, "<think>\n\n</think>\n\nlower", True),
        ({"enable_thinking": None}, "<think>\n\n</think>\n\nlower", False),
        ({"enable_thinking": False}, "<think>\n\n</think>\n\nlower", False),
    ],
)
def test_an_empty_thought_is_learned_only_where_thinking_is_enabled(
    settings: dict[str, Any], text: str, learned: bool
) -> None:
    tokenizer = small_tokenizer()
    row = next(pipeline.encode_chat([DIALOG], tokenizer, template="qwen3", **settings))
    assert text in tokenizer.decode(row["input_ids"])
    assert ("<think>" in tokenizer.decode([id_ for id_ in row["labels"] if id_ >= 0])) == learned


def test_what_is_no_pair_is_dropped() -> None:
    dialogs: list[dict[str, Any]] = [
        {"messages": []},
        {"messages": [{"role": "user", "content": "a"}]},
        {"messages": [{"role": "user", "content": None}, {"role": "assistant", "content": "b"}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "function", "content": "no JSON"}]},
        {**DIALOG, "tools": "no JSON"},
    ]
    assert list(pipeline.encode_chat(dialogs, small_tokenizer(), template="chatml")) == []


def test_options_that_exclude_each_other_are_refused() -> None:
    tokenizer = small_tokenizer()
    with pytest.raises(pipeline.PipelineError, match="--train-on-prompt excludes --mask-history"):
        next(pipeline.encode_chat([], tokenizer, template="chatml", train_on_prompt=True, mask_history=True))
    with pytest.raises(pipeline.PipelineError, match="share one end of text"):
        next(pipeline.encode_chat([], tokenizer, template="fewshot", train_on_prompt=True))
