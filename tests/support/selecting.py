"""The obviously right way to leave out and cut documents: split, hash each, decode it and slice."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bpe_pipeline import _core
from bpe_pipeline.corpus.documents import DocumentJudge

_WORD = (1 << 64) - 1


def takes(document: bytes, judge: DocumentJudge) -> bool:
    """Whether a document is in the sample: its hash, mixed with the seed, is in the first share of all hashes."""
    if judge.sample is None:
        return True
    product = (_core.hash64(document) ^ 0xD1B54A32D192ED03) * (judge.seed ^ 0x8CB92BA72F3D8DD7)
    product = ((product & _WORD) ^ 0x9E6C63D0876A9A47) * (product >> 64 ^ 0xD1B54A32D192ED03)
    return (product ^ product >> 64) & _WORD < judge.sample * 2**64


@dataclass
class Selected:
    """What is taken of texts: documents, each with the separator behind it, if there is one; and what is not taken."""

    documents: list[tuple[bytes, bytes]] = field(default_factory=list)
    left_out: list[bytes] = field(default_factory=list)
    rests: list[bytes] = field(default_factory=list)

    @property
    def text(self) -> bytes:
        return b"".join(map(b"".join, self.documents))

    def not_taken(self) -> dict[str, int]:
        amounts = {"left_out": [text for text in self.left_out if text], "cut": self.rests}
        return {
            f"{name}_{unit}": amount
            for name, texts in amounts.items()
            for unit, amount in (
                ("documents", len(texts)),
                ("bytes", sum(map(len, texts))),
                ("characters", sum(not 0x80 <= byte < 0xC0 for text in texts for byte in text)),
            )
        }


def _cut(document: bytes, most: int | None, others: Sequence[bytes]) -> int:
    """Return where a document is cut: behind `most` characters, or before a token that this would cut."""
    if most is None or len(document.decode(errors="replace")) <= most:
        return len(document)
    whole = document.decode(errors="replace")
    starts = range(len(document)) if "\ufffd" in whole else [len(whole[:most].encode())]
    at = next(
        at
        for at in starts
        if (document[:at].decode(errors="replace"), document[at:].decode(errors="replace"))
        == (whole[:most], whole[most:])
    )
    tokens = re.finditer(b"|".join(map(re.escape, others)), document) if others else ()
    return next((token.start() for token in tokens if token.start() < at < token.end()), at)


def selected(
    texts: Iterable[bytes], judge: DocumentJudge, separators: Sequence[bytes], others: Sequence[bytes] = ()
) -> Selected:
    """Select from files or records. others: tokens that are cut out of documents."""
    taken = Selected()
    for text in texts:
        parts = re.split(b"(%s)" % b"|".join(map(re.escape, separators)), text) if separators else [text]
        for document, separator in zip(parts[::2], [*parts[1::2], b""], strict=True):
            if not takes(document, judge):
                taken.left_out.append(document)
                continue
            at = _cut(document, judge.max_document_chars, others)
            taken.documents.append((document[:at], separator))
            taken.rests += [document[at:]] if at < len(document) else []
    return taken
