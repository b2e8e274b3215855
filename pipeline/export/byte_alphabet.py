"""The names of tokens in files that write them in the byte alphabet and special tokens as they are."""

from pipeline.errors import ExportRefusedError
from pipeline.vocabulary import Vocabulary


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
