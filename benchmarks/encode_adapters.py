"""One function an encoder, run in a process of its own: `python -P encode_adapters.py JOB`, JOB as JSON.

Each passes its tool the same documents, the text between special tokens, as a list of str, and takes lists of ids, with
all cores, as the tool's authors document it. The process prints one JSON line: seconds of loading and of encoding, the
best time of a short message, and a digest of all ids. Imports only the standard library and the tool.
"""

import hashlib
import json
import runpy
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

MESSAGE = "Hello! Could you tell me in two sentences how byte-pair encoding works?"
MESSAGES, BATCHES = 500, 20  # calls timed together, and how often


@dataclass(frozen=True)
class EncodeJob:
    """What one child has to do. `tokenizer`: a directory that our own command exported. `files`: from files to ids."""

    tool: str
    corpus: str
    tokenizer: str
    special_token: str
    files: bool = False


@dataclass(frozen=True)
class Encoder:
    """A loaded tool: documents to lists of ids, one message to ids."""

    encode_all: Callable[[list[str]], Sequence[Iterable[int]]]
    encode_message: Callable[[str], object]


def load_ours(directory: Path) -> Encoder:
    """This package."""
    from pipeline import Tokenizer

    tokenizer = Tokenizer.load(directory)
    return Encoder(tokenizer.encode_ordinary_batch, tokenizer.encode)


def load_tiktoken(directory: Path) -> Encoder:
    """tiktoken, from the exported rank file."""
    import os

    encoding = runpy.run_path(str(directory / "tiktoken_encoding.py"))["encoding"]
    threads = os.cpu_count() or 1
    return Encoder(lambda texts: encoding.encode_ordinary_batch(texts, num_threads=threads), encoding.encode)


def load_tokenizers(directory: Path) -> Encoder:
    """Hugging Face's tokenizers; reading the ids out of its encodings is part of its time."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    return Encoder(
        lambda texts: [encoded.ids for encoded in tokenizer.encode_batch_fast(texts)],
        lambda text: tokenizer.encode(text).ids,
    )


def load_gigatoken(directory: Path) -> Encoder:
    """gigatoken, from tokenizer.json."""
    from gigatoken import Tokenizer

    tokenizer = Tokenizer(str(directory / "tokenizer.json"))
    return Encoder(tokenizer.encode_batch_list, tokenizer.encode)


TOOLS: dict[str, Callable[[Path], Encoder]] = {
    "bpe-pipeline": load_ours,
    "gigatoken": load_gigatoken,
    "tiktoken": load_tiktoken,
    "tokenizers": load_tokenizers,
}


Files = Callable[[], tuple[float, Callable[[], Iterable[int]]]]  # returns seconds, and then the ids


def files_ours(directory: Path, corpus: str) -> Files:
    """This package: an array in memory."""
    import pipeline

    tokenizer = pipeline.Tokenizer.load(directory)
    encode_files = pipeline.encode_files  # imported before the clock starts, as the other tools are

    def encode() -> tuple[float, Callable[[], Iterable[int]]]:
        started = time.perf_counter()
        encoded = encode_files(corpus, tokenizer)
        return time.perf_counter() - started, lambda: encoded.ids

    return encode


def files_to_shards(directory: Path, corpus: str) -> Files:
    """This package: shards on the disk, by worker processes."""
    import pipeline

    tokenizer = pipeline.Tokenizer.load(directory)
    encode_corpus = pipeline.encode_corpus  # imported before the clock starts, as the other tools are

    def encode() -> tuple[float, Callable[[], Iterable[int]]]:
        started = time.perf_counter()
        encoded = encode_corpus(corpus, tokenizer, "shards", shard_format="bin")
        return time.perf_counter() - started, lambda: (
            id_
            for shard in encoded.shards
            for id_ in array("H" if encoded.dtype == "uint16" else "I", Path("shards", shard.name).read_bytes())
        )

    return encode


def files_gigatoken(directory: Path, corpus: str) -> Files:
    """gigatoken: an array in memory."""
    from gigatoken import Tokenizer

    tokenizer = Tokenizer(str(directory / "tokenizer.json"))

    def encode() -> tuple[float, Callable[[], Iterable[int]]]:
        started = time.perf_counter()
        rows = tokenizer.encode_files([corpus])
        return time.perf_counter() - started, lambda: memoryview(rows.layout.content.data)

    return encode


FILES: dict[str, Callable[[Path, str], Files]] = {
    "bpe-pipeline": files_ours,
    "gigatoken": files_gigatoken,
    "bpe-pipeline to shards": files_to_shards,
}


def digest(rows: Iterable[Iterable[int]]) -> tuple[str, int]:
    """Hash of all ids and of each row's length, and the number of ids."""
    hasher = hashlib.blake2b(digest_size=16)
    count = 0
    for row in rows:
        ids = array("I", row)
        count += len(ids)
        hasher.update(len(ids).to_bytes(8, "little"))
        hasher.update(ids.tobytes())
    return hasher.hexdigest(), count


def main() -> None:
    """Does the job of the first argument; the last line on stdout is the answer."""
    job = EncodeJob(**json.loads(sys.argv[1]))
    if job.files:
        _from_files(job)
        return
    started = time.perf_counter()
    encoder = TOOLS[job.tool](Path(job.tokenizer))
    documents = Path(job.corpus).read_text("utf-8", errors="replace").split(job.special_token)
    loaded = time.perf_counter()
    rows = encoder.encode_all(documents)
    encoded = time.perf_counter()
    best = float("inf")
    for _ in range(BATCHES):
        before = time.perf_counter()
        for _ in range(MESSAGES):
            encoder.encode_message(MESSAGE)
        best = min(best, (time.perf_counter() - before) / MESSAGES)
    ids_digest, tokens = digest(rows)
    answer = {
        "load_s": loaded - started,
        "encode_s": encoded - loaded,
        "message_us": best * 1e6,
        "tokens": tokens,
        "ids_digest": ids_digest,
    }
    print("\n" + json.dumps(answer), flush=True)


def _from_files(job: EncodeJob) -> None:
    """The same from files to ids; a separator that ends the corpus is none of the ids compared."""
    started = time.perf_counter()
    encode = FILES[job.tool](Path(job.tokenizer), job.corpus)
    load_s = time.perf_counter() - started
    encode_s, ids = encode()
    found = array("I", ids())
    end = json.loads((Path(job.tokenizer) / "tokenizer.json").read_text())["added_tokens"]
    if found and found[-1] in {token["id"] for token in end if token["content"] == job.special_token}:
        found.pop()
    ids_digest, tokens = digest([found])
    answer = {"load_s": load_s, "encode_s": encode_s, "tokens": tokens, "ids_digest": ids_digest}
    print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
