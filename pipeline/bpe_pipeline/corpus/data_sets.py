"""Directories that other tools write: which of their files hold data, and which say something about them.

Spark marks a directory with files such as `_SUCCESS`. `datasets` saves a data set as Arrow files with `state.json`,
which lists them, and `dataset_info.json`, a set of them with `dataset_dict.json`; its caches are next to them.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.storage import named, read_json

_MARKS = re.compile(r"_(SUCCESS|metadata|common_metadata|(committed|started)_\w+)|\._.*")
_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
_CACHE = "cache-"
_MOST_SHOWN = 3


def data_files(paths: Sequence[str]) -> tuple[set[str], list[str]]:
    """Return those of the paths that hold no data, and what to say about that; none of a single path.

    Raises `InputError` for a saved data set that lacks one of its files.
    """
    if len(paths) == 1:
        return set(), []
    below: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for path in paths:
        directory, _, name = path.partition("?")[0].rpartition("/")
        below[directory][name] = path
    left_out, notes = set[str](), list[str]()
    marks = [path for files in below.values() for name, path in files.items() if _MARKS.fullmatch(name)]
    left_out.update(marks)
    for directory, files in below.items():
        if _SPLITS in files:
            splits = [other for other in below if other.startswith(f"{directory}/") and _STATE in below[other]]
            if splits:
                left_out.add(files[_SPLITS])
                names = ", ".join(split.rpartition("/")[2] for split in sorted(splits))
                notes.append(
                    f"{directory} is a set of data sets, all of which are read: {names}; name one for it alone"
                )
        if any(name.endswith(".arrow") for name in files):
            left_out |= _around_arrow(directory, files)
    if marks:
        shown = ", ".join(marks[:_MOST_SHOWN]) + (", ..." if len(marks) > _MOST_SHOWN else "")
        notes.append(f"left out, as files without data that Spark or a file system writes: {shown}")
    return left_out, notes


def _around_arrow(directory: str, files: dict[str, str]) -> set[str]:
    """Return the files of a directory of Arrow files that are no data of it."""
    caches = {path for name, path in files.items() if name.startswith(_CACHE)}
    around = {path for name, path in files.items() if name in (_INFO, _STATE)} | caches
    if _STATE not in files:
        others = sum(name.endswith(".arrow") for name in files) > len(caches) > 0
        is_saved = _INFO in files or (others and named(min(caches)).with_name(_STATE).exists())
        return around if is_saved else set()
    try:
        state: Any = read_json(home := named(files[_STATE]))
        listed = {entry["filename"] for entry in state["_data_files"]}
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{files[_STATE]} does not list the files of a data set ({type(error).__name__}): save it again, or name "
            "the .arrow files"
        ) from None
    if state.get("_indices_data_files"):
        raise InputError(
            f"{directory} is a selection of the rows of its .arrow files, which its indices name: save the data set "
            "again with flatten_indices(), or name the .arrow files for all of their rows"
        )
    if lost := [name for name in sorted(listed - files.keys()) if not home.with_name(name).exists()]:
        raise InputError(
            f"{directory} lacks {', '.join(lost[:_MOST_SHOWN])}, which {_STATE} lists: save the data set again"
        )
    return around | {path for name, path in files.items() if name.endswith(".arrow") and name not in listed}
