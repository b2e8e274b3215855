"""The story of `diff`: load two tokenizers, compare what their files say and how they cut texts, and print it."""

import json
from collections.abc import Iterable, Sequence

from pipeline.commands.encode_text import load_tokenizer
from pipeline.corpus.files import find_files
from pipeline.corpus.sampling import choose, read_chosen
from pipeline.guests.inspect import differences
from pipeline.guests.inspect.difference import cut_differently, difference, to_json
from pipeline.reports import progress
from pipeline.reports.measure import source_names
from pipeline.reports.numbers_worker import SENTENCES
from pipeline.storage import Location

_SAMPLE_BYTES = 1 << 22
SAME, OTHER, FAILED = 0, 1, 3  # exit codes, for CI


def diff_command(
    first: Location,
    second: Location,
    paths: Sequence[Location],
    texts: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    as_json: bool,
) -> int:
    """Print how two tokenizers differ; returns the exit code: 0 equal, 1 different.

    An exception that leaves it has the exit code 3, whatever it is.
    """
    try:
        one, other = map(load_tokenizer, (first, second))
        found = difference(one.model, other.model)
        sources, cuts = cut_differently(one, other, _texts(paths, texts, exclude))
        if as_json:
            progress.write(json.dumps(to_json(found, sources, cuts), ensure_ascii=False))
        else:
            progress.write(differences.render((str(first), str(second)), (one, other), found, sources, cuts))
        return OTHER if found.anything else SAME
    except Exception as error:
        error.exit_code = FAILED  # type: ignore[attr-defined]
        raise


def _texts(paths: Sequence[Location], texts: Sequence[str], exclude: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield (source, text): those of the command line, samples of files, or without any the built-in sentences."""
    yield from (("--text", text) for text in texts)
    files = find_files(map(str, paths), exclude=exclude).files if paths else []
    names = source_names([file.path for file in files])
    for drawn in read_chosen(choose(files, _SAMPLE_BYTES), "text", skip_changed=False):
        yield names[drawn.path], drawn.text
    if not paths and not texts:
        yield from SENTENCES.items()
