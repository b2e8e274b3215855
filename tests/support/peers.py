"""What the tests compare with: Hugging Face's trainer fed with the same pre-tokens, and text made here."""

import json
import random
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from operator import itemgetter

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

_SAMPLE = (
    "the of and to in that it was he for with his on be at by not this had are but from or have an they which one you "
    "were her all she there would their we him been has when who will more no if out so said what up its about into "
    "don't can't I'll we've they're DON'T isn’t naïve café Straße übergröße Ελλάδα Москва привет мир 東京 日本語 です "
    "文字 नमस्ते हिन्दी שלום سلام 안녕하세요 ไทย 𝔘𝔫𝔦 😀 👩‍👩‍👧 e\u0301 "
    "12 345 6789 123456789 ４５６ ½ Ⅷ 3.14159 x_1 {} => != // /* */ "
    'return int char void struct static #include <stdio.h> printf("%d\\n", i); \u200b \ufeff \u0085 \u00a0'
)
WORDS = tuple(_SAMPLE.split(" "))
SPACES = (" ", " ", " ", " ", "\n", "\n\n", "  ", "\t", "\r\n", "    ", "\u00a0", " \n ", "\u3000")


@cache
def generated_text(seed: int, words: int) -> str:
    """Text with the statistics of language: few words often, many rarely, in many scripts."""
    source, pre_tokens = random.Random(seed), []
    rare = ["".join(source.choices("abcdefghiklmnoprstuw", k=source.randint(2, 12))) for _ in range(words // 8)]
    for _ in range(words):
        often = source.random() < 0.8
        pre_tokens.append(source.choice(WORDS) if often else source.choice(rare))
        pre_tokens.append(source.choice(SPACES))
    return "".join(pre_tokens)


def hugging_face_merges(
    texts: Iterable[str], expression: str | None, merges: int, **options: object
) -> list[tuple[str, str]]:
    """The merges of Hugging Face's BpeTrainer over the same pre-tokens, in the byte alphabet's characters."""
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = [] if expression is None else [pre_tokenizers.Split(Regex(expression), "isolated")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=256 + merges, initial_alphabet=alphabet, show_progress=False, **options)
    tokenizer.train_from_iterator(texts, trainer)
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def resumed_merges(
    base: Tokenizer, texts: Iterable[str], expression: str, merges: int, **options: object
) -> list[tuple[str, str]]:
    """The merges of Hugging Face's BpeTrainer after those of a base, whose tokens are one character each to it."""
    splits = [pre_tokenizers.Split(Regex(expression), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    base.pre_tokenizer = pre_tokenizers.Sequence(splits)
    names = {chr(0x4E00 + id_): token for token, id_ in base.get_vocab().items()}
    pre_tokens = []
    for encoding in map(base.encode, texts):
        rows = groupby(zip(encoding.word_ids, encoding.ids, strict=True), itemgetter(0))
        pre_tokens += ["".join(chr(0x4E00 + id_) for _, id_ in row) for _, row in rows]
    trained = Tokenizer(models.BPE())
    size = len(names) + merges
    trained.train_from_iterator(
        pre_tokens, trainers.BpeTrainer(vocab_size=size, initial_alphabet=[*names], show_progress=False, **options)
    )
    found = json.loads(trained.to_str())["model"]["merges"]
    return [tuple("".join(map(names.__getitem__, part)) for part in pair) for pair in found]
