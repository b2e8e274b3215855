"""GPT-2 style files, written: vocab.json (token text -> id) and merges.txt (one `left right` a line).

Neither says which tokens are special, or how text is cut: they are written for GPT-2's pattern alone.
"""

from collections.abc import Iterator

from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats import byte_alphabet
from bpe_pipeline.tokenizer.formats.fields import refuse_export, write_files
from bpe_pipeline.tokenizer.model import Model

HEADER = "#version"  # how the first line of merges.txt begins


def export(model: Model, directory: Location) -> list[Location]:
    """Write vocab.json and merges.txt; ExportRefusedError where their readers would produce other ids."""
    refuse_export(_reasons_against(model))
    vocabulary = model.vocabulary
    texts = byte_alphabet.vocabulary_texts(vocabulary, "GPT-2 style files")
    pairs = byte_alphabet.joined(
        map(texts.__getitem__, vocabulary.left), map(texts.__getitem__, vocabulary.right), between=" ", after="\n"
    )
    if f"\n{HEADER}" in f"\n{pairs}":
        refuse_export([f"a merge of a token that begins with '{HEADER}' looks like the header of merges.txt"])
    ids = byte_alphabet.joined(byte_alphabet.quoted(texts).values(), map(str, texts), between=":", after=",")
    merges = "\n".join([f"{HEADER}: 0.2", *([pairs] if pairs else []), ""])
    return write_files(directory, {"vocab.json": f"{{{ids}}}", "merges.txt": merges})


def _reasons_against(model: Model) -> Iterator[str]:
    """Yield what the files cannot say of this tokenizer."""
    if model.pattern.name != "gpt2":
        yield (
            f"GPT-2 style files are not written for the pattern {model.pattern.shown!r}: "
            "their readers split text with GPT-2's own. Use the hf export, or train with the pattern gpt2"
        )
    yield from byte_alphabet.unsaid(model, "GPT-2 style files")
    if model.whole_pre_tokens:
        yield (
            "GPT-2 style files cannot say that whole pre-tokens are looked up before merging, as this tokenizer needs. "
            "Use the hf export"
        )
    vocabulary = model.vocabulary
    if vocabulary.tokens.keys() & vocabulary.special_tokens.values():
        yield (
            "GPT-2 style files cannot say that a token is both ordinary and special, as this tokenizer needs. Use the "
            "hf export"
        )
