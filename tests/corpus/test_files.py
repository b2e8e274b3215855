"""What an input names: each file once, in a fixed order, and a clear line where there is nothing to read."""

import os
import sysconfig
from pathlib import Path

import pytest

from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.corpus.inputs import sample_corpus
from bpe_pipeline.corpus.listing import find_files


def make(*names):
    """Create files, or links written `name -> target`, below the working directory."""
    for name in names:
        path, arrow, target = name.partition(" -> ")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).symlink_to(target) if arrow else Path(path).write_text("text")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make("b.txt", "a.txt", "sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md", ".hidden", ".git/config")
    return tmp_path


def names(*inputs, exclude=()):
    """The files found, relative to the working directory; every path is stored absolute."""
    found = [file.path for file in find_files(inputs, exclude=exclude).files]
    assert all(Path(path).is_absolute() for path in found)
    return [os.path.relpath(path) for path in found]


ALL = ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md"]


def test_directories_are_read_in_order_without_hidden_files(tree):
    assert [file.path for file in find_files([tree]).files] == [str(tree / name) for name in ALL]


RUN_FILES = ["runs/a/run.json", "runs/a/log.txt", "runs/a/counts/0.txt"]


@pytest.mark.parametrize(
    ("made", "inputs", "found"),
    [
        ([], ["sub", "a.txt"], ["sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md", "a.txt"]),
        ([], ["**/*.txt"], ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]),
        ([], ["s*"], ["sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md"]),
        ([], ["{a,b}.txt"], ["a.txt", "b.txt"]),
        ([], ["{b.txt,sub/{deep,c*}}"], ["b.txt", "sub/deep/d.txt", "sub/deep/e.md", "sub/c.txt"]),
        ([], ["**/*.{md,txt}"], ["sub/deep/e.md", "a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]),
        (["{a,b}.txt"], ["{a,b}.txt"], ["{a,b}.txt"]),  # a name is a file first
        (["x[1].txt"], ["x[1].txt"], ["x[1].txt"]),
        ([".git/link", "sub/f -> ../.git/link"], ["sub"], ["sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md", "sub/f"]),
        (["link -> sub/deep"], ["link/../c.txt"], ["sub/c.txt"]),  # the parent of its target
        ([*RUN_FILES, "sub/loop -> loop"], ["."], ALL),
        (RUN_FILES, ["**/*.txt"], ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]),
        (["sub/broken -> nowhere"], ["sub"], ["sub/c.txt", "sub/deep/d.txt", "sub/deep/e.md"]),
    ],
)
@pytest.mark.usefixtures("tree")
def test_inputs_name_files(made, inputs, found):
    make(*made)
    assert names(*inputs) == found


@pytest.mark.parametrize(
    ("inputs", "exclude", "left"),
    [
        (["."], ["*.txt"], ["sub/deep/e.md"]),
        (["."], ["deep"], ["a.txt", "b.txt", "sub/c.txt"]),
        (["."], ["sub/*.txt"], ["a.txt", "b.txt", "sub/deep/d.txt", "sub/deep/e.md"]),
        (["."], ["sub/**/*.txt", "[a]*"], ["b.txt", "sub/deep/e.md"]),
        (["."], ["{a,b}.txt", "sub/deep"], ["sub/c.txt"]),
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


def test_a_file_is_read_once_however_it_is_named(tree):
    make("link.txt -> a.txt")
    assert names("./b.txt", "b.txt", str(tree / "b.txt"), "link.txt", "a.txt") == ["b.txt", "link.txt"]


@pytest.mark.parametrize("name", [".", "**"])
@pytest.mark.usefixtures("tree")
def test_a_file_is_read_once_however_many_links_lead_to_it(name):
    make("link.txt -> a.txt", "again -> sub", "sub/up -> ..", "broken -> nowhere")
    assert sorted(map(os.path.realpath, names(name))) == sorted(map(os.path.realpath, ALL))


def test_an_empty_file_is_listed_apart(tree):
    (tree / "nothing.txt").touch()
    listing = find_files(["nothing.txt", "a.txt"])
    assert listing.empty == (str(tree / "nothing.txt"),)
    assert [file.path for file in listing.files] == [str(tree / "a.txt")]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.txt", "missing.txt does not exist"),
        ("*.nothing", "no file matches"),
        ("hollow", "without files"),
        ("/dev/null", "neither a regular file"),
        ("", "a text that is not empty"),
        ("a\0b", "NUL"),
        ("x" * 300, "cannot be read: File name too long; check"),
        ("loop", "cannot be read: Too many levels"),
        ("caf\udce9", "valid UTF-8: rename it, not 'caf"),
        ("odd", r"\\xff\.txt is not valid UTF-8: rename it"),
        ("a.txt/b", "does not exist: check"),
        ("sub/{c,}.txt", "sub/.txt does not exist"),
        ("{a,b}" * 11, "stand for more than 1,000 names"),
        ("nothing.txt", r"nothing\.txt has no bytes"),
        ("runs/a", "is a run directory"),
        ("special", "special/pipe is a pipe, socket or device: move it out of"),
    ],
)
@pytest.mark.usefixtures("tree")
def test_bad_inputs_are_errors(name, reason):
    make("hollow/.hidden", "loop -> loop", "odd/\udcff.txt", "special/a.txt", *RUN_FILES)
    Path("nothing.txt").touch()
    os.mkfifo("special/pipe")
    with pytest.raises((InputError, UsageError), match=reason):
        find_files([name])


@pytest.mark.usefixtures("tree")
def test_a_corpus_whose_files_are_all_excluded_is_refused():
    with pytest.raises(InputError, match=r"all its files are excluded, by \*\.txt"):
        find_files(["a.txt", "b.txt"], exclude=["*.txt"])


def test_an_empty_list_of_inputs_is_refused():
    with pytest.raises(InputError, match="no inputs"):
        find_files([])


def test_sample_corpus_is_the_standard_library():
    paths = sample_corpus()
    assert str(Path(sysconfig.get_path("stdlib")) / "argparse.py") in paths
    assert not [path for path in paths if "site-packages" in path or "/test/" in path]
    assert len(find_files(None).files) > 300
    assert find_files(None).empty == ()
