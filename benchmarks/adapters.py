"""One function a tool, run in a process of its own: `python -P adapters.py JOB`, JOB as JSON.

Each function uses its tool as the tool's authors document it, on the same task: the text between
special tokens, cut by the job's pattern, merged up to a vocabulary that counts bytes, merges and the
special token. The process prints one JSON line: what was learned, as a digest, and how long the tool's own
work took. Imports only the standard library and, inside its function, the tool: what a tool does not need
must not weigh on it.
"""

import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

READ_BYTES = 8 << 20

# GPT-2's order of the 256 bytes: those with a visible Latin-1 character represent themselves, then the others
VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_OF_CHARACTER = {chr(byte): byte for byte in VISIBLE} | {
    chr(0x100 + index): byte for index, byte in enumerate(b for b in range(256) if b not in VISIBLE)
}


@dataclass(frozen=True)
class Job:
    """What one child has to do."""

    task: str  # "train" or "count"
    tool: str
    corpus: str
    vocab_size: int
    pattern: str  # a regular expression
    special_token: str


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
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib would be one more import
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


def _tokenizers(job: Job) -> Any:
    """A BPE model of Hugging Face's tokenizers and its trainer, with byte alphabet and the job's pattern."""
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
    # its `train(files)` reads line by line, which cuts pieces at newlines: another task
    tokenizer.train_from_iterator(read_documents(job.corpus, job.special_token), trainer)
    return tokenizer


def train_tokenizers(job: Job) -> Callable[[], Learned]:
    """Hugging Face's tokenizers, fed with documents."""
    tokenizer = _tokenizers(job)
    return lambda: learned_from_json(tokenizer.to_str())


def train_gigatoken(job: Job) -> Callable[[], Learned]:
    """gigatoken from a file; its own GPT-2 pattern (it takes no other), ties as in tokenizers."""
    import gigatoken

    source = gigatoken.TextFileSource([job.corpus], separator=job.special_token.encode("utf-8"))
    _, pairs = gigatoken.train_bpe(source, job.vocab_size, [job.special_token], tie_breaking="huggingface")
    return lambda: Learned([left + right for left, right in pairs], pairs)


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


def train_bpeasy(job: Job) -> Callable[[], Learned]:
    """bpeasy from an iterator of documents; no special tokens, no limit on a token's length."""
    import bpeasy

    documents = read_documents(job.corpus, job.special_token)
    vocabulary = bpeasy.train_bpe(documents, job.pattern, 1 << 30, job.vocab_size - 1)
    return lambda: learned_from_vocabulary(vocabulary.items(), job.special_token)


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
        pieces = [processor.id_to_piece(index) for index in range(processor.get_piece_size())]
        words = [(piece.replace("\u2581", " ").encode("utf-8"), index) for index, piece in enumerate(pieces)]
        normal = [pair for pair in words if not processor.is_byte(pair[1]) and not processor.is_control(pair[1])]
        return learned_from_vocabulary(normal, job.special_token)

    return learned


def count_tokenizers(job: Job) -> Callable[[], Learned]:
    """The counting stage of tokenizers' trainer: a vocabulary of the alphabet leaves nothing to merge."""
    _tokenizers(job)
    return lambda: Learned([])


def count_regex(job: Job) -> Callable[[], Learned]:
    """The `regex` package counting into a dict, in its quickest form: findall and Counter, both in C."""
    import regex

    pattern = regex.compile(job.pattern)
    counts: Counter[str] = Counter()
    for document in read_documents(job.corpus, job.special_token):
        counts.update(pattern.findall(document))
    return lambda: Learned([])


TASKS: dict[tuple[str, str], Callable[[Job], Callable[[], Learned]]] = {
    ("train", "tokenizers"): train_tokenizers,
    ("train", "gigatoken"): train_gigatoken,
    ("train", "rustbpe"): train_rustbpe,
    ("train", "ffbpe"): train_ffbpe,
    ("train", "bpeasy"): train_bpeasy,
    ("train", "sentencepiece"): train_sentencepiece,
    ("count", "tokenizers"): count_tokenizers,
    ("count", "regex"): count_regex,
}


def main() -> None:
    """Does the job of the first argument; the last line on stdout is the answer."""
    job = Job(**json.loads(sys.argv[1]))
    started = time.perf_counter()
    learned = TASKS[job.task, job.tool](job)
    trained = time.perf_counter()
    answer = describe(learned())
    answer["tool_s"] = trained - started
    answer["report_s"] = time.perf_counter() - trained
    print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
