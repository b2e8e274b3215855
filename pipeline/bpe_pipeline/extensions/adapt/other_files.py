"""What else is in the directory of a base, such as README.md: it is copied, unless it may name ids that moved."""

from collections.abc import Container

from bpe_pipeline.run.manifest import run_of
from bpe_pipeline.storage import Location, existing, names_in
from bpe_pipeline.storage.atomic import write_whole
from bpe_pipeline.tokenizer.formats.export_formats import FILE_NAMES
from bpe_pipeline.tokenizer.formats.fields import read_bytes
from bpe_pipeline.tokenizer.formats.files import PATTERNS, named_as
from bpe_pipeline.tokenizer.formats.settings_files import GENERATION_NAME

_COPIED = ("README*", "LICENSE*", "NOTICE*", "*.md", "*.json")
_OF_TOKENIZERS = (*FILE_NAMES, *PATTERNS, "added_tokens.json", "made-from.json", ".*")
_OF_MODELS = ("config.json", "*.index.json")  # which describe weights, whose number changes


def copy_other_files(
    base: Location, directory: Location, before: Container[str], *, moves_ids: bool
) -> tuple[list[str], str]:
    """Copy the files of a base directory that no format reads or makes; return their names, and what is left out.

    before: names that an earlier change wrote into the directory; a file that is someone else's is not replaced.
    """
    names, left_out, copied = _other_files(base), list[str](), list[str]()
    there = existing([directory / name for name in names])
    for name, exists in zip(names, there, strict=True):
        if moves_ids or named_as(name, _OF_MODELS) or (exists and name not in before):
            left_out.append(name)
        else:
            write_whole(directory / name, read_bytes(base / name))
            copied.append(name)
    if moves_ids and base.is_dir() and run_of(base) is None and (base / GENERATION_NAME).exists():
        left_out.append(GENERATION_NAME)
    if not left_out:
        return copied, ""
    why = "ids have moved: change those that they name by id-map.parquet, and copy them"
    if not moves_ids:
        why = "they are of the model, whose vocab_size and rows must fit the new tokens, or were there already"
    return copied, f"not copied from {base}: {', '.join(left_out)}; {why}"


def _other_files(base: Location) -> list[str]:
    """List them; none of a file alone, whose neighbours may be anything, or of a run's tokenizer, which has none."""
    if not base.is_dir() or run_of(base) is not None:
        return []
    names = [name for name in names_in(base) if named_as(name, _COPIED) and not named_as(name, _OF_TOKENIZERS)]
    return [name for name in names if (base / name).is_file()]
