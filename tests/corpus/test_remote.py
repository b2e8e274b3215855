"""Inputs given as URIs name what the same inputs name locally."""

import glob
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.base.errors import InputError
from pipeline.corpus.files import find_files

pytest.importorskip("fsspec")

_NAMES = st.sampled_from(["a", "b", "a.txt", "b.txt", ".hidden", "run.json"])
_PARTS = st.sampled_from(["*", "**", "a", "b", "*.txt", "[ab]*", ".*", "a.txt", "run.json"])


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
def test_uris_match_the_same_files_as_paths(
    tmp_path_factory: pytest.TempPathFactory, files: list[str], pattern: str
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for name in files:
        try:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("text")
        except OSError:
            continue  # it is a file already, or a directory
    if pattern.endswith("/**"):  # Python's glob finds the file `a` for `a/**`, too
        pattern += "/*"
    local = _listed(f"{root}/{pattern}")
    ours = _listed(f"fsspec+file://{root}/{pattern}", "fsspec+file://")
    event("something" if local else "nothing")
    assert ours == local
    matches = [Path(match) for match in glob.glob(f"{root}/{pattern}", recursive=True)]  # noqa: PTH207 - the oracle
    first = next((at for at, part in enumerate(pattern.split("/")) if glob.has_magic(part)), 0)
    if "**" in pattern:  # nothing in a run directory from the first wildcard on
        above = {match: match.relative_to(root).parents[: -first - 1] for match in matches}
        runs = {match for match in matches if any((root / one / "run.json").is_file() for one in above[match])}
        matches = [match for match in matches if match.is_file() and match not in runs]
        assert [str(match) for match in sorted(set(matches), key=str)] == (local or [])
    elif glob.has_magic(pattern):
        assert {str(match) for match in matches if match.is_file()} <= set(local or [])


def test_double_star_matches_everything_below_a_prefix(tmp_path: Path) -> None:
    for name in ("a/1.txt", "a/b/2.txt", "a/.b/3.txt", "c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    assert _listed(f"fsspec+file://{tmp_path}/a/**", f"fsspec+file://{tmp_path}/") == ["a/1.txt", "a/b/2.txt"]
    assert _listed(f"fsspec+file://{tmp_path}/c.txt/**") is None


def test_braces_and_exclude_work_for_uris(tmp_path: Path) -> None:
    for name in ("a/1.txt", "a/b/2.txt", "a/b.txt", "c.txt", "d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    root = f"fsspec+file://{tmp_path}"
    for exclude in (["b", f"{root}/c*"], ["b/**", "c.txt"]):
        found = find_files([f"{root}/a", f"{root}/{{c,d}}.txt"], exclude=exclude).files
        assert [file.path.removeprefix(f"{root}/") for file in found] == ["a/1.txt", "a/b.txt", "d.txt"]


def test_objects_have_no_children(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "b").write_text("text")
    assert _listed(f"fsspec+file://{tmp_path}/**/b/*", f"fsspec+file://{tmp_path}/") == ["b/b"]


def test_uris_of_files_are_paths(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("text")
    listing = find_files([f"file://{tmp_path}/a%20b.txt", tmp_path / "a b.txt", f"file://{tmp_path}/*.txt"])
    assert [file.path for file in listing.files] == [str(tmp_path / "a b.txt")]


def test_object_is_described_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_bytes(bytes(range(256)) * 4000)
    [local], [ours] = (find_files([f"{scheme}{tmp_path}/big.txt"]).files for scheme in ("", "fsspec+file://"))
    assert (ours.size, ours.digest) == (local.size, local.digest)


def test_run_in_any_store_that_arrow_writes(tmp_path: Path) -> None:
    """Any other scheme: here one whose files a test sees, too."""
    (tmp_path / "corpus").mkdir()
    for number in range(3):
        (tmp_path / f"corpus/{number}.txt").write_text(f"low lower lowest {number} " * 1000)
    there = f"fsspec+file://{tmp_path}"
    pipeline.train(f"{there}/corpus", output=f"{there}/run", vocab_size=270, chunk_size="8KiB")
    pipeline.train(tmp_path / "corpus", output=tmp_path / "local", vocab_size=270)
    for name in ("tokenizer.json", "vocab.json", "merges.txt", "tokenizer.tiktoken"):
        assert (tmp_path / "run/tokenizer" / name).read_bytes() == (tmp_path / "local/tokenizer" / name).read_bytes()
    assert not [path for path in tmp_path.rglob(".*") if path.name != ".lock"]
    pipeline.train(f"{there}/corpus", output=tmp_path / "run2", vocab_size=270)
    with pytest.raises(InputError, match="is a run directory"):
        find_files([f"{there}/run"])
