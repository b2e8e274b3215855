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
    "shards.read": "decode open_shards",
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
    return _loaded_core()


def _loaded_core() -> Any:
    """Import the native core: the one in this package, or else that of an installed package."""
    from importlib import util

    name = "bpe_pipeline._core"
    spec = None if name in sys.modules else util.find_spec(name) or _installed_core()  # None there: not to be loaded
    install = (
        "with `pip install .` in the project's directory (it needs a C++20 compiler: `apt install g++`, "
        "`dnf install gcc-c++` or `xcode-select --install`) and run the installed `bpe-pipeline`"
    )
    if spec is not None and not _is_of_sources_here(spec.origin):
        raise ImportError(
            f"the native core {spec.origin} was built from other sources than those next to this package; "
            f"install the package again {install}"
        )
    try:
        if spec is None:
            return import_module(name)
        core = sys.modules[name] = util.module_from_spec(spec)
        spec.loader.exec_module(core)
        return core
    except ImportError as error:
        raise ImportError(
            f"the native core of bpe-pipeline is not built here ({error}); install the package {install}"
        ) from None


def _installed_core() -> Any:
    """Return the spec of the core of an installed package of this version, None if there is none."""
    from importlib import machinery, metadata

    try:
        package = metadata.distribution("bpe-pipeline")
    except metadata.PackageNotFoundError:
        return None
    home = str(package.locate_file("bpe_pipeline"))
    return machinery.PathFinder.find_spec("bpe_pipeline._core", [home]) if package.version == __version__ else None


def _is_of_sources_here(core: str) -> bool:
    """Whether a core was built from the sources next to this file; an installed package has none."""
    from hashlib import sha256
    from pathlib import Path

    native = Path(__file__).parents[1] / "native"
    names = sorted(path.relative_to(native).as_posix() for path in native.glob("*/*.[ch]pp"))
    sources = "".join(f"{sha256((native / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    try:
        return not sources or Path(core).with_name("_core.sha256").read_text() == sources
    except OSError:
        return False
