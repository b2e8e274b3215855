"""Rows to conversations: the recorded cases of LLaMA-Factory, and openai rows with calls of tools."""

from typing import Any

import pytest
from chat_cases import cases, conversation

import pipeline

TAGS = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}


def test_recorded_cases_are_equal() -> None:
    for case in cases("align"):
        info = case["info"]
        arguments = (case["example"], info["formatting"], info.get("columns"), info.get("tags"))
        if case["error"] is None:
            assert pipeline.align_chat(*arguments) == conversation(case["aligned"]), case["name"]
        else:
            with pytest.raises(KeyError, match=case["error"].split(": ")[1]):
                pipeline.align_chat(*arguments)


def test_history_comes_first() -> None:
    row = {"instruction": "c", "output": "d", "history": [["a", "b"]], "system": None}
    columns = {"prompt": "instruction", "response": "output", "history": "history", "system": "system"}
    aligned = pipeline.align_chat(row, columns=columns)
    assert [message["content"] for message in aligned["messages"]] == ["a", "b", "c", "d"]
    assert aligned["system"] == ""


def test_calls_and_answers_of_tools_in_openai_rows() -> None:
    calls = [{"function": {"name": "f", "arguments": {"x": 1}}}]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2"},
        {"role": "assistant", "content": "Ho"},
    ]
    columns = {"messages": "messages", "tools": "tools"}
    aligned = pipeline.align_chat({"messages": messages, "tools": [{"name": "f"}]}, "openai", columns)
    assert aligned["system"] == "S\n"
    assert aligned["tools"] == '[{"name": "f"}]'
    assert [message["role"] for message in aligned["messages"]] == ["user", "function", "observation", "assistant"]
    assert aligned["messages"][1]["content"] == '[{"name": "f", "arguments": {"x": 1}}]'
    assert aligned["messages"][2]["content"] == "1\n</tool_response>\n<tool_response>\n2"


def test_calls_of_tools_need_no_tag() -> None:
    calls = [{"function": {"name": "f", "arguments": {}}}]
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": calls}]
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
    for more, roles in (({"observation_tag": "tool", "system_tag": "system"}, ["user", "function"]), ({}, [])):
        aligned = pipeline.align_chat({"messages": messages}, "openai", {"messages": "messages"}, {**tags, **more})
        assert [message["role"] for message in aligned["messages"]] == roles


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        ([("user", "a"), ("assistant", "b")], True),
        ([("assistant", "a"), ("user", "b")], False),
        ([("user", "a"), ("user", "b")], False),
        ([("user", "a")], False),
        ([("user", "a"), ("critic", None)], False),
    ],
)
def test_roles_must_alternate(messages: list[tuple[str, str]], kept: bool) -> None:
    rows = [{"role": role, "content": content} for role, content in messages]
    aligned = pipeline.align_chat({"messages": rows}, "sharegpt", {"messages": "messages"}, TAGS)
    assert bool(aligned["messages"]) == kept


def test_a_missing_tag_is_an_error_that_names_it() -> None:
    with pytest.raises(pipeline.PipelineError, match="'from', which is its role_tag"):
        pipeline.align_chat({"conversations": [{"role": "user"}]}, "sharegpt")
    with pytest.raises(pipeline.PipelineError, match="choose one of alpaca, sharegpt, openai"):
        pipeline.align_chat({}, "vicuna")
