"""GPT-2 style files: vocab.json (token text -> id) and merges.txt (one merge a line).

Their readers bring GPT-2's pattern with them, so files of any other pattern are refused. Special tokens stand in
vocab.json with the others; a reader learns from its caller which they are.
"""

from pipeline.base.errors import ExportRefusedError
from pipeline.storage import Location
from pipeline.storage.atomic import make_directory, write_whole
from pipeline.tokenizer.formats.byte_alphabet import (
    listed_ids,
    listed_pairs,
    quoted,
    refuse_preparation,
    vocabulary_texts,
)
from pipeline.tokenizer.model import Model

MERGES_HEADER = "#version: 0.2"


def export_gpt2(model: Model, directory: Location) -> list[Location]:
    """Write vocab.json and merges.txt; ExportRefusedError where their readers would give other ids."""
    if model.pattern.name != "gpt2":
        raise ExportRefusedError(
            f"GPT-2 style files are not written for the pattern {model.pattern.name or model.pattern.expression!r}: "
            "whoever reads them cuts text with GPT-2's own. Use the hf export, or train with the pattern gpt2"
        )
    refuse_preparation(model, "GPT-2 style files")
    if model.whole_pieces:
        raise ExportRefusedError(
            "GPT-2 style files cannot say that whole pieces are looked up before merging, as this tokenizer needs. "
            "Use the hf export"
        )
    vocabulary = model.vocabulary
    texts = vocabulary_texts(vocabulary, "GPT-2 style files")
    merges = listed_pairs(texts, vocabulary.left, vocabulary.right, between=" ", after="\n")
    if "\n#version" in f"\n{merges}":
        raise ExportRefusedError("a merge of a token that begins with '#version' looks like the header of merges.txt")
    ids = listed_ids(quoted(texts), between=":", after=",")
    make_directory(directory)
    vocab_path, merges_path = directory / "vocab.json", directory / "merges.txt"
    write_whole(vocab_path, f"{{{ids}}}")
    write_whole(merges_path, "\n".join([MERGES_HEADER, *([merges] if merges else []), ""]))
    return [vocab_path, merges_path]
