"""Conversations to ids and labels: the recorded results of LLaMA-Factory, and the rules by themselves."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from chat_cases import MARKS, cases, conversation, dialog, recorded_tokenizer, small_tokenizer, turns

import bpe_pipeline
from bpe_pipeline import compat
from bpe_pipeline.tokenizer.named_templates import missing_marks, template_named

DIALOG, EOT = dialog("the low", "lower"), "<|endoftext|>"
AS_THEIRS = {"special_tokens_in_messages": "tokens", "date": "22 Nov 2026"}  # the day they were recorded


def test_recorded_rows_are_equal() -> None:
    equal = refused = 0
    for case in cases("sft"):
        options: dict[str, Any] = dict(case["options"])
        template, after = options.pop("template", None), case["tokenizer_after"]
        if template is None or "split_special_tokens" in options:  # never useful
            continue
        arguments = {"template": template, "sequence_length": options.pop("cutoff_len"), **AS_THEIRS, **options}
        tokenizer, dialog = recorded_tokenizer(case["tokenizer"]), conversation(case["example"])
        missing = missing_marks(template_named(template, tokenizer.model), tokenizer.model)
        if missing or after["size_after"] > after["size_before"]:  # text, or added behind the model's last id
            with pytest.raises(bpe_pipeline.PipelineError, match=r"no special token [<\[]"):
                list(bpe_pipeline.encode_chat([dialog], tokenizer, **arguments))
            refused += 1
            continue
        expected = [] if case["result"] is None else [{key: case["result"][key] for key in ("input_ids", "labels")}]
        assert list(bpe_pipeline.encode_chat([dialog], tokenizer, **arguments)) == expected, (case["name"], arguments)
        equal += 1
    assert equal > 140
    assert refused > 10


def test_defaults_are_llama3_and_4096_ids() -> None:
    dialogs = [DIALOG, dialog("the low", "low " * 9000)]
    rows = list(bpe_pipeline.encode_chat(dialogs, small_tokenizer()))
    assert rows == list(bpe_pipeline.encode_chat(dialogs, small_tokenizer(), template="llama3", sequence_length=4096))
    assert len(rows[1]["input_ids"]) == 4096


def test_rows_with_calls_of_tools_are_those_of_llamafactory() -> None:
    cases = json.loads((Path(__file__).parent / "tool_rows.json").read_text())  # LLaMA-Factory 0.9.5 made the ids
    assert len(cases) == 6
    for case in cases:
        conversation = compat.align_chat(case["row"], "messages")
        found = list(bpe_pipeline.encode_chat([conversation], small_tokenizer(), template=case["template"]))
        assert found == [{name: case[name] for name in ("input_ids", "labels")}], case["row"]


TYPED = "<|im_end|>\n<|im_start|>assistant\n"
TYPING = [  # with what the template writes: two or more marks of a turn, a start and an end
    dialog(TYPED, "low"),
    dialog("low", f"x{TYPED}"),
    dialog(f"\ud800{TYPED}\ud801", "\ufdd0"),
    {**DIALOG, "system": TYPED},
    {**DIALOG, "tools": json.dumps([{"name": "f", "description": TYPED, "parameters": {"properties": {TYPED: {}}}}])},
    dialog(TYPED, json.dumps({"name": TYPED, "arguments": {TYPED: [TYPED]}}), roles=("observation", "function")),
]


@pytest.mark.parametrize("template", ["chatml", "qwen", "qwen3", "default"])
def test_special_tokens_in_messages_are_text(template: str, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = small_tokenizer()
    ends = [tokenizer.special_tokens[text] for text in ("<|im_start|>", "<|im_end|>")]
    for typing in TYPING:
        plain = json.loads(json.dumps(typing).replace("<|im_", "<|xx_").replace("\\ufdd0", "x"))
        rows = [row for one in (typing, plain) for row in bpe_pipeline.encode_chat([one], tokenizer, template=template)]
        texts = [tokenizer.decode(row["input_ids"]) for row in rows]
        assert texts[0].count("<|im_") - texts[1].count("<|im_") == texts[1].count("<|xx_") > 0
        counts = [[row["input_ids"].count(id_) for id_ in ends] for row in rows]
        assert counts[0] == counts[1], (template, typing)
    assert "special tokens in messages taken as text (first: conversation 0)" in caplog.text


def test_special_tokens_in_messages_may_be_tokens_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    tokenizer, options = small_tokenizer(), {"template": "chatml", "special_tokens_in_messages": "tokens"}
    row = next(bpe_pipeline.encode_chat(TYPING, tokenizer, **options))  # type: ignore[arg-type]
    text = f"<|im_start|>user\n{TYPED}<|im_end|>\n<|im_start|>assistant\nlow<|im_end|>\n"
    assert row["input_ids"] == tokenizer.encode(text)
    list(bpe_pipeline.encode_chat(TYPING[:1], tokenizer, **options))  # type: ignore[arg-type]
    assert "2 special tokens in messages taken as special tokens" in caplog.text
    for typing in TYPING:
        with pytest.raises(bpe_pipeline.PipelineError, match=r"a message contains the special token '<\|im_"):
            list(bpe_pipeline.encode_chat([typing], tokenizer, "chatml", special_tokens_in_messages="refuse"))


def test_words_around_thoughts_are_the_templates() -> None:
    tokenizer = bpe_pipeline.Tokenizer.from_merges([], ["<|im_start|>", "<|im_end|>", "<think>", "</think>"])
    think = tokenizer.special_tokens["<think>"]
    said = "<think>\nx\n</think>\n\ny"
    row = next(bpe_pipeline.encode_chat([dialog(said, said)], tokenizer, template="qwen3"))
    assert row["input_ids"].count(think) == row["labels"].count(think) == 1


@pytest.mark.parametrize("told", ["tool_calls", "function_call", "tools"])
def test_openai_calls_that_are_not_aligned_are_refused(told: str) -> None:
    found = dialog("the low", "lower")
    (found if told == "tools" else found["messages"][1])[told] = [{"function": {"name": "f", "arguments": "{}"}}]
    with pytest.raises(bpe_pipeline.PipelineError, match=r'align_chat\(row, formatting="messages"\)'):
        next(bpe_pipeline.encode_chat([found], small_tokenizer(), template="default"))


def test_tools_need_a_tool_format(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text('user: ["Q {{content}}"]\nassistant: ["{{content}}", "{{eos}}"]\n')
    called = dialog("the low", '{"name": "f", "arguments": {}}', roles=("user", "function"))
    dialogs = [{**DIALOG, "tools": '[{"name": "f"}]'}, called]
    assert len(list(bpe_pipeline.encode_chat([*dialogs, {**DIALOG, "tools": "[]"}], small_tokenizer(), str(path)))) == 1
    assert "no tool format (first: conversation 0, template mine; conversation 1, template mine)" in caplog.text


def test_the_date_before_tools_is_the_one_asked_for() -> None:
    dialogs = [{**DIALOG, "tools": '[{"name": "f", "parameters": {}}]'}]
    for date, written in (("2026-03-01", "01 Mar 2026"), ("1 May 2025", "01 May 2025")):
        row = next(bpe_pipeline.encode_chat(dialogs, small_tokenizer(), date=date))
        assert f"Today Date: {written}\n" in small_tokenizer().decode(row["input_ids"])


def test_an_empty_thought_is_trained_on_only_where_thinking_is_enabled() -> None:
    tokenizer, untrained = small_tokenizer(), ({"enable_thinking": None}, {"enable_thinking": False})
    for settings in ({}, *untrained):
        row = next(bpe_pipeline.encode_chat([DIALOG], tokenizer, template="qwen3", **settings))
        assert "<think>\n\n</think>\n\nlower" in tokenizer.decode(row["input_ids"])
        trained = tokenizer.decode([id_ for id_ in row["labels"] if id_ >= 0])
        assert ("<think>" in trained) == (settings not in untrained)


def test_what_is_no_pair_is_dropped() -> None:
    dialogs = [
        *(dialog(), dialog("a"), dialog(None, "b"), {**DIALOG, "tools": "no JSON"}),
        *(dialog("a", said, roles=("user", "function")) for said in ("no JSON", '[{"name": "f"}]', "[5]")),
        *({**DIALOG, "tools": tools} for tools in ("[5]", "{}x")),
        {**DIALOG, "messages": [1, 2]},
    ]
    assert list(bpe_pipeline.encode_chat(dialogs, small_tokenizer(), template="chatml")) == []


def test_a_template_of_ones_own_may_be_like_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text('like: chatml\nuser: ["Q {{content}}\\n", "{{eos}}"]\ndefault_system: ""\n')
    row = next(bpe_pipeline.encode_chat([DIALOG], small_tokenizer(), template=str(path)))
    assert small_tokenizer().decode(row["input_ids"]) == "Q the low\n<|im_end|>lower<|im_end|>\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user: 3", "user: 3 is not of type list"),
        ("user: [low]", "needs a text with"),
        ('prefix: ["{{content}}"]', "must not have"),
        ("nonsense: 1", "the field 'nonsense' is unknown"),
        ("like: none", "which is unknown"),
        ("kind: odd", "kind must be one of plain"),
        ("replace_eos: true", "replace_eos needs stop_words"),
        ("efficient_eos: 1", "efficient_eos: 1 is not"),
        ("marks: x", "marks: 'x' is not of type list"),
        ("[", "cannot be read"),
        ("- a", "must hold the fields"),
        ('user: ["<|mine|>{{content}}<|im_end|>"]', "mine: the vocabulary has no special token <|mine|>;"),
        ('like: chatml\nmarks: []\nuser: ["<\uff5cUser\uff5c>{{content}}"]', "no special token <\uff5cUser\uff5c>;"),
        ('assistant: ["{{content}}</s>"]', "no special token </s>;"),
        ('prefix: ["<start_of_turn>"]\nmarks: ["<x>"]', "no special token <x> <start_of_turn>;"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_field_or_the_marks(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(bpe_pipeline.PipelineError, match=re.escape(message)):
        bpe_pipeline.encode_chat([DIALOG], small_tokenizer(), template=str(path))


@pytest.mark.parametrize(
    ("name", "special_tokens", "options", "message"),
    [
        ("lama3", [EOT], {}, "did you mean 'llama3'"),
        ("zzz", [EOT], {}, "llama3, chatml, qwen, qwen3"),
        ("chatml", [EOT], {}, "<|im_start|> <|im_end|>; add"),
        ("default", [], {}, "the tokenizer has none"),
        ("deepseek3", [EOT], {}, "<\uff5cUser\uff5c> <\uff5cAssistant\uff5c>; add"),
        ("chatml", MARKS, {"train_on_prompt": True, "mask_history": True}, "--train-on-prompt excludes --mask-history"),
        ("fewshot", MARKS, {"train_on_prompt": True}, "share one end of text"),
        ("llama3", MARKS, {"special_tokens_in_messages": "all"}, "in_messages: expected one of tokens, text"),
        ("llama3", MARKS, {"date": "2026-02-30"}, "date: expected a date such as 2026-11-23"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, special_tokens: list[str], options: Any, message: str) -> None:
    tokenizer = small_tokenizer() if special_tokens is MARKS else bpe_pipeline.Tokenizer.from_merges([], special_tokens)
    with pytest.raises(bpe_pipeline.PipelineError, match=re.escape(message)):
        bpe_pipeline.encode_chat([DIALOG], tokenizer, template=name, **options)


TOOLED = bpe_pipeline.Tokenizer.from_merges([], ["<|im_start|>", "<|im_end|>"])
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"properties": {}}}}


@pytest.mark.parametrize("tools", [TOOL, [json.dumps(TOOL)], json.dumps(json.dumps([TOOL])), json.dumps(TOOL)])
def test_tools_that_are_one_object_or_json_of_json_are_read(tools: Any) -> None:
    rows = [{"messages": turns("low", "er"), "tools": one} for one in (tools, [TOOL], ["f"], 5)]
    found = list(bpe_pipeline.encode_chat((compat.align_chat(row, "messages") for row in rows), TOOLED, "qwen"))
    assert len(found) == 2
    assert found[0] == found[1]


@pytest.mark.parametrize(("text", "count"), [("\ud83d", 1), ("low \ud83d\ude00", 2), ("\\ud83d", 0), ("é", 0)])
def test_surrogates_are_counted(text: str, count: int, caplog: pytest.LogCaptureFixture) -> None:
    tools = f'[{{"name": "{text}"}}]'
    for typed in ({"messages": turns(text, "er")}, {"messages": turns("low", "er"), "tools": tools}):
        caplog.clear()
        list(bpe_pipeline.encode_chat([typed], TOOLED, template="qwen"))
        expected = count + ("tools" in typed and text == "\\ud83d")  # an escape in JSON is one
        assert (f"{expected} invalid UTF-8 sequence" in caplog.text) == bool(expected)
