"""Cut generated texts with the instructions that BPE_PIPELINE_SIMD chooses; print them and a digest of all boundaries.

Each text is also cut one pre-token at a time, by the plain table, which reads one character after the other, and its
pre-tokens are counted. The texts have long lines of few kinds of characters, with a rare other one among them.
Usage: cut_alike.py SEED BYTES
"""

import hashlib
import random
import sys
from collections import Counter
from itertools import islice, pairwise

from oracle_counting import as_counter
from pattern_texts import PATTERN_ALPHABET, accepted, texts

from bpe_pipeline import _core
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.presets import PRESETS

_ALPHABETS = (
    *("a ", "ab c", "a\n ", " \n\t", "a'st", "it's I'll we're 'ReX ", "019 a", "aB'Cd/,\n", "x" * 40 + "é", "a日 ."),
    PATTERN_ALPHABET,
)
_CODE = ["if (x[10] != 'a')\n\t\t", "  return y->z12345;\n", "/* it's */\r\n", "ABCdef_GHI ", "é日本", "<|x|>", "   \n"]


def _text(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.3:
        return "".join(rng.choices(_CODE, k=rng.randint(5, 60)))
    if kind < 0.4:
        return "".join(rng.choices(texts(200, seed=7), k=rng.randint(5, 60)))
    alphabet = rng.choice(_ALPHABETS)
    if kind < 0.7:
        return "".join(rng.choice(alphabet) * rng.choice((1, 1, 1, 2, 5, 70)) for _ in range(rng.randint(1, 60)))
    return "".join(rng.choices(alphabet, k=rng.randint(60, 700)))


def main(seed: int, size: int) -> None:
    """Cut at least `size` bytes of text with each preset, and a tenth of it with each of 40 others, or fewer."""
    rng = random.Random(seed)
    digest = hashlib.sha256()
    for expression, compiled in [
        *((name, compile_pattern(name)) for name in PRESETS),
        *islice(accepted(rng), min(40, size // 3000)),
    ]:
        automaton = compiled.automaton
        assert automaton is not None
        done = 0
        expected: Counter[bytes] = Counter()
        counter = _core.ChunkCounter(automaton, [])
        while done < (size if expression in PRESETS else size // 10):
            data = _text(rng).encode()
            done += len(data)
            ends = automaton.cut(data)
            assert ends == automaton.cut(data, batch=1), (expression, data)
            for batch in (200, 4096):  # all spaces for ends are used up at once, or never
                stop = rng.randint(0, len(data))
                part, _ = automaton.cut_part(data[:stop], batch=batch)
                assert part == ends[: len(part)], (expression, data, stop)
            digest.update(str(ends).encode())
            expected.update(data[start:stop] for start, stop in pairwise([0, *ends]))
            counter.feed(data, end=True)
        assert as_counter(counter.columns()) == expected, expression
        for policy in ("replace", "skip"):  # bytes that are not UTF-8, in windows of any size
            counter = _core.ChunkCounter(
                automaton, ["<|x|>"], judge=DocumentJudge(policy), window_bytes=rng.choice((200, 1 << 18))
            )
            damaged = bytearray(_text(rng).encode() * 20)
            for _ in range(20):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            for at in range(0, len(damaged), 97):
                counter.feed(bytes(damaged[at : at + 97]), end=at + 97 >= len(damaged))
            digest.update(b"".join(map(bytes, counter.columns())))
    print(_core.simd()[0], digest.hexdigest())  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
