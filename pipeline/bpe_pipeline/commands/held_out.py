"""Text and tokenizers that a person names for measuring, as PATH or NAME=PATH: of `report`."""

import re
from collections.abc import Sequence
from pathlib import Path

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.commands.report import SAMPLE_BYTES
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.listing import find_sample
from bpe_pipeline.corpus.sampling import Choice, Chosen, choose
from bpe_pipeline.storage import Location, location

_OPTION = "--held-out"
_LANGUAGES_BYTES = 1 << 26  # of files that are read whole: 205 languages with 1,000 sentences have 40 MiB


def choice_of(paths: Sequence[Location]) -> tuple[Choice, tuple[CorpusFile, ...]]:
    """Choose a sample of files, or all of them if each has a name: they are languages then. Return all files, too."""
    names, locations = split_names(paths)
    named = [(name, path) for name, path in zip(names, locations, strict=True) if name]
    by_path = {file.path: name for name, path in named for file in find_sample([str(path)], _OPTION)}
    languages = tuple(dict.fromkeys(names)) if all(names) and len(set(names)) > 1 else ()
    files = find_sample(map(str, locations), _OPTION)
    chosen = _whole(files) if languages else choose(files, SAMPLE_BYTES)
    return Choice(chosen, by_path, languages), tuple(files)


def split_names(paths: Sequence[Location]) -> tuple[list[str], list[Location]]:
    """Split each NAME=PATH that is not itself a path; the name of another one is empty."""
    names, locations = list[str](), list[Location]()
    for path in paths:
        name, _, rest = str(path).partition("=")
        is_named = bool(name and rest) and "/" not in name and not (isinstance(path, Path) and path.exists())
        names.append(name if is_named else "")
        locations.append(location(re.sub(r"^([a-z]\w+):/(?!/)", r"\1://", rest)) if is_named else path)
    return names, locations


def _whole(files: Sequence[CorpusFile]) -> list[Chosen]:
    """Choose all of the files of languages; raises `UsageError` for more than a report reads."""
    if (total := sum(file.size for file in files)) > _LANGUAGES_BYTES:
        most = f"a report reads at most {format_bytes(_LANGUAGES_BYTES)}: give the same lines of each"
        raise UsageError(f"the files of {_OPTION} NAME=PATH have {format_bytes(total)}, and {most}")
    return [Chosen(file, _LANGUAGES_BYTES, (0,)) for file in files]


def short_names(paths: Sequence[Location]) -> list[str]:
    """Name tokenizers by the last component of their paths if these differ, else by the whole paths."""
    short = [path.parent.name if path.name in ("tokenizer", "tokenizer.json") else path.name for path in paths]
    return short if all(short) and len(set(short)) == len(short) else list(map(str, paths))
