"""Train byte-level BPE tokenizers on corpora larger than memory: exact, parallel, resumable.

>>> import pipeline
>>> tokenizer = pipeline.train("corpus/*.txt", output="runs/a", vocab_size=32_000)
>>> tokenizer.decode(tokenizer.encode("Hello"))
'Hello'

Everything public is imported when it is first used, so that `import pipeline` costs next to nothing.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.base.errors import ExportRefusedError as ExportRefusedError
    from pipeline.base.errors import InputError as InputError
    from pipeline.base.errors import InvalidTextError as InvalidTextError
    from pipeline.base.errors import OtherKindError as OtherKindError
    from pipeline.base.errors import PatternError as PatternError
    from pipeline.base.errors import PatternTimeoutError as PatternTimeoutError
    from pipeline.base.errors import PipelineError as PipelineError
    from pipeline.base.errors import RunDirectoryError as RunDirectoryError
    from pipeline.base.errors import SpecialTokenError as SpecialTokenError
    from pipeline.base.errors import StorageError as StorageError
    from pipeline.base.errors import TrainingError as TrainingError
    from pipeline.base.errors import UsageError as UsageError
    from pipeline.base.errors import WorkerError as WorkerError
    from pipeline.commands.combine import combine_runs as combine_runs
    from pipeline.commands.count import count as count
    from pipeline.commands.encode import encode_corpus as encode_corpus
    from pipeline.commands.export import export as export
    from pipeline.commands.export_counts import export_counts as export_counts
    from pipeline.commands.import_counts import import_counts as import_counts
    from pipeline.commands.import_counts import train_from_counts as train_from_counts
    from pipeline.commands.info import info as info
    from pipeline.commands.merge import merge_run as merge_run
    from pipeline.commands.report_again import report as report
    from pipeline.commands.train import train as train
    from pipeline.commands.train_iterator import train_from_iterator as train_from_iterator
    from pipeline.commands.train_like import train_like as train_like
    from pipeline.commands.verify import verify_run as verify_run
    from pipeline.guests.adapt.extend import extend as extend
    from pipeline.guests.adapt.prune import prune as prune
    from pipeline.guests.chat.align import align_chat as align_chat
    from pipeline.guests.chat.encode import encode_chat as encode_chat
    from pipeline.guests.inspect.diff import diff as diff
    from pipeline.guests.inspect.doctor import doctor as doctor
    from pipeline.guests.inspect.explain import explain as explain
    from pipeline.guests.parity.parity import train_parity as train_parity
    from pipeline.guests.sweep.sweep import sweep as sweep
    from pipeline.shards.decode import decode_shards as decode_shards
    from pipeline.shards.in_memory import encode_files as encode_files
    from pipeline.shards.open import open_shards as open_shards
    from pipeline.tokenizer.tokenizer import Tokenizer as Tokenizer
    from pipeline.tokenizer.tokenizer import load as load

__version__ = "0.1.0"
_NAMES = {  # of a module
    "base.errors": "PipelineError ExportRefusedError InputError InvalidTextError OtherKindError PatternError "
    "PatternTimeoutError RunDirectoryError SpecialTokenError StorageError TrainingError UsageError WorkerError",
    "commands.combine": "combine_runs",
    "commands.count": "count",
    "commands.encode": "encode_corpus",
    "commands.export": "export",
    "commands.export_counts": "export_counts",
    "commands.import_counts": "import_counts train_from_counts",
    "commands.info": "info",
    "commands.merge": "merge_run",
    "commands.report_again": "report",
    "commands.train": "train",
    "commands.train_iterator": "train_from_iterator",
    "commands.train_like": "train_like",
    "commands.verify": "verify_run",
    "guests.adapt.extend": "extend",
    "guests.adapt.prune": "prune",
    "guests.chat.align": "align_chat",
    "guests.chat.encode": "encode_chat",
    "guests.inspect.diff": "diff",
    "guests.inspect.doctor": "doctor",
    "guests.inspect.explain": "explain",
    "guests.parity.parity": "train_parity",
    "guests.sweep.sweep": "sweep",
    "shards.decode": "decode_shards",
    "shards.in_memory": "encode_files",
    "shards.open": "open_shards",
    "tokenizer.tokenizer": "Tokenizer load",
}
_HOMES = {name: f"pipeline.{home}" for home, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *_HOMES]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name != "_core":
        raise AttributeError(f"module 'pipeline' has no attribute {name!r}")
    try:
        return import_module("pipeline._core")
    except ImportError as error:
        core = None if "pipeline._core" in sys.modules else _installed_core()  # None there: not to be loaded
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

    native = Path(__file__).parent / "native"
    names = sorted(path.relative_to(native).as_posix() for path in native.glob("*/*.[ch]pp"))
    sources = "".join(f"{sha256((native / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    try:
        package = metadata.distribution("bpe-pipeline")
        home = Path(str(package.locate_file("pipeline")))
        built = package.version, (home / "_core.sha256").read_text()
    except (metadata.PackageNotFoundError, OSError):
        return None
    spec = machinery.PathFinder.find_spec("pipeline._core", [str(home)])
    if built != (__version__, sources) or spec is None or spec.loader is None:
        return None
    core = sys.modules["pipeline._core"] = util.module_from_spec(spec)
    spec.loader.exec_module(core)
    return core
