"""Vocabularies and merges in files that write tokens in the byte alphabet and special tokens as they are.

For speed each step is one call over all tokens; only a refusal looks at them one by one.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from bpe_pipeline.base.errors import ExportRefusedError, InputError, UsageError, shown
from bpe_pipeline.merges.vocabulary import Vocabulary, text_to_token, texts_to_tokens
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats.fields import Field, shortened
from bpe_pipeline.tokenizer.model import Model, bytes_of_letters

Merges = list[tuple[bytes, bytes]]


def read_tokens(vocab: Field, special_tokens: Mapping[str, int]) -> dict[int, bytes]:
    """Return id -> bytes of the ordinary tokens of a vocabulary (text -> id); refuse texts and ids that clash."""
    listed = vocab.read(dict)
    ordinary = {text: id_ for text, id_ in listed.items() if text and special_tokens.get(text) != id_}  # Whisper has ""
    if set(map(type, listed.values())) <= {int}:
        with suppress(UnicodeEncodeError):
            tokens = dict(zip(ordinary.values(), texts_to_tokens(ordinary), strict=True))
            if len(tokens) == len(ordinary) and not ordinary.keys() & special_tokens.keys():
                return tokens
    texts: dict[int, str] = {}
    for text, id_ in listed.items():
        vocab.member(text).read(int)
        if text not in ordinary:
            continue
        if text in special_tokens:
            vocab.refuse(f"assigns {text!r} the id {id_}, but added_tokens {special_tokens[text]}")
        if texts.setdefault(id_, text) != text:
            vocab.refuse(f"assigns the id {id_} to {text!r} and to another token")
        if not bytes_of_letters(text):
            vocab.refuse(
                f"has the token {text!r}, which is not written in the byte alphabet: if it is special, name it so; "
                "if not, this is not a byte-level vocabulary"
            )
    raise AssertionError("every token has an id of its own")


def only_special(special_tokens: Mapping[str, int], vocab: Field, merges: Merges) -> dict[str, int]:
    """Return the special tokens without those that are ordinary tokens too: a byte, or what a merge makes.

    Texts are compared as the file writes tokens: a line feed is special, its byte is `Ċ`.
    """
    listed = vocab.read(dict)
    joined = {left + right for left, right in merges} | {bytes([byte]) for byte in range(256)}
    both = {text for text in special_tokens if not joined.isdisjoint(bytes_of_letters(text))}
    return {text: id_ for text, id_ in special_tokens.items() if listed.get(text) != id_ or text not in both}


def read_merges(pairs: Sequence[Any], file: Location, path_of: Callable[[int], str]) -> Merges:
    """Return pairs of texts as pairs of bytes; refuse the first that is no such pair, naming `path_of` its index."""
    try:
        left, right = zip(*pairs, strict=True) if pairs else ((), ())
        return list(zip(texts_to_tokens(left), texts_to_tokens(right), strict=True))
    except (TypeError, ValueError):
        for index, pair in enumerate(pairs):
            try:
                left, right = pair
                text_to_token(left + right)
            except (TypeError, ValueError):
                refused = Field(pair, file, path_of(index))
                refused.refuse(f"is not a pair of tokens in the byte alphabet: {shortened(pair)}")
        raise AssertionError("every merge is a pair") from None


def vocabulary_of(
    file: Location,
    tokens: Mapping[int, bytes],
    merges: Iterable[tuple[bytes, bytes]],
    special_tokens: Mapping[str, int],
    *,
    lossy: bool = False,
) -> Vocabulary:
    """Return the vocabulary that a file holds; InputError naming the file where its parts contradict each other."""
    try:
        return Vocabulary.from_tokens(tokens, merges, special_tokens, lossy=lossy)
    except (InputError, UsageError) as reason:
        raise InputError(f"{file}: {reason}") from None


def vocabulary_texts(vocabulary: Vocabulary, format_name: str) -> dict[int, str]:
    """Return id -> text of every token, in order of ids; ExportRefusedError where two have the same text."""
    texts = vocabulary.texts.copy()
    ordinary = set(texts.values())
    for text, id_ in vocabulary.special_tokens.items():
        if text in ordinary and texts.get(id_) != text:
            raise ExportRefusedError(
                f"{format_name} cannot hold the special token {shown(text)}: an ordinary token has the same name there "
                "(bytes are written as printable characters). Choose another, or count again with it as "
                "--special-token, so that no merge makes it"
            )
        texts[id_] = text
    return dict(sorted(texts.items()))


def unsaid(model: Model, format_name: str) -> Iterator[str]:
    """Yield what is done to text that only tokenizer.json can say, as reasons not to write a format."""
    if model.lossy:
        yield f"{format_name} cannot say what text gets where {model.lossy}. Use the hf export"
    if model.is_prepared:
        yield (
            f"{format_name} cannot say how text is prepared before it is split (NFC, a space in front, or special "
            "tokens with rules), as this tokenizer needs. Use the hf export"
        )


def quoted(texts: Mapping[int, str]) -> dict[int, str]:
    """Return the texts as JSON writes them."""
    # One call quotes all texts, a line each: no quoted text contains a line end.
    lines = json.dumps(list(texts.values()), ensure_ascii=False, separators=("\n", ":"))[1:-1].split("\n")
    return dict(zip(texts, lines, strict=True))


def joined(left: Iterable[str], right: Iterable[str], *, between: str, after: str) -> str:
    """Join each left text with its right one by `between`, and these pairs by `after`."""
    return after.join(map(between.join, zip(left, right, strict=True)))
