"""Inputs given as URIs name what the same inputs name locally."""

import contextlib
import glob
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.listing import find_files

pytest.importorskip("fsspec")

_NAMES = st.sampled_from(["a", "b", "a.txt", "b.txt", ".hidden", "run.json"])
_PARTS = st.sampled_from(["*", "**", "a", "b", "*.txt", "[ab]*", ".*", "a.txt", "run.json"])


def _write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("text")


def _listed(inputs: str, prefix: str = "") -> list[str] | None:
    try:
        return [file.path.removeprefix(prefix) for file in find_files([inputs]).files]
    except InputError:
        return None


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(_NAMES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=8),
    st.lists(_PARTS, max_size=4).map("/".join),
)
def test_uris_match_the_same_files_as_paths(tmp_path_factory, files: list[str], pattern: str) -> None:
    root = tmp_path_factory.mktemp("tree")
    for name in files:
        with contextlib.suppress(OSError):  # it is a file already, or a directory
            _write(root, name)
    if pattern.endswith("/**"):  # Python's glob finds the file `a` for `a/**`, too
        pattern += "/*"
    local = _listed(f"{root}/{pattern}")
    assert _listed(f"fsspec+file://{root}/{pattern}", "fsspec+file://") == local
    event("something" if local else "nothing")
    matches = [Path(match) for match in glob.glob(f"{root}/{pattern}", recursive=True)]  # noqa: PTH207 - the oracle
    matches = [match for match in matches if match.is_file()]
    first = next((at for at, part in enumerate(pattern.split("/")) if glob.has_magic(part)), 0)
    if "**" in pattern:  # nothing in a run directory from the first wildcard on
        above = {match: match.relative_to(root).parents[: -first - 1] for match in matches}
        runs = {match for match in matches if any((root / one / "run.json").is_file() for one in above[match])}
        assert [str(match) for match in sorted({*matches} - runs, key=str)] == (local or [])
    elif glob.has_magic(pattern):
        assert {str(match) for match in matches} <= set(local or [])


@pytest.mark.parametrize(
    ("inputs", "exclude", "found"),
    [
        (["a/**"], [], ["a/1.txt", "a/b.txt", "a/b/2.txt", "a/b/b"]),  # everything below a prefix
        (["**/b/*"], [], ["a/b/2.txt", "a/b/b"]),
        (["a/**/b/b/*", "c.txt"], [], None),  # objects have no children
        (["c.txt/**"], [], None),
        (["a", "{c,d}.txt"], ["b", "ROOT/c*"], ["a/1.txt", "a/b.txt", "d.txt"]),
        (["a", "{c,d}.txt"], ["b/**", "c.txt"], ["a/1.txt", "a/b.txt", "d.txt"]),
    ],
)
def test_globs_braces_and_exclude_work_for_uris(inputs, exclude, found, tmp_path: Path) -> None:
    _write(tmp_path, "a/1.txt", "a/b.txt", "a/b/2.txt", "a/b/b", "a/.b/3.txt", "c.txt", "d.txt")
    root = f"fsspec+file://{tmp_path}"
    exclude = [name.replace("ROOT", root) for name in exclude]
    with contextlib.nullcontext() if found else pytest.raises(InputError):
        listing = find_files([f"{root}/{name}" for name in inputs], exclude=exclude)
        assert [file.path.removeprefix(f"{root}/") for file in listing.files] == found


def test_uris_of_files_are_paths_and_objects_are_described_like_files(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_bytes(bytes(range(256)) * 4000)
    [local] = find_files([f"file://{tmp_path}/a%20b.txt", tmp_path / "a b.txt", f"file://{tmp_path}/*.txt"]).files
    [ours] = find_files([f"fsspec+file://{tmp_path}/a b.txt"]).files
    assert local.path == str(tmp_path / "a b.txt")
    assert (ours.size, ours.digest) == (local.size, local.digest)


def test_data_sets_marks_and_archives_in_a_store_are_read_as_on_a_disk(tmp_path: Path) -> None:
    table = pa.table({"text": ["the map", "of the house"] * 50})
    (tmp_path / "saved").mkdir()
    for name in ("data-00000-of-00001.arrow", "cache-1.arrow"):
        with pa.ipc.new_stream(tmp_path / "saved" / name, table.schema) as sink:
            sink.write_table(table, max_chunksize=7)
    (tmp_path / "saved/state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')
    (tmp_path / "saved/dataset_info.json").write_text("{}")
    (tmp_path / "saved/_SUCCESS").touch()
    for root in (str(tmp_path), f"fsspec+file://{tmp_path}"):
        [file] = find_files([f"{root}/saved"]).files
        assert file.path == f"{root}/saved/data-00000-of-00001.arrow"
    options = {"vocab_size": 262, "chunk_size": 500}
    local, remote = (
        bpe_pipeline.train(f"{root}/saved", output=tmp_path / name, **options).merges
        for name, root in (("local", tmp_path), ("remote", f"fsspec+file://{tmp_path}"))
    )
    assert local == remote != []
    (tmp_path / "saved/b.txt").write_bytes("the map".encode("utf-16"))
    with pytest.raises(InputError, match=r"b\.txt is text in UTF-16"):
        find_files([f"fsspec+file://{tmp_path}/saved"])
