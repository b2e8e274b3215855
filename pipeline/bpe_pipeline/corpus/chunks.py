"""Chunks, and where text may be cut so that counting the parts counts the whole.

A safe position is the start of a special token, or, if none starts near, where the compiled pattern proves that a
pre-token ends after any text. Lines, of JSON or of text, are cut at their starts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from bpe_pipeline._core import Automaton, NormalForm, SpecialTokens
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.pattern.token_rules import PLAIN_RULE, TokenRule

_SEEN_BYTES = 2 * 4  # of the longest characters: a proof looks at the two around a cut and, in NFC, one more
_PROBE = b"some words, and 12 more:\n\tx = y\n"  # in which a pattern that can be cut at all is cut


class Span(NamedTuple):
    """The part [start, stop) of the file with this index in the listing, as its format counts: bytes, or row groups.

    A span of text inside a file that does not start with a special token continues a document of the span before. Of a
    compressed file whole frames, and the text up to the first safe position in the next span's.
    """

    file: int
    start: int
    stop: int
    size: int | None = None  # its bytes of text, if they are not stop - start; of some compressed files guessed

    @property
    def bytes(self) -> int:
        """Bytes of text."""
        return self.stop - self.start if self.size is None else self.size


@dataclass(frozen=True)
class Chunk:
    """A unit of counting: spans of one or several files, in the order of the listing."""

    spans: tuple[Span, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all spans."""
        return sum(span.bytes for span in self.spans)


@dataclass(frozen=True)
class Cutting:
    """What decides where text may be cut."""

    special_tokens: tuple[bytes, ...] = ()  # before which it may be cut
    automaton: Automaton | None = None  # of a pattern that runs on `regex`, which proves nothing
    whole_documents: bool = False  # only special tokens are cuts, as `--errors skip` needs
    text_field: str = "text"  # the column that is read of Parquet and Arrow files; empty: an extension reads whole rows
    separator: bytes = b""  # if given, text is only cut right behind this special token
    between_frames: bool = False  # whether compressed files are cut
    form: NormalForm | None = None  # what text is put into before the pattern cuts it
    added_tokens: tuple[bytes, ...] = ()  # other tokens, which are not cut

    @property
    def nowhere(self) -> bool:
        """Whether no cut is safe: repair of invalid text could produce a token with this character anywhere."""
        return any("\N{REPLACEMENT CHARACTER}".encode() in token for token in self.special_tokens + self.added_tokens)

    def specials(self) -> SpecialTokens:
        """Return a search for all tokens; the ids of those before which text may be cut come first."""
        return SpecialTokens([*self.special_tokens, *self.added_tokens])

    def separates(self, match: tuple[int, int, int] | None) -> bool:
        """Whether what `specials` found is a token before which text may be cut."""
        return match is not None and match[2] < len(self.special_tokens)

    @property
    def cuts_anywhere(self) -> bool:
        """Whether nearly every text has a safe position, wherever one starts to search for it."""
        if self.nowhere or self.whole_documents or self.automaton is None:
            return False
        return self.automaton.find_provable_cut(_PROBE, 4, len(_PROBE) - 4) is not None


def cutting_of(
    special_tokens: Sequence[bytes],
    rules: Mapping[str, TokenRule],
    pattern: CompiledPattern,
    *,
    judge: DocumentJudge,
    ending: int,
    **reading: Any,
) -> Cutting:
    """Return where text is cut: rules are those of its added tokens, of which these special ones separate documents.

    ending: how many of the first end documents that are left out or cut.
    """
    whole_documents = judge.needs_whole_documents
    if whole_documents:
        rules = {**{text.decode(): PLAIN_RULE for text in special_tokens[ending:]}, **rules}
        special_tokens = special_tokens[:ending]
    special = dict.fromkeys(special_tokens)
    separating = dict.fromkeys(token for token in special if rules.get(token.decode(), PLAIN_RULE).special)
    texts = special | dict.fromkeys(text.encode() for text in rules)
    others = tuple(token for token in texts if token not in separating)
    return Cutting(
        tuple(separating), pattern.automaton, whole_documents, form=pattern.form, added_tokens=others, **reading
    )


def context_bytes(specials: SpecialTokens) -> int:
    """Return how far around a position must be looked to know whether it is safe."""
    return max(specials.longest, _SEEN_BYTES)


@dataclass(frozen=True)
class SearchedText:
    """An open file, read by position, so that threads can share it, and the special tokens in it."""

    read_at: Callable[[int, int], bytes]
    size: int
    read_bytes: int
    specials: SpecialTokens

    def first(self, start: int, stop: int, find: Callable[[bytes, int, int], int | None], width: int = 0) -> int | None:
        """Return the first position in [start, stop) that is not in a special token that starts before it, or None.

        find: returns the next position in a range of a block. width: bytes after the position that may not be in one.
        """
        around = context_bytes(self.specials)
        for block in range(start, stop, self.read_bytes):
            begin, end = max(block - around, 0), min(block + self.read_bytes, stop)
            data = self.read_at(begin, min(end + around, self.size) - begin)
            low, high = block - begin, end - begin
            while low < high and (cut := find(data, low, high)) is not None:
                tokens = (self.specials.match_at(data, at) for at in range(max(cut + width - around, 0), cut))
                if not any(token is not None and token[1] >= cut + width for token in tokens):  # the longest ones
                    return begin + cut
                low = cut + 1
        return None


def find_line_end(data: bytes, low: int, high: int) -> int | None:
    """Return the first line feed in a range, or None."""
    at = data.find(b"\n", low, high)
    return None if at < 0 else at


def text_cut(cutting: Cutting, text: SearchedText, reach: int, wanted: int) -> int | None:
    """Return the safe cut nearest behind a wanted one, or None."""
    if cutting.nowhere:
        return None
    stop = min(wanted + reach, text.size)
    if cutting.separator:
        cut = text.first(wanted, stop, partial(find_separator, text.specials, cutting.separator), 1)
        return None if cut is None else cut + len(cutting.separator)
    cut = text.first(wanted, stop, partial(_find_token, cutting, text.specials), 1) if text.specials.longest else None
    if cut is None and cutting.automaton is not None and not cutting.whole_documents:
        # Right after a token a document starts, but a span that does not start with a token continues one.
        cut = text.first(wanted, stop, partial(find_provable, cutting.automaton, cutting.form))
    return cut


def find_provable(automaton: Automaton, form: NormalForm | None, data: bytes, low: int, high: int) -> int | None:
    """Return the first position in a range where a pre-token ends, whatever is around the characters there, or None."""
    while (cut := automaton.find_provable_cut(data, low, high)) is not None and not (
        form is None or form.can_cut(data, cut)
    ):
        low = cut + 1
    return cut


def _find_token(cutting: Cutting, specials: SpecialTokens, data: bytes, low: int, high: int) -> int | None:
    while (match := specials.find(data, low)) is not None and match[0] < high:
        if cutting.separates(match):
            return match[0]
        low = match[1]
    return None


def find_separator(specials: SpecialTokens, separator: bytes, data: bytes, low: int, high: int) -> int | None:
    """Return the first position in a range where this special token is and no longer one, or None."""
    while (at := data.find(separator, low)) >= 0 and at < high:
        if (match := specials.match_at(data, at)) is not None and match[1] == at + len(separator):
            return at
        low = at + 1
    return None
