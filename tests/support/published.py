"""Tokenizers in the shapes in which others publish theirs, made here with `tokenizers` and loaded by us."""

import functools
import tempfile
from typing import Any

import samples
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as HuggingFaceTokenizer

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.merges.vocabulary import NOT_IN_UTF8, token_to_text
from bpe_pipeline.pattern.presets import PRESETS

BOS, EOT = "<|begin|>", "<|end|>"
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
]
LINE_ENDS = [r"[\r\n]", r"\s?[A-Za-zµÀ-ÖØ-öø-ƺ]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+"]
CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"]


def isolated(*expressions: str) -> list[Any]:
    return [pre_tokenizers.Split(Regex(expression), "isolated") for expression in expressions]


def byte_level(**options: bool) -> Any:
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, "use_regex": False, **options})


def _shapes() -> dict[str, tuple[list[Any], dict[str, Any]]]:
    """By kinds of published tokenizers: their pre-tokenizers, and what else they have."""
    bos = processors.TemplateProcessing(single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, 416)])
    bert = processors.BertProcessing((EOT, 417), (BOS, 416))
    ids = [(BOS, 416), (EOT, 417)]
    started = processors.TemplateProcessing(single=f"{BOS} {EOT} $A {EOT}", pair="$A $B", special_tokens=ids)
    empty, byte_and_bos = normalizers.Sequence([]), processors.Sequence([processors.ByteLevel(), bos])
    llama3, qwen2, o200k = (PRESETS[name].expression for name in ("llama3", "qwen2", "o200k"))
    digits, any_digits = (pre_tokenizers.Digits(individual_digits=one) for one in (True, False))
    return {
        "gpt2": ([byte_level(use_regex=True)], {"post": processors.ByteLevel(trim_offsets=False)}),
        "roberta": ([byte_level(use_regex=True)], {"post": processors.RobertaProcessing((EOT, 417), (BOS, 416))}),
        "space in front": ([byte_level(use_regex=True, add_prefix_space=True)], {"post": bert}),
        "space in front, uncut": ([byte_level(add_prefix_space=True)], {}),
        "whisper": ([byte_level(use_regex=True)], {"post": started}),
        "falcon": (
            [pre_tokenizers.Punctuation("contiguous"), byte_level(use_regex=True), any_digits, *isolated("[0-9]{3}")],
            {"lacks": (3, 0x1C, 0xF2)},
        ),
        "neox": ([byte_level(use_regex=True)], {"normalizer": normalizers.NFC(), "lacks": NOT_IN_UTF8}),
        "llama3": (
            [*isolated(llama3), byte_level()],
            {"whole_pre_tokens": True, "post": byte_and_bos},
        ),
        "qwen2": ([*isolated(qwen2), byte_level()], {"normalizer": normalizers.NFC()}),
        "deepseek": ([*isolated(*DEEPSEEK), byte_level()], {"normalizer": empty, "post": bos}),
        "coder": ([*isolated(*CODER), digits, byte_level()], {"normalizer": normalizers.Sequence([normalizers.NFC()])}),
        "line ends": ([*isolated(*LINE_ENDS), digits, byte_level()], {"normalizer": empty, "post": bos}),
        "digits": ([any_digits, byte_level(use_regex=True)], {}),
        "starcoder": ([digits, byte_level(use_regex=True)], {}),
        "removed": (
            [pre_tokenizers.Split(Regex(o200k), "removed", invert=True), byte_level()],
            {},
        ),
        "literal": ([pre_tokenizers.Split(".é", "isolated", invert=True), byte_level()], {}),
    }


_SHAPES = _shapes()
SHAPES = list(_SHAPES)


def made(name: str, added: list[AddedToken]) -> HuggingFaceTokenizer:
    stages, parts = _SHAPES[name]
    listed = [byte for byte in BYTE_ORDER if byte not in parts.get("lacks", ())]
    vocab = {token_to_text(bytes([byte])): id_ for id_, byte in enumerate(listed)}
    merges = [(token_to_text(left), token_to_text(right)) for left, right in samples.trained("none")]
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    whole_pre_tokens = parts.get("whole_pre_tokens", False)
    theirs = HuggingFaceTokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=whole_pre_tokens))
    if "normalizer" in parts:
        theirs.normalizer = parts["normalizer"]
    theirs.pre_tokenizer = stages[0] if len(stages) == 1 else pre_tokenizers.Sequence(stages)
    theirs.decoder = decoders.ByteLevel()
    theirs.add_special_tokens([token for token in added if token.special])
    theirs.add_tokens([token for token in added if not token.special])
    if "post" in parts:
        theirs.post_processor = parts["post"]
    return theirs


PLAIN = [AddedToken(text, normalized=False, special=True) for text in (BOS, EOT, EOT * 2)]
MIXED = [*PLAIN, AddedToken("<think>", normalized=False, special=False), AddedToken("e\u0301x", normalized=True)]
RULES = [
    AddedToken(BOS, normalized=False, special=True, lstrip=True),
    AddedToken(EOT, normalized=False, special=True, rstrip=True),
    AddedToken("<mask>", normalized=True, special=True, lstrip=True, rstrip=True),
    AddedToken("thx", normalized=True, single_word=True),
    AddedToken("éé", normalized=False, single_word=True, lstrip=True),
]
SPACES = [*PLAIN, *(AddedToken(" " * count, normalized=True, special=False) for count in (24, 8, 2))]  # as in Phi-2
FLAGS = [RULES[0], RULES[1], RULES[4]]  # which a search finds with all others
ADDED = {"plain": PLAIN, "mixed": MIXED, "rules": RULES, "spaces": SPACES}

COMBINING = "\u0301\u0316\u0345\u0327\u0bbe\u0bd7\u1161\u11a8\u3099\u1dfa\u0c3c\U00011930\U00011935\u08ca"
PARTS = [
    BOS,
    EOT,
    "<mask>",
    "<think>",
    "thx",
    "éé",
    " éé_",
    "e\u0301x",
    "e\u0301",
    "thxé",
    "thx_",
    "12345",
    "１２",
    "Ⅻ",
    "한국",
    "각",
    "漢字かな",
    "カナ",
    "नमस्ते",
    "DON'T",
    "don't",
    ".é",
    "\r\n",
    "\n\n  ",
    "\t",
    "\u3000",
    "\u200b",
    "\u0085",
    "👩‍👩‍👧",
    "\x00",
    "a" * 70,
    " " * 35,
    "²³м1234½",
    "\x03\x1c",
    "\U000c8000",
    "!?.\u2e52",
    "\u166d",
]
TEXTS = st.lists(
    st.one_of(st.sampled_from(PARTS), st.text(max_size=6), st.text(f"eaoA g{COMBINING} ", max_size=6)), max_size=14
).map("".join)
AROUND = [f" {BOS}  {EOT}\n\u3000{BOS}x{EOT}{EOT}", "  <mask>  thx"]
HARD = [*samples.HARD_TEXTS, *samples.all_planes(3, 60), *PARTS, *AROUND]


@functools.cache
def pair(name: str, added: str) -> tuple[HuggingFaceTokenizer, Tokenizer]:
    theirs = made(name, FLAGS if added == "flags" else ADDED[added])
    with tempfile.TemporaryDirectory() as directory:
        theirs.save(f"{directory}/tokenizer.json")
        return theirs, Tokenizer.load(directory)
