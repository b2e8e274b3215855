"""The docstrings of public names: one argument a line in `Args:`, what is returned, and examples that run."""

import base64
import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.tokenizer.formats.save import EXPORTS, default_formats

NAMES = sorted(set(pipeline._HOMES) - {"PipelineError"})
OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


def _functions(name: str) -> Iterator[tuple[str, Any]]:
    """A public function, or a public class and its public methods, inherited ones too."""
    thing = getattr(pipeline, name)
    yield name, thing
    for own, member in inspect.getmembers(thing) if inspect.isclass(thing) else ():
        function = getattr(member, "__func__", member)
        if not own.startswith("_") and inspect.isfunction(function):
            yield f"{name}.{own}", function


FUNCTIONS = [found for name in NAMES for found in _functions(name)]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that examples name, in the working directory: the tokenizer of the example of `Tokenizer`, a corpus."""
    monkeypatch.chdir(tmp_path)
    tokenizer = pipeline.Tokenizer.from_merges([(b"l", b"o"), (b"lo", b"w"), (b"e", b"r")], ["<|endoftext|>"])
    for name in default_formats():
        EXPORTS[name](tokenizer.model, Path("my-tokenizer"))
    lines = [b"%b %d\n" % (base64.b64encode(token), rank) for rank, token in tokenizer.vocab.items()][:-1]
    Path("tokenizer.model").write_bytes(b"".join(lines))
    Path("corpus.txt").write_text("low lower lowest newest widest\n" * 10)
    Path("corpus").mkdir()
    Path("corpus/a.txt").write_text("lower<|endoftext|>low")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", NAMES)
def test_examples_of_a_public_name_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The example of a class comes first; those of its methods use its names."""
    known: dict[str, Any] = {"pipeline": pipeline, "tokenizer": pipeline.Tokenizer.load("my-tokenizer")}
    for place, function in _functions(name):
        test = doctest.DocTestParser().get_doctest(inspect.getdoc(function) or "", known, place, None, None)
        assert test.examples, f"{place} has no example"
        runner = doctest.DocTestRunner(optionflags=OPTIONS)
        assert runner.run(test, clear_globs=False).failed == 0, capsys.readouterr().out
        known |= test.globs


@pytest.mark.parametrize(("place", "function"), FUNCTIONS, ids=[place for place, _ in FUNCTIONS])
def test_arguments_and_result_of_a_public_function_are_described(place: str, function: Any) -> None:
    lines = (inspect.getdoc(function) or "").splitlines()
    named = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    assert ("Args:" in lines) == bool(named)
    described = [
        line.strip().lstrip("*").partition(":")[0]
        for line in lines
        if line[:4].isspace() and line[4:5] not in ("", " ")
    ]
    assert [argument for argument in described if argument in named] == named
    if inspect.isfunction(function) and function.__annotations__["return"] not in ("None", None):
        assert {"Returns:", "Yields:"} & set(lines), f"{place} does not say what it returns"
