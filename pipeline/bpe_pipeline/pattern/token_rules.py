"""How added tokens are found in text, and what else is done to text before it is cut: values, which import little."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from bpe_pipeline.base.errors import UsageError

_INERT = re.compile(r"[\t-\r -:?@\[-_{-~]*")  # characters that NFC neither makes of others nor joins with others


@dataclass(frozen=True)
class TokenRule:
    """The flags of an added token, as the tokenizers library has them."""

    lstrip: bool = False  # white space before it belongs to it
    rstrip: bool = False  # white space after it belongs to it
    single_word: bool = False  # not next to a letter, digit or underscore
    normalized: bool = False  # searched after all others, in normalized text
    special: bool = False  # marks structure rather than text: it separates documents, and decoding can skip it

    @property
    def looks_around(self) -> bool:
        """Whether the text around it matters."""
        return self.lstrip or self.rstrip or self.single_word


PLAIN_RULE = TokenRule(special=True)


@dataclass(frozen=True)
class Preparation:
    """What is done to text before it is cut; the default is nothing."""

    nfc: bool = False  # each stretch between special tokens is put into NFC
    space_in_front: bool = False  # each such stretch that does not start with a space gets one
    rules: Mapping[str, TokenRule] = field(default_factory=dict)  # of the added tokens without the plain rule

    def rule_of(self, text: str) -> TokenRule:
        """Return the rule of an added token."""
        return self.rules.get(text, PLAIN_RULE)

    def separating(self, texts: Iterable[str]) -> list[str]:
        """Return those of the added tokens that separate documents."""
        return [text for text in texts if self.rule_of(text).special]

    def late(self, texts: Collection[str]) -> list[str]:
        """Return those of the added tokens that have to be searched after the others, in normalized text."""
        late = [text for text in texts if self.rule_of(text).normalized]
        if late and self.nfc and not all(map(_INERT.fullmatch, late)):
            return late
        normalized = {*late}
        early = [text for text in texts if text not in normalized]
        in_words = early and any(self.rule_of(text).single_word for text in late)  # early ones are no neighbours then
        return late if late and (in_words or self._strips(early, late) or _overlap(early, late)) else []

    def _strips(self, early: Collection[str], late: Collection[str]) -> bool:
        """Whether one of the first tokens may take white space that is in one of the second ones, or vice versa."""
        for takers, taken in ((early, late), (late, early)):
            rules = list(map(self.rule_of, takers))
            if any(rule.lstrip for rule in rules) and any(text[-1:].isspace() for text in taken):
                return True
            if any(rule.rstrip for rule in rules) and any(text[:1].isspace() for text in taken):
                return True
        return False

    def reaching(self, texts: Collection[str]) -> dict[str, TokenRule]:
        """Return those of the added tokens that are not simply found wherever they occur, and how they are found."""
        late = {*self.late(texts)}
        rules = {text: replace(self.rule_of(text), normalized=text in late, special=True) for text in texts}
        return {text: rule for text, rule in rules.items() if rule != PLAIN_RULE}

    def changes_ids(self, texts: Collection[str]) -> bool:
        """Whether ids are not those of the text itself, cut where these added tokens occur."""
        return self.nfc or self.space_in_front or bool(self.reaching(texts))

    def require_one_search(self, texts: Collection[str]) -> None:
        """Raise `UsageError` if a corpus with these added tokens needs more than one search for them, and NFC."""
        if self.space_in_front:
            raise UsageError(
                "the tokenizer puts a space in front of text (add_prefix_space), which is not done to a corpus: use a "
                "tokenizer without it"
            )
        if late := self.late(texts):
            raise UsageError(
                f"the added token {late[0]!r} is normalized: it has to be searched after the others, and a corpus is "
                "searched once; use a tokenizer in which that flag is false"
            )


def _overlap(first: Collection[str], second: Collection[str]) -> bool:
    """Whether an occurrence of one of the first texts may overlap one of the second ones."""
    joined = ["\0".join(texts) for texts in (first, second)]
    if any(text in joined[1] for text in first) or any(text in joined[0] for text in second):
        return True
    starts = {text[:at] for text in second for at in range(1, len(text))}
    ends = {text[at:] for text in second for at in range(1, len(text))}
    return any(text[at:] in starts or text[:at] in ends for text in first for at in range(1, len(text)))
