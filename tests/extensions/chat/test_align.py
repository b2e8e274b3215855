"""Rows to conversations: the recorded cases of LLaMA-Factory, other forms of rows, and why rows are dropped."""

from typing import Any

import pytest
from chat_cases import cases, conversation, dialog, turns

import bpe_pipeline
from bpe_pipeline import compat
from bpe_pipeline.extensions.chat.about import DroppedError
from bpe_pipeline.extensions.chat.align import dialog_of

CALL = {"name": "f", "arguments": {"x": 1}}
TOOL = {"type": "function", "function": {"name": "f"}}


def test_recorded_cases_are_equal() -> None:
    for case in cases("align"):
        info = case["info"]
        arguments = (case["example"], info["formatting"], info.get("columns"), info.get("tags"))
        if case["error"] is None:
            assert compat.align_chat(*arguments) == conversation(case["aligned"]), case["name"]
        else:
            with pytest.raises(KeyError, match=case["error"].split(": ")[1]):
                compat.align_chat(*arguments)


def test_messages_of_openai_stay_as_they_are() -> None:
    messages = [
        {"role": "developer", "content": "Be."},
        {"role": "user", "content": [{"type": "text", "text": "low"}], "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": CALL}]},
        {"role": "tool", "tool_call_id": "1", "content": "7"},
        {"role": "critic", "content": "?", "reasoning_content": "why"},
    ]
    more = {"documents": [{"title": "t"}], "chat_template_kwargs": {"enable_thinking": False}, "tools": [TOOL]}
    assert dialog_of({"messages": messages, "label": "sports", **more}) == {"messages": messages, **more}
    assert dialog_of({"messages": messages}, "openai", None, {"role_tag": "role"}) == {"messages": messages}


def test_a_row_shows_what_it_has() -> None:
    pair = turns("low", "er")
    rows = [
        {"conversations": pair, "messages": None},
        {"conversations": [{"from": "human", "value": "low"}, {"from": "assistant", "value": "er"}]},
        {"instruction": "low", "output": "er"},
        {"instruction": "low", "output": "er", "messages": None, "input": "", "history": None},
    ]
    assert [dialog_of(row) for row in rows] == [{"messages": pair}] * 4
    row = {"instruction": "low", "input": "the", "output": "er", "history": [["a", "b"]], "system": "S"}
    system = {"role": "system", "content": "S"}
    assert dialog_of(row) == {"messages": [system, *turns("a", "b"), *turns("low\nthe", "er")]}
    assert dialog_of({"messages": [{**system, "content": ""}, *pair], "system": "S"})["messages"][0]["content"] == ""


@pytest.mark.parametrize("tools", ['[{"name": "f"}]', '{"name": "f"}', ['{"name": "f"}'], '"[{\\"name\\": \\"f\\"}]"'])
def test_tools_are_objects_or_json(tools: Any) -> None:
    assert dialog_of({"messages": turns("low", "er"), "tools": tools})["tools"] == [{"name": "f"}]


def called(content: Any) -> dict[str, Any]:
    said = {"human": "low", "function_call": content, "observation": "7", "gpt": "er"}
    return {"conversations": [{"from": role, "value": text} for role, text in said.items()]}


def test_calls_of_sharegpt_are_those_of_openai() -> None:
    for content in ('{"name": "f", "arguments": {"x": 1}}', '[{"name": "f", "arguments": {"x": 1}}]'):
        messages = dialog_of(called(content))["messages"]
        assert messages[1] == {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": CALL}],
        }
        assert messages[2] == {"role": "tool", "content": "7"}


PAIR = turns("a", "b")
DROPPED: dict[str, list[dict[str, Any]]] = {
    "conversations_not_listed": [
        *({"messages": messages} for messages in ("Hi", [1, 2], [None])),
        *({"instruction": "a", "output": "b", "history": history} for history in ("text", [{"a": "b"}], [[1, 2]], 5)),
    ],
    "conversations_of_unknown_role": [
        *({"messages": [{"content": "Hi"}]}, {"messages": [{"role": ["user"], "content": "Hi"}]}),
    ],
    "conversations_dropped": [
        {"instruction": "a", "output": None},
        *(
            {"conversations": [{"from": role, "value": "a"} for role in roles.split()]}
            for roles in ("human", "gpt human")
        ),
    ],
    "conversations_without_content": [
        *({"instruction": "a", "input": given, "output": "b"} for given in (["a"], {"k": 1}, 0)),
        *({"instruction": "a", "output": 5}, {"messages": PAIR, "system": 5}),
        {"conversations": [{"from": "human", "value": None}, {"from": "gpt", "value": "a"}]},
    ],
    "conversations_of_malformed_tools": [
        *({"messages": PAIR, "tools": tools} for tools in ("[5]", "{}x", ["f"], 5, '"f"')),
        *map(called, ("no JSON", '[{"name": "f"}]', "[]")),
    ],
    "conversations_of_unknown_columns": [{"text": "a"}, {"data": [{"messages": PAIR}]}],
    "conversations_not_trained_on": [
        {**marks, "messages": PAIR} for marks in ({"weight": 0}, {"train": False}, {"trainable": "false"})
    ],
    "conversations_not_understood": [
        *({**marks, "messages": PAIR} for marks in ({"weight": 0.3}, {"label": False}, {"label": "True"})),
        *({name: ["a"], "messages": PAIR} for name in ("images", "videos", "audios", "chosen", "rejected")),
        {"messages": PAIR, "weight": 1, "train": False},
    ],
}


@pytest.mark.parametrize(("kind", "row"), [(kind, row) for kind in DROPPED for row in DROPPED[kind]])
def test_a_row_that_is_no_conversation_has_its_reason(kind: str, row: dict[str, Any]) -> None:
    with pytest.raises(DroppedError) as raised:
        dialog_of(row)
    assert raised.value.kind == kind
    if kind != "conversations_of_unknown_columns":
        assert compat.align_chat(row)["messages"] == []


def test_a_formatting_that_is_unknown_is_refused() -> None:
    for arguments in (("vicuna",), (None, {"messages": "messages"})):
        with pytest.raises(bpe_pipeline.UsageError, match="one of alpaca, sharegpt, openai"):
            compat.align_chat(dialog("a", "b"), *arguments)
    with pytest.raises(bpe_pipeline.InputError, match="unknown_columns"):
        compat.align_chat({"text": "a"})
