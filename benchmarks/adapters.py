"""One function a tool, run in a process of its own: `python -P adapters.py JOB`, JOB as JSON.

Each function uses its tool as the tool's authors document it, with all cores, on the same task. Training: the text
between special tokens, cut by the job's pattern, merged up to a vocabulary that counts bytes, merges and the special
token. Encoding: the same documents as a list of str to lists of ids; from files to ids: file_adapters.py. The process
prints one JSON line. Imports only the standard library and, inside its function, the tool: nothing else may weigh on
it.
"""

import hashlib
import json
import runpy
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READ_BYTES = 8 << 20
MESSAGE = "Hello! Could you tell me in two sentences how byte-pair encoding works?"
MESSAGES, BATCHES = 500, 20  # calls timed together, and how often

# GPT-2's order of the 256 bytes: those with a visible Latin-1 character represent themselves, then the others
VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_OF_CHARACTER = {chr(byte): byte for byte in VISIBLE} | {
    chr(0x100 + index): byte for index, byte in enumerate(b for b in range(256) if b not in VISIBLE)
}


@dataclass(frozen=True)
class Job:
    """What one child has to do."""

    task: str  # "train", "encode" (documents) or "files" (in file_adapters.py)
    tool: str
    corpus: str
    special_token: str
    pattern: str = ""  # of training: a regular expression
    vocab_size: int = 0
    tokenizer: str = ""  # of encoding: a directory that our own command exported
    done: str = "work-done"  # an empty file: what follows is comparison, whose memory is not the tool's


@dataclass(frozen=True)
class Learned:
    """What a tool learned: token bytes in the order of learning, and the merged pairs if it reports them."""

    tokens: list[bytes]
    pairs: list[tuple[bytes, bytes]] | None = None


def digest(parts: Iterable[bytes]) -> str:
    """Hash of a sequence of byte strings and their lengths: `[b"a", b"bc"]` differs from `[b"ab", b"c"]`."""
    hasher = hashlib.blake2b(digest_size=16)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.hexdigest()


def describe(learned: Learned) -> dict[str, Any]:
    """Return the fields of a record that describe what was learned."""
    pairs = learned.pairs
    return {
        "merges": len(learned.tokens),
        "tokens_digest": digest(learned.tokens),
        "pairs_digest": None if pairs is None else digest(part for pair in pairs for part in pair),
    }


def learned_from_json(tokenizer_json: str) -> Learned:
    """What a tokenizer.json (Hugging Face's format) holds, in bytes."""

    def in_bytes(text: str) -> bytes:
        return bytes(BYTE_OF_CHARACTER[character] for character in text)

    merges = json.loads(tokenizer_json)["model"]["merges"]
    split = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    pairs = [(in_bytes(left), in_bytes(right)) for left, right in split]
    return Learned([left + right for left, right in pairs], pairs)


def learned_from_vocabulary(vocabulary: Iterable[tuple[bytes, int]], special_token: str) -> Learned:
    """Return the tokens of a tool that reports tokens and ids only: by id, without bytes and special token."""
    by_id = sorted((identifier, bytes(token)) for token, identifier in vocabulary)
    special = special_token.encode("utf-8")
    return Learned([token for _, token in by_id if len(token) > 1 and token != special])


def read_documents(path: str, special_token: str) -> Iterator[str]:
    """The text between special tokens, one document at a time, newlines untouched."""
    separator = special_token.encode("utf-8")
    pending = bytearray()
    with Path(path).open("rb", buffering=0) as file:
        while block := file.read(READ_BYTES):
            start, search = 0, max(0, len(pending) - len(separator) + 1)
            pending += block
            while (end := pending.find(separator, search)) >= 0:
                if end > start:
                    yield pending[start:end].decode("utf-8", errors="replace")
                start = search = end + len(separator)
            del pending[:start]
    if pending:
        yield pending.decode("utf-8", errors="replace")


def train_tokenizers(job: Job) -> Callable[[], Learned]:
    """Hugging Face's tokenizers, fed with documents; its trainer has the byte alphabet."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(job.pattern), behavior="isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    trainer = trainers.BpeTrainer(
        vocab_size=job.vocab_size,
        special_tokens=[job.special_token],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # its `train(files)` reads line by line, which cuts pre-tokens at newlines: another task
    tokenizer.train_from_iterator(read_documents(job.corpus, job.special_token), trainer)
    return lambda: learned_from_json(tokenizer.to_str())


def train_gigatoken(job: Job) -> Callable[[], Learned]:
    """gigatoken from a file; its own GPT-2 pattern (it takes no other), ties as in tokenizers."""
    import gigatoken

    source = gigatoken.TextFileSource([job.corpus], separator=job.special_token.encode("utf-8"))
    _, pairs = gigatoken.train_bpe(source, job.vocab_size, [job.special_token], tie_breaking="huggingface")
    return lambda: Learned([left + right for left, right in pairs], pairs)


def train_gigabpe(job: Job) -> Callable[[], Learned]:
    """gigabpe from a file, which it reads line by line, with GPT-2's own pattern.

    It has no tokens for bytes that do not occur, and learns as many more merges: those are not compared.
    """
    import gigabpe

    path = Path("gigabpe.json")
    gigabpe.train_tokenizer(
        [job.corpus], job.vocab_size, str(path), special_tokens=[job.special_token], pretokenizer="bytelevel"
    )

    def learned() -> Learned:
        found, wanted = learned_from_json(path.read_text(encoding="utf-8")), job.vocab_size - 257
        return Learned(found.tokens[:wanted], found.pairs and found.pairs[:wanted])

    return learned


def train_rustbpe(job: Job) -> Callable[[], Learned]:
    """rustbpe from an iterator of documents; it knows no special tokens, so its vocabulary is one smaller."""
    import rustbpe

    tokenizer = rustbpe.Tokenizer()
    documents = read_documents(job.corpus, job.special_token)
    tokenizer.train_from_iterator(documents, vocab_size=job.vocab_size - 1, pattern=job.pattern)
    return lambda: learned_from_vocabulary(tokenizer.get_mergeable_ranks(), job.special_token)


def train_ffbpe(job: Job) -> Callable[[], Learned]:
    """ffbpe with its native counter, fed with documents; byte alphabet and ties as in tokenizers."""
    import ffbpe

    pre_tokenizer = ffbpe.PreTokenizer([job.special_token], job.special_token, job.pattern)
    counter = pre_tokenizer.word_counter()
    counter.add_source(read_documents(job.corpus, job.special_token))
    trainer = ffbpe.BpeTrainer([job.special_token], initial_alphabet="byte_level", tie_break="smallest_pair_id")
    trainer.add_word_counter(counter)
    trainer.train(job.vocab_size)
    return lambda: learned_from_vocabulary(trainer.vocab.items(), job.special_token)


def train_sentencepiece(job: Job) -> Callable[[], Learned]:
    """SentencePiece's BPE from an iterator of lines; it merges characters within words and takes no pattern."""
    import io

    import sentencepiece

    model = io.BytesIO()
    documents = read_documents(job.corpus, job.special_token)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for document in documents for line in document.splitlines()),
        model_writer=model,
        model_type="bpe",
        vocab_size=job.vocab_size,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        max_sentence_length=1 << 30,  # longer lines would be left out
        user_defined_symbols=[job.special_token],
        minloglevel=2,
    )

    def learned() -> Learned:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        pre_tokens = [processor.id_to_piece(index) for index in range(processor.get_piece_size())]
        words = [
            (pre_token.replace("\u2581", " ").encode("utf-8"), index) for index, pre_token in enumerate(pre_tokens)
        ]
        normal = [pair for pair in words if not processor.is_byte(pair[1]) and not processor.is_control(pair[1])]
        return learned_from_vocabulary(normal, job.special_token)

    return learned


@dataclass(frozen=True)
class Encoder:
    """A loaded tool: documents to lists of ids, one message to ids."""

    encode_all: Callable[[list[str]], Sequence[Iterable[int]]]
    encode_message: Callable[[str], object]


def load_ours(directory: Path) -> Encoder:
    """This package."""
    from bpe_pipeline import Tokenizer

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


ENCODERS: dict[str, Callable[[Path], Encoder]] = {
    "bpe-pipeline": load_ours,
    "gigatoken": load_gigatoken,
    "tiktoken": load_tiktoken,
    "tokenizers": load_tokenizers,
}


TRAINERS: dict[str, Callable[[Job], Callable[[], Learned]]] = {
    "gigatoken": train_gigatoken,
    "gigabpe": train_gigabpe,
    "ffbpe": train_ffbpe,
    "rustbpe": train_rustbpe,
    "sentencepiece": train_sentencepiece,
    "tokenizers": train_tokenizers,
}


def train(job: Job) -> dict[str, Any]:
    """Train; telling what was learned is not the tool's work and timed apart."""
    learned = TRAINERS[job.tool](job)
    trained = time.perf_counter()
    Path(job.done).touch()
    answer = describe(learned())
    return answer | {"report_s": time.perf_counter() - trained}


def _encoded(loaded_s: float, encode_s: float, rows: Iterable[Iterable[int]]) -> dict[str, Any]:
    ids = [array("I", row) for row in rows]
    answer = {"load_s": loaded_s, "encode_s": encode_s, "tokens": sum(map(len, ids))}
    return answer | {"ids_digest": digest(row.tobytes() for row in ids)}


def encode(job: Job) -> dict[str, Any]:
    """Encode all documents in one call, then a short message many times."""
    started = time.perf_counter()
    encoder = ENCODERS[job.tool](Path(job.tokenizer))
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
    Path(job.done).touch()
    return _encoded(loaded - started, encoded - loaded, rows) | {"message_us": best * 1e6}


if __name__ == "__main__":
    asked = Job(**json.loads(sys.argv[1]))
    print("\n" + json.dumps({"train": train, "encode": encode}[asked.task](asked)), flush=True)
