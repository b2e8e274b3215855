"""Descriptions of tools, and calls of them, as the text that a family of models was trained on.

Both arrive as JSON. The texts are part of the formats: models know them, so not a character of them may differ.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_DEFAULT = (
    "You have access to the following tools:\n{tools}Use the following format if using a tool:\n```\n"
    "Action: tool name (one of [{names}])\nAction Input: the input to the tool, in a JSON format representing the "
    'kwargs (e.g. ```{{"input": "hello world", "num_beams": 5}}```)\n```\n'
)
_LLAMA3 = (
    "Cutting Knowledge Date: December 2023\nToday Date: {date}\n\nYou have access to the following functions. To call "
    'a function, please respond with JSON for a function call. Respond in the format {{"name": function name, '
    '"parameters": dictionary of argument name and its value}}. Do not use variables.\n\n{tools}'
)
_QWEN = (
    "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
    "function signatures within <tools></tools> XML tags:\n<tools>{tools}\n</tools>\n\nFor each function call, return "
    "a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{{"name": <function-name>, "arguments": <args-json-object>}}\n</tool_call>'
)
_CALL = re.compile("<tool_call>(.*?)</tool_call>", re.DOTALL)
Tool = Mapping[str, Any]
Call = tuple[str, Any]  # the name of a tool, and its arguments


def described(tools: str, style: str, date: str, said: Callable[..., Any]) -> str:
    """Return what the system text says of tools on a date; raises `ValueError` for JSON that describes none.

    said: what becomes of the values that the data hold.
    """
    listed = said(objects_in(tools))
    try:
        return _description(listed, style, date) if listed else ""
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no description of tools: {error!r}") from None


def objects_in(value: Any) -> list[Tool]:
    """Return objects such as tools from JSON, or a value of it: a list, or one object; `ValueError` for anything else.

    JSON that was written as a text of JSON, the list or its members, is read again.
    """
    value = _read_again(value)
    tools = [value] if isinstance(value, Mapping) and value else value or []
    read = list(map(_read_again, tools)) if isinstance(tools, list | dict) else [None]
    objects: list[Tool] = [tool for tool in read if isinstance(tool, Mapping)]
    if len(objects) < len(read):
        raise ValueError("no list of tools")
    return objects


def _read_again(value: Any) -> Any:
    while isinstance(value, str) and value.strip():
        value = json.loads(value)
    return value or None


def calls_in(content: str, thought_words: Sequence[str] | None) -> tuple[str, list[Call]]:
    """Return what is before the calls of a message, and the calls; raises `ValueError` where they are not JSON.

    thought_words: around a thought that may stand before a call; None: neither thoughts nor <tool_call> tags are
    looked for.
    """
    before, rest = "", content
    if thought_words is not None and (tagged := _CALL.search(content)):
        before, rest = content.replace(tagged[0], ""), tagged[1]
    elif thought_words is not None:
        start, stop = map(re.escape, thought_words)
        if thought := re.search(f"{start}(.*?){stop}", content, re.DOTALL):
            before, rest = thought[0], content.replace(thought[0], "")
    values = json.loads(rest)
    try:
        return before, [
            (call["name"], call["arguments"]) for call in (values if isinstance(values, list) else [values])
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"no call of a tool: {error!r}") from None


def called(content: str, style: str, thought_words: Sequence[str] | None, said: Callable[..., Any]) -> str:
    """Return the text of a message that calls tools, thoughts before them kept; arguments as above."""
    before, calls = calls_in(content, thought_words)
    thought_marks = [word.strip() for word in thought_words or ()]
    return str(said(before, thought_marks)) + _calls(
        [(said(name), said(arguments)) for name, arguments in calls], style
    )


def _json(value: Any, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


def _description(listed: Sequence[Tool], style: str, date: str) -> str:
    tools: list[Tool] = [
        tool if tool.get("type") == "function" else {"type": "function", "function": tool} for tool in listed
    ]
    if style == "llama3":
        return _LLAMA3.format(date=date, tools="".join(f"{_json(tool, indent=4)}\n\n" for tool in tools))
    if style == "qwen":
        return _QWEN.format(tools="".join(f"\n{_json(tool)}" for tool in tools))
    if style == "mistral":
        return f"[AVAILABLE_TOOLS] {_json(tools)}[/AVAILABLE_TOOLS]"
    functions = [tool["function"] for tool in tools]
    names = ", ".join([function["name"] for function in functions])
    return _DEFAULT.format(tools="".join(map(_function, functions)), names=names)


def _function(function: Tool) -> str:
    parameters = function["parameters"]
    lines = [
        _parameter(name, facts, required=name in parameters.get("required", ()))
        for name, facts in parameters["properties"].items()
    ]
    about = f"> Tool Name: {function['name']}\nTool Description: {function.get('description', '')}\n"
    return f"{about}Tool Args:\n{''.join(lines)}\n"


def _parameter(name: str, facts: Tool, *, required: bool) -> str:
    kind = f"{facts.get('type', '')}{', required' if required else ''}"
    one_of = f", should be one of [{', '.join(facts['enum'])}]" if facts.get("enum") else ""
    items = f", where each item should be {facts['items'].get('type', '')}" if facts.get("items") else ""
    return f"  - {name} ({kind}): {facts.get('description', '')}{one_of}{items}\n"


def _calls(calls: Sequence[Call], style: str) -> str:
    if style == "default":
        return "\n".join(f"Action: {name}\nAction Input: {_json(arguments)}" for name, arguments in calls)
    key = "parameters" if style == "llama3" else "arguments"
    values = [{"name": name, key: arguments} for name, arguments in calls]
    if style == "qwen":
        return "\n".join(f"<tool_call>\n{_json(value)}\n</tool_call>" for value in values)
    return _json(values[0] if style == "llama3" and len(values) == 1 else values)
