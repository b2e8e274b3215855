"""Thirty small corpora, each difficult in its own way; their names are their seeds."""

import gzip
import json
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

END, OTHER = "<|endoftext|>", "<|end|>"
LATIN = "etaoinshrdlucmfwypvbgkqjxz"
SPACES = [" ", "  ", "\n", "\n\n", "\t", " \n ", "\u00a0", "\u3000", "\u2028", "\u200b", "    "]
LETTERS = "naïve Straße Ελλάδα Москва привет 東京 日本語 です 文字 हिन्दी שלום سلام 안녕 ภาษา 𝔘𝔫 አማ İﬁǄ ₂½Ⅷ ４５ ٣٤ ſK"
EMOJI = ["👩‍👩‍👧‍👦", "👍🏽", "🏳️‍🌈", "🇪🇪", "🇯🇵", "😀", "❤️", "1️⃣", "🧑🏿‍🚀", "☃"]
COMBINING = ["a", "e", "é", "각", "e\u0301", "o\u0308\u0323", "\u1112\u1161\u11ab", "\u0301"]
CONTRACTIONS = ["don't", "I'LL", "we'Ve", "'tis", "it'ſ", "'S", "DON'T", "they'd", "'m", "O'Re's", "l’eau"]
CODE = [
    "    if (x_1 < len(items)) {\n\treturn items[%d]->next;\n    }\n",
    "def update_value%d(self, key: str) -> None:\n        self.values[key] += 0x%d\n\n",
    "#include <stdio.h>\nstatic int count%d = 0; // != done\n",
    'for (int i = 0; i < %d; i++) printf("\\n", i);\r\n',
]
BROKEN = [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
PLANES = [[*range(0xD800), *range(0xE000, 0x10000)], range(0x10000, 0x110000), range(0x80), range(0x80, 0x800)]


def _lexicon(chance: Random, letters: Sequence[str], words: int, longest: int) -> list[str]:
    return ["".join(chance.choices(letters, k=chance.randint(1, longest))) for _ in range(words)]


def _text(chance: Random, words: Sequence[str], spaces: Sequence[str] = (" ",), count: int = 900) -> str:
    """Join words, of which the first are the most frequent."""
    chosen = (words[int(len(words) * chance.random() ** 3)] for _ in range(count))
    return "".join(word + chance.choice(spaces) for word in chosen)


def _prose(chance: Random, count: int = 1200, spaces: Sequence[str] = (*6 * " ", ". ", ", ", ": ", ".\n")) -> str:
    return _text(chance, chance.sample(_words(), 400), spaces, count)


@cache
def _words() -> list[str]:
    chance = Random("words")
    return _lexicon(chance, _lexicon(chance, LATIN[:14] * 2 + LATIN, 150, 3), 900, 4)


def _fibonacci(_: Random) -> str:
    short, long = "a", "ab"
    while len(long) < 1500:
        short, long = long, long + short
    return f"{long} {long[:377]} {long[5:200]}\n" * 3


def _cut_characters(chance: Random) -> bytes:
    whole = _text(chance, [*LETTERS.split(), *EMOJI], SPACES).encode()
    return b"".join(whole[at : at + chance.randint(4, 9)] for at in range(0, len(whole), 9))


def _rows(chance: Random) -> str:
    rows = [{"text": _prose(chance, chance.randint(0, 40))} for _ in range(60)]
    others = [{"text": ""}, {"body": "no text"}, {"text": f"a{END}b \ud7ff\0"}, {"text": "\U0001f600 \\n"}]
    return "\n".join(json.dumps(row) for row in [*rows, *others, *rows[:20]])


def _pairs(chance: Random, letters: str, repeated: int) -> str:
    pairs = [left + right for left in letters for right in letters] * repeated
    return " ".join(chance.sample(pairs, len(pairs)))


def _many(count: int, make: Callable[[Random], str]) -> Callable[[Random], str]:
    return lambda chance: "".join(make(chance) for _ in range(count))


_MAKERS: dict[str, Callable[[Random], str | bytes]] = {
    "prose": _prose,
    "code": _many(150, lambda c: c.choice(CODE).replace("%d", str(c.randint(0, 99)))),
    "digits": _many(900, lambda c: str(c.randrange(10 ** c.randint(1, 14))) + c.choice(" ,.\n/")),
    "no-spaces": lambda c: _prose(c, 1200, [""]),
    "scripts": lambda c: _text(c, [*LETTERS.split(), *_lexicon(c, "αβγδежзиאבגد", 90, 6)], SPACES),
    "ideographs": lambda c: _text(c, _lexicon(c, [*map(chr, range(0x4E00, 0x5500, 9))], 300, 4), ["", "", "", "。\n"]),
    "kana-thai": lambda c: _text(c, _lexicon(c, "あいうえおかきくサシスセソกขคงจ่้ัิ", 300, 7), ["", " ", "、"]),
    "all-planes": _many(1500, lambda c: chr(c.choice(c.choice(PLANES)))),
    "emoji": lambda c: _text(c, EMOJI, ["", "", " ", " ok "], 700),
    "combining": lambda c: _text(c, _lexicon(c, COMBINING, 150, 5)),
    "invalid": lambda c: b" ".join(_prose(c, 8).encode() + c.choice(BROKEN) for _ in range(100)),
    "cut-characters": _cut_characters,
    "random-bytes": lambda c: c.randbytes(2500),
    "runs": _many(250, lambda c: c.choice("a b\n-é") * c.choice((1, 2, 3, 7, 64, 255))),
    "one-run": lambda c: "a" * c.randint(4000, 6000),
    "ties": lambda c: _pairs(c, "abcdefghijklmnop", 4),
    "ties-of-bytes": lambda c: _pairs(c, "~ÿ\u0100\x7f¡éAz中", 12),
    "fibonacci": _fibonacci,
    "long-pieces": lambda c: _text(c, _lexicon(c, _lexicon(c, LATIN, 30, 4), 14, 400), [" ", "\n"], 20),
    "white-space": _many(1500, lambda c: c.choice([*SPACES, "\r\n", "\r", "x", "."]) * c.randint(1, 4)),
    "crlf": lambda c: _prose(c, 1200, [*5 * " ", "\r\n", "\r\n\r\n", "\r", " \r\n"]),
    "special-tokens": lambda c: _prose(c, 900, [*5 * " ", END, END[:-1], OTHER, END + END, f" {OTHER}\n", "<|"]),
    "empty-documents": _many(200, lambda c: END * c.randint(1, 4) + c.choice(("", " ", "\n", "a b"))),
    "short-documents": lambda c: _prose(c, 900, [END]),
    "rare": lambda c: " ".join(dict.fromkeys(_lexicon(c, LATIN + LATIN.upper(), 900, 9))),
    "contractions": lambda c: _text(c, CONTRACTIONS, [" ", "'", "\n"]),
    "markup": _many(90, lambda c: f'<a href="https://{_prose(c, 1)}.org/?q={_prose(c, 2)}: 1">{_prose(c, 3)}</a>: '),
    "letter-case": _many(300, lambda c: c.choice((str.title, str.upper, str.lower))(c.choice(CODE)[-17:-7])),
    "rows.jsonl": _rows,
    "prose.txt.gz": lambda c: gzip.compress(f"{_prose(c, 900)}\0\ufeff\x1b{END}{_prose(c, 300)}".encode(), mtime=0),
}
CORPORA = [*_MAKERS]


@cache
def corpus(name: str) -> bytes:
    """Return the content of a corpus file."""
    made = _MAKERS[name](Random(name))
    return made if isinstance(made, bytes) else made.encode()


@cache
def sample() -> str:
    """Return a text with a little of each corpus and both special tokens."""
    texts = (corpus(name)[100:240].decode(errors="replace") for name in CORPORA if not name.endswith(".gz"))
    return END.join(texts) + OTHER


def chat_rows() -> str:
    """Return conversations as JSON Lines; some are longer than a row of tokens."""
    chance, rows = Random("chat"), []
    for _ in range(25):
        roles = ["user", "assistant"] * chance.randint(1, 3)
        said = [{"role": role, "content": _prose(chance, 3 ** chance.randint(0, 4))} for role in roles]
        rows.append({"messages": said})
    return "".join(json.dumps(row) + "\n" for row in rows)


def dialogs(count: int) -> str:
    """Return conversations in all forms as JSON Lines: turns, systems, tools, thoughts, marks in texts, white space."""
    chance = Random("dialogs")
    return "".join(json.dumps(_dialog(chance, chance.random())) + "\n" for _ in range(count))


def _dialog(chance: Random, form: float) -> dict[str, Any]:
    if form < 0.1:
        return {"instruction": _said(chance), "input": chance.choice(("", _said(chance))), "output": _said(chance)}
    turns = [(who, _said(chance)) for who in ("user", "assistant") * chance.randint(1, 4)]
    if form < 0.2:
        names = {"user": "human", "assistant": "gpt"}
        row = {"conversations": [{"from": names[who], "value": text} for who, text in turns]}
        return {"system": "Short.", **row} if form < 0.15 else row
    said: list[dict[str, Any]] = [{"role": who, "content": text} for who, text in turns]
    if chance.random() < 0.3:
        said.insert(0, {"role": "system", "content": _said(chance)})
    if form > 0.85:
        called = {"name": "look_up", "arguments": {"word": chance.choice(_words()), "limit": chance.randint(1, 9)}}
        said[-1:-1] = [
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": called}]},
            {"role": "tool", "content": _said(chance)},
        ]
        properties = {"word": {"type": "string"}, "limit": {"type": "integer"}}
        parameters = {"type": "object", "properties": properties, "required": ["word"]}
        tool = {"name": "look_up", "description": "Look a word up.", "parameters": parameters}
        return {"messages": said, "tools": [{"type": "function", "function": tool}]}
    return {"messages": said[:-1] if form > 0.83 else said}  # some end with a question


def _said(chance: Random) -> str:
    text = _prose(chance, 3 ** chance.randint(0, 4))
    kind = chance.random()
    if kind < 0.15:
        return f"<think>\n{_prose(chance, 5)}\n</think>\n\n{text}"
    if kind < 0.25:
        return text + chance.choice(("<|im_end|>", END, "<|eot_id|>", "{{ x }}", "</think>")) + text[:9]
    if kind < 0.4:
        return f"{chance.choice(SPACES)}{text}{chance.choice(SPACES)}"
    return chance.choice([*LETTERS.split(), *EMOJI]) + text if kind < 0.6 else text
