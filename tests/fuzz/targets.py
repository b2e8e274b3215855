"""What is fuzzed: each target prepares itself in a directory and gives a function that tries one input.

The function takes a source of randomness, makes an input of it, and raises for anything that should not be: an
exception that is none of the package's, or a result that another way of computing it does not give.
"""

import json
import random
from array import array
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import oracle_counting
import peers
import reference
import samples

from pipeline import Tokenizer, _core, counters, manifest, merge_list
from pipeline.combine import CombineTask, combine
from pipeline.config import make_options, read_config
from pipeline.count import open_run
from pipeline.errors import InputError, PatternError, PipelineError
from pipeline.export import write_model
from pipeline.pattern import CompiledPattern, compile_pattern
from pipeline.pattern.compiled import with_document_end

Target = Callable[[random.Random], None]

_PARTS = [
    *("a", "b", "ab", ".", r"\s", r"\S", r"\p{L}", r"\p{N}", "[^a]", "[ab]", "[^\\s\\p{L}]", "(?:ab|c)", "(?i:k)", "é"),
    *(r"(?!\S)", "$", " ?", r"\d", r"\w", "(?=a)", "(?>a|ab)", "\\n", "[\\r\\n]", "(?s:.)", "😀", "[ -~]"),
]
_TIMES = ["", "", "", "+", "*", "?", "{1,3}", "{2}", "++", "*+", "+?", "??"]
_LISTS = ("left", "right", "counts", "joined")
_LETTERS = "aaabbcckK  \n\r\té1٣中\u212a\u00a0😀'."


def _text(source: random.Random, most: int) -> bytes:
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


def mutated(good: bytes, source: random.Random) -> bytes:
    """The bytes with some of them flipped, dropped, doubled, moved, or replaced by what is often special."""
    data = bytearray(good)
    for _ in range(source.choice([1, 1, 1, 2, 3, 8])):
        at, size = source.randrange(len(data) + 1), source.choice([1, 1, 2, 4, 8, 100])
        how = source.randrange(6)
        if how == 0 and at < len(data):
            data[at] ^= 1 << source.randrange(8)
        elif how == 1:
            del data[at : at + size]
        elif how == 2:
            data[at:at] = data[at : at + size]
        elif how == 3:
            data[at : at + size] = source.randbytes(size)
        elif how == 4:
            data[at : at + size] = source.choice([b"\xff" * size, bytes(size), b"9" * 20, b"[" * 200, b"null", b"-1"])
        else:
            other = source.randrange(len(data) + 1)
            data[at : at + size] = data[other : other + size]
    return bytes(data)


def pattern(_: Path) -> Target:
    """Compile any pattern and cut any text: as `regex` cuts it, whole or in parts, with ends that add up."""

    def one(source: random.Random) -> None:
        branches = [
            "".join(source.choice(_PARTS) + source.choice(_TIMES) for _ in range(source.randint(1, 4)))
            for _ in range(source.randint(1, 4))
        ]
        text = _text(source, 60).decode(errors="replace")
        try:
            compiled = compile_pattern("|".join(branches), timeout_s=2)
            pieces = compiled.cut(text)
        except PatternError:
            return
        assert "".join(pieces) == text
        if compiled.automaton is not None:
            expected = oracle_counting.cut(text, with_document_end(compiled.expression))
            assert pieces == expected, (compiled.expression, text)
            ends, rest = compiled.automaton.cut_part(text.encode(), room=source.randint(1, 40))
            assert rest <= len(text.encode())
            assert ends == compiled.automaton.cut(text.encode())[: len(ends)]

    return one


def _patterns() -> list[CompiledPattern]:
    return [compile_pattern(name) for name in samples.PATTERNS]


def counting(_: Path) -> Target:
    """Count in blocks and windows of any size: always what the naive way counts."""
    patterns = _patterns()

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
            text = _text(source, source.choice([10, 100, 600]))
            at = 0
            while at < len(text):
                size = source.choice([1, 2, 5, 50, 1000])
                counter.feed(text[at : at + size])
                at += size
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
        offsets = array("q", accumulate(map(len, counter), initial=0))
        data, counts = b"".join(counter), array("Q", counter.values())
        engine = _core.MergeEngine()
        if source.random() < 0.2:
            offsets[source.randrange(len(offsets))] += source.choice([-1, 1, -(1 << 40), 1 << 40])
            try:
                engine.add(offsets, data, counts)
                engine.run(20)
            except (ValueError, OverflowError):
                return
            return  # the change may have been a piece longer and its neighbour shorter
        engine.add(offsets, data, counts)
        tie_break = source.choice(["lowest-ids", "greatest-bytes"])
        result = engine.run(
            40,
            tie_break=tie_break,
            threads=source.choice([1, 2, 3]),
            narrow_symbols=source.choice([256, 300, 65536]),
            index_positions=source.choice([0, 1, 10]),
            thread_bytes=source.choice([1, 1 << 22]),
        )
        positive = {piece: count for piece, count in counter.items() if count}
        expected = reference.train_reference(positive, 40, tie_break=tie_break)
        assert list(zip(result.left, result.right, result.counts, strict=True)) == expected, counter

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
        text = _text(source, 300)
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


def _counter_file(path: Path, counts: dict[bytes, int], partitions: int = 2) -> bytes:
    counter = _core.ChunkCounter(lambda document: [document], [])
    counter.add_pieces(list(counts), list(counts.values()))
    columns = (counter.columns(i, partitions) for i in range(partitions))
    counters.write_counter(path, columns, fingerprint="f", statistics={"bytes": 1})
    return path.read_bytes()


def counter_files(home: Path) -> Target:
    """Damaged counters: refused, or read as they were; combined only if they were."""
    counts = {f"{number:x}".encode() * (number % 7 + 1): number + 1 for number in range(700)}
    good = _counter_file(home / "good.parquet", counts)
    bad = home / "bad.parquet"

    def one(source: random.Random) -> None:
        bad.write_bytes(mutated(good, source))
        try:
            rows = combine(CombineTask([(bad, "f"), (home / "good.parquet", "f")], home / "sum.parquet", "s", {}, 1))
        except PipelineError as error:
            assert "\n" not in str(error)
        else:
            assert rows == len(counts)
            with counters.open_counter(home / "sum.parquet") as found:
                parts = [oracle_counting.as_counter(found.read(i)) for i in range(found.partitions)]
            assert sum(parts, Counter()) == {piece: 2 * count for piece, count in counts.items()}

    return one


def merge_files(home: Path) -> Target:
    """Damaged merge lists: refused, of another run, or read as they were."""
    engine = _core.MergeEngine()
    text = peers.generated_text(1, 400).encode()
    engine.add(array("q", [0, len(text)]), text, array("Q", [3]))
    result = engine.run(90)
    columns = [array(kind, getattr(result, name)) for kind, name in zip("IIQQ", _LISTS, strict=True)]
    merges = merge_list.MergeList(*columns, result.bytes, exhausted=False)
    path = home / "merges.parquet"
    merge_list.save(merges, path, "f")
    good = path.read_bytes()

    def one(source: random.Random) -> None:
        path.write_bytes(mutated(good, source))
        try:
            assert merge_list.load(path, "f") in (merges, None)
        except PipelineError as error:
            assert "\n" not in str(error)

    return one


def manifests(home: Path) -> Target:
    """Damaged manifests, half of them under a right digest: refused, or of a plan that fits its files."""
    (home / "text.txt").write_text("some text")
    options = make_options({"inputs": str(home / "text.txt"), "output": home / "run"})
    (home / "run").mkdir()
    open_run(home / "run", options, compile_pattern("gpt2"), lambda _: None)
    path = home / "run" / "run.json"
    good = path.read_bytes()

    def one(source: random.Random) -> None:
        data = mutated(good, source)
        if source.random() < 0.5:
            try:
                document = json.loads(data)
                document.pop("digest", None)
                data = json.dumps(document | {"digest": manifest.fingerprint(document)}).encode()
            except (ValueError, AttributeError, TypeError):
                pass
        path.write_bytes(data)
        try:
            found = manifest.load(path.parent)
            assert found is not None
            found.manifest.counter_fingerprint()
        except PipelineError as error:
            assert "\n" not in str(error)

    return one


def models(home: Path) -> Target:
    """Damaged tokenizers: refused, or such as encode and decode."""
    files = []
    for name in samples.PATTERNS:
        write_model(Tokenizer.from_merges(samples.trained(name), ["<|a|>"], pattern=name).model, home / name[:3])
        files.append((home / name[:3] / "tokenizer.json").read_bytes())
    path = home / "tokenizer.json"

    def one(source: random.Random) -> None:
        path.write_bytes(mutated(source.choice(files), source))
        try:
            tokenizer = Tokenizer.load(path)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            text = _text(source, 60).decode(errors="replace")
            assert tokenizer.decode(tokenizer.encode_ordinary(text)) == text

    return one


def configs(home: Path) -> Target:
    """Configurations of any bytes: read, or refused in one line."""
    goods = {
        ".yaml": b"vocab_size: 32000\nspecial-token: ['<s>', \"x\"]\npattern: |\n  a+\nexport: [hf]\nworkers: 0x10\n",
        ".json": b'{"vocab_size": 32000, "special_tokens": ["<s>"], "chunk_size": "64MiB", "errors": "skip"}',
        ".toml": b'vocab_size = 32_000\nspecial_tokens = ["<s>", \'x\']\npattern = """a+"""\nquiet = true\n',
    }

    def one(source: random.Random) -> None:
        suffix = source.choice(list(goods))
        path = home / f"config{suffix}"
        path.write_bytes(mutated(goods[suffix], source))
        try:
            make_options(read_config(path))
        except PipelineError as error:
            assert "\n" not in str(error)

    return one


TARGETS: dict[str, Callable[[Path], Target]] = {
    function.__name__: function
    for function in (
        *(pattern, counting, merging, encoding),
        *(counter_files, merge_files, manifests, models, configs),
    )
}
