"""Record what the product makes, or check that it still makes it: tokenizers, shards, chat rows and numbers.

`PYTHONPATH=tests/support python tests/golden/record.py [--check] [SECTION ...]`

Each section is a file SECTION.json. The names in it are what a command was given, or say what was made. Only commands
are used, so that any later commit can be checked. `shuffled` is apart from `in-order`: its order may be chosen anew
once, and then its `documents`, the documents of all shards in sorted order, show that none was lost.
RECORD_WORKERS is the number of workers (2), and changes nothing. Files of llama.cpp need the package `gguf`: it is
required for recording, and without it they are not checked.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import shlex
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tasks_here
from command import run, succeeded
from corpora import END, OTHER, corpus, dialogs, sample

HERE = Path(__file__).parent
GIVEN = HERE / "given"  # templates and a configuration
WORKERS = os.environ.get("RECORD_WORKERS", "2")
HAS_GGUF = importlib.util.find_spec("gguf") is not None
PRIVATE = {".lock", "log.txt", "shards.json", "encoding.json", "state.json", "README.md"}  # or for people
TRAINED_ON = "prose", "code", "scripts", "digits", "crlf"
MARKS = "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|begin|>"
TURNS = "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]"
SPECIAL, TURN_TOKENS = (" ".join(f"--special-token '{mark}'" for mark in marks) for marks in (MARKS, TURNS))
ROLES = "--bos-token '<|begin|>' --eos-token '<|endoftext|>' --pad-token '<|pad|>'"
CHAT = f"--pattern llama3 --vocab-size 900 {SPECIAL} {TURN_TOKENS} --bos-token '<|begin|>'"
ENCODING = f"--pattern cl100k --vocab-size 700 {ROLES} --special-token '{OTHER}'"
TOKENIZERS = [
    "--pattern gpt2 --vocab-size 600",
    "--pattern gpt2 --vocab-size 500 --export hf,gpt2,tiktoken,token-bytes",
    "--pattern o200k --vocab-size 900,500,300 --special-ids first",
    f"--pattern qwen2 --vocab-size 700 --normalize nfc --chat-template chatml {SPECIAL} --eos-token '<|im_end|>'",
    f"--pattern llama3 --vocab-size 700 --chat-template llama3 {SPECIAL} {ROLES} --add-bos",
    "--pattern llama3+digits1 --vocab-size 600 --tie-break greatest-bytes --max-token-bytes 6",
    f"--pattern gpt2 --vocab-size 600 --chat-template {{given}}/tools.jinja {SPECIAL} --bos-token '<|begin|>'",
    "--pattern deepseek-v3 --vocab-size 600 --whole-characters --min-frequency 3 --export hf,token-bytes",
    "--pattern kimi-k2 --vocab-size 600 --reserve-tokens '5:<|lab_{{}}|>' --round-vocab-to 64 --special-ids first",
    "--pattern tekken --vocab-size 600 --no-special-tokens --normalize nfc",
    "--pattern qwen3.5 --vocab-size 600 --added-token '<tool>' --added-token 'ab cd' --reserve-tokens 3",
    "--pattern cl100k --vocab-size 600 --config {given}/added.json --pad-token '<|pad|>'",
    r"--pattern '[a-z]+| ?\p{{Lu}}+|\s+(?!\S)|[0-9]{{1,2}}' --vocab-size 500 --bos-token '<|begin|>' --add-bos",
    "--pattern digits-from-right --vocab-size 600 --split-at '<|cut|>' --special-tokens-as-text",
    "--pattern none --vocab-size 300 --stop-at-saving 5% --special-tokens-as-text",
    "--pattern superbpe --vocab-size 700 --superwords-from 500 --superword-words 3",
    CHAT,
    ENCODING,
]
ENCODED = "short-documents", "special-tokens", "rows.jsonl", "prose.txt.gz"
FORMATS = "npy", "bin", "parquet", "arrow", "megatron", "mds"
UNPACKED = "", "--documents offsets", "--special-tokens-in-text text", "", f"--separator '{OTHER}'", "--add-bos"
PACKING = "", "--sequence-length 64", "--sequence-length 96 --pack best-fit", "--sequence-length 64 --pack none"
TEMPLATES = "chatml", "llama3", "qwen", "turns.jinja", "instructions.jinja", "tools.jinja"
NUMBERS = (  # and the normalized length
    *("bytes_per_token", "tokens_per_word", "whole", "vocabulary_used", "renyi_2_5", "digit_f1", "integrity"),
    *("round_trip", "gini", "worst", "characters_per_token"),
)
LANGUAGES = {"en": "prose", "code": "code", "de": "scripts", "fr": "contractions", "zh": "ideographs", "nn": "digits"}


def encodings(*, shuffled: bool) -> Iterator[str]:
    """Yield the options of 20 encodings: each format in each packing, half of them with validation."""
    for number, name in enumerate(FORMATS):
        has_columns = name in ("parquet", "arrow", "mds")
        for packed, packing in enumerate(PACKING[: 4 if name in ("parquet", "arrow") else 3]):
            also = UNPACKED[number] if not packed else "--position-ids" if packed == 1 and has_columns else ""
            validation = "--val-fraction 0.2" if (number + packed + shuffled) % 2 else ""
            order = "--shuffle --seed 7" if shuffled else ""
            yield " ".join(f"--shard-format {name} {order} {packing} {also} {validation}".split())


def trained(home: Path, flags: str) -> Path:
    """Train a tokenizer, or return the one that is there."""
    path = home / f"run-{TOKENIZERS.index(flags)}"
    if not path.exists():
        words = shlex.split(flags.format(given=GIVEN))
        command("train", *texts(home, TRAINED_ON), *words, "--workers", WORKERS, output=path)
    return path


def tokenizers(home: Path) -> dict[str, Any]:
    """Hash the files of tokenizers and the ids of a sample of all corpora."""
    (home / "sample.txt").write_text(sample(), encoding="utf-8")
    found: dict[str, Any] = {}
    for flags in TOKENIZERS:
        path = trained(home, flags)
        found[flags] = files(path, "tokenizer*/*", sha256)
        found[flags]["ids"] = sha256(command("encode", home / "sample.txt", "--tokenizer", path).encode())
    words = "--chat-template", GIVEN / "tools.jinja", "--pad-token", "<|pad|>"
    command("export", trained(home, CHAT), *words, output=home / "out")
    return found | {"export with another template and a pad token": files(home / "out", "*", sha256)}


def shards(home: Path, *, shuffled: bool) -> dict[str, Any]:
    """Take CRC-32 of shards and, where documents are shuffled and not packed, of all documents in sorted order."""
    found = {}
    tokenizer, inputs = trained(home, ENCODING), texts(home, ENCODED)
    words = "--shard-size", 4000, "--chunk-size", "3KiB", "--workers", WORKERS
    for at, flags in enumerate(encodings(shuffled=shuffled)):
        output = home / f"shards-{at}"
        command("encode", *inputs, "--tokenizer", tokenizer, *shlex.split(flags), *words, output=output)
        found[flags] = files(output, "**/*", crc32)
        if shuffled and "--sequence-length" not in flags and "--add-bos" not in flags:  # which is another tokenizer
            text = command("decode", "--tokenizer", tokenizer, output)
            documents = text.split(OTHER if "--separator" in flags else END)
            found[flags]["documents"] = crc32("\0".join(sorted(documents)).encode())
    return found


def chat_rows(home: Path) -> dict[str, Any]:
    """Take CRC-32 of the ids and labels of each row of chat data."""
    (home / "dialogs.jsonl").write_text(dialogs(500))
    found = {}
    for name in TEMPLATES:
        template = GIVEN / name if "." in name else name
        words = "--template", template, "--sequence-length", 1000, "--shard-format", "parquet", "--workers", WORKERS
        output = home / f"rows-{name}"
        command("encode-chat", home / "dialogs.jsonl", "--tokenizer", trained(home, CHAT), *words, output=output)
        rows = [row for path in sorted(output.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
        found[name] = " ".join(crc32(repr((row["input_ids"], row["labels"])).encode()) for row in rows)
    return found


def numbers(home: Path) -> dict[str, Any]:
    """Return the twelve numbers of ten tokenizers: of texts in several languages, half of them as the same text."""
    found = {}
    base = trained(home, TOKENIZERS[0])
    for at, flags in enumerate(TOKENIZERS[1:11]):
        words = []
        for language, name in LANGUAGES.items():
            lines = [line for line in corpus(name).decode().splitlines() if line.strip()]
            path = home / f"{language}-{at % 2}.txt"
            path.write_text("".join(line + "\n" for line in lines[: 100 if at % 2 else None]))
            words += [f"{language}={path}"]
        inputs = "--held-out", *words, "--compare", f"base={base}", "--workers", WORKERS, "--json"
        report = json.loads(command("report", trained(home, flags), *inputs, output=home / f"{at}.html"))
        this, other = report["numbers"]["sample"]["tokenizers"]
        values = {**this["whole"]["numbers"], **this["languages"]}
        found[flags] = {name: values.get(name) for name in NUMBERS}
        found[flags]["normalized_length"] = other["against"][""]
    return found


SECTIONS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "tokenizers": tokenizers,
    "in-order": partial(shards, shuffled=False),
    "shuffled": partial(shards, shuffled=True),
    "chat-rows": chat_rows,
    "numbers": numbers,
}


def command(*arguments: object, output: Path | None = None) -> str:
    """Run a command that must succeed, and return what it printed."""
    return succeeded(run(*arguments, *(("--output", output) if output else ()))).stdout


def texts(home: Path, names: tuple[str, ...]) -> list[Path]:
    """Write corpora to files."""
    paths = [home / (name if "." in name else f"{name}.txt") for name in names]
    for path, name in zip(paths, names, strict=True):
        path.write_bytes(corpus(name))
    return paths


def files(home: Path, pattern: str, digest: Callable[[bytes], str]) -> dict[str, str]:
    """Digest files that are for programs: of Arrow's formats the columns and rows, of Python the values."""
    found = {}
    for path in sorted(home.glob(pattern)):
        if path.is_file() and path.name not in PRIVATE:
            content = path.read_bytes()
            if path.suffix in (".parquet", ".arrow"):
                is_arrow = path.suffix == ".arrow"
                table = pa.ipc.open_stream(content).read_all() if is_arrow else pq.read_table(path)
                content = f"{table.schema.remove_metadata()}\n{table.to_pydict()}".encode()
            elif path.suffix == ".py":
                content = content.partition(b"encoding = ")[2]
            found[path.relative_to(home).as_posix()] = digest(content)
    return found


def sha256(content: bytes) -> str:
    """Return the first half of SHA-256."""
    return hashlib.sha256(content).hexdigest()[:32]


def crc32(content: bytes) -> str:
    """Return CRC-32 in hexadecimal digits."""
    return f"{zlib.crc32(content):08x}"


def differences(section: str, home: Path) -> list[str]:
    """Make a section again; return a line for each value that differs from the recorded one."""
    recorded = json.loads((HERE / f"{section}.json").read_text())
    before, now = (dict(_values(section, each)) for each in (recorded, SECTIONS[section](home)))
    names = (name for name in before | now if HAS_GGUF or not name.endswith(".gguf"))
    pairs = ((name, before.get(name), now.get(name)) for name in names)
    return [f"{name}: was {was}, is {value}" for name, was, value in pairs if was != value]


def _values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _values(f"{name}: {key}", member)
    elif isinstance(value, str) and " " in value:
        yield from ((f"{name}: row {row}", digest) for row, digest in enumerate(value.split()))
    else:
        yield name, value


def main() -> int:
    """Record sections, or check them: 1 if one differs."""
    parser = argparse.ArgumentParser(description="Record what the product makes, or check that it still makes it.")
    parser.add_argument("--check", action="store_true", help="print what differs from the recorded values")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; default: all")
    given = parser.parse_args()
    if not HAS_GGUF and not given.check:
        parser.error("install the package gguf to record")
    different = []
    for section in given.sections or SECTIONS:
        with tempfile.TemporaryDirectory() as home, tasks_here.activated():
            if given.check:
                different += differences(section, Path(home))
                continue
            made = SECTIONS[section](Path(home))
        lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in made.items())
        (HERE / f"{section}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    sys.stdout.writelines(f"{line}\n" for line in different)
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
