"""The names of tokens in files that write them in the byte alphabet and special tokens as they are.

Vocabularies have up to millions of tokens: each step here and in the exports is one call over all of them.
"""

import json
from collections.abc import Iterable, Mapping

from pipeline.base.errors import ExportRefusedError
from pipeline.merges.vocabulary import Vocabulary
from pipeline.tokenizer.model import Model


def vocabulary_texts(vocabulary: Vocabulary, format_name: str) -> dict[int, str]:
    """Return id -> text of every token, in order of ids.

    Raises ExportRefusedError where a special token's text is also an ordinary token's in the byte alphabet: the file
    could not tell the two apart.
    """
    texts = vocabulary.texts.copy()
    ordinary = set(texts.values())
    for text, id_ in vocabulary.special_tokens.items():
        if text in ordinary:
            raise ExportRefusedError(
                f"{format_name} cannot hold the special token {text!r}: an ordinary token has the same name there "
                "(bytes are written as printable characters). Choose a longer special token such as '<|endoftext|>'"
            )
        texts[id_] = text
    return dict(sorted(texts.items()))


def refuse_preparation(model: Model, format_name: str) -> None:
    """Raise ExportRefusedError where text is prepared before it is cut: only tokenizer.json can say how."""
    if model.preparation.changes_ids:
        raise ExportRefusedError(
            f"{format_name} cannot say how text is prepared before it is cut (NFC, a space in front, or special tokens "
            "with rules), as this tokenizer needs. Use the hf export"
        )


def quoted(texts: Mapping[int, str]) -> dict[int, str]:
    """The same texts as JSON writes them."""
    # One call quotes all texts, a line each: no quoted text contains a line end.
    lines = json.dumps(list(texts.values()), ensure_ascii=False, separators=("\n", ":"))[1:-1].split("\n")
    return dict(zip(texts, lines, strict=True))


def listed_pairs(
    names: Mapping[int, str], left: Iterable[int], right: Iterable[int], *, between: str, after: str
) -> str:
    """The names of both sides of each merge in one text, `between` them and `after` each but the last."""
    pairs = zip(map(names.__getitem__, left), map(names.__getitem__, right), strict=True)
    return after.join(map(between.join, pairs))


def listed_ids(names: Mapping[int, str], *, between: str, after: str) -> str:
    """Each name with its id, `between` them and `after` each but the last."""
    return after.join(map(between.join, zip(names.values(), map(str, names), strict=True)))
