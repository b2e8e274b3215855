"""Arithmetic of token ids and special tokens. It needs no vocabulary, only numbers and names.

The ids of a trained vocabulary are 256 bytes in `BYTE_ORDER`, one for each merge, and one for each special token.
"""

from collections.abc import Sequence

from pipeline.base.errors import UsageError, unfit

MAX_IDS = 1 << 28  # ids stay below this

# The bytes in GPT-2's order, which is also the order of Hugging Face's byte alphabet and of tiktoken's rank files:
# the printable characters of Latin-1 first, then the bytes whose characters would be invisible.
_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
BYTE_ORDER: tuple[int, ...] = _PRINTABLE + tuple(sorted(set(range(256)) - set(_PRINTABLE)))

BYTE_CHARACTERS = {
    byte: chr(byte) if byte in _PRINTABLE else chr(0x100 + index - len(_PRINTABLE))
    for index, byte in enumerate(BYTE_ORDER)
}


def check_special_tokens(special_tokens: Sequence[str]) -> None:
    """Raise `UsageError` naming the first special token that is invalid, and why."""
    seen: set[str] = set()
    for text in special_tokens:
        if not isinstance(text, str):
            raise unfit("a special token", "a text", text)
        if not text:
            raise UsageError("a special token is empty: give it a text such as '<|endoftext|>'")
        if len(text) == 1 and text in BYTE_CHARACTERS.values():
            raise UsageError(
                f"the special token {text!r} is what tokenizer.json calls the token of a single byte: "
                "give a longer text such as '<|endoftext|>'"
            )
        if text in seen:
            raise UsageError(f"the special token {text!r} is given twice: remove one of them")
        try:
            text.encode()
        except UnicodeEncodeError:
            reason = "holds a lone surrogate, which no UTF-8 text contains"
            raise UsageError(f"the special token {text!r} {reason}") from None
        seen.add(text)


def with_pad_token(special_tokens: Sequence[str], pad_token: str | None) -> list[str]:
    """Return all special tokens in order of ids: the named ones, then the pad token unless it is one of them."""
    listed = list(special_tokens)
    if pad_token is not None and pad_token not in listed:
        listed.append(pad_token)
    check_special_tokens(listed)
    return listed


def merge_budget(vocab_size: int, special_tokens: Sequence[str]) -> int:
    """Return the most merges of a vocabulary: vocab_size - 256 - special tokens (the pad token among them).

    Raises `UsageError` if the size is too small for the bytes and special tokens, or beyond `MAX_IDS`.
    """
    least = 256 + len(special_tokens)
    if vocab_size < least:
        raise UsageError(
            f"a vocabulary of {vocab_size} is too small: the 256 bytes and {len(special_tokens)} special token(s) "
            f"already need {least}; give a vocab_size of at least {least}"
        )
    if vocab_size > MAX_IDS:
        raise UsageError(f"a vocabulary of {vocab_size} is too large: at most {MAX_IDS} ids are supported")
    return vocab_size - least
