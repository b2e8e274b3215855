"""Chat data by templates in Jinja: the ids and masks of transformers, named templates as Jinja, and comparisons."""

import json
import os
import re
import sys
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from chat_cases import (
    GENERATION,
    TEMPLATE_MODEL,
    THINKING,
    dialog,
    small_tokenizer,
    trained_text,
    turns,
    with_template,
)
from command import refused, run, succeeded
from transformers import AutoTokenizer

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.tokenizer.chat_templates import CHAT_TEMPLATES
from bpe_pipeline.tokenizer.model import Preparation
from bpe_pipeline.tokenizer.named_templates import _known, chat_template_named

PUBLISHED = Path(os.environ.get("BPE_PIPELINE_TEST_DATA", "/nowhere/data")).parent / "published"
ROLES, SAID = ("observation", "assistant"), "<think>\nlow\n</think>\n\nlower"
CALLED = dialog("add", '{"name": "f", "arguments": {"a": 1}}', roles=("user", "function"), tools='[{"name": "f"}]')
DIALOGS: list[dict[str, Any]] = [
    dialog("the low", "lower", system="Be."),
    dialog(" a\n", "\n b \n", "c", "d"),
    {"messages": [*dialog("é", SAID)["messages"], *dialog("7", "low", roles=ROLES)["messages"]]},
]


def _as_openai(conversation: dict[str, Any]) -> list[dict[str, str]]:
    roles = {"observation": "tool"}
    said = [{**one, "role": roles.get(one["role"], one["role"])} for one in conversation["messages"]]
    return [{"role": "system", "content": conversation["system"]}, *said] if "system" in conversation else said


@cache
def _both(name: str) -> tuple[Tokenizer, Any]:
    """Return a tokenizer with the Jinja of a named template, and the same in transformers."""
    tokenizer = with_template(chat_template_named(name, TEMPLATE_MODEL).jinja)
    return tokenizer, tokenizer.to_transformers()


each_template = pytest.mark.parametrize("name", _known())
each_dialog = pytest.mark.parametrize("conversation", DIALOGS, ids=("system", "spaces", "tool"))


@each_template
@each_dialog
def test_slots_write_the_text_of_their_jinja(name: str, conversation: dict[str, Any]) -> None:
    tokenizer, theirs = _both(name)
    [row] = bpe_pipeline.encode_chat([conversation], tokenizer, name)
    assert tokenizer.decode(row["input_ids"]) == theirs.apply_chat_template(_as_openai(conversation), tokenize=False)


@each_template
@each_dialog
def test_rows_by_jinja_are_those_of_transformers(name: str, conversation: dict[str, Any]) -> None:
    tokenizer, theirs = _both(name)
    options = {"return_dict": True, "return_assistant_tokens_mask": True}
    expected = theirs.apply_chat_template(_as_openai(conversation), **options)
    pairs = zip(expected["input_ids"], expected["assistant_masks"], strict=True)
    labels = [id_ if generated else -100 for id_, generated in pairs]
    [row] = bpe_pipeline.encode_chat([conversation], tokenizer, "tokenizer")
    assert row == {"input_ids": expected["input_ids"], "labels": labels}


@each_template
@each_dialog
def test_slots_and_jinja_train_on_the_same(name: str, conversation: dict[str, Any]) -> None:
    tokenizer, _ = _both(name)
    one_more = {"chatml": "\n", "fewshot": "<|endoftext|>"}.get(name, "")  # which LLaMA-Factory trains on, too
    rows = (next(bpe_pipeline.encode_chat([conversation], tokenizer, template)) for template in (name, "tokenizer"))
    slots, jinja = (trained_text(tokenizer, row).replace(one_more, "") for row in rows)
    assert slots == jinja


@pytest.mark.parametrize("name", sorted({*_known()} - {"qwen3"}))  # whose prompt opens a thought
@each_dialog
def test_rows_start_with_the_prompt(name: str, conversation: dict[str, Any]) -> None:
    tokenizer, theirs = _both(name)
    question = _as_openai(conversation)[: 1 + ("system" in conversation)]
    prompt = theirs.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
    [row] = bpe_pipeline.encode_chat([conversation], tokenizer, name)
    assert tokenizer.decode(row["input_ids"]).startswith(prompt)


def test_without_marks_of_generation_answers_are_found_by_prefixes() -> None:
    for name, after in (("llama3", ""), ("chatml", "\n")):
        marked = CHAT_TEMPLATES[name].jinja
        for one in DIALOGS:
            tokenizers = [with_template(jinja) for jinja in (marked, GENERATION.sub("", marked))]
            rows = [next(bpe_pipeline.encode_chat([one], each, "tokenizer")) for each in tokenizers]
            assert rows[0]["input_ids"] == rows[1]["input_ids"]
            texts = [trained_text(each, row) for each, row in zip(tokenizers, rows, strict=True)]
            assert texts[0].replace("<|im_end|>", "<|im_end|>" + after) == texts[1]


def test_answers_that_are_rewritten_later_are_not_trained_on(caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = with_template(THINKING)
    dialogs = [dialog("a", "b", "c", "d"), dialog("a", SAID, "c", SAID)]
    rows = list(bpe_pipeline.encode_chat(dialogs, tokenizer, "tokenizer"))
    trained = [trained_text(tokenizer, row) for row in rows]
    assert trained == ["b<|im_end|>\n<think>\n\n</think>\n\nd<|im_end|>\n", f"{SAID}<|im_end|>\n"]
    assert "1 answer not trained on: the chat template rewrites them in later turns (first: c" in caplog.text
    called = {**CALLED, "messages": [*CALLED["messages"], *dialog("7", "low", roles=ROLES)["messages"]]}
    [row] = bpe_pipeline.encode_chat([called], tokenizer, "tokenizer")
    assert trained_text(tokenizer, row).startswith('{"name": "f", "arguments": {"a": 1}}<|im_end|>\n')


def test_rows_are_cut_and_masked_as_those_of_slots_are() -> None:
    tokenizer = with_template(CHAT_TEMPLATES["llama3"].jinja)
    long = dialog("low " * 30, "lower " * 9, "the", "low")
    for options in (
        {"sequence_length": 50},
        {"mask_history": True},
        {"train_on_prompt": True},
        {"default_system": "S"},
    ):
        rows = [list(bpe_pipeline.encode_chat([long], tokenizer, by, **options)) for by in ("llama3", "tokenizer")]
        assert rows[0] == rows[1], options
    ended = with_template(CHAT_TEMPLATES["chatml"].jinja)  # by a line end that is not trained on
    [whole] = bpe_pipeline.encode_chat([dialog("a", "b")], ended, "tokenizer")
    [cut] = bpe_pipeline.encode_chat([dialog("a", "b")], ended, "tokenizer", len(whole["labels"]) - 1)
    assert whole == {"input_ids": cut["input_ids"] + whole["input_ids"][-1:], "labels": [*cut["labels"], -100]}


def test_typed_special_tokens_are_text_and_spaces_in_front_stay_outside() -> None:
    typed = dialog("<|eot_id|>", "é<|eot_id|>low", tools=None)
    for more in ({}, {"preparation": Preparation(nfc=True)}, {"preparation": Preparation(space_in_front=True)}):
        tokenizer = with_template(CHAT_TEMPLATES["llama3"].jinja, **more)
        row = next(bpe_pipeline.encode_chat([typed], tokenizer, "tokenizer"))
        end = tokenizer.special_tokens["<|eot_id|>"]
        assert (row["input_ids"].count(end), row["labels"].count(end)) == (2, 1)
        assert trained_text(tokenizer, row).replace(" ", "") == "é<|eot_id|>low<|eot_id|>"


DATE = "{{ date_string }}/{{ strftime_now('%d.%m.%Y') }}{% generation %}{{ messages[-1].content }}{% endgeneration %}"


@pytest.mark.parametrize(
    ("jinja", "conversation", "reason"),
    [
        ("{{ raise_exception('no') }}", DIALOGS[0], "does not take them (first: conversation 0, template tokenizer: "),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", CALLED, "it writes no calls of tools"),
        ("{{ add_generation_prompt }}", DIALOGS[0], "it writes no answer to train on"),
        ("{% for _ in range(200) %}{% endfor %}", DIALOGS[0], "takes more than 100 steps"),
    ],
)
def test_a_conversation_that_a_template_does_not_take_is_dropped(
    jinja: str, conversation: Any, reason: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bpe_pipeline.tokenizer.chat_templates._MOST_STEPS", 100)
    assert list(bpe_pipeline.encode_chat([conversation], with_template(jinja), "tokenizer")) == []
    assert reason in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<|mine|>{{ messages }}", "the vocabulary has no special token <|mine|>; add"),
        ("{% if %}", "mine.jinja: it is not valid Jinja (line 1: "),
    ],
)
def test_a_file_that_does_not_fit_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text(text)
    with pytest.raises(bpe_pipeline.UsageError, match=re.escape(message)):
        bpe_pipeline.encode_chat(DIALOGS, small_tokenizer(), str(tmp_path / "mine.jinja"))


def test_a_tokenizer_without_a_template_is_refused() -> None:
    with pytest.raises(
        bpe_pipeline.UsageError, match="template tokenizer: the tokenizer has no chat template; name one"
    ):
        bpe_pipeline.encode_chat(DIALOGS, with_template(None), "tokenizer")


def test_thoughts_are_written_by_jinja_itself() -> None:
    with pytest.raises(bpe_pipeline.UsageError, match="is Jinja and writes calls and thoughts itself"):
        bpe_pipeline.encode_chat(DIALOGS, with_template(DATE), "tokenizer", preserve_thinking=True)


def test_today_is_the_date_of_the_options() -> None:
    row = next(bpe_pipeline.encode_chat(DIALOGS, with_template(DATE), "tokenizer", date="2026-03-01"))
    assert with_template(DATE).decode(row["input_ids"]) == "01 Mar 2026/01.03.2026lower"


CHATML = CHAT_TEMPLATES["chatml"].jinja
LOUDER = CHATML.replace("role'] +", "role'] | upper +")
PLAIN = dialog("the", "low")


def _difference(jinja: str, dialogs: list[dict[str, Any]], caplog: pytest.LogCaptureFixture) -> str:
    """Return what is warned of where a tokenizer has this template, and rows are made by ChatML; once, or nothing."""
    list(bpe_pipeline.encode_chat(dialogs, with_template(jinja), "chatml"))
    warnings = [text for text in caplog.messages if "the tokenizer's own" in text]
    assert len(warnings) <= 1
    return "".join(warnings)


@pytest.mark.parametrize("dialogs", [[PLAIN] * 30, [dialog("<|im_end|>", "low"), dialog("a")]])
def test_a_template_like_the_tokenizers_own_is_no_warning(dialogs: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    assert _difference(CHATML, dialogs, caplog) == ""


def test_a_template_that_differs_from_the_tokenizers_own_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    warning = _difference(LOUDER, [PLAIN, PLAIN], caplog)
    assert "'<|im_start|>user\\nthe<|im_end|>" in warning
    assert "own writes '<|im_start|>USER\\nthe<|im_end|>" in warning


def test_conversations_with_special_tokens_are_not_compared(caplog: pytest.LogCaptureFixture) -> None:
    assert "nthe<|im_end|>" in _difference(LOUDER, [dialog("<|im_end|>", "low")] * 30 + [PLAIN], caplog)


def test_an_own_template_that_refuses_messages_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    warning = _difference("{{ raise_exception('no') }}", [PLAIN], caplog)
    assert "own chat template does not take what chatml does: conversation 0, " in warning


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer with a chat template, and rows of two dialogs."""
    home = tmp_path_factory.mktemp("chat")
    with_template(CHAT_TEMPLATES["llama3"].jinja).save(home / "tokenizer")
    rows = [{"messages": _as_openai(dialog)} for dialog in DIALOGS[:2]]
    (home / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return home


def _tokenizer(home: Path) -> tuple[object, ...]:
    return ("--tokenizer", home / "tokenizer")


@pytest.fixture(params=[(), ("--pack", "neat", "--sequence-length", 99), ("--shard-format", "parquet")])
def rows(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Path:
    """The rows of the dialogs by another template than the tokenizer's."""
    words = ("--template", "chatml", *_tokenizer(home), "--output", tmp_path / "rows", *request.param)
    done = succeeded(run("encode-chat", home / "rows.jsonl", *words))
    assert "warning: template chatml writes '<|im_start|>system" in done.stderr
    return tmp_path / "rows"


def test_decode_marks_what_is_trained_on(home: Path, rows: Path) -> None:
    text = succeeded(run("decode", "--mask", rows, *_tokenizer(home))).stdout
    assert "\u27e6lower<|im_end|>\n\u27e7" in text
    turns = (
        "\u27e6\n b \n<|im_end|>\n\u27e7",
        "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n",
        "\u27e6d<|im_end|>",
    )
    assert "".join(turns) in text
    assert "<|endoftext|>" not in text  # which fills packed rows


def test_info_says_how_much_is_trained_on(home: Path, rows: Path) -> None:
    facts = bpe_pipeline.info(rows)
    assert facts["template"] == "chatml"
    text = succeeded(run("decode", "--mask", rows, *_tokenizer(home))).stdout
    trained = sum(int(number) for number in re.findall(r"row \d+: \d+ tokens, (\d+) trained on", text))
    assert facts["trained_on_tokens"] == trained > 0
    share = trained / (facts["tokens"] - facts["padded_tokens"])
    assert f"{trained:,} ({share:.1%}" in succeeded(run("info", rows)).stdout


def test_only_rows_of_chat_data_have_a_mask(home: Path, tmp_path: Path) -> None:
    succeeded(run("encode", home / "rows.jsonl", "--input-format", "text", *_tokenizer(home), "-o", tmp_path / "out"))
    assert "has no labels: --mask is for" in refused(run("decode", "--mask", tmp_path / "out", *_tokenizer(home)), 2)
    assert "--mask shows rows of chat data" in refused(run("decode", "--mask", 5, *_tokenizer(home)), 2)


def test_rows_by_published_templates_are_those_of_transformers() -> None:
    for name in ("qwen3", "llama3_1", "deepseek_v3"):
        if not (home := PUBLISHED / name).is_dir():
            pytest.skip("tests/support/fetch_published.py fetches published tokenizers")
        ours, theirs = Tokenizer.load(home), AutoTokenizer.from_pretrained(home)
        for one in (*DIALOGS, dialog("Ou\u0300 e\u0301t\u00e9?", "\n\nlow")):
            made = theirs.apply_chat_template(_as_openai(one), return_dict=False, date_string="26 Jul 2024")
            row = next(bpe_pipeline.encode_chat([one], ours, "tokenizer"))
            assert row["input_ids"] == made
            last = one["messages"][-1]["content"].strip()
            assert last in trained_text(ours, row)


def test_jinja2_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(bpe_pipeline.UsageError, match=r"pip install jinja2 .*chat"):
        list(bpe_pipeline.encode_chat(DIALOGS, with_template(DATE + "x"), "tokenizer"))
    assert len(list(bpe_pipeline.encode_chat(DIALOGS[:1], small_tokenizer(), "chatml"))) == 1


def test_jinja_takes_messages_that_are_no_pairs(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text(
        "{% for one in messages %}{{ one.role + ': ' + one.content + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
    )
    said = ("user", "user", "assistant", "system", "user")
    messages = [{"role": role, "content": "low"} for role in said]
    for template, count in ((str(path), 1), ("chatml", 0)):
        rows = list(bpe_pipeline.encode_chat([{"messages": messages}], small_tokenizer(), template=template))
        assert len(rows) == count
        assert not count or small_tokenizer().decode(rows[0]["input_ids"]) == "".join(f"{role}: low\n" for role in said)


def test_a_long_row_by_jinja_takes_few_bytes_a_character(tmp_path: Path) -> None:
    path, size = tmp_path / "mine.jinja", 1 << 17
    path.write_text("{% for one in messages %}{{ one.content }}{% endfor %}")
    rows = bpe_pipeline.encode_chat([{"messages": turns("low", "a" * size)}], small_tokenizer(), template=str(path))
    tracemalloc.start()
    try:
        next(rows)
        assert tracemalloc.get_traced_memory()[1] < 30 * size
    finally:
        tracemalloc.stop()
