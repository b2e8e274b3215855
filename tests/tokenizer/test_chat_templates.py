"""Chat templates as transformers renders them: messages to continue, members that are null, thoughts, named tokens."""

import json
from pathlib import Path
from typing import Any

import pytest
from chat_cases import with_template
from transformers import AutoTokenizer

import bpe_pipeline
from bpe_pipeline import Tokenizer

ASKED = {"role": "user", "content": "q"}
ALL = "{% for m in messages %}<|im_start|>{{ m | tojson }}<|im_end|>{% endfor %}"
TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>{{ m.reasoning_content }}"
    "</think>{% endif %}CONTENT<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PARTS = "{% for part in m.content %}{{ part.text }}{% endfor %}"


def _answer(content: Any = "Answ", **members: Any) -> list[dict[str, Any]]:
    return [ASKED, {"role": "assistant", "content": content, **members}]


@pytest.mark.parametrize(
    ("content", "messages", "field"),
    [
        *(("{{ m.content }}", _answer(text), True) for text in ("Answ", " Answ ", "Answ\n", "<|im_end|>", "")),
        *(("{{ m.content | trim }}", _answer(text), True) for text in ("Answ", " Answ ", "q", "")),
        ("{{ m.content }}", _answer("q", reasoning_content="wh"), "reasoning_content"),
        ("{{ m.content }}", _answer("q", reasoning="wh "), "reasoning"),
        ("{{ m.content }}", _answer("q", thinking="wh"), "reasoning_content"),
        (PARTS, _answer([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "image"}]), True),
        ("{{ m.content }}", [{**ASKED, "content": "Wher"}], True),
        ("{{ m.content }}", _answer(), "thinking"),
        ("{{ m.content }}", _answer(None), True),
        ("{{ 'q' }}", _answer(), True),
        (PARTS, _answer([{"type": "image"}]), True),
    ],
)
def test_the_last_message_is_continued_as_by_transformers(content: str, messages: Any, field: bool | str) -> None:
    tokenizer = with_template(TURNS.replace("CONTENT", content))
    options = {"tokenize": False, "continue_final_message": field}
    try:
        theirs = tokenizer.to_transformers().apply_chat_template(messages, **options)
    except ValueError:
        with pytest.raises(bpe_pipeline.UsageError, match="continue_final_message: the last message has no text"):
            tokenizer.apply_chat_template(messages, **options)
    else:
        assert tokenizer.apply_chat_template(messages, **options) == theirs


def test_a_message_is_continued_or_a_prompt_follows() -> None:
    tokenizer = with_template(TURNS.replace("CONTENT", "{{ m.content }}"))
    with pytest.raises(bpe_pipeline.UsageError, match="leave out add_generation_prompt"):
        tokenizer.apply_chat_template(_answer(), continue_final_message=True, add_generation_prompt=True)
    with pytest.raises(bpe_pipeline.UsageError, match="the last message has no text"):
        tokenizer.apply_chat_template([], continue_final_message=True)


@pytest.mark.parametrize(
    "members",
    [
        {"content": None, "tool_calls": [{"id": None}]},
        {"reasoning": "why"},
        {"thinking": "why", "name": None},
        {"reasoning_content": "", "thinking": "why"},
        {"reasoning_content": None, "reasoning": "r", "thinking": "t"},
    ],
)
def test_members_are_those_of_transformers(members: dict[str, Any]) -> None:
    tokenizer, messages = with_template(ALL), _answer(**{"content": "a", **members})
    theirs = tokenizer.to_transformers().apply_chat_template(messages, tokenize=False)
    assert tokenizer.apply_chat_template(messages, tokenize=False) == theirs


@pytest.mark.parametrize("tools", [None, [{"type": "function", "function": {"name": "f", "parameters": {}}}]])
@pytest.mark.parametrize("named", [None, "default", "other", "tool_use", "{{ messages[0].content }}!"])
def test_a_named_template_is_taken_as_by_transformers(named: str | None, tools: Any, tmp_path: Path) -> None:
    with_template(ALL).save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    templates = {"default": ALL, "other": f"other {ALL}", "tool_use": f"tools {ALL}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": templates}))
    options: dict[str, Any] = {"tokenize": False, "tools": tools, "chat_template": named}
    theirs = AutoTokenizer.from_pretrained(str(tmp_path)).apply_chat_template(_answer(), **options)
    assert Tokenizer.load(tmp_path).apply_chat_template(_answer(), **options) == theirs


def test_all_named_tokens_are_known_to_a_template(tmp_path: Path) -> None:
    names = [f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask", "image", "video", "absent")]
    with_template(" ".join(f"{name}={{{{ {name} }}}}" for name in names)).save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config |= {"unk_token": "<|endoftext|>", "cls_token": {"__type": "AddedToken", "content": "<|im_start|>"}}
    config |= {
        "video_token": "<|im_end|>",
        "sep_token": "<|im_end|>",
        "mask_token": "[INST]",
        "extra_special_tokens": {"image_token": "<|eot_id|>"},
    }
    of_model = {"model_specific_special_tokens": {"absent_token": "[INST]"}}
    for changed in (
        {},
        {"eos_token": None},
        of_model,
        of_model | {"extra_special_tokens": []},
        of_model | {"extra_special_tokens": None, "image_token": "[INST]"},
    ):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | changed))
        ours = Tokenizer.load(tmp_path).apply_chat_template([ASKED], tokenize=False)
        assert ours == AutoTokenizer.from_pretrained(tmp_path).apply_chat_template([ASKED], tokenize=False)
        assert "unk_token=<|endoftext|>" in ours


@pytest.mark.parametrize(
    "variables",
    [
        {"truncation": True},
        {"tools": ["f"]},
        {"tools": {"name": "f"}},
        {"documents": "text"},
    ],
)
def test_what_would_be_ignored_or_taken_apart_is_refused(variables: dict[str, Any]) -> None:
    with pytest.raises(bpe_pipeline.UsageError, match=next(iter(variables))):
        with_template("{{ tools }}").apply_chat_template([ASKED], **variables)


def test_a_member_that_is_written_twice_is_continued_without_marks() -> None:
    tokenizer = with_template(TURNS.replace("CONTENT", "{{ m.content }}{{ m.content }}"))
    text = tokenizer.apply_chat_template(_answer("An"), tokenize=False, continue_final_message=True)
    assert text.endswith("AnAn")
