"""Arithmetic of token ids and special tokens. It needs no vocabulary, only numbers and names.

The ids of a trained vocabulary are 256 bytes in `BYTE_ORDER`, one for each merge, and one for each special token.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from bpe_pipeline.base.errors import UsageError, shown
from bpe_pipeline.base.printable import BYTE_CHARACTERS
from bpe_pipeline.base.units import format_count
from bpe_pipeline.pattern.token_rules import TokenRule

MAX_IDS = 1 << 28  # ids stay below this

WELL_KNOWN = {  # special tokens of published tokenizers, by what they are for
    "end": (
        *("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[EOS]"),
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
    ),
    "bos": (
        *("<|begin_of_text|>", "<|startoftext|>", "<s>", "<bos>", "<|bos|>", "[BOS]", "[CLS]"),
        "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
    ),
    "pad": ("<pad>", "<|pad|>", "[PAD]", "<|finetune_right_pad_id|>"),
    "turn end": ("<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>"),
    "turn": (
        *("<|im_start|>", "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>", "[INST]", "[/INST]"),
        *("<|system|>", "<|user|>", "<|assistant|>"),
    ),
    "other": ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|endofprompt|>", "<|eom_id|>", "<|python_tag|>"),
}
_MARK = re.compile(  # as chat templates write special tokens
    r"<\|[^\s|<>{}'\"]+\|>|<\uff5c[^\s\uff5c<>{}'\"]+\uff5c>|"
    + "|".join(re.escape(text) for texts in WELL_KNOWN.values() for text in texts if re.fullmatch("</?[a-z_]+>", text))
)
_RESERVED = re.compile(  # as published vocabularies name tokens that have no meaning yet
    r"(?i)[<\[]\W?(reserved|unused|extra|dummy|special|place[\W_]?holder)\D*[0-9]+\W?[>\]]"
)
_PLAIN = re.compile(r"[\w '.-]*")
CHAT_MARKS = (*WELL_KNOWN["turn end"], *WELL_KNOWN["turn"])


def marks_in(template: str) -> list[str]:
    """Return what looks like a special token in the text of a chat template, each once: `<|user|>`, `</s>`."""
    return list(dict.fromkeys(_MARK.findall(template)))


def check_special_tokens(special_tokens: Sequence[str]) -> None:
    """Raise `UsageError` naming the first special token that is invalid, and why."""
    seen: set[str] = set()
    for text in special_tokens:
        if not text:
            raise UsageError("a special token is empty: give it a text such as '<|endoftext|>'")
        if len(text) == 1 and text in BYTE_CHARACTERS.values():
            raise UsageError(
                f"the special token {shown(text)} is what tokenizer.json calls the token of a single byte: "
                "give a longer text such as '<|endoftext|>'"
            )
        if text in seen:
            raise UsageError(f"the special token {shown(text)} is given twice: remove one of them")
        try:
            text.encode()
        except UnicodeEncodeError:
            reason = "holds a lone surrogate, which no UTF-8 text contains"
            raise UsageError(f"the special token {shown(text)} {reason}") from None
        seen.add(text)


def is_reserved(text: str) -> bool:
    """Whether a special token has no meaning yet, by its name: `<|reserved_special_token_7|>`, `<unused7>`."""
    return _RESERVED.fullmatch(text) is not None


def check_added(added: Iterable[str]) -> None:
    """Raise `UsageError` for a text that a role would make a special token although other text may well hold it."""
    if plain := next(filter(_PLAIN.fullmatch, added), None):
        raise UsageError(
            f"the special token {shown(plain)} would be a plain word, and every text that has it would get its id: "
            f"give a mark such as {shown(f'<{plain.strip()}>')}, or leave the option out for no token"
        )


@dataclass(frozen=True)
class Roles:
    """Which special tokens start and end texts, fill rows, and separated the training corpus; None: none is named."""

    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    separator: str | None = None

    def named(self) -> list[str]:
        """Return the tokens that have a role, each once."""
        return list(dict.fromkeys(text for text in astuple(self) if text is not None))

    def separator_among(self, special_tokens: Iterable[str]) -> str | None:
        """Return what separates documents: `<|endoftext|>`, or else the first that is no pad, bos or chat mark."""
        listed = list(special_tokens)
        if "<|endoftext|>" in listed:
            return "<|endoftext|>"
        not_separating = {self.bos, self.pad, *WELL_KNOWN["bos"], *WELL_KNOWN["pad"], *CHAT_MARKS}
        return next((text for text in listed if text not in not_separating), None)


def ending_bytes(counting: Mapping[str, Any]) -> tuple[bytes, ...]:
    """List the texts that end documents where these are left out or cut: the separator, as `encode` has it, and others.

    Other special tokens are a part of a document.
    """
    separator = Roles().separator_among(special_tokens_of(counting))
    return tuple(text.encode() for text in dict.fromkeys([*([separator] if separator else []), *counting["split_at"]]))


def special_tokens_of(counting: Mapping[str, Any]) -> Sequence[str]:
    """Return the special tokens by the counting options of a manifest: none where they are text."""
    return [] if counting["special_tokens_as_text"] else counting["special_tokens"]


@dataclass(frozen=True)
class Reserved:
    """The tokens at the end that have no meaning yet; they make the size a multiple of `multiple`."""

    count: int = 0
    multiple: int = 1
    name: str = "<|reserved_special_token_{}|>"


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens that a vocabulary is to have."""

    separators: tuple[str, ...] = ()
    roles: Roles = Roles()
    reserved: Reserved = Reserved()
    added: tuple[str, ...] = ()  # that were text when the corpus was counted
    rules: Mapping[str, TokenRule] = field(default_factory=dict)  # of those that do not have the plain one

    def named(self) -> list[str]:
        """Return the special tokens that have a text of their own, in order of ids."""
        counted = list(dict.fromkeys([*self.separators, *self.rules]))
        added = [text for text in self.roles.named() if text not in counted]
        added += [text for text in self.added if text not in (*counted, *added)]
        check_special_tokens([*counted, *added])
        check_added(added)
        return [*counted, *added]

    def texts(self, ordinary: int) -> list[str]:
        """Return all special tokens of a vocabulary with that many ordinary tokens, in order of ids."""
        named = self.named()
        count = self.reserved.count
        count += -(ordinary + len(named) + count) % self.reserved.multiple
        numbered = (self.reserved.name.replace("{}", str(number)) for number in itertools.count())
        return [*named, *itertools.islice((text for text in numbered if text not in named), count)]

    def reserved_among(self, texts: Iterable[str]) -> list[str]:
        """Return those of the special tokens of such a vocabulary that have no meaning yet."""
        before, _, after = self.reserved.name.partition("{}")
        name, named = re.compile(f"{re.escape(before)}[0-9]+{re.escape(after)}"), self.named()
        return [text for text in texts if name.fullmatch(text) and text not in named]

    def merge_budget(self, vocab_size: int) -> int:
        """Return the most merges of a vocabulary: vocab_size - 256 - special tokens; rounding up adds to the size."""
        special = len(self.named()) + self.reserved.count
        least = 256 + special
        if vocab_size < least:
            raise UsageError(
                f"a vocabulary of {vocab_size} is too small: the 256 bytes and "
                f"{format_count(special, 'special tokens')} already need {least}; give at least {least}"
            )
        if vocab_size > MAX_IDS:
            raise UsageError(f"a vocabulary of {vocab_size} is too large: at most {MAX_IDS} ids are supported")
        return vocab_size - least
