"""token-bytes.npy: how many bytes of text each id stands for, by which a loss for a token becomes bits for a byte.

The number is 0 for special tokens, which stand for no text, and for ids without a token.
"""

import sys
from array import array

from bpe_pipeline.storage import Location
from bpe_pipeline.storage.npy import npy_header
from bpe_pipeline.tokenizer.formats.fields import write_files
from bpe_pipeline.tokenizer.model import Model

NAME = "token-bytes.npy"


def export(model: Model, directory: Location) -> list[Location]:
    """Write an array of uint32, a number an id."""
    sizes = array("I", bytes(4 * (model.vocabulary.max_id + 1)))
    for id_, token in model.vocabulary.tokens.items():
        sizes[id_] = len(token)
    for text, id_ in model.vocabulary.special_tokens.items():
        sizes[id_] = 0 if model.preparation.rule_of(text).special else len(text.encode())
    if sys.byteorder == "big":
        sizes.byteswap()
    return write_files(directory, {NAME: npy_header(4, len(sizes)) + sizes.tobytes()})
