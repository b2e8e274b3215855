"""Marks in the data of what is trained on, and rows that are dropped since an answer means something else."""

from typing import Any

import pytest
from chat_cases import small_tokenizer, turns

import bpe_pipeline
from bpe_pipeline import compat
from bpe_pipeline.extensions.chat.align import MESSAGES, aligned
from bpe_pipeline.extensions.chat.kinds import DroppedError

TOKENIZER = small_tokenizer()
BAD = [{"weight": 0}, {"train": False}, {"trainable": "false"}, {"loss_mask": 0.0}, {"training": 0}, {"loss": False}]


@pytest.mark.parametrize("mark", BAD)
@pytest.mark.parametrize("template", ["chatml", "fewshot"])
def test_an_answer_that_is_marked_is_not_trained_on(mark: dict[str, Any], template: str) -> None:
    messages = [*turns("low", "the", **mark), *turns("low", "er", weight=1)]
    openai = {"messages": [{**one, "name": None} for one in messages]}
    listed = [{"from": one.pop("role"), "value": one.pop("content"), **one} for one in map(dict, messages)]
    raw = list(bpe_pipeline.encode_chat([openai], TOKENIZER, template=template))
    for row in (openai, {"conversations": listed}):
        [found] = bpe_pipeline.encode_chat([compat.align_chat(row, "messages")], TOKENIZER, template=template)
        assert [found] == raw
        trained = TOKENIZER.decode([id_ for id_ in found["labels"] if id_ >= 0])
        assert trained == {"chatml": "er<|im_end|>\n", "fewshot": "er\n\n<|endoftext|>"}[template]
        [plain] = bpe_pipeline.encode_chat([{"messages": turns_only(messages)}], TOKENIZER, template=template)
        assert found["input_ids"] == plain["input_ids"]


def turns_only(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: message[name] for name in ("role", "content")} for message in messages]


DROPPED: dict[str, list[dict[str, Any]]] = {
    "conversations_not_trained_on": [{**one, "messages": turns("a", "b")} for one in BAD[:4]]
    + [
        {"messages": turns("a", "b"), "label": False},
        {"instruction": "a", "output": "b", "label": "False"},
    ],
    "conversations_not_understood": [
        {"messages": turns("a", "b", weight=0.5)},
        {"messages": turns("a", "b", loss_mask=[0, 1])},
        {"messages": turns("a", "b", weight=1, train=False)},
        {"messages": turns("a", "b"), "images": ["a.png"]},
        {"messages": turns("a", "b"), "rejected": "c"},
        {"messages": turns("a", "b"), "weight": 0.3},
        {"conversations": turns("a", "b"), "image": "a.png"},
    ],
    "conversations_without_content": [
        {"instruction": ["a"], "output": "b"},
        {"instruction": "a", "input": {"k": 1}, "output": "b"},
        {"instruction": "a", "input": 0, "output": "b"},
        {"instruction": "a", "output": 5},
        {"instruction": "a", "output": "b", "system": ["s"]},
        {"messages": turns("a", "b"), "system": 5},
        {"instruction": "a", "output": "b", "history": [[1, 2]]},
    ],
    "conversations_not_listed": [
        {"instruction": "a", "output": "b", "history": history} for history in ("text", [{"a": "b", "c": "d"}], 5)
    ],
    "conversations_of_unknown_columns": [{"text": "a"}, {"data": [{"messages": turns("a", "b")}]}],
}


@pytest.mark.parametrize(("kind", "row"), [(kind, row) for kind in DROPPED for row in DROPPED[kind]])
def test_what_changes_what_is_trained_on_is_dropped_by_name(kind: str, row: dict[str, Any]) -> None:
    with pytest.raises(DroppedError) as raised:
        aligned(row, MESSAGES, None, None)
    assert raised.value.kind == kind
