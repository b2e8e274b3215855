"""Fuzzing the native core: texts, patterns, counters and merge lists, against the naive ways.

Each target prepares itself in a directory and gives a function that tries one input: it takes a source of randomness,
makes an input of it, and raises for anything that should not be: an exception that is none of the package's, or a
result that another way of computing it does not give.
"""

import io
import random
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import oracle_counting
import peers
import reference
import samples
from merge_cases import arrays, engine_of, merges_of

from pipeline import Tokenizer, _core
from pipeline.base.errors import PatternError
from pipeline.pattern import compile_pattern
from pipeline.pattern.by_regex import with_document_end

Target = Callable[[random.Random], None]

_PARTS = [
    *("a", "b", "ab", ".", r"\s", r"\S", r"\p{L}", r"\p{N}", "[^a]", "[ab]", "[^\\s\\p{L}]", "(?:ab|c)", "(?i:k)", "é"),
    *(r"(?!\S)", "$", " ?", r"\d", r"\w", "(?=a)", "(?>a|ab)", "\\n", "[\\r\\n]", "(?s:.)", "😀", "[ -~]"),
]
_TIMES = ["", "", "", "+", "*", "?", "{1,3}", "{2}", "++", "*+", "+?", "??"]
_LETTERS = "aaabbcckK  \n\r\té1٣中\u212a\u00a0😀'."


def text_of(source: random.Random, most: int) -> bytes:
    """Text of few letters, of words, or of any bytes, and mixtures."""
    kind = source.random()
    if kind < 0.4:
        return "".join(source.choices(_LETTERS, k=source.randint(0, most))).encode()
    if kind < 0.7:
        return " ".join(source.choices(peers.WORDS, k=source.randint(0, most // 5))).encode()
    data = bytearray("".join(source.choices(_LETTERS, k=source.randint(0, most))).encode())
    for _ in range(source.randint(0, 5)):
        at = source.randint(0, len(data))
        data[at:at] = source.choice([b"\xff", b"\xe3\x82", b"\xf0\x9f", b"\xed\xa0\x80", b"\x00", b"<|a|>", b"<|ab"])
    return bytes(data)


def pattern(_: Path) -> Target:
    """Compile any pattern and cut any text: as `regex` cuts it, whole or in parts, with ends that add up."""

    def one(source: random.Random) -> None:
        branches = [
            "".join(source.choice(_PARTS) + source.choice(_TIMES) for _ in range(source.randint(1, 4)))
            for _ in range(source.randint(1, 4))
        ]
        text = text_of(source, 60).decode(errors="replace")
        try:
            compiled = compile_pattern("|".join(branches), timeout_s=2)
            pieces = compiled.cut(text)
        except PatternError:
            return
        assert "".join(pieces) == text
        if compiled.automaton is not None:
            expected = oracle_counting.cut(text, with_document_end(compiled.expression))
            assert pieces == expected, (compiled.expression, text)
            ends, rest = compiled.automaton.cut_part(text.encode(), batch=source.randint(1, 40))
            assert rest <= len(text.encode())
            assert ends == compiled.automaton.cut(text.encode())[: len(ends)]

    return one


def counting(_: Path) -> Target:
    """Count in blocks and windows of any size: always what the naive way counts."""
    patterns = [compile_pattern(name) for name in samples.PATTERNS]

    def one(source: random.Random) -> None:
        compiled = source.choice(patterns)
        specials = source.sample([b"<|a|>", b"<|a|><|b|>", b"ab", b"<|ab", "é".encode(), b"\n\n"], source.randint(0, 3))
        errors = source.choice(["replace", "skip"])
        cutter = compiled.automaton if source.random() < 0.9 else compiled.cut
        window = source.choice([1, 2, 3, 7, 64, 1 << 18])
        cut_at = source.choice([None, None, 4, 9])
        counter = _core.ChunkCounter(cutter, specials, errors=errors, max_piece_bytes=cut_at, window_bytes=window)
        expected: Counter[bytes] = Counter()
        for _ in range(source.randint(1, 3)):
            text = text_of(source, source.choice([10, 100, 600]))
            rest = io.BytesIO(text)
            while part := rest.read(source.choice([1, 2, 5, 50, 1000])):
                counter.feed(part)
            counter.feed(b"", end=True)
            expected += oracle_counting.count(text, specials, errors, with_document_end(compiled.expression))
        partitions = source.choice([1, 2, 16])
        parts = [oracle_counting.as_counter(counter.columns(i, partitions)) for i in range(partitions)]
        found = sum(parts, Counter())
        if cut_at is None:
            assert found == expected, (compiled.expression, specials, errors)
        else:
            assert max(map(len, found), default=0) <= cut_at
            assert sum(len(p) * n for p, n in found.items()) == sum(len(p) * n for p, n in expected.items())

    return one


def merging(_: Path) -> Target:
    """Merge any counter, with any tuning: the merges of the naive trainer. Columns that lie are refused."""

    def one(source: random.Random) -> None:
        letters = source.choice(["a", "ab", "abc", "abcdefgh"])
        counter = {
            "".join(source.choices(letters, k=source.randint(1, source.choice([4, 30])))).encode(): source.choice(
                [0, 1, 2, 3, 5, 1 << 33]
            )
            for _ in range(source.randint(0, 25))
        }
        if source.random() < 0.2:
            packed, data, counts = arrays(counter)
            offsets = array("q", packed)
            offsets[source.randrange(len(offsets))] += source.choice([-1, 1, -(1 << 40), 1 << 40])
            engine = _core.MergeEngine()
            with suppress(ValueError, OverflowError):  # or a piece is longer now and its neighbour shorter
                engine.add(offsets, data, counts)
                engine.run(20)
            return
        tie_break = source.choice(["lowest-ids", "greatest-bytes"])
        result = engine_of(counter).run(
            40,
            tie_break=tie_break,
            threads=source.choice([1, 2, 3]),
            narrow_symbols=source.choice([256, 300, 65536]),
            index_positions=source.choice([0, 1, 10]),
            thread_bytes=source.choice([1, 1 << 22]),
        )
        positive = {piece: count for piece, count in counter.items() if count}
        expected = reference.train_reference(positive, 40, tie_break=tie_break)
        assert merges_of(result) == expected, counter

    return one


def encoding(_: Path) -> Target:
    """Encode and decode any text with any merge list: by the definition, and back again."""

    def one(source: random.Random) -> None:
        tokens, merges = [b"a", b"b", b" ", b"c"], []
        for _ in range(source.randint(0, 14)):
            pair = (source.choice(tokens), source.choice(tokens))
            if pair not in merges:
                merges.append(pair)
                tokens.append(pair[0] + pair[1])
        tokenizer = Tokenizer.from_merges(merges, ["<|a|>", "<|a|><|b|>"], pattern=source.choice(samples.PATTERNS))
        text = text_of(source, 300)
        valid = text.decode(errors="replace")
        ids = tokenizer.encode_ordinary(text)
        assert tokenizer.decode(ids) == valid
        vocab = tokenizer.vocab
        naive = [
            token for piece in tokenizer.pattern.cut(valid) for token in samples.naive_merge(piece.encode(), merges)
        ]
        assert [vocab[id_] for id_ in ids] == naive
        assert tokenizer.decode(tokenizer.encode(text)) == valid

    return one
