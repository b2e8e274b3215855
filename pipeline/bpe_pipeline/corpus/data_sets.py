"""Directories that other tools write: which of their files hold data, and which say something about them.

Spark marks a directory with files such as `_SUCCESS`. A repository of the hub has a card and a licence, its cache
`refs/` and `blobs/`. A Delta table is refused, since its files hold rows that its log has removed. `datasets` saves a
data set as Arrow files with `state.json`, which lists them, and `dataset_info.json`, a set of them with
`dataset_dict.json`; its caches are next to them.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.files import opened, suffixes_of
from bpe_pipeline.corpus.formats import format_named
from bpe_pipeline.storage import named, read_json

_MARKS = re.compile(r"_(SUCCESS|metadata|common_metadata|(committed|started)_\w+)|\._.*")
_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
_CACHE = "cache-"
_MOST_SHOWN = 3
_DELTA_LOG = "_delta_log"
_PARQUET = re.compile(r"\.parquet$")
_ABOUT = re.compile(r"(?:README|LICEN[CS]E)(?:[.-]\w+)*|dataset_infos\.json", re.IGNORECASE)
_CARD, _CARD_BEGINS = "README.md", b"---\n"  # with the front matter in which the hub looks for metadata
_SNAPSHOT = re.compile(r"/snapshots/[0-9a-f]{40}/")
_IN_CACHE = re.compile(r"/(?:refs|blobs)/")


def data_files(paths: Sequence[str], searched: Collection[str] = ()) -> tuple[set[str], list[str]]:
    """Return those of the paths that hold no data, and what to say about that; none of a single path.

    searched: those that a directory or a glob stands for, among which cards and licences are left out.
    Raises `InputError` for a saved data set that lacks one of its files, and for a Delta table.
    """
    if len(paths) == 1:
        return set(), []
    _refuse_delta_tables(searched)
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
    about = _about_data(searched)
    left_out.update(about)
    for what, named_files in (
        ("without data that Spark or a file system writes", marks),
        ("about a repository of data", about),
    ):
        if named_files:
            shown = ", ".join(named_files[:_MOST_SHOWN]) + (", ..." if len(named_files) > _MOST_SHOWN else "")
            notes.append(f"left out, as files {what}: {shown}")
    return left_out, notes


def _refuse_delta_tables(searched: Collection[str]) -> None:
    """Raise `InputError` if paths that were found by searching are those of a Delta table."""
    directories = {_without_query(path).rpartition("/")[0]: path for path in searched if _may_be_delta(path)}
    for directory, path in directories.items():
        where = named(path).parent
        while "=" in where.name:  # of a partition
            where = where.parent
        table, log, _ = f"{directory}/".partition(f"/{_DELTA_LOG}/")
        if log or (where / _DELTA_LOG).is_dir():
            shown = table if log else _without_query(str(where))
            raise InputError(
                f"{shown} is a Delta table, whose files hold rows that its log ({_DELTA_LOG}/) has removed: write its "
                f'rows as Parquet (deltalake.DeltaTable("{shown}").to_pyarrow_dataset() in Python), and name that'
            )


def _about_data(searched: Collection[str]) -> list[str]:
    """Return those of the paths that are about data: cards and licences next to records, or in a directory above.

    Next to a card with metadata, every file is data. Of a cache of the hub only the snapshots are.
    """
    names = {path: _without_query(path) for path in searched}
    with_data = {above for name in names.values() if _is_of_records(name) for above in _directories(name)}
    for path, name in names.items():
        directory, _, last = name.rpartition("/")
        if last == _CARD and directory not in with_data and _is_card(path):
            with_data.add(directory)
    caches = {name[: found.start()] for name in names.values() if (found := _SNAPSHOT.search(name))}
    return [path for path, name in names.items() if _is_about(name, with_data, caches)]


def _is_of_records(name: str) -> bool:
    """Return whether a file is named as one of records; a .json may also be a configuration."""
    suffix, _ = suffixes_of(name)
    return suffix != ".json" and format_named(suffix) is not None


def _is_about(name: str, with_data: Collection[str], caches: Collection[str]) -> bool:
    directory, _, last = name.rpartition("/")
    in_cache = _IN_CACHE.search(name)
    return bool(_ABOUT.fullmatch(last) and directory in with_data) or bool(
        in_cache and name[: in_cache.start()] in caches
    )


def _is_card(path: str) -> bool:
    with opened(path) as file:
        return file.read_at(0, len(_CARD_BEGINS)) == _CARD_BEGINS


def _may_be_delta(path: str) -> bool:
    name = _without_query(path)
    return f"/{_DELTA_LOG}/" in name or _PARQUET.search(name) is not None


def _without_query(path: str) -> str:
    return path.partition("?")[0]


def _directories(name: str) -> Iterator[str]:
    """Yield the directories above a file, the nearest first."""
    while name := name.rpartition("/")[0]:
        yield name


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
