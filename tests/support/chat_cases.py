"""Recorded results of LLaMA-Factory, read where they lie, and tokenizers with the marks of chats."""

from dataclasses import replace
from functools import cache
from typing import Any

from recorded import home, recorded

from pipeline import Tokenizer
from pipeline.run.ids import Roles

MARKS = (
    *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"),
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|pad|>", "[INST]", "[/INST]"),
)


def cases(name: str) -> list[Any]:
    """Return the cases in one of the files of recorded results; skip the test where they are absent."""
    [(_, found)] = recorded("sft", f"{name}.json")
    return list(found["cases"])


@cache
def recorded_tokenizer(name: str) -> Tokenizer:
    """Return one of the tokenizers that the recorded results were made with."""
    return Tokenizer.load(home("sft") / "tokenizers" / name)


@cache
def small_tokenizer() -> Tokenizer:
    """Return a tokenizer of bytes, a few merges and the marks of Llama 3 and ChatML."""
    merges = [(b"l", b"o"), (b"lo", b"w"), (b"e", b"r"), (b"t", b"h"), (b"th", b"e")]
    model = Tokenizer.from_merges(merges, list(MARKS)).model
    return Tokenizer.from_model(replace(model, roles=Roles(bos="<|begin_of_text|>", eos="<|endoftext|>")))


def conversation(aligned: dict[str, Any]) -> dict[str, Any]:
    """Return what `align_chat` returns for an aligned row of LLaMA-Factory."""
    messages = aligned["_prompt"] + aligned["_response"]
    return {"messages": messages, "system": aligned["_system"], "tools": aligned["_tools"]}


def dialog(*said: str | None, roles: tuple[str, str] = ("user", "assistant"), **more: Any) -> dict[str, Any]:
    """Return a conversation of two roles, in turn."""
    return {"messages": [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)], **more}
