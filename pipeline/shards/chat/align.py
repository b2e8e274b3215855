"""Rows of chat data sets -> conversations, by the columns and tags of their format.

A conversation is `{"messages": [{"role", "content"}, ...], "system", "tools"}`; the messages of one that is dropped are
empty. The rules are those of LLaMA-Factory 0.9.5, also where they are peculiar.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.base.errors import InputError, UsageError, unfit

FORMATTINGS = ("alpaca", "sharegpt", "openai")
ALPACA_COLUMNS = {"prompt": "instruction", "query": "input", "response": "output"}
TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
OPENAI_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "tool",
    "function_tag": "function_call",
    "system_tag": "system",
}
_ROLES = {
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "observation",
    "function_tag": "function",
}
ASKING, ANSWERING = ("user", "observation"), ("assistant", "function")
_NO_THINKING = "detailed thinking off"  # what LLaMA-Factory adds to the system text of openai rows
_MAPPINGS = dict, Mapping  # the first is recognised fast
Conversation = dict[str, Any]
Names = Mapping[str, str | None]


class MissingColumnError(InputError, KeyError):
    """A row lacks a column that its data set names."""

    __str__ = Exception.__str__


def align_chat(
    row: Mapping[str, Any], formatting: str = "alpaca", columns: Names | None = None, tags: Names | None = None
) -> Conversation:
    """Return the conversation in a row of a chat data set, as LLaMA-Factory 0.9.5 reads it.

    Rows whose roles do not alternate, or whose last message is not an answer, have no messages: they are dropped.

    >>> row = {"instruction": "Add.", "input": "1 2", "output": "3"}
    >>> pipeline.align_chat(row)["messages"]
    [{'role': 'user', 'content': 'Add.\\n1 2'}, {'role': 'assistant', 'content': '3'}]
    >>> turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}, {"from": "human", "value": "So?"}]
    >>> pipeline.align_chat({"conversations": turns}, formatting="sharegpt")["messages"]
    []

    Args:
        row: the columns of one row.
        formatting: "alpaca", "sharegpt" or "openai" (which adds "detailed thinking off" to the system text of rows
            without tools, as LLaMA-Factory does: read such rows as "sharegpt" with tags to leave it out).
        columns: as in dataset_info.json: prompt, query, response, history, messages, system, tools -> the column.
            What it does not name is not read. None: instruction, input and output; conversations; messages.
        tags: as in dataset_info.json: role_tag, content_tag, user_tag, ... None: from, value, human, gpt, ...; for
            openai role, content, user, assistant, tool, system. What it does not name is not set.

    Returns:
        "messages", a list of "role" (user, assistant, observation, function) and "content"; "system"; "tools".

    Raises:
        UsageError: the formatting is unknown.
        InputError: the row lacks a column that is named; a KeyError too.
    """
    for name, value in (("row", row), ("columns", columns), ("tags", tags)):
        if not isinstance(value, Mapping) and not (value is None and name != "row"):
            raise unfit(name, "a mapping, such as a dict", value)
    if formatting not in FORMATTINGS:
        raise UsageError(f"formatting {formatting!r} is unknown: choose one of {', '.join(FORMATTINGS)}")
    return aligned(row, formatting, columns, tags)


def aligned(row: Mapping[str, Any], formatting: str, columns: Names | None, tags: Names | None) -> Conversation:
    """Return the conversation in a row, as `align_chat` does, of arguments that are right."""
    if formatting == "alpaca":
        return _alpaca(row, ALPACA_COLUMNS if columns is None else columns)
    if columns is None:
        listed = "messages" if formatting == "openai" and "conversations" not in row else "conversations"
        columns = {"messages": listed}
    messages = _column(row, columns, "messages") or []
    if tags is None:
        by_role = formatting == "openai" and bool(messages) and "role" in messages[0]
        tags = OPENAI_TAGS if by_role else TAGS
    read = _openai if formatting == "openai" else _sharegpt
    return read(row, columns, {name: tags.get(name) for name in TAGS}, messages)


def is_complete(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether messages are turns of a question and an answer, all of them texts."""
    if not messages or len(messages) % 2:
        return False
    roles = ASKING
    for message in messages:
        if not (
            isinstance(message, _MAPPINGS) and message.get("role") in roles and type(message.get("content")) is str
        ):
            return False
        roles = ANSWERING if roles is ASKING else ASKING
    return True


def _column(row: Mapping[str, Any], columns: Names, name: str, default: Any = "") -> Any:
    """Return the value of a column, `default` if it is not named."""
    column = columns.get(name)
    if not column:
        return default
    try:
        return row[column]
    except KeyError:
        raise MissingColumnError(
            f"a row has no column {column!r}, which is named as its {name}; it has {', '.join(map(str, row)) or 'none'}"
        ) from None


def _conversation(messages: list[dict[str, Any]], system: Any, tools: Any) -> Conversation:
    text = tools if isinstance(tools, str) else json.dumps(tools, ensure_ascii=False) if tools else ""
    return {"messages": messages, "system": system or "", "tools": text}


def _alpaca(row: Mapping[str, Any], columns: Names) -> Conversation:
    messages = []
    history = _column(row, columns, "history", None)
    for question, answer in history if isinstance(history, list) else ():
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    asked = [text for name in ("prompt", "query") if (text := _column(row, columns, name))]
    messages.append({"role": "user", "content": "\n".join(map(str, asked))})
    response = _column(row, columns, "response", None)
    if isinstance(response, str):
        messages.append({"role": "assistant", "content": response})
    return _conversation(messages, _column(row, columns, "system"), _column(row, columns, "tools"))


def _sharegpt(row: Mapping[str, Any], columns: Names, tags: Names, messages: list[dict[str, Any]]) -> Conversation:
    system, messages = _system(row, columns, tags, messages)
    roles = _roles(tags)
    aligned: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        role = roles.get(_tagged(message, tags, "role_tag"))
        if role not in (ANSWERING if index % 2 else ASKING):
            aligned.clear()
            break
        aligned.append({"role": role, "content": _content(message, tags)})
    return _conversation(aligned if len(aligned) % 2 == 0 else [], system, _column(row, columns, "tools"))


def _openai(row: Mapping[str, Any], columns: Names, tags: Names, messages: list[dict[str, Any]]) -> Conversation:
    """Read messages that may have calls of tools, and several answers of tools in a row, which become one."""
    row = dict.fromkeys(filter(None, (columns.get("system"), columns.get("tools"))), "") | dict(row)
    system, messages = _system(row, columns, tags, messages)
    roles = {tags[name]: role for name, role in _ROLES.items()} | {tags["system_tag"]: "system"}  # also of a tag unset
    aligned: list[dict[str, Any]] = []
    observed: list[str] = []
    for message in messages:
        role, content = _tagged(message, tags, "role_tag"), _content(message, tags)
        if role in (tags["assistant_tag"], tags["function_tag"]) and message.get("tool_calls"):
            calls = [call["function"] for call in message["tool_calls"]]
            role, content = tags["function_tag"], json.dumps(calls, ensure_ascii=False)
        if role == tags["observation_tag"]:
            observed.append(content)
            continue
        if observed:
            joined = "\n</tool_response>\n<tool_response>\n".join(map(str, observed))
            aligned.append({"role": "observation", "content": joined})
            observed = []
        aligned.append({"role": roles.get(role), "content": content})
    tools = _column(row, columns, "tools")
    if tools:
        system = f"{system}\n" if system else ""
    elif "detailed thinking on" not in (system or "") and _NO_THINKING not in (system or ""):
        system = f"{system}\n{_NO_THINKING}" if system else _NO_THINKING
    alternate = all(one["role"] in (ANSWERING if index % 2 else ASKING) for index, one in enumerate(aligned))
    return _conversation(aligned if alternate and len(aligned) % 2 == 0 else [], system, tools)


def _roles(tags: Names) -> dict[str, str]:
    """Return the role of each tag that is set."""
    return {tag: role for name, role in _ROLES.items() if (tag := tags[name]) is not None}


def _system(
    row: Mapping[str, Any], columns: Names, tags: Names, messages: list[dict[str, Any]]
) -> tuple[Any, list[dict[str, Any]]]:
    """Return the system text, and the messages without it."""
    if tags["system_tag"] and messages and _tagged(messages[0], tags, "role_tag") == tags["system_tag"]:
        return _content(messages[0], tags), messages[1:]
    return _column(row, columns, "system"), messages


def _content(message: Mapping[str, Any], tags: Names) -> Any:
    return _tagged(message, tags, "content_tag")


def _tagged(message: Mapping[str, Any], tags: Names, tag: str) -> Any:
    """Return a member of a message; raises `InputError` if there is none."""
    try:
        return message[tags[tag] or ""]
    except (KeyError, TypeError):
        raise MissingColumnError(f"a message has no {tags[tag]!r}, which is its {tag}; name the tags") from None
