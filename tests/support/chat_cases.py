"""Recorded results of LLaMA-Factory, read where they lie, and tokenizers with the marks of chats."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import samples
from command import run
from recorded import home, recorded

from bpe_pipeline import Tokenizer
from bpe_pipeline.compat import Llama3Tokenizer
from bpe_pipeline.compat.llama3 import SPECIAL_TOKENS
from bpe_pipeline.run.ids import Roles
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS
from bpe_pipeline.tokenizer.model import ChatTemplate

MARKS = (
    *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"),
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|pad|>", "[INST]", "[/INST]"),
)

_OTHERS = ("<start_of_turn>", "<end_of_turn>", "<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>")
TEMPLATE_MODEL = replace(
    Tokenizer.from_merges([(b"l", b"o"), (b"lo", b"w")], [*MARKS, *_OTHERS]).model,
    roles=Roles(bos="<|begin_of_text|>", eos="<|endoftext|>"),
)
PARAMETERS = {"type": "object", "properties": {"x": {"type": "integer", "description": "An x."}}, "required": ["x"]}
TOOL = {"type": "function", "function": {"name": "f", "description": "F.", "parameters": PARAMETERS}}
CALLS = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]
GENERATION = re.compile(r"{%-? (end)?generation -?%}")
THINKING = (  # removes earlier thoughts, and writes an empty one in a last answer without one
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% set said = m.content %}"
    "{% if not loop.last %}{% set said = said.split('</think>\n\n')[-1] %}{% elif '<think>' not in said %}"
    "<think>\n\n</think>\n\n{% endif %}{{ said }}{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}"
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
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


@cache
def llama() -> Llama3Tokenizer:
    """Return Llama 3's tokenizer with few merges."""
    with TemporaryDirectory() as directory:
        FORMATS["tiktoken"].write(samples.tokenizer("llama3", SPECIAL_TOKENS).model, Path(directory))
        return Llama3Tokenizer(f"{directory}/tokenizer.tiktoken")


def conversation(aligned: dict[str, Any]) -> dict[str, Any]:
    """Return what `align_chat` returns for an aligned row of LLaMA-Factory."""
    messages = [{"role": "system", "content": aligned["_system"]}] if aligned["_system"] else []
    for message in aligned["_prompt"] + aligned["_response"]:
        role = {"observation": "tool", "function": "assistant"}.get(message["role"], message["role"])
        messages.append({**message, "role": role})
        if message["role"] == "function":
            called = {"type": "function", "function": json.loads(message["content"])}
            messages[-1] |= {"content": "", "tool_calls": [called]}
    tools = json.loads(aligned["_tools"] or "[]")
    return {"messages": messages, **({"tools": tools} if tools else {})}


def dialog(*said: str | None, roles: tuple[str, str] = ("user", "assistant"), **more: Any) -> dict[str, Any]:
    """Return a conversation of two roles, in turn."""
    return {"messages": [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)], **more}


def turns(question: str, answer: str, **members: Any) -> list[dict[str, Any]]:
    """Return a question and its answer, which has these members too."""
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer, **members}]


def with_template(jinja: str | None, **more: Any) -> Tokenizer:
    """Return a tokenizer with the marks of chats and a chat template."""
    template = jinja if jinja is None else ChatTemplate(jinja)
    return Tokenizer.from_model(replace(TEMPLATE_MODEL, chat_template=template, **more))


def trained_text(tokenizer: Tokenizer, row: dict[str, list[int]]) -> str:
    """Return the text of the ids of a row that are trained on."""
    return tokenizer.decode([id_ for id_ in row["labels"] if id_ >= 0])


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def encode_rows(home: Path, output: object, *arguments: object) -> CompletedProcess[str]:
    """Run `encode-chat` with the tokenizer in `home` and the template of ChatML."""
    return run("encode-chat", "--tokenizer", home / "tokenizer", "--template", "chatml", "--output", output, *arguments)


def read_rows(directory: Path) -> list[dict[str, list[int]]]:
    """Return the rows of all Arrow streams in a directory."""
    tables = [pa.ipc.open_stream(path.read_bytes()).read_all() for path in sorted(directory.glob("data-*.arrow"))]
    return [row for table in tables for row in table.to_pylist()]
