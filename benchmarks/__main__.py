"""The command `python -m benchmarks`: reads the command line, calls the function of each subcommand."""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, TypeVar

import psutil

from benchmarks import corpora, cost, cost_text, kinds, machine, plots, records, render, run

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
PAGES = [HERE.parent / name for name in render.PAGES]
Part = TypeVar("Part")


class OneLineParser(argparse.ArgumentParser):
    """Reports a bad argument in one line."""

    def error(self, message: str) -> NoReturn:
        """One line on stderr, exit code 2."""
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def size(text: str) -> int:
    """A size: `25MB`."""
    try:
        return corpora.parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive(text: str) -> int:
    """A number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def vocabulary(text: str) -> int:
    """The size of a vocabulary."""
    if positive(text) < 258:
        raise argparse.ArgumentTypeError("a vocabulary has 256 bytes, the special token and at least one merge")
    return int(text)


def several(part: Callable[[str], Part]) -> Callable[[str], list[Part]]:
    """A list with commas: `25MB,50MB`; empty for none."""
    return lambda text: [part(word.strip()) for word in text.split(",") if word.strip()]


def tool(text: str) -> str:
    """A tool that is known and installed."""
    if text not in run.TOOLS:
        raise argparse.ArgumentTypeError(f"{text!r}: choose among {', '.join(run.TOOLS)}")
    if run.version(text) is None:
        raise argparse.ArgumentTypeError(f"{text} is not installed in this Python; pip install it, or leave it out")
    return text


def existing_file(text: str) -> Path:
    """An existing file."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text}: no such file")
    return Path(text)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(prog="python -m benchmarks", description="Measure the trainer and its peers.")
    commands = parser.add_subparsers(dest="command", required=True)
    common = OneLineParser(add_help=False)
    common.add_argument(
        "--results", type=Path, help="JSON lines, appended to (default of compare: none; else the project's)"
    )

    def measuring(name: str, about: str, corpus: str | int = "+") -> argparse.ArgumentParser:
        made = commands.add_parser(name, parents=[common], help=about)
        if corpus:
            made.add_argument("corpora", nargs=corpus, type=existing_file, metavar="CORPUS")
        made.add_argument("--rounds", type=positive, default=3)
        made.add_argument("--pattern", choices=sorted({*run.PATTERNS, "cl100k", "o200k"}), default="gpt2")
        made.add_argument("--vocab-size", type=vocabulary, default=32000, help="(%(default)s)")
        made.add_argument("--special-token", default="<|endoftext|>", metavar="TEXT")
        made.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS", help="of each child (%(default)s)")
        made.add_argument(
            "--minutes", type=float, default=math.inf, help="repeat nothing that would take longer in all"
        )
        made.add_argument("--most-memory", type=size, help="of each child (20GB, or 80 %% of the machine's)")
        return made

    compared = measuring("compare", "every trainer that is installed on your files, with the merges compared")
    compared.add_argument("--tools", type=several(tool), help="comma-separated; default: all that are installed")
    encode = measuring("encode", "MB/s of encoding documents, of every encoder that is installed")
    encode.add_argument("--files", action="store_true", help="from files to ids, by the tools that read files")
    encode.add_argument("--tools", type=several(str), help="comma-separated; default: all that are installed")
    encode.add_argument("--sizes", type=several(size), default=[], help="of prefixes of the corpus, encoded as well")
    encode.add_argument("--cold", action="store_true", help="also from the disk, the corpus out of the page cache")
    grow = measuring("growth", "our time against bytes and vocabulary")
    grow.add_argument("--sizes", type=several(size), default=[], help="of prefixes of the corpus, such as 25MB,50MB")
    grow.add_argument("--vocab-sizes", type=several(vocabulary), default=[], help="such as 8000,32000,128000")
    steep = measuring("cliffs", "our time on unusual texts, compared with prose of the same sizes", 1)
    steep.add_argument("--sizes", type=several(size), default=[25_000_000, 50_000_000, 100_000_000])
    bound = measuring("memory", "our time and memory under limits")
    bound.add_argument("--limits", type=several(size), required=True, help="such as 2GiB,1GiB,512MiB")
    measuring("cluster", "local workers compared with Ray's")
    measuring("startup", "what there is to pay before any work", 0)

    commands.add_parser("list", help="the tools and whether they are installed")
    table = commands.add_parser(
        "render", parents=[common], help="tables, figures and charts of the pages from the results"
    )
    table.add_argument("--into", nargs="+", default=PAGES, type=existing_file, help="default: the project's pages")
    table.add_argument("--plots", type=Path, default=HERE / "plots", metavar="DIRECTORY", help="(%(default)s)")
    table.add_argument("--prune", action="store_true", help="take lines out of the results that no page uses")

    predict = commands.add_parser("cost", parents=[common], help="predict what larger runs take")
    plan = [10**12, 10**13]
    predict.add_argument("--plan", type=several(size), default=plan, metavar="SIZES", help="of corpora (1TB,10TB)")
    predict.add_argument("--nodes", type=positive, default=16, help="(%(default)s)")
    predict.add_argument("--cores", type=positive, default=32, help="of a node (%(default)s)")
    predict.add_argument("--memory", type=size, default=256 << 30, help="of a node (256GiB)")
    predict.add_argument("--network", type=size, default=1_250_000_000, help="of a node, bytes a second (1.25GB)")
    predict.add_argument("--request-ms", type=float, default=20.0, help="time for a store to answer (%(default)s)")
    predict.add_argument("--chunk-size", type=size, default=4 << 30, help="(4GiB)")
    arguments = parser.parse_args(argv)
    if arguments.command not in ("compare", "list"):
        arguments.results = arguments.results or RESULTS
    if arguments.command == "growth" and not (arguments.sizes or arguments.vocab_sizes):
        grow.error("give --sizes or --vocab-sizes")
    if arguments.command == "cliffs" and not arguments.sizes:
        steep.error("give --sizes")
    return arguments


def measure(arguments: argparse.Namespace) -> int:
    """Measure; returns 1 if a child failed, else 0."""
    most = arguments.most_memory or min(20e9, 0.8 * psutil.virtual_memory().total)
    options = arguments.results, arguments.rounds, arguments.timeout, most, arguments.special_token
    started, ends = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic() + 60 * arguments.minutes
    session = run.Session(*options, started, machine.describe(), ends)
    opened = [corpora.open_corpus(path) for path in getattr(arguments, "corpora", ())]
    if arguments.command == "compare":
        tools = arguments.tools or [name for name in run.TOOLS if run.version(name)]
        done = run.compare(session, opened, tools, arguments.pattern, arguments.vocab_size)
        print("\n" + render.markdown(done))
    else:
        done = kinds.KINDS[arguments.command](session, arguments, opened)
    return 1 if any(record["status"] == "failed" for record in done) else 0


def render_all(arguments: argparse.Namespace) -> None:
    """Draw the charts, write the tables."""
    if not arguments.results.is_file():
        raise ValueError(f"{arguments.results}: no results yet; measure first: python -m benchmarks growth CORPUS ...")
    measured = records.newest(records.read(arguments.results))
    if arguments.prune:
        records.write(arguments.results, measured)
    plots.draw_all(measured, arguments.plots)
    for path in arguments.into:
        texts = {name: render.TABLES[name](measured) for name in render.names_in(path.read_text("utf-8"))}
        print(f"{path.name}: {'written' if render.write_document(path, texts) else 'already up to date'}")


def predict_cost(arguments: argparse.Namespace) -> None:
    """Show what the model predicts for measured runs and for planned ones."""
    planned = cost.Cluster(
        arguments.nodes, arguments.cores, arguments.memory, arguments.network, arguments.request_ms / 1000
    )
    measured = records.newest(records.read(arguments.results))
    print(cost_text.text(measured, planned, arguments.plan, arguments.chunk_size))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = parse_arguments(argv)
    try:
        if arguments.command == "list":
            for name in run.TOOLS:
                print(f"{name:<14}{run.version(name) or 'not installed'}")
        elif arguments.command == "render":
            render_all(arguments)
        elif arguments.command == "cost":
            predict_cost(arguments)
        else:
            return measure(arguments)
        return 0
    except (ValueError, OSError) as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was measured so far is kept in --results", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
