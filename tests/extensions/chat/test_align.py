"""Rows to conversations: the recorded cases of LLaMA-Factory, and openai rows with calls of tools."""

from typing import Any

import pytest
from chat_cases import cases, conversation, dialog

import bpe_pipeline
from bpe_pipeline import compat
from bpe_pipeline.corpus.skipped_or_altered import KINDS
from bpe_pipeline.extensions.chat.align import ALPACA_COLUMNS, MESSAGES, aligned, check_messages
from bpe_pipeline.extensions.chat.kinds import DroppedError

TAGS = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
F = {"name": "f", "arguments": "{}"}


def turns(*said: str | None) -> list[dict[str, Any]]:
    return list(dialog(*said)["messages"])


def asked(**answer: Any) -> list[dict[str, Any]]:
    return [*turns("Hi"), {"role": "assistant", **answer}]


def calls(arguments: Any) -> list[dict[str, Any]]:
    """A call of a tool."""
    return [{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]


def test_recorded_cases_are_equal() -> None:
    for case in cases("align"):
        info = case["info"]
        arguments = (case["example"], info["formatting"], info.get("columns"), info.get("tags"))
        if case["error"] is None:
            assert compat.align_chat(*arguments) == conversation(case["aligned"]), case["name"]
        else:
            with pytest.raises(KeyError, match=case["error"].split(": ")[1]):
                compat.align_chat(*arguments)


def test_history_comes_first() -> None:
    row = {"instruction": "c", "output": "d", "history": [["a", "b"]], "system": None}
    columns = {"prompt": "instruction", "response": "output", "history": "history", "system": "system"}
    aligned = compat.align_chat(row, columns=columns)
    assert [message["content"] for message in aligned["messages"]] == ["a", "b", "c", "d"]
    assert aligned["system"] == ""


def test_calls_and_answers_of_tools_in_openai_rows() -> None:
    messages = [
        {"role": "system", "content": "S"},
        *asked(content="", tool_calls=calls({"x": 1})),
        *({"role": "tool", "content": answer} for answer in "12"),
        {"role": "assistant", "content": "Ho"},
    ]
    columns = {"messages": "messages", "tools": "tools"}
    aligned = compat.align_chat({"messages": messages, "tools": [{"name": "f"}]}, "openai", columns)
    assert (aligned["system"], aligned["tools"]) == ("S\n", '[{"name": "f"}]')
    assert aligned["messages"] == [
        {"role": "user", "content": "Hi"},
        {"role": "function", "content": '[{"name": "f", "arguments": {"x": 1}}]'},
        {"role": "observation", "content": "1\n</tool_response>\n<tool_response>\n2"},
        {"role": "assistant", "content": "Ho"},
    ]


def test_calls_of_tools_need_no_tag_and_texts_next_to_them_are_counted() -> None:
    row = {"messages": asked(content="", tool_calls=calls({}))}
    for more, roles in (({"observation_tag": "tool", "system_tag": "system"}, ["user", "function"]), ({}, [])):
        found = compat.align_chat(row, "openai", {"messages": "messages"}, {**TAGS, **more})
        assert [message["role"] for message in found["messages"]] == roles
    aligned = compat.align_chat({"messages": asked(content="So:", tool_calls=calls("{}"))}, "messages")
    assert aligned["texts_next_to_calls"] == 1
    assert aligned["messages"][1] == {"role": "function", "content": '[{"name": "f", "arguments": {}}]'}


BROKEN: dict[str, list[Any]] = {
    "the messages are not a list of messages": ["Hi", [1, 2], [None], [{"role": ["user"], "content": "Hi"}]],
    "a message has an unknown role": [[{"content": "Hi"}, {"role": "assistant", "content": "Ho"}]],
    "not pairs of a question and an answer": [
        *([], turns("a"), turns("a", "b")[::-1], turns("a", "b", "c"), [*turns("a"), *turns("a", "b")]),
        [*turns("a", "b"), {"role": "system", "content": "S"}, turns("", "")[1]],
    ],
    "a content is missing or not text": [
        *(asked(content=content) for content in (None, [{"type": "image_url"}], [{"type": "text", "text": 1}])),
        asked(),
    ],
    "calls of them, are malformed": [
        asked(content=None, tool_calls=broken)
        for broken in (calls("{"), calls("1"), [{"function": {"name": "f"}}], "f")
    ],
    "": [
        *(asked(content="", tool_calls=[]), asked(content=None, tool_calls=calls("{}"))),
        *(asked(content=None, function_call=F), asked(content="Ho", tool_calls=None)),
    ],
}


@pytest.mark.parametrize(("messages", "reason"), [(broken, reason) for reason in BROKEN for broken in BROKEN[reason]])
def test_each_broken_row_has_its_reason(messages: Any, reason: str) -> None:
    row = {"messages": messages}
    assert bool(compat.align_chat(row, "messages")["messages"]) == (not reason)
    try:
        check_messages(aligned(row, "messages", None, None)["messages"])
        found = ""
    except DroppedError as error:
        found = KINDS[error.kind]
    assert reason in found
    assert bool(reason) == bool(found)


NO_TURNS = ("text", turns("a"), turns("a", None), turns("a", "b")[::-1], [*turns("a"), *turns("b")])


@pytest.mark.parametrize(
    ("row", "formatting"),
    [
        ({"instruction": "a", "input": "", "output": None}, "alpaca"),
        ({"instruction": "a", "input": "", "output": "b", "history": [["a"]]}, "alpaca"),
        ({"messages": asked(content=None)}, "openai"),
        *(({"conversations": messages}, "sharegpt") for messages in NO_TURNS),
        ({"conversations": [*turns("a"), {"role": "critic", "content": None}]}, "sharegpt"),
    ],
)
def test_a_row_without_an_answer_in_its_turn_has_no_messages(row: dict[str, Any], formatting: str) -> None:
    columns = None if "history" not in row else {**ALPACA_COLUMNS, "history": "history"}
    assert compat.align_chat(row, formatting, columns, TAGS if formatting == "sharegpt" else None)["messages"] == []


def test_a_missing_tag_or_formatting_is_named() -> None:
    for name, reason in (("sharegpt", "'from', which is its role_tag"), ("vicuna", "one of alpaca, sharegpt, openai")):
        with pytest.raises(bpe_pipeline.PipelineError, match=reason):
            compat.align_chat({"conversations": [{"role": "user"}]}, name)


def test_every_row_shows_its_own_columns() -> None:
    rows = [
        {"instruction": "low", "output": "er"},
        {"instruction": "low", "output": "er", "messages": None, "input": "the", "system": "S", "label": True},
        {"conversations": turns("low", "er"), "label": "sports", "tools": [{"name": "f"}]},
        {"conversations": [{"from": "user", "value": "low"}, {"from": "assistant", "value": "er"}]},
        {"instruction": "low", "output": "er", "history": '[["a", "b"]]'},
        {"messages": None, "conversations": turns("low", "er")},
    ]
    found = [aligned(row, MESSAGES, None, None) for row in rows]
    assert [one["messages"] for one in found] == [
        turns("low", "er"),
        turns("low\nthe", "er"),
        turns("low", "er"),
        turns("low", "er"),
        [*turns("a", "b"), *turns("low", "er")],
        turns("low", "er"),
    ]
    assert [(one["system"], one["tools"]) for one in found[:3]] == [("", ""), ("S", ""), ("", '[{"name": "f"}]')]


def test_advice_and_reasons_name_what_a_row_has() -> None:
    reasons = {}
    messages = [{"from": "ai", "value": "a"}]
    for row in ({"data": [{"messages": messages}]}, {"conversation": messages}, {"messages": messages}):
        with pytest.raises(DroppedError) as raised:
            aligned(row, MESSAGES, None, None)
        reasons[next(iter(row))] = raised.value.detail
    assert "jq -c '.data[]' FILE" in reasons["data"]
    assert reasons["conversation"] == "columns conversation"
    assert reasons["messages"] == "role 'ai'"
