"""The type stub of the native module names exactly the content of the built module."""

import ast
from pathlib import Path

import pipeline
from pipeline import _core


def test_the_stub_matches_the_built_module() -> None:
    stub = ast.parse((Path(pipeline.__file__).parent / "_core.pyi").read_text())
    named: dict[str, set[str]] = {}
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            named[node.name] = {part.name for part in node.body if isinstance(part, ast.FunctionDef)} - {"__init__"}
        elif isinstance(node, ast.FunctionDef):
            named[node.name] = set()
    assert set(named) == {name for name in vars(_core) if not name.startswith("_")}
    for name, members in named.items():
        built = vars(getattr(_core, name)) if members else {}
        public = {member for member in built if not member.startswith("__") or member == "__len__"}
        assert members == public, name
