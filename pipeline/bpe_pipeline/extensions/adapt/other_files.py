"""What else is in the directory of a base, such as README.md: it is copied, unless it may name ids that moved."""

from collections.abc import Container
from fnmatch import fnmatchcase

from bpe_pipeline.run.manifest import run_of
from bpe_pipeline.storage import Location, existing, names_in, read_bounded
from bpe_pipeline.storage.atomic import write_whole
from bpe_pipeline.tokenizer.formats.export_formats import FILE_NAMES
from bpe_pipeline.tokenizer.formats.files import PATTERNS
from bpe_pipeline.tokenizer.formats.settings_files import GENERATION_NAME, TEMPLATE_NAME

_OF_MODEL = "config.json"  # its vocab_size is that of the base
_OURS = ("made-from.json", "new-tokens.parquet", "id-map.parquet", "removed.parquet")
_OF_TOKENIZERS = (*FILE_NAMES, *PATTERNS, TEMPLATE_NAME, "added_tokens.json", *_OURS, ".*")
_MOST_BYTES = 1 << 20  # of a file that is copied: weights are larger


def copy_other_files(
    base: Location, directory: Location, before: Container[str], *, moves_ids: bool
) -> tuple[list[str], str]:
    """Copy the files of a base directory that no format reads or makes; return their names, and what is left out.

    before: names that an earlier change wrote into the directory; a file that is someone else's is not replaced.
    """
    names, left_out, copied = _other_files(base), list[str](), list[str]()
    there = existing([directory / name for name in names])
    for name, exists in zip(names, there, strict=True):
        if moves_ids or name == _OF_MODEL or (exists and name not in before):
            left_out.append(name)
            continue
        try:
            data = read_bounded(base / name, _MOST_BYTES)
        except (OSError, ValueError):
            left_out.append(name)
            continue
        write_whole(directory / name, data)
        copied.append(name)
    if moves_ids and base.is_dir() and run_of(base) is None and (base / GENERATION_NAME).exists():
        left_out.append(GENERATION_NAME)
    if not left_out:
        return copied, ""
    why = "ids have moved: change those that they name by id-map.parquet, and copy them"
    if not moves_ids:
        why = "they are of the model, or there already: vocab_size and rows of the model must fit the new tokens"
    return copied, f"not copied from {base}: {', '.join(left_out)}; {why}"


def _other_files(base: Location) -> list[str]:
    """List them; none of a file alone, whose neighbours may be anything, or of a run's tokenizer, which has none."""
    if not base.is_dir() or run_of(base) is not None:
        return []
    names = [name for name in names_in(base) if not any(fnmatchcase(name, one) for one in _OF_TOKENIZERS)]
    return [name for name in names if (base / name).is_file()]
