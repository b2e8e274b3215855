"""Train byte-level BPE tokenizers on corpora larger than memory: exact, parallel, resumable.

>>> import bpe_pipeline
>>> tokenizer = bpe_pipeline.train("corpus/*.txt", output="runs/a", vocab_size=32_000)
>>> tokenizer.decode(tokenizer.encode("Hello"))
'Hello'

Everything public is imported when it is first used, so that `import bpe_pipeline` costs next to nothing.
"""

import sys
from importlib import import_module
from typing import Any

__version__ = "0.1.0"
_NAMES = {  # of a module
    "base.errors": "PipelineError ExportRefusedError InputError InvalidTextError OtherKindError PatternError "
    "PatternTimeoutError RunDirectoryError SpecialTokenError StorageError TrainingError UsageError WorkerError",
    "shards.decode": "decode",
    "shards.open": "open_shards",
    "tokenizer.tokenizer": "Tokenizer load",
}
_HOMES = {name: f"bpe_pipeline.{home}" for home, names in _NAMES.items() for name in names.split()}


def __dir__() -> list[str]:
    return sorted([*__getattr__("__all__")])


def _declared() -> dict[str, Any]:
    """Return the declarations of the package's own functions by their names."""
    from bpe_pipeline.commands.declared import FUNCTIONS

    return {declared.python: declared for declared in FUNCTIONS}


def _extensions() -> dict[str, Any]:
    from bpe_pipeline.run.extensions import extensions

    functions = (one for extension in extensions() for one in extension.functions.items())
    return {name: imported for name, imported in functions if "." not in name}


def _unusable() -> list[str]:
    from bpe_pipeline.run.extensions import unusable

    return [str(error) for error in unusable.values()]


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return ["__version__", *_HOMES, *_declared(), *_extensions()]
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name != "_core":
        if name.startswith("__"):
            raise AttributeError(f"module 'bpe_pipeline' has no attribute {name!r}")
        if (declared := _declared().get(name)) is not None:
            return declared.function
        if (imported := _extensions().get(name)) is None:
            raise AttributeError("; ".join([f"module 'bpe_pipeline' has no attribute {name!r}", *_unusable()]))
        thing = imported()
        return getattr(thing, "function", thing)
    try:
        return import_module("bpe_pipeline._core")
    except ImportError as error:
        core = None if "bpe_pipeline._core" in sys.modules else _installed_core()  # None there: not to be loaded
        if core is None:
            raise ImportError(
                "the native core of bpe-pipeline is not built here "
                f"({error}); install the package with `pip install .` in the project's directory "
                "(it needs a C++20 compiler: `apt install g++`, `dnf install gcc-c++` or `xcode-select --install`) "
                "and run the installed `bpe-pipeline`"
            ) from None
        return core


def _installed_core() -> Any:
    """Load the installed package's core, if it is of this version and was built from the sources next to this file."""
    from hashlib import sha256
    from importlib import machinery, metadata, util
    from pathlib import Path

    native = Path(__file__).parents[1] / "native"
    names = sorted(path.relative_to(native).as_posix() for path in native.glob("*/*.[ch]pp"))
    sources = "".join(f"{sha256((native / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    try:
        package = metadata.distribution("bpe-pipeline")
        home = Path(str(package.locate_file("bpe_pipeline")))
        built = package.version, (home / "_core.sha256").read_text()
    except (metadata.PackageNotFoundError, OSError):
        return None
    spec = machinery.PathFinder.find_spec("bpe_pipeline._core", [str(home)])
    if built != (__version__, sources) or spec is None or spec.loader is None:
        return None
    core = sys.modules["bpe_pipeline._core"] = util.module_from_spec(spec)
    spec.loader.exec_module(core)
    return core
