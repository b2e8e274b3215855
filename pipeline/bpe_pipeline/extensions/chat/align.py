"""Rows of chat data sets -> conversations, by the columns and tags of their format.

A conversation is `{"messages": [{"role", "content"}, ...], "system", "tools"}`; a message that its data mark as not to
be trained on also has `"trained_on": False`. The rules are those of LLaMA-Factory 0.9.5, also where they are peculiar.
Except: what says which messages to train on is followed, or the row is dropped. `DroppedError` says why a row is none.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from bpe_pipeline.base.errors import InputError, UsageError, unfit
from bpe_pipeline.extensions.chat.kinds import (
    MALFORMED_TOOLS,
    NO_TEXT,
    NOT_LISTED,
    NOT_PAIRS,
    NOT_TRAINED_ON,
    NOT_UNDERSTOOD,
    TEXTS_LEFT_OUT,
    UNKNOWN_COLUMNS,
    UNKNOWN_ROLE,
    DroppedError,
)
from bpe_pipeline.extensions.chat.marks import ROW_MARKS, common, trained_on, truth, turn

Names = Mapping[str, str | None]  # of columns or tags
FORMATTINGS = ("alpaca", "sharegpt", "openai")
MESSAGES = "messages"  # read without a dataset_info.json: OpenAI's messages, ShareGPT's, or Alpaca's columns
ALPACA_COLUMNS = {"prompt": "instruction", "query": "input", "response": "output"}
USUAL_COLUMNS: dict[str, Names] = {"alpaca": ALPACA_COLUMNS, "sharegpt": {"messages": "conversations"}}
_LISTED = ("messages", "conversations")
# columns without which an answer means something else
NOT_READ = ("images", "videos", "audios", "image", "video", "audio", "chosen", "rejected")
TEMPLATE_COLUMNS = ("documents", "chat_template_kwargs")  # which templates in Jinja get with the messages
_SHOWN = {name: name for name in ("system", "tools", *TEMPLATE_COLUMNS, *NOT_READ)} | {"kto_tag": "label"}
READ_COLUMNS = (*_LISTED, *ALPACA_COLUMNS.values(), "history", *_SHOWN.values(), *ROW_MARKS)
TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
OPENAI_TAGS = dict(zip(TAGS, ("role", "content", "user", "assistant", "tool", "function_call", "system"), strict=True))
_ROLE_OF_MESSAGE = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function", "observation"), "observation"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt"), "assistant"),
    "function_call": "function",
}
_RENAMED = ("from", "value", "function_call", "trained_on")
_OPENAI_ROLES = ("system", "developer", "user", "assistant", "tool")
_TEXT_PARTS = ("text", "input_text", "output_text")
_ROLES = {
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "observation",
    "function_tag": "function",
}
ASKING, ANSWERING = ("user", "observation"), ("assistant", "function")
_NO_THINKING = "detailed thinking off"  # what LLaMA-Factory adds to the system text of openai rows
_MAPPINGS = dict, Mapping  # the first is recognised fast
JOINT = "\n</tool_response>\n<tool_response>\n"  # of several answers of tools in a row, which become one
TEMPLATE_INPUT = "template_input"
Conversation = dict[str, Any]


class MissingColumnError(InputError, KeyError):
    """A row lacks a column that its data set names."""

    __str__ = Exception.__str__


def align_chat(
    row: Mapping[str, Any], formatting: str = "alpaca", columns: Names | None = None, tags: Names | None = None
) -> Conversation:
    """Return the conversation in a row of a chat data set, as LLaMA-Factory 0.9.5 reads it.

    Rows whose roles do not alternate, whose last message is not an answer, or that have an answer that is null, are
    dropped: they have no messages.

    >>> from bpe_pipeline.compat import align_chat
    >>> row = {"instruction": "Add.", "input": "1 2", "output": "3"}
    >>> align_chat(row)["messages"]
    [{'role': 'user', 'content': 'Add.\\n1 2'}, {'role': 'assistant', 'content': '3'}]

    Args:
        row: the columns of one row.
        formatting: "alpaca", "sharegpt", "openai" (as LLaMA-Factory: "detailed thinking off" is added to the system
            text of rows without tools) or "messages" (as `encode-chat` without dataset_info.json: messages or
            conversations, also with developer and tool roles, tool_calls and lists of text parts; or instruction and
            output).
        columns: as in dataset_info.json: prompt, query, response, history, messages, system, tools, kto_tag -> the
            column; others are not read, except marks such as weight and train. None: instruction, input and output;
            conversations; messages.
        tags: as in dataset_info.json: role_tag, content_tag, user_tag, ... None: from, value, human, gpt, ...; for
            openai role, content, user, assistant, tool, system.

    Returns:
        "messages", each with "role" (user, assistant, observation, function), "content", and, if a member such as
        weight, train or loss_mask says so, a bool "trained_on"; "system"; "tools"; "texts_next_to_calls", the number of
        texts left out next to tool calls; for "messages" also "template_input", which Jinja templates get: the row's
        messages, documents and chat_template_kwargs.

    Raises:
        UsageError: the formatting is unknown.
        InputError: the row lacks a column that is named; a KeyError too.
    """
    for name, value in (("row", row), ("columns", columns), ("tags", tags)):
        if not isinstance(value, Mapping) and not (value is None and name != "row"):
            raise unfit(name, "a mapping, such as a dict", value)
    if formatting not in (*FORMATTINGS, MESSAGES):
        raise UsageError(f"formatting {formatting!r} is unknown: choose one of {', '.join(FORMATTINGS)}, {MESSAGES}")
    conversation: Conversation = {"system": "", "tools": ""}
    try:
        conversation = aligned(row, formatting, columns, tags)
        check_messages(conversation["messages"])
    except DroppedError:
        conversation = {**conversation, "messages": []}
    return conversation


def aligned(row: Mapping[str, Any], formatting: str, columns: Names | None, tags: Names | None) -> Conversation:
    """Return the conversation in a row; its messages may be no turns. Raises `DroppedError` for what is not read."""
    try:
        return _aligned(row, formatting, columns, tags)
    except (MissingColumnError, DroppedError):
        raise
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError):  # a role or a call of another shape
        raise DroppedError(NOT_LISTED) from None


def _aligned(row: Mapping[str, Any], formatting: str, columns: Names | None, tags: Names | None) -> Conversation:
    if formatting == MESSAGES and columns is None:
        formatting, columns = shown_columns(row)
        row = dict.fromkeys(columns.values()) | dict(row)
    if trained_on(row, ROW_MARKS) is False:
        raise DroppedError(NOT_TRAINED_ON)
    if columns is None:
        listed = "conversations" if "conversations" in row else "messages"
        columns = USUAL_COLUMNS.get(formatting, {"messages": listed})
    _require_trained_on(row, columns)
    if formatting == "alpaca":
        return _alpaca(row, columns)
    messages = _column(row, columns, "messages") or []
    if not isinstance(messages, list) or not all(isinstance(message, _MAPPINGS) for message in messages):
        raise DroppedError(NOT_LISTED)
    if formatting == MESSAGES:
        return _messages(row, columns, messages)
    if tags is None:
        by_role = formatting == "openai" and bool(messages) and "role" in messages[0]
        tags = OPENAI_TAGS if by_role else TAGS
    read = _openai if formatting == "openai" else _sharegpt
    return read(row, columns, {name: tags.get(name) for name in TAGS}, messages)


def shown_columns(row: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the formatting and the columns of a row without dataset_info.json; raises `DroppedError` for neither."""
    columns = _SHOWN if truth(row.get("label")) is not None else {**_SHOWN, "kto_tag": ""}
    alpaca = {"instruction", "output"} <= row.keys()
    listed = [name for name in _LISTED if name in row]
    for name in [name for name in listed if row[name] is not None] or ([] if alpaca else listed):
        return MESSAGES, {**columns, "messages": name}
    if alpaca:
        return "alpaca", {**columns, **ALPACA_COLUMNS, "history": "history"}
    inside = next((name for name, value in row.items() if _is_rows(value)), None)
    advice = f", and its {inside} are rows: jq -c '.{inside}[]' FILE > rows.jsonl" if inside else ""
    raise DroppedError(UNKNOWN_COLUMNS, f"columns {', '.join(list(row)[:20]) or 'none'}{advice}")


def _is_rows(value: Any) -> bool:
    row = value[0] if isinstance(value, list) and value else None
    return isinstance(row, _MAPPINGS) and any(name in row for name in (*_LISTED, "instruction"))


def _require_trained_on(row: Mapping[str, Any], columns: Names) -> None:
    """Raise `DroppedError` for a row whose answer is labelled as bad, or that has what is not read."""
    for name in NOT_READ:
        if _column(row, columns, name):
            raise DroppedError(NOT_UNDERSTOOD, f"column {columns[name]}")
    label = _column(row, columns, "kto_tag", None)
    if label is not None and not truth(label):
        kind = NOT_UNDERSTOOD if truth(label) is None else NOT_TRAINED_ON
        raise DroppedError(kind, f"column {columns['kto_tag']}")


def check_messages(messages: Sequence[Mapping[str, Any]], *, pairs: bool = True) -> None:
    """Raise `DroppedError` unless messages are texts, one of them an answer; `pairs`: each question has its answer."""
    roles = ASKING
    for message in messages:
        if not isinstance(message, _MAPPINGS):
            raise DroppedError(NOT_LISTED)
        role = message.get("role")
        if role is None or (not pairs and role not in ("system", *ASKING, *ANSWERING)):
            raise DroppedError(UNKNOWN_ROLE)
        if pairs and role not in roles:
            raise DroppedError(NOT_PAIRS)
        if type(message.get("content")) is not str:
            raise DroppedError(NO_TEXT)
        roles = ANSWERING if roles is ASKING else ASKING
    if (len(messages) % 2 and pairs) or not any(message["role"] in ANSWERING for message in messages):
        raise DroppedError(NOT_PAIRS)


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
    if not isinstance(system, str | None):
        raise DroppedError(NO_TEXT, "its system text")
    text = tools if isinstance(tools, str) else json.dumps(tools, ensure_ascii=False) if tools else ""
    return {"messages": messages, "system": system or "", "tools": text}


def _cell(row: Mapping[str, Any], columns: Names, name: str) -> str | None:
    """Return the text of a column, None for null; raises `DroppedError` for what is no text."""
    value = _column(row, columns, name, None)
    if not isinstance(value, str | None):
        raise DroppedError(NO_TEXT, f"column {columns[name]}")
    return value


def _alpaca(row: Mapping[str, Any], columns: Names) -> Conversation:
    for name in columns:  # a column that is missing is an error, whatever is in the others
        _column(row, columns, name)
    messages: list[dict[str, Any]] = []
    history = _column(row, columns, "history", None) or []
    for pair in json.loads(history) if isinstance(history, str) else history:  # CSV has texts alone
        if not isinstance(pair, list | tuple):  # the keys of an object are no turn
            raise DroppedError(NOT_LISTED, f"column {columns['history']}")
        question, answer = pair
        if not isinstance(question, str | None) or not isinstance(answer, str | None):
            raise DroppedError(NO_TEXT, f"column {columns['history']}")
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    question = filter(None, (_cell(row, columns, name) for name in ("prompt", "query")))
    messages.append({"role": "user", "content": "\n".join(question)})
    if (response := _cell(row, columns, "response")) is not None:
        messages.append({"role": "assistant", "content": response})
    return _conversation(messages, _column(row, columns, "system"), _column(row, columns, "tools"))


def _sharegpt(row: Mapping[str, Any], columns: Names, tags: Names, messages: list[dict[str, Any]]) -> Conversation:
    system, messages = _system(row, columns, tags, messages)
    roles = {tag: role for name, role in _ROLES.items() if (tag := tags[name]) is not None}
    aligned: list[dict[str, Any]] = []
    for message in messages:
        role = roles.get(_tagged(message, tags, "role_tag"))
        content = None if role is None else _tagged(message, tags, "content_tag")
        aligned.append(turn(message, role=role, content=content))
        if role is None:
            break
    return _conversation(aligned, system, _column(row, columns, "tools"))


def _openai(row: Mapping[str, Any], columns: Names, tags: Names, messages: list[dict[str, Any]]) -> Conversation:
    """Read messages that may have calls of tools, and several answers of tools in a row, which become one."""
    row = dict.fromkeys(filter(None, (columns.get("system"), columns.get("tools"))), "") | dict(row)
    system, messages = _system(row, columns, tags, messages)
    roles = {tags[name]: role for name, role in _ROLES.items()}  # also of a tag unset
    roles |= {tags["system_tag"]: "system", tags["observation_tag"]: "observation"}
    aligned: list[dict[str, Any]] = []
    for message in messages:
        tag, content = (_tagged(message, tags, name) for name in ("role_tag", "content_tag"))
        if tag in (tags["assistant_tag"], tags["function_tag"]) and message.get("tool_calls"):
            calls = [call["function"] for call in message["tool_calls"]]
            tag, content = tags["function_tag"], json.dumps(calls, ensure_ascii=False)
        aligned.append(turn(message, role=roles.get(tag), content=content))
    aligned, tools = _with_joint_observations(aligned), _column(row, columns, "tools")
    if tools:
        system = f"{system}\n" if system else ""
    elif not any(words in (system or "") for words in ("detailed thinking on", _NO_THINKING)):
        system = f"{system}\n{_NO_THINKING}" if system else _NO_THINKING
    return _conversation(aligned, system, tools)


def _messages(row: Mapping[str, Any], columns: Names, messages: list[dict[str, Any]]) -> Conversation:
    """Read OpenAI's messages, or ShareGPT's; raises `DroppedError`."""
    system, left_out = _column(row, columns, "system"), 0
    originals: list[dict[str, Any]] = []
    aligned: list[dict[str, Any]] = []
    for message in messages:
        name = message.get("role") or message.get("from")
        role = _ROLE_OF_MESSAGE.get(name or "")
        if role is None:
            raise DroppedError(UNKNOWN_ROLE, f"role {name!r:.40}")
        content = message.get("content" if "content" in message else "value")
        originals.append(_of_template(message, role, content))
        if role == "assistant" and (calls := _calls(message)):
            left_out += bool(content)
            role, text = "function", json.dumps(calls, ensure_ascii=False)
        else:
            text = _text_of(content)
        aligned.append(turn(message, role=role, content=text))
    aligned = _with_joint_observations(aligned)
    if aligned and aligned[0]["role"] == "system":
        first, *aligned = aligned
        system = first["content"]
        if "trained_on" in first and aligned:  # a question is trained on with the system text before it, or not at all
            aligned[0]["trained_on"] = common((first["trained_on"], aligned[0].get("trained_on")))
    conversation = _conversation(aligned, system, _column(row, columns, "tools"))
    conversation[TEMPLATE_INPUT] = {"messages": originals, **{name: row.get(name) for name in TEMPLATE_COLUMNS}}
    return conversation | ({TEXTS_LEFT_OUT: left_out} if left_out else {})


def _of_template(message: Mapping[str, Any], role: str, content: Any) -> dict[str, Any]:
    """Return a message as OpenAI has it today, with all its members."""
    members = {name: value for name, value in message.items() if name not in _RENAMED}
    if message.get("role") not in _OPENAI_ROLES or "content" not in message:
        members |= {"role": "tool" if role == "observation" else role, "content": content}
    if (call := message.get("function_call")) and not message.get("tool_calls"):
        members["tool_calls"] = [{"type": "function", "function": call}]
    return turn(message, **members)


def _text_of(content: Any) -> str:
    """Return the text of a content: itself, or its text parts end to end."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, _MAPPINGS) and part.get("type") in _TEXT_PARTS]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        raise DroppedError(NO_TEXT)
    return "".join(map(str, texts))


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the names and arguments of the tools that a message calls; arguments may be JSON in a text."""
    listed = message.get("tool_calls") or ()
    if not listed and message.get("function_call"):
        listed = [{"function": message["function_call"]}]
    calls = []
    try:
        for called in (call["function"] for call in listed):
            arguments = called["arguments"]
            if isinstance(arguments, str):
                arguments = json.loads(arguments or "{}")
            if not isinstance(arguments, _MAPPINGS) or not isinstance(called["name"], str):
                raise DroppedError(MALFORMED_TOOLS)
            calls.append({"name": called["name"], "arguments": arguments})
    except (KeyError, TypeError, ValueError, RecursionError):
        raise DroppedError(MALFORMED_TOOLS) from None
    return calls


def _with_joint_observations(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages, several observations in a row as one; those at the end, which no one answers, are left out."""
    while messages and messages[-1]["role"] == "observation":
        messages.pop()
    aligned: list[dict[str, Any]] = []
    for observed, group in groupby(messages, lambda message: message["role"] == "observation"):
        run = list(group)
        aligned += [_joint(run)] if observed else run
    return aligned


def _joint(observations: list[dict[str, Any]]) -> dict[str, Any]:
    contents = [message["content"] for message in observations]
    text = JOINT.join(contents) if all(isinstance(content, str) for content in contents) else None
    return turn(
        {"trained_on": common(message.get("trained_on") for message in observations)}, role="observation", content=text
    )


def _system(
    row: Mapping[str, Any], columns: Names, tags: Names, messages: list[dict[str, Any]]
) -> tuple[Any, list[dict[str, Any]]]:
    """Return the system text, and the messages without it."""
    if tags["system_tag"] and messages and _tagged(messages[0], tags, "role_tag") == tags["system_tag"]:
        return _tagged(messages[0], tags, "content_tag"), messages[1:]
    return _column(row, columns, "system"), messages


def _tagged(message: Mapping[str, Any], tags: Names, tag: str) -> Any:
    """Return a member of a message; raises `InputError` if it has no role, None if it has no content."""
    try:
        return message.get(tags[tag] or "") if tag == "content_tag" else message[tags[tag] or ""]
    except (KeyError, TypeError):
        raise MissingColumnError(f"a message has no {tags[tag]!r}, which is its {tag}; name the tags") from None
