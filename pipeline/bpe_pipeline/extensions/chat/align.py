"""Rows of chat data -> what a chat template gets: messages as OpenAI has them, tools, and variables of the row.

One table has the names of columns, members and roles in each format; dataset_info.json may name others. Messages of
OpenAI stay as they are, with all their members. `DroppedError` says why a row is no conversation.

Marks of what is trained on, such as weight and train, of a message or of a whole row, are followed. A row whose marks
are neither 0 nor 1, or contradict each other, is dropped.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bpe_pipeline.base.errors import InputError, UsageError, unfit
from bpe_pipeline.extensions.chat.about import (
    MALFORMED_TOOLS,
    NO_TEXT,
    NOT_LISTED,
    NOT_PAIRS,
    NOT_TRAINED_ON,
    NOT_UNDERSTOOD,
    UNKNOWN_COLUMNS,
    UNKNOWN_ROLE,
    DroppedError,
)

ROW_MARKS = ("weight", "train", "training", "trainable", "loss_mask")  # 0 or false: its answers are not trained on
_MARKS = (*ROW_MARKS, "loss")  # of a message
_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
Names = Mapping[str, str | None]  # of columns or tags
Dialog = dict[str, Any]
COLUMNS: dict[str, Names] = {
    "alpaca": {"prompt": "instruction", "query": "input", "response": "output"},
    "sharegpt": {"messages": "conversations"},
    "openai": {"messages": "messages"},
}
TAGS: dict[str, Names] = {
    "sharegpt": {
        "role_tag": "from",
        "content_tag": "value",
        "user_tag": "human",
        "assistant_tag": "gpt",
        "observation_tag": "observation",
        "function_tag": "function_call",
        "system_tag": "system",
    },
    "openai": {
        "role_tag": "role",
        "content_tag": "content",
        "user_tag": "user",
        "assistant_tag": "assistant",
        "observation_tag": "tool",
        "function_tag": "function_call",
        "system_tag": "system",
    },
}
COLUMN_NAMES = ("prompt", "query", "response", "history", "messages", "system", "tools")
_SHOWN = {name: name for name in ("history", "system", "tools")}
_MAPPINGS = dict, Mapping  # the first is recognised fast
_VARIABLES = ("documents", "chat_template_kwargs")  # columns that templates get
_NOT_READ = ("images", "videos", "audios", "image", "video", "audio", "chosen", "rejected")
READ_COLUMNS = (
    *("messages", "conversations", "instruction", "input", "output", "label"),
    *(*_SHOWN, *_VARIABLES, *_NOT_READ, *ROW_MARKS),
)


class MissingColumnError(InputError, KeyError):
    """A row lacks a column that its data set names."""

    __str__ = Exception.__str__


def align_chat(
    row: Mapping[str, Any], formatting: str | None = None, columns: Names | None = None, tags: Names | None = None
) -> Dialog:
    """Return the conversation in a row of a chat data set, as chat templates get it.

    A row that is none, such as one of ShareGPT whose turns do not alternate, has no messages.

    >>> from bpe_pipeline.compat import align_chat
    >>> row = {"instruction": "Add.", "input": "1 2", "output": "3"}
    >>> align_chat(row)["messages"]
    [{'role': 'user', 'content': 'Add.\\n1 2'}, {'role': 'assistant', 'content': '3'}]

    Args:
        row: the columns of one row.
        formatting: "alpaca", "sharegpt" or "openai"; None: what the row shows.
        columns: as in dataset_info.json: prompt, query, response, history, messages, system, tools -> the column.
            None: instruction, input and output; conversations; messages.
        tags: as in dataset_info.json: role_tag, content_tag, user_tag, ... None: from, value, human, gpt, ...; for
            openai role, content, user, assistant, tool, system.

    Returns:
        "messages", each with "role", "content", and other members that it has; "tools", and other variables of chat
        templates, if the row has them.

    Raises:
        UsageError: the formatting is unknown.
        InputError: the row has no known columns, or lacks one that is named (a KeyError too).
    """
    for name, value in (("row", row), ("columns", columns), ("tags", tags)):
        if not isinstance(value, Mapping) and not (value is None and name != "row"):
            raise unfit(name, "a mapping, such as a dict", value)
    if formatting not in (*COLUMNS, *([None] if columns is tags is None else [])):
        raise UsageError(f"formatting {formatting!r} is unknown: choose one of {', '.join(COLUMNS)}")
    try:
        return dialog_of(row, formatting, columns, tags)
    except DroppedError as error:
        if error.kind == UNKNOWN_COLUMNS:
            raise
        return {"messages": []}


def dialog_of(
    row: Mapping[str, Any], formatting: str | None = None, columns: Names | None = None, tags: Names | None = None
) -> Dialog:
    """Return the conversation in a row, as `align_chat` does; raises `DroppedError` for a row that is none."""
    by_name = formatting is not None
    if formatting is None:
        formatting, columns = _shown(row)
    if trained_on(row, ROW_MARKS) is False:
        raise DroppedError(NOT_TRAINED_ON, "marks of the row")
    named = {name: column for name, column in (columns or COLUMNS[formatting]).items() if column}
    cells = {name: _cell(row, name, column) if by_name else row.get(column) for name, column in named.items()}
    if formatting == "alpaca":
        messages = _of_alpaca(cells)
    else:
        any_role = formatting == "openai" or not by_name
        messages = _of_turns(_listed(cells.get("messages")), tags or TAGS[formatting], any_role=any_role)
        if formatting == "sharegpt":
            _require_pairs(messages)
    if (system := _text(cells, "system")) and not (messages and messages[0].get("role") in ("system", "developer")):
        messages = [{"role": "system", "content": system}, *messages]
    dialog: Dialog = {"messages": messages, "tools": objects_in(cells.get("tools"))}
    if not by_name:
        documents, variables = (objects_in(row.get(name)) for name in _VARIABLES)
        dialog |= {"documents": documents, "chat_template_kwargs": dict(*variables[:1])}
    return {name: value for name, value in dialog.items() if value or name == "messages"}


def objects_in(value: Any) -> list[Mapping[str, Any]]:
    """Return objects such as tools from JSON, or a value of it: a list, or one object. JSON in JSON is read again."""
    if value is None:
        return []
    try:
        value = _read_again(value) or []
        objects = list(map(_read_again, [value] if isinstance(value, Mapping) else value))
    except (ValueError, TypeError, RecursionError):
        objects = [None]
    if isinstance(value, str) or not all(isinstance(member, Mapping) for member in objects):
        raise DroppedError(MALFORMED_TOOLS)
    return objects


def _read_again(value: Any) -> Any:
    while isinstance(value, str) and value.strip():
        value = json.loads(value)
    return value or None


def _shown(row: Mapping[str, Any]) -> tuple[str, Names]:
    """Return the formatting and the columns of a row without dataset_info.json."""
    if not_read := [name for name in _NOT_READ if row.get(name)]:
        raise DroppedError(NOT_UNDERSTOOD, f"column {not_read[0]}")
    if "label" in row and str(row["label"]).lower() in ("true", "false"):
        raise DroppedError(NOT_UNDERSTOOD, "column label")
    for name in ("messages", "conversations"):
        if row.get(name) is not None:
            first = next(iter(_listed(row[name])), {})
            return "sharegpt" if "from" in first else "openai", {"messages": name, **_SHOWN}
    if {"instruction", "output"} <= row.keys():
        return "alpaca", {**COLUMNS["alpaca"], **_SHOWN}
    raise DroppedError(UNKNOWN_COLUMNS, f"columns {', '.join(list(row)[:20]) or 'none'}")


def _cell(row: Mapping[str, Any], name: str, column: str) -> Any:
    if column not in row:
        raise MissingColumnError(
            f"a row has no column {column!r}, which is named as its {name}; it has {', '.join(map(str, row)) or 'none'}"
        )
    return row[column]


def _text(cells: Mapping[str, Any], name: str) -> str | None:
    """Return the text in a column, None for null; raises `DroppedError` for what is no text."""
    value = cells.get(name)
    if not isinstance(value, str | None):
        raise DroppedError(NO_TEXT, f"its {name}")
    return value


def _listed(messages: Any) -> list[Dialog]:
    if not isinstance(messages, list | tuple) or not all(isinstance(message, _MAPPINGS) for message in messages):
        raise DroppedError(NOT_LISTED)
    return list(messages)


def _of_turns(messages: Sequence[Dialog], tags: Names, *, any_role: bool) -> list[Dialog]:
    """Return messages with the names that OpenAI has. any_role: roles that have no other name stay as they are."""
    openai = TAGS["openai"]
    is_named_so = tags == openai
    names: dict[str, str | None] = {own: name for tag, name in openai.items() if (own := tags.get(tag))}
    renamed = []
    for message in messages:
        turn = message if is_named_so else {names.get(name) or name: value for name, value in message.items()}
        named = turn.get("role")
        role = names.get(named, named if any_role else None) if isinstance(named, str) else None
        if role is None:
            raise DroppedError(UNKNOWN_ROLE, f"role {named!r:.40}")
        if role == "function_call":
            turn = _with_calls(turn)
        elif role != named:
            turn = {**turn, "role": role}
        renamed.append(turn)
    return renamed


def _with_calls(turn: Mapping[str, Any]) -> Dialog:
    """Return a message whose content is calls of tools in JSON as one that has them apart."""
    called = objects_in(turn.get("content"))
    if not called or any(not {"name", "arguments"} <= function.keys() for function in called):
        raise DroppedError(MALFORMED_TOOLS)
    calls = [{"type": "function", "function": function} for function in called]
    return {**turn, "role": "assistant", "content": "", "tool_calls": calls}


def _require_pairs(messages: Sequence[Dialog]) -> None:
    """Raise `DroppedError` unless questions and their answers alternate, perhaps after a system text."""
    turns = messages[1:] if messages and messages[0]["role"] == "system" else messages
    wanted = (("user", "tool"), ("assistant",))
    if not turns or len(turns) % 2 or any(turn["role"] not in wanted[at % 2] for at, turn in enumerate(turns)):
        raise DroppedError(NOT_PAIRS)
    if any(not isinstance(turn.get("content"), str) for turn in messages):
        raise DroppedError(NO_TEXT)


def _of_alpaca(cells: Mapping[str, Any]) -> list[Dialog]:
    said = list[str | None]()
    history = cells.get("history") or []
    for pair in history if isinstance(history, list) else [history]:
        if not isinstance(pair, list | tuple) or [type(text) for text in pair] != [str, str]:
            raise DroppedError(NOT_LISTED, "its history")
        said += pair
    said.append("\n".join(filter(None, (_text(cells, name) for name in ("prompt", "query")))))
    said.append(_text(cells, "response"))
    if said[-1] is None:
        raise DroppedError(NOT_PAIRS)
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]


def trained_on(marked: Mapping[str, Any], names: Sequence[str] = _MARKS) -> bool | None:
    """Return whether a message or a row is marked to be trained on; None: no mark. `DroppedError` for another mark."""
    if marked.keys().isdisjoint(names):
        return None
    marks = {name: str(marked[name]).strip().lower() for name in names if marked.get(name) is not None}
    for name, mark in marks.items():
        if mark not in _TRUTHS:
            raise DroppedError(NOT_UNDERSTOOD, f"{name} {mark:.40}")
    found = {_TRUTHS[mark] for mark in marks.values()}
    if len(found) > 1:
        raise DroppedError(NOT_UNDERSTOOD, "marks that contradict each other")
    return found.pop() if found else None
