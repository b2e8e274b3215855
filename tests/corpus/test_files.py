"""What an input names: each file once, in a fixed order, and a clear line where there is nothing to read."""

import os
import sysconfig
from pathlib import Path

import pytest

from pipeline.base.errors import InputError
from pipeline.corpus.files import describe, find_files
from pipeline.corpus.inputs import sample_corpus


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md", ".hidden", ".git/config"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(*inputs, exclude=()):
    """The files found, relative to the working directory; every path is stored absolute."""
    found = [file.path for file in find_files(inputs, exclude=exclude).files]
    assert all(Path(path).is_absolute() for path in found)
    return [os.path.relpath(path) for path in found]


def test_directories_are_read_in_order_without_hidden_files(tree):
    expected = ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md"]
    assert [file.path for file in find_files([tree]).files] == [str(tree / name) for name in expected]
    assert names("sub", "a.txt") == ["sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md", "a.txt"]


@pytest.mark.usefixtures("tree")
def test_globs_match_files_and_directories():
    assert names("*.txt") == ["a.txt", "b.txt"]
    assert names("**/*.txt") == ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]
    assert names("s*") == ["sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md"]
    assert names("**") == names(".") or sorted(map(os.path.realpath, names("**"))) == sorted(
        map(os.path.realpath, names("."))
    )


@pytest.mark.parametrize(
    ("glob", "written"),
    [
        ("{a,b}.txt", ["a.txt", "b.txt"]),
        ("{b.txt,sub/{deep,c*}}", ["b.txt", "sub/deep/d.txt", "sub/deep/e.md", "sub/c.txt"]),
        ("**/*.{md,txt}", ["sub/deep/e.md", "a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]),
        ("sub/{c,}.txt", "no .*sub/.txt does not exist|sub/.txt does not exist"),
        ("{a,missing}.txt", "missing.txt does not exist"),
        ("{a,b}" * 11, "stand for more than 1,000 names"),
    ],
)
@pytest.mark.usefixtures("tree")
def test_braces_are_written_out(glob, written):
    if isinstance(written, list):
        assert names(glob) == written
        return
    with pytest.raises(InputError, match=written):
        names(glob)


@pytest.mark.usefixtures("tree")
def test_a_name_with_braces_is_a_file_first():
    Path("{a,b}.txt").write_text("x")
    assert names("{a,b}.txt") == ["{a,b}.txt"]


@pytest.mark.parametrize(
    ("inputs", "exclude", "left"),
    [
        (["."], ["*.txt"], ["sub/deep/e.md"]),
        (["."], ["deep"], ["a.txt", "b.txt", "sub/c.txt"]),
        (["."], ["deep/"], ["a.txt", "b.txt", "sub/c.txt"]),
        (["."], ["sub/*.txt"], ["a.txt", "b.txt", "sub/deep/d.txt", "sub/deep/e.md"]),
        (["."], ["sub/**/*.txt", "[a]*"], ["b.txt", "sub/deep/e.md"]),
        (["."], ["{a,b}.txt", "sub/deep"], ["sub/c.txt"]),
        (["."], ["./sub"], ["a.txt", "b.txt"]),
        (["sub"], ["sub"], ["sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md"]),  # what is named is no name below it
        (["sub"], ["deep/*.md"], ["sub/c.txt", "sub/deep/d.txt"]),
        (["sub"], ["sub/deep"], ["sub/c.txt"]),  # below the current directory
        (["sub/**/*.txt"], ["deep"], ["sub/c.txt"]),
        (["{a,b}.txt", "sub"], ["b.txt", "*.md"], ["a.txt", "sub/c.txt", "sub/deep/d.txt"]),
        (["a.txt", "b.txt"], ["a.txt"], ["b.txt"]),
    ],
)
@pytest.mark.usefixtures("tree")
def test_globs_exclude_files_and_directories(inputs, exclude, left):
    assert names(*inputs, exclude=exclude) == left
    assert set(find_files(inputs, exclude=[*exclude, "*.none"]).unused) <= {"*.none", *inputs}
    absolute = [f"{Path.cwd()}/{glob}" for glob in exclude if "/" in glob.strip("/.")]
    if len(absolute) == len(exclude) and inputs == ["."]:
        assert names(*inputs, exclude=absolute) == left


@pytest.mark.usefixtures("tree")
def test_a_corpus_of_which_all_is_excluded_is_an_error():
    with pytest.raises(InputError, match=r"all its files are excluded, by \*\.txt"):
        find_files(["a.txt", "b.txt"], exclude=["*.txt"])


def test_a_file_is_read_once_however_it_is_named(tree):
    (tree / "link.txt").symlink_to("a.txt")
    (tree / "again").symlink_to("sub")
    (tree / "sub" / "up").symlink_to("..")
    (tree / "broken").symlink_to("nowhere")
    assert names("./b.txt", "b.txt", str(tree / "b.txt"), "link.txt", "a.txt") == ["b.txt", "link.txt"]
    found = names(".")
    assert len(found) == len({os.path.realpath(name) for name in found}) == 5
    assert names(".") == found


def test_link_to_a_file_is_followed(tree, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "f.txt"
    elsewhere.write_text("text")
    (tree / "sub" / "link").symlink_to(elsewhere)
    assert "sub/link" in names("sub")


def test_a_name_with_glob_characters_is_a_file_first(tree):
    (tree / "x[1].txt").write_text("x")
    assert names("x[1].txt") == ["x[1].txt"]


def test_empty_files_are_listed(tree):
    (tree / "nothing.txt").touch()
    listing = find_files(["nothing.txt", "a.txt"])
    assert listing.empty == (str(tree / "nothing.txt"),)
    assert [file.path for file in listing.files] == [str(tree / "a.txt")]
    with pytest.raises(InputError, match=r"nothing\.txt has no bytes"):
        find_files(["nothing.txt"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.txt", "missing.txt does not exist"), ("*.nothing", "no file matches"),
        ("hollow", "without files"), ("/dev/null", "neither a regular file"), ("", "an input is empty"),
        ("a\0b", "NUL"), ("x" * 300, "cannot be read: File name too long; check"),
        ("loop", "cannot be read: Too many levels"), ("caf\udce9", r"caf\\xe9 is not valid UTF-8: rename it"),
        ("a.txt/b", "does not exist: check"),
    ],
)  # fmt: skip
def test_bad_input_names_are_errors(tree, name, reason):
    (tree / "hollow" / ".hidden").mkdir(parents=True)
    (tree / "loop").symlink_to("loop")
    with pytest.raises(InputError, match=reason):
        find_files([name])


def test_digest_changes_with_the_file(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(100_000))
    first = describe(str(path))
    assert first.size == 100_000
    assert describe(str(path)) == first
    path.write_bytes(bytes(99_999) + b"x")
    assert describe(str(path)).digest != first.digest


def test_sample_corpus_is_the_standard_library():
    paths = sample_corpus()
    assert str(Path(sysconfig.get_path("stdlib")) / "argparse.py") in paths
    assert not [path for path in paths if "site-packages" in path or "/test/" in path]
    assert len(find_files(None).files) > 300
    assert find_files(None).empty == ()


def test_no_inputs_are_not_the_sample_corpus():
    with pytest.raises(InputError, match="no inputs"):
        find_files([])


def test_walk_skips_run_directories_and_loops(tree):
    before = names(".")
    (tree / "runs" / "a" / "counts").mkdir(parents=True)
    for name in ("run.json", "log.txt", "counts/0.txt"):
        (tree / "runs" / "a" / name).write_text("x")
    (tree / "sub" / "loop").symlink_to("loop")
    assert names(".") == before
    assert not [name for name in names("**/*.txt") if "runs" in name]
    with pytest.raises(InputError, match="is a run directory"):
        find_files(["runs/a"])


def test_name_that_is_not_utf8_is_an_error(tree):
    Path(os.fsdecode(os.fsencode(tree) + b"/sub/\xff.txt")).write_text("x")
    with pytest.raises(InputError, match=r"\\xff\.txt is not valid UTF-8: rename it"):
        find_files(["sub"])


def test_dots_after_a_link_mean_the_parent_of_its_target(tree):
    (tree / "link").symlink_to("sub/deep")
    assert names("link/../c.txt") == ["sub/c.txt"]


def test_pipe_in_a_directory_is_named(tree):
    os.mkfifo(tree / "sub" / "pipe")
    (tree / "sub" / "broken").symlink_to("nowhere")
    with pytest.raises(InputError, match="sub/pipe is a pipe, socket or device: move it out of"):
        names("sub")
    (tree / "sub" / "pipe").unlink()
    assert len(names("sub")) == 3
