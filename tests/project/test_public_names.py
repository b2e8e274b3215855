"""Every public name is in one list, and its docstring has all arguments, the result and examples that run."""

import base64
import doctest
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from interface import source

import bpe_pipeline
from bpe_pipeline import compat
from bpe_pipeline.base import errors as base_errors
from bpe_pipeline.base.errors import PipelineError
from bpe_pipeline.cli import all_commands
from bpe_pipeline.reports.result import Result
from bpe_pipeline.run.keywords import keywords_of
from bpe_pipeline.run.options import RECORDS
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS, default_formats

ERRORS = {name for name, one in vars(base_errors).items() if inspect.isclass(one) and issubclass(one, Exception)}
THINGS = {name: getattr(bpe_pipeline, name) for name in bpe_pipeline.__all__ if name not in {*ERRORS, "__version__"}}
THINGS |= {name: getattr(compat, name) for name in compat.__all__}
NAMES = sorted(THINGS)
OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


def _functions(name: str) -> Iterator[tuple[str, Any]]:
    """Yield a public function, or a public class and its public methods, inherited ones too."""
    thing = THINGS[name]
    yield name, thing
    for own, member in inspect.getmembers(thing) if inspect.isclass(thing) else ():
        function = getattr(member, "__func__", member)
        if not own.startswith("_") and inspect.isfunction(function):
            yield f"{name}.{own}", function


FUNCTIONS = [found for name in NAMES for found in _functions(name)]


def test_public_names_are_listed_and_typed() -> None:
    assert sorted(bpe_pipeline.__all__) == dir(bpe_pipeline)
    stub = Path(bpe_pipeline.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    assert stub == source(), ".ci/generate interface"
    assert get_type_hints(bpe_pipeline.train)["return"] is bpe_pipeline.Tokenizer
    assert {*bpe_pipeline.__all__} >= {name for name in ERRORS if issubclass(getattr(base_errors, name), PipelineError)}


def test_a_star_imports_what_extensions_bring_too() -> None:
    names: dict[str, Any] = {}
    exec("from bpe_pipeline import *", names)
    assert {"train", "extend", "encode_chat", "sweep"} <= names.keys()


def test_no_module_replaces_a_public_name_when_it_is_imported() -> None:
    public = {name: getattr(bpe_pipeline, name) for name in bpe_pipeline.__all__}
    for found in pkgutil.walk_packages(bpe_pipeline.__path__, "bpe_pipeline."):
        if found.name != "bpe_pipeline.__main__":  # starts the command
            import_module(found.name)  # which would take the place of a function of its name
    assert {name: getattr(bpe_pipeline, name) for name in bpe_pipeline.__all__} == public


def test_each_command_is_a_public_function_and_no_public_name_is_a_module() -> None:
    functions = {name.replace("-", "_") for name in all_commands()}
    assert functions <= {*bpe_pipeline.__all__}
    assert [name for name in functions if not inspect.isfunction(getattr(bpe_pipeline, name))] == []
    assert {found.name for found in pkgutil.iter_modules(bpe_pipeline.__path__)} & {*bpe_pipeline.__all__} == set()


def test_results_are_shown_as_text() -> None:
    assert {kind.__repr__ for kind in Result.__subclasses__()} == {Result.__repr__}  # no dataclass replaces it


def test_every_public_attribute_is_documented_by_its_class() -> None:
    bare = []
    for name, thing in THINGS.items():
        if inspect.isclass(thing):
            kept = re.findall(r"\bself\.([a-z]\w*)(?::[^=]+)? = ", inspect.getsource(thing))
            attributes = [*kept, *inspect.get_annotations(thing)]
            bare += [f"{name}.{key}" for key in attributes if key not in (inspect.getdoc(thing) or "")]
    assert bare == []


@pytest.mark.parametrize(("place", "function"), FUNCTIONS, ids=[place for place, _ in FUNCTIONS])
def test_arguments_and_result_of_a_public_function_are_described(place: str, function: Any) -> None:
    """Each argument has a line; a keyword of the options table has its description, without the name of a flag."""
    lines = (inspect.getdoc(function) or "").splitlines()
    named = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    assert ("Args:" in lines) == bool(named)
    indented = [line.strip().lstrip("*") for line in lines if re.match(r"\s{4}\S", line)]
    assert [name for line in indented if (name := line.partition(":")[0]) in named] == named
    if not inspect.isfunction(function):
        return
    if get_type_hints(function).get("return", type(None)) is not type(None):
        assert {"Returns:", "Yields:"} & set(lines), f"{place} does not say what it returns"
    if "options" in named and "." not in place:
        listed = "\n".join(lines[lines.index("Keyword Args:") + 1 :])
        known = [name for name, one in keywords_of(function.takes).items() if one.group and name not in named]
        known += [f"no_{name}" for name in known if function.takes.records[name].without]
        assert sorted(re.findall(r"^    (\w+) \(", listed, re.MULTILINE)) == sorted(known)
        assert "--" not in listed
    if place == "train":
        kind, description = "Literal['lowest-ids', 'greatest-bytes']", RECORDS["tie_break"].help
        assert f"    tie_break ({kind}): {description}  [default: 'lowest-ids']" in lines


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that examples name, in the working directory: the tokenizer of the example of `Tokenizer`, a corpus."""
    monkeypatch.chdir(tmp_path)
    tokenizer = bpe_pipeline.Tokenizer.from_merges([(b"l", b"o"), (b"lo", b"w"), (b"e", b"r")], ["<|endoftext|>"])
    for name in default_formats():
        FORMATS[name].write(tokenizer.model, Path("my-tokenizer"))
    lines = [b"%b %d\n" % (base64.b64encode(token), rank) for rank, token in tokenizer.vocab.items()][:-1]
    Path("tokenizer.model").write_bytes(b"".join(lines))
    Path("corpus.txt").write_text("low lower lowest newest widest\n" * 10)
    Path("corpus").mkdir()
    Path("corpus/a.txt").write_text("lower<|endoftext|>low")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", NAMES)
def test_examples_of_a_public_name_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The example of a class comes first; those of its methods use its names."""
    known: dict[str, Any] = {"bpe_pipeline": bpe_pipeline, "tokenizer": bpe_pipeline.Tokenizer.load("my-tokenizer")}
    for place, function in _functions(name):
        test = doctest.DocTestParser().get_doctest(inspect.getdoc(function) or "", known, place, None, None)
        assert test.examples, f"{place} has no example"
        runner = doctest.DocTestRunner(optionflags=OPTIONS)
        assert runner.run(test, clear_globs=False).failed == 0, capsys.readouterr().out
        known |= test.globs
