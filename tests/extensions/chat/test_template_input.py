"""What a template in Jinja gets of a row, and which answers are trained on: the ids and texts of transformers."""

import json
import os
import re
from datetime import datetime
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chat_cases import GENERATION, THINKING, trained_text, with_template

import bpe_pipeline
from bpe_pipeline import compat
from bpe_pipeline.tokenizer import chat_templates
from bpe_pipeline.tokenizer.chat_templates import CHAT_TEMPLATES

SAID = "<think>\nlow\n</think>\n\nlower"
PARAMETERS = {"type": "object", "properties": {"x": {"type": "integer", "description": "An x."}}, "required": ["x"]}
TOOL = {"type": "function", "function": {"name": "f", "description": "F.", "parameters": PARAMETERS}}
DATA = Path(os.environ.get("BPE_PIPELINE_TEST_DATA", "/nowhere/data"))
TEMPLATES = sorted((DATA.parent / "trl").glob("**/*.jinja"))
EVERYTHING = (  # writes all that it gets
    "{{ tools | tojson }}{{ documents | tojson }}{{ extra }}{% for m in messages %}<|im_start|>{{ m | tojson }}"
    "{% generation %}{{ m.content }}{% endgeneration %}<|im_end|>\n{% endfor %}"
)
CALLS = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]
ANSWERED = {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "9"}
LAST = {"role": "assistant", "content": "low"}
ASKED = {"role": "user", "content": "the"}


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [ASKED, {**LAST, "reasoning_content": "why"}]},
        {"messages": [ASKED, {**LAST, "reasoning": "why"}, {**ASKED, "name": "Ann"}, {**LAST, "thinking": "how"}]},
        {"messages": [{"role": "system", "content": ""}, ASKED, LAST]},
        {"messages": [{"role": "developer", "content": "Be."}, ASKED, {**LAST, "refusal": None}]},
        {"messages": [ASKED, {**LAST, "tool_calls": CALLS}, ANSWERED, {**ANSWERED, "name": "g"}, LAST]},
        {"messages": [ASKED, {**LAST, "tool_calls": CALLS}, ANSWERED], "tools": [{"type": "function", "function": {}}]},
        {"messages": [ASKED, LAST], "documents": [{"title": "t"}], "chat_template_kwargs": {"extra": "more"}},
        {"messages": [ASKED, ASKED, LAST, ASKED]},
    ],
)
def test_a_template_gets_all_that_a_row_has(row: dict[str, Any]) -> None:
    tokenizer = with_template(EVERYTHING)
    own = {name: value for name, value in row.items() if name not in ("messages", "chat_template_kwargs")}
    theirs = tokenizer.to_transformers().apply_chat_template(
        row["messages"], return_dict=False, **own, **row.get("chat_template_kwargs", {})
    )
    [found] = bpe_pipeline.encode_chat([compat.align_chat(row, "messages")], tokenizer, "tokenizer")
    assert found["input_ids"] == theirs


def _answers(jinja: str, messages: list[dict[str, Any]], **row: Any) -> list[str]:
    """Return the stretches of a row that are trained on, after comparing its text with transformers'."""
    tokenizer = with_template(jinja)
    aligned = compat.align_chat({"messages": messages, **row}, "messages")
    [found] = bpe_pipeline.encode_chat([aligned], tokenizer, "tokenizer", sequence_length=1 << 20)
    theirs = tokenizer.to_transformers().apply_chat_template(messages, tokenize=False, **row)
    assert tokenizer.decode(found["input_ids"]) == theirs
    runs = groupby(zip(found["input_ids"], found["labels"], strict=True), lambda pair: pair[1] >= 0)
    return [tokenizer.decode([id_ for id_, _ in pairs]) for trained, pairs in runs if trained]


def _turns(answer: str, after: str = "<|im_end|>\n", prompt: str = "") -> str:
    """Return a template like ChatML's, which writes this of an answer."""
    return (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}" + answer + "{% else %}"
        "{{ m.content }}{% endif %}" + after + "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n" + prompt + "{% endif %}"
    )


SYSTEM_LAST = (  # as Mistral's: the system text is in the last question
    "{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}[INST] "
    "{% if loop.index0 >= (messages | length) - 2 - (messages | length) % 2 and messages[0].role == 'system' %}"
    "{{ messages[0].content }}\n\n{% endif %}{{ m.content }}[/INST]{% else %} {{ m.content }}<|endoftext|>{% endif %}"
    "{% endfor %}"
)
BY_NUMBER = (
    "{% for i in range(messages | length) %}<|im_start|>{{ messages[i].role }}\n{{ messages[i].content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NEXT = (
    "{% for m in messages %}{{ {'user': '<|im_start|>', 'assistant': '<|pad|>'}[m.role] }}{{ m.content }}{% endfor %}"
)
PROMPTED = "{% if add_generation_prompt %}<|pad|>{% endif %}"
GATHERED = (
    "{% set all = namespace(text='') %}{% for m in messages %}"
    "{% set all.text = all.text + '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' %}{% endfor %}"
    "{{ all.text }}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
JOINED = (
    "{% set text %}" + _turns("{{ m.content }}") + "{% endset %}{{ text.replace('\n<|im_start|>', '<|im_start|>') }}"
)


@pytest.mark.parametrize(
    ("jinja", "said", "trained"),
    [
        (_turns("{{ m.content }}", prompt="<think>\n"), [SAID], ["low\n</think>\n\nlower<|im_end|>\n"]),
        (
            _turns("{{ m.content }}", prompt="<think>\n"),
            ["a", SAID],
            ["a<|im_end|>\n", "low\n</think>\n\nlower<|im_end|>\n"],
        ),
        (_turns("<think></think>{{ m.content }}", prompt="<think>\n"), ["a"], ["</think>a<|im_end|>\n"]),
        (_turns("{{ m.content.split('</think>')[-1].strip() }}"), [SAID, SAID], ["lower<|im_end|>\n"] * 2),
        (_turns("{{ m.content.replace('\n\n', '\n') }}"), ["a\n\nb", "c"], ["a\nb<|im_end|>\n", "c<|im_end|>\n"]),
        (_turns("{{ m.content | upper }}"), ["a", "b"], ["A<|im_end|>\n", "B<|im_end|>\n"]),
        (SYSTEM_LAST, ["a", "b"], [" a<|endoftext|>", " b<|endoftext|>"]),
        (BY_NUMBER, ["a", "b"], ["a<|im_end|>\n", "b<|im_end|>\n"]),
        (JOINED, ["a", "b"], ["a<|im_end|>", "b<|im_end|>\n"]),
        (NEXT + PROMPTED, ["a", "b"], ["a<|im_start|>", "b"]),
        (GATHERED, ["a", "b"], ["a<|im_end|>\n", "b<|im_end|>\n"]),
    ],
)
def test_answers_are_found_without_marks(jinja: str, said: list[str], trained: list[str]) -> None:
    messages = [one for text in said for one in (ASKED, {"role": "assistant", "content": text})]
    system = [{"role": "system", "content": "Be."}] if jinja == SYSTEM_LAST else []
    assert _answers(jinja, [*system, *messages]) == trained


STRICT = (  # an answer of a tool follows a call
    "{% if m.role == 'tool' and not loop.previtem.tool_calls %}{{ raise_exception('no call') }}{% endif %}"
    "<|im_start|>{{ m.role"
)
CALLING = _turns("{% for c in m.tool_calls %}{{ c.function.name + ' ' + ARGUMENTS }}{% endfor %}{{ m.content }}")


@pytest.mark.parametrize(
    ("arguments", "as_text", "written"),
    [
        ("c.function.arguments", '{"x": 1}', '{"x": 1}'),
        ("(c.function.arguments | tojson)", '{"x": 1}', '{"x": 1}'),
        (
            "(c.function.arguments if c.function.arguments is string else c.function.arguments | tojson)",
            '{"x":1e5}',
            '{"x":1e5}',
        ),
        ("(c.function.arguments | tojson)", '{"x":1}', '{"x": 1}'),
        (
            "(c.function.arguments if c.function.arguments is string else c.function.arguments.x | string)",
            '{"x":1}',
            "1",
        ),
        ("(c.function.arguments.items() | list | tojson)", '{"x":1}', '[["x", 1]]'),
    ],
)
def test_calls_have_the_form_that_a_template_takes(arguments: str, as_text: str, written: str) -> None:
    tokenizer = with_template(CALLING.replace("<|im_start|>{{ m.role", STRICT, 1).replace("ARGUMENTS", arguments))
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": as_text}}
    row = {"messages": [ASKED, {**LAST, "content": "", "tool_calls": [call]}, ANSWERED, LAST]}
    [found] = bpe_pipeline.encode_chat([compat.align_chat(row, "messages")], tokenizer, "tokenizer")
    assert trained_text(tokenizer, found) == f"f {written}<|im_end|>\nlow<|im_end|>\n"


PARTS = [{**one, "content": [{"type": "text", "text": one["content"]}]} for one in (ASKED, LAST)]


@pytest.mark.parametrize(
    "content",
    [
        "{{ m.content }}",
        "{{ m.content + '' }}",
        "{% for part in m.content %}{{ part.text }}{% endfor %}",
        "{% if m.content is string %}{{ m.content }}{% endif %}",
    ],
)
def test_contents_have_the_form_that_a_template_takes(content: str) -> None:
    tokenizer = with_template(
        _turns(content).replace("{{ m.content }}{% endif %}<|im_end|>", content + "{% endif %}<|im_end|>")
    )
    aligned = compat.align_chat({"messages": PARTS}, "messages")
    [row] = bpe_pipeline.encode_chat([aligned], tokenizer, "tokenizer")
    assert (
        tokenizer.decode(row["input_ids"]) == "<|im_start|>user\nthe<|im_end|>\n<|im_start|>assistant\nlow<|im_end|>\n"
    )


def test_tools_are_objects() -> None:
    tool, tokenizer = {"type": "function", "function": {"name": "f"}}, with_template(EVERYTHING)
    forms = [tool, [tool], json.dumps(tool), json.dumps(json.dumps([tool])), [json.dumps(tool)], ["f"], 5, '"f"']
    rows = [compat.align_chat({"messages": [ASKED, LAST], "tools": one}, "messages") for one in forms]
    found = list(bpe_pipeline.encode_chat(rows, tokenizer, "tokenizer"))
    assert len(found) == 5
    assert all(tokenizer.decode(row["input_ids"]).startswith(json.dumps([tool])) for row in found)


@pytest.mark.parametrize("written", ["m | tojson", "m | tojson(ensure_ascii=True)", "m | string"])
def test_special_tokens_are_text_in_every_member(written: str, caplog: pytest.LogCaptureFixture) -> None:
    typed = {"a": "<|eot_id|>", "b": [{"<|eot_id|>": "<|eot_id|>"}]}
    calls = [{"id": "<|eot_id|>", "function": {"name": "f", "arguments": json.dumps(typed).replace("|e", "\\u007ce")}}]
    said = {**LAST, "reasoning_content": "<|eot_id|>", "tool_calls": calls}
    row = {"messages": [{**ASKED, "name": "<|eot_id|>"}, said, ANSWERED, LAST], "documents": [{"text": "<|eot_id|>"}]}
    row["chat_template_kwargs"] = {"extra": "<|eot_id|>"}
    aligned = compat.align_chat(row, "messages")
    tokenizer = with_template(EVERYTHING.replace("m | tojson", written))
    [found] = bpe_pipeline.encode_chat([aligned], tokenizer, "tokenizer")
    assert tokenizer.special_tokens["<|eot_id|>"] not in found["input_ids"]
    assert "ud80" not in tokenizer.decode(found["input_ids"])
    assert "8 special tokens in messages taken as text" in caplog.text
    with pytest.raises(bpe_pipeline.SpecialTokenError, match="special token"):
        list(bpe_pipeline.encode_chat([aligned], tokenizer, "tokenizer", special_tokens_in_messages="refuse"))


@pytest.mark.parametrize("jinja", [CHAT_TEMPLATES["chatml"].jinja, GENERATION.sub("", CHAT_TEMPLATES["chatml"].jinja)])
def test_answers_that_are_marked_are_not_trained_on(jinja: str) -> None:
    messages = [ASKED, {**LAST, "weight": 0}, ASKED, {**LAST, "content": "er"}]
    assert [text.strip() for text in _answers(jinja, messages)] == ["er<|im_end|>"]
    tokenizer, aligned = with_template(jinja), compat.align_chat({"messages": messages}, "messages")
    [row] = bpe_pipeline.encode_chat([aligned], tokenizer, "tokenizer", train_on_prompt=True)
    text = trained_text(tokenizer, row)
    assert (text.count("the"), text.count("low"), text.count("er")) == (2, 0, 3)  # user, user, er


def test_only_the_answer_that_is_not_found_is_not_trained_on(caplog: pytest.LogCaptureFixture) -> None:
    late = _turns("{% if loop.last or 'x' not in m.content %}{{ m.content }}{% else %}no{% endif %}")
    messages = [one for text in ("a", "x", "b") for one in (ASKED, {"role": "assistant", "content": text})]
    assert _answers(late, messages) == ["a<|im_end|>\n", "b<|im_end|>\n"]
    assert "1 answer not trained on" in caplog.text


@pytest.mark.parametrize("said", ["low", SAID])
def test_a_long_dialog_is_rendered_a_few_times(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[int] = []
    compiled = chat_templates._compiled

    def counted(jinja: str) -> Any:
        def rendering(*names: Any, **more: Any) -> Any:
            rendered.append(len((names[0] if names else more)["messages"]))
            return compiled(jinja).render(*names, **more)

        return SimpleNamespace(render=rendering)

    monkeypatch.setattr(chat_templates, "_compiled", counted)
    messages = [one for _ in range(200) for one in (ASKED, {"role": "assistant", "content": said})]
    assert len(_answers(THINKING, messages)) == (200 if said == "low" else 1)
    assert sum(rendered) < 12 * len(messages)


ENDING = {"role": "assistant", "content": "lower"}
REAL: list[dict[str, Any]] = [
    *({"messages": [*system, ASKED, ENDING]} for system in ([], [{"role": "system", "content": "Be."}])),
    {"messages": [{"role": "system", "content": ""}, ASKED, ENDING]},
    {"messages": [{"role": "developer", "content": "Be."}, ASKED, ENDING]},
    {"messages": [ASKED, LAST, ASKED, LAST, ASKED, {**ENDING, "content": " \nlower\n\nlow "}]},
    {"messages": [ASKED, {**ENDING, "content": SAID}, ASKED, {**ENDING, "content": SAID}]},
    {"messages": [ASKED, {**LAST, "reasoning": "why"}, ASKED, {**ENDING, "reasoning_content": "how"}]},
    {"messages": [ASKED, ENDING], "tools": [TOOL]},
    *(
        {"messages": [ASKED, {**LAST, "content": text, "tool_calls": CALLS}, ANSWERED, ENDING], "tools": [TOOL]}
        for text in ("", "Well.")
    ),
    {
        "messages": [
            ASKED,
            {**LAST, "content": "", "thinking": "so", "tool_calls": CALLS * 2},
            ANSWERED,
            ANSWERED,
            ENDING,
            ASKED,
            ENDING,
        ],
        "tools": [TOOL],
    },
    {"messages": [ASKED, ENDING], "chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "high"}},
    {"messages": [ASKED, ASKED, ENDING]},
    {"messages": [PARTS[0], {**ENDING, "content": [{"type": "text", "text": "lower"}]}]},
]


@pytest.mark.slow
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_rows_by_real_templates_are_those_of_transformers(path: Path) -> None:
    jinja = path.read_text()
    tokenizer = with_template(jinja)
    theirs, today = tokenizer.to_transformers(), datetime.now().astimezone().strftime("%Y-%m-%d")
    options = {"date": today if "strftime_now" in jinja else "2024-07-26", "sequence_length": 1 << 20}
    compared = 0
    for row in REAL:
        own = {name: row.get(name) for name in ("tools", "documents")} | row.get("chat_template_kwargs", {})
        marks = {"return_dict": True, "return_assistant_tokens_mask": True}
        try:
            made = theirs.apply_chat_template(row["messages"], **own, **marks)
        except Exception:
            continue
        said = tokenizer.decode(made["input_ids"])
        if "'text'" in said or "lower" not in said:
            continue  # it writes lists as Python does, or not at all
        aligned = compat.align_chat(row, "messages")
        if not (rows := list(bpe_pipeline.encode_chat([aligned], tokenizer, "tokenizer", **options))):
            silent = [{name: one[name] for name in ("role", "content")} for one in row["messages"]]
            assert theirs.apply_chat_template(silent, **own, **marks)["input_ids"] == made["input_ids"]  # no calls
            continue
        compared += 1
        assert rows[0]["input_ids"] == made["input_ids"], row
        if re.search(r"{%-?\s*generation", jinja):
            assert [int(id_ >= 0) for id_ in rows[0]["labels"]] == made["assistant_masks"], row
        else:
            assert "lower" in trained_text(tokenizer, rows[0]), row
    assert compared
