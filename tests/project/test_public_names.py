"""Every public name, member, attribute and argument is documented and in one list; so is what modules share."""

import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pipeline
from pipeline.run.options import HELP


def _public() -> Iterator[tuple[str, Any]]:
    """Yield every public function and class, and the public members of the classes."""
    for name in pipeline.__all__:
        if name == "__version__":
            continue
        thing = getattr(pipeline, name)
        yield name, thing
        for kind in thing.__mro__ if inspect.isclass(thing) else ():
            if kind.__module__.startswith("pipeline."):
                yield from ((f"{name}.{own}", member) for own, member in vars(kind).items() if own[0] != "_")


def _described(thing: Any) -> bool:
    inner = getattr(thing, "func", None) or getattr(thing, "fget", None) or getattr(thing, "__func__", None) or thing
    return bool(inspect.getdoc(inner)) or not (callable(inner) or inspect.isdatadescriptor(inner))


def test_public_names_stay_what_they_are_when_all_modules_are_imported() -> None:
    """A module of the same name would take the place of a function."""
    before = {name: getattr(pipeline, name) for name in pipeline.__all__}
    for module in pkgutil.walk_packages(pipeline.__path__, "pipeline."):
        if module.name != "pipeline.__main__":  # starts the command
            import_module(module.name)
    assert {name: getattr(pipeline, name) for name in pipeline.__all__} == before


def test_every_public_name_has_a_docstring() -> None:
    found = dict(_public())
    assert len(found) > 50
    assert [name for name, thing in found.items() if not _described(thing)] == []


def test_every_public_argument_and_attribute_is_documented() -> None:
    """The docstring of the function or of its class names it."""
    bare = []
    for name in set(pipeline.__all__) - {"__version__"}:
        thing = getattr(pipeline, name)
        whole = inspect.getdoc(thing) or ""
        named = {name: (thing, "")}
        if inspect.isclass(thing):
            own = {key: member for kind in thing.__mro__ for key, member in vars(kind).items()}
            named = {f"{name}.{key}": (member, whole if key == "__init__" else "") for key, member in own.items()}
            kept = re.findall(r"\bself\.([a-z]\w*)(?::[^=]+)? = ", inspect.getsource(thing))
            bare += [f"{name}.{key}" for key in [*kept, *inspect.get_annotations(thing)] if key not in whole]
        for place, (member, described) in named.items():
            inner = getattr(member, "__func__", member)
            if inspect.isfunction(inner) and (
                place.endswith("__init__") or not place.partition(".")[2].startswith("_")
            ):
                text = described + (inspect.getdoc(inner) or "")
                wanted = set(inspect.signature(inner).parameters) - {"self", "cls"}
                bare += [f"{place}: {argument}" for argument in wanted if not re.search(rf"\b{argument}\b", text)]
    assert sorted(bare) == []


def test_everything_that_modules_share_has_a_docstring() -> None:
    """This includes names that only the rest of the package uses."""
    bare = []
    for found in pkgutil.walk_packages(pipeline.__path__, "pipeline."):
        if found.name in ("pipeline.__main__", "pipeline._core"):  # starts the command; has a stub
            continue
        module = import_module(found.name)
        bare += [] if module.__doc__ else [found.name]
        for name, thing in vars(module).items():
            if name[0] == "_" or getattr(thing, "__module__", None) != found.name:
                continue
            if inspect.isclass(thing) or inspect.isroutine(thing):
                members = vars(thing).items() if inspect.isclass(thing) else ()
                every = [(name, thing), *((f"{name}.{key}", member) for key, member in members if key[0] != "_")]
                shared = [(place, one) for place, one in every if not inspect.ismemberdescriptor(one)]  # of slots
                bare += [f"{found.name}.{place}" for place, one in shared if not _described(one)]
    assert bare == []


def test_docstrings_list_the_options_of_the_table() -> None:
    """Each keyword of a function with its description; a flag's name became that of the keyword."""
    found = {name: getattr(inspect.unwrap(thing), "__annotations__", {}).get("options") for name, thing in _public()}
    functions = {name: get_args(hint)[0].__annotations__ for name, hint in found.items() if hint and "." not in name}
    assert len(functions) > 10
    for name, keywords in functions.items():
        listed = str(inspect.getdoc(getattr(pipeline, name))).partition("Keyword Args:\n")[2]
        assert re.findall(r"^    (\w+) \(", listed, re.MULTILINE) == [*keywords], name
        assert "--" not in listed
    assert (
        f"    tie_break (Literal['lowest-ids', 'greatest-bytes']): {HELP['tie_break']}  [default: 'lowest-ids']"
        in str(pipeline.train.__doc__)
    )


def test_completion_after_the_package_lists_the_public_names() -> None:
    assert dir(pipeline) == sorted(pipeline.__all__)


def test_every_argument_of_a_public_function_has_a_type() -> None:
    bare = []
    for name, thing in _public():
        inner = getattr(thing, "__func__", thing)
        if inspect.isfunction(inner):
            hints = inner.__annotations__
            wanted = [*inspect.signature(inner).parameters, "return"]
            bare += [f"{name}: {argument}" for argument in wanted if argument not in {*hints, "self", "cls"}]
    assert bare == []


def test_public_names_match_their_import_table() -> None:
    assert sorted(pipeline.__all__) == sorted([*pipeline._HOMES, "__version__"])
    text = Path(pipeline.__file__).read_text()
    listed = re.findall(r"^    from (\S+) import (\S+) as \2$", text, re.MULTILINE)
    assert {name: home for home, name in listed} == pipeline._HOMES
