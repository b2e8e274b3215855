"""The command `python -m benchmarks`: reads the command line, calls the module of each subcommand."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from benchmarks import (
    cliffs,
    cluster,
    corpora,
    cost,
    cost_text,
    counting,
    encoding,
    growth,
    memory,
    ours,
    plots,
    records,
    render,
    run,
    startup,
)
from benchmarks.corpora import Corpus
from benchmarks.tools import PATTERNS, TOOLS, Tool, installed

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
PLOTS = HERE / "plots"


class OneLineParser(argparse.ArgumentParser):
    """Reports a bad argument in one line."""

    def error(self, message: str) -> NoReturn:
        """One line on stderr, exit code 2."""
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def size(text: str) -> int:
    """A size argument."""
    try:
        return corpora.parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def sizes(text: str) -> list[int]:
    """A list of sizes: `25MB,50MB`; empty for none."""
    return [size(part) for part in text.split(",") if part.strip()]


def vocabularies(text: str) -> list[int]:
    """A list of vocabulary sizes: `8000,32000`; empty for none."""
    try:
        found = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 8000,32000") from None
    if any(number < 258 for number in found):
        raise argparse.ArgumentTypeError("a vocabulary has 256 bytes, the special token and at least one merge")
    return found


def numbers(text: str) -> list[int]:
    """A list of numbers of at least 1: `1,2`; empty for none."""
    return [positive(part.strip()) for part in text.split(",") if part.strip()]


def positive(text: str) -> int:
    """A number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def existing_file(text: str) -> Path:
    """An existing file."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text}: no such file")
    return Path(text)


def existing_directory(text: str) -> Path:
    """An existing directory."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text}: no such directory")
    return Path(text)


def tool_names(text: str) -> list[str]:
    """A list of known tools."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in names if name not in TOOLS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{text!r}: choose among {', '.join(TOOLS)}")
    return names


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = OneLineParser(prog="python -m benchmarks", description="Measure the trainer and its peers.")
    commands = parser.add_subparsers(dest="command", required=True)

    common = OneLineParser(add_help=False)
    common.add_argument("--results", type=Path, default=RESULTS, help="JSON lines, appended to (%(default)s)")

    measuring = OneLineParser(add_help=False, parents=[common])
    measuring.add_argument("--rounds", type=positive, default=3)
    measuring.add_argument("--pattern", choices=sorted({*PATTERNS, "cl100k", "o200k"}), default="gpt2")
    measuring.add_argument("--special-token", default="<|endoftext|>", metavar="TEXT")
    measuring.add_argument("--timeout", type=float, default=3600.0, metavar="SECONDS", help="for each child")

    several = OneLineParser(add_help=False)
    several.add_argument("corpora", nargs="+", type=existing_file, metavar="CORPUS")
    several.add_argument("--repeat", type=positive, default=1, metavar="N", help="use each corpus N times over")

    train = commands.add_parser("run", parents=[measuring, several], help="every tool on every corpus")
    train.add_argument("--vocab-size", type=vocabularies, default=[32000], help="one or several: 8000,32000")
    train.add_argument("--tools", type=tool_names, help="comma-separated; default: all that are installed")

    grow = commands.add_parser("growth", parents=[measuring], help="our time against bytes and vocabulary")
    grow.add_argument("corpus", type=existing_file, metavar="CORPUS")
    grow.add_argument("--sizes", type=sizes, default=[], help="sizes of corpus prefixes, such as 25MB,50MB,100MB")
    grow.add_argument("--vocab-sizes", type=vocabularies, default=[], help="such as 8000,32000,128000")
    grow.add_argument("--workers", type=numbers, default=[], help="such as 1,2")
    grow.add_argument("--vocab-size", type=positive, default=32000, help="for --sizes and --workers (%(default)s)")

    steep = commands.add_parser("cliffs", parents=[measuring], help="our time on unusual texts")
    steep.add_argument("reference", type=existing_file, metavar="CORPUS", help="prose, at least as long as the sizes")
    steep.add_argument("--sizes", type=sizes, default=[25_000_000, 50_000_000, 100_000_000])
    steep.add_argument("--vocab-size", type=positive, default=32000)

    bound = commands.add_parser("memory", parents=[measuring, several], help="our time and memory under limits")
    bound.add_argument("--limits", type=sizes, required=True, help="such as 2GiB,1GiB,512MiB")
    bound.add_argument("--vocab-size", type=positive, default=32000)

    clustered = commands.add_parser("cluster", parents=[measuring, several], help="local workers compared with Ray's")
    clustered.add_argument("--vocab-size", type=positive, default=32000)

    commands.add_parser("startup", parents=[measuring], help="what there is to pay before any work")

    commands.add_parser("counting", parents=[measuring, several], help="MB/s of counting on one core")

    encode = commands.add_parser("encode", parents=[measuring, several], help="MB/s of encoding documents")
    encode.add_argument("--vocab-size", type=positive, default=32000, help="of what is trained first (%(default)s)")
    encode.add_argument("--tokenizer", type=existing_directory, metavar="DIR", help="instead of training one")
    encode.add_argument("--files", action="store_true", help="from files to ids, by the tools that read files")

    table = commands.add_parser("render", parents=[common], help="tables and plots from the results")
    table.add_argument(
        "--into", nargs="+", default=[], type=existing_file, help="documents with markers; default: standard output"
    )
    table.add_argument("--plots", type=Path, default=PLOTS, metavar="DIRECTORY", help="for SVG files (%(default)s)")
    table.add_argument("--no-plots", action="store_true", help="tables only")

    predict = commands.add_parser("cost", parents=[common], help="predict what larger runs take")
    predict.add_argument("--plan", type=sizes, default=[10**12, 10**13], metavar="SIZES", help="of corpora (1TB,10TB)")
    predict.add_argument("--nodes", type=positive, default=16, help="(%(default)s)")
    predict.add_argument("--cores", type=positive, default=32, help="of a node (%(default)s)")
    predict.add_argument("--memory", type=size, default=256 << 30, help="of a node (256GiB)")
    predict.add_argument("--network", type=size, default=1_250_000_000, help="of a node, bytes a second (1.25GB)")
    predict.add_argument("--request-ms", type=float, default=20.0, help="time for a store to answer (%(default)s)")
    predict.add_argument("--chunk-size", type=size, default=4 << 30, help="(4GiB)")
    predict.add_argument("--into", type=existing_file, help="a document with markers; default: standard output")

    commands.add_parser("list", help="the tools and whether they are installed")
    arguments = parser.parse_args(argv)
    if arguments.command == "growth" and not (arguments.sizes or arguments.vocab_sizes or arguments.workers):
        grow.error("give --sizes, --vocab-sizes or --workers")
    if arguments.command == "counting" and arguments.pattern not in PATTERNS:
        parser.error(f"counting: --pattern {arguments.pattern} is not translated for the peers' engines")
    return arguments


@contextmanager
def opened_corpora(arguments: argparse.Namespace) -> Iterator[list[Corpus]]:
    """Open the corpora of the command line; repeated copies are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        if arguments.repeat == 1:
            yield [corpora.open_corpus(path) for path in arguments.corpora]
        else:
            yield [
                corpora.repeat(
                    path, arguments.repeat, arguments.special_token, Path(temporary, f"{number}-{path.name}")
                )
                for number, path in enumerate(arguments.corpora)
            ]


def chosen_tools(names: list[str] | None) -> list[Tool]:
    """The tools to run: those named, which must be installed, or all that are."""
    tools = installed(names)
    missing = [name for name in names or [] if TOOLS[name] not in tools]
    if missing:
        raise ValueError(f"{', '.join(missing)}: not installed in this Python; pip install it, or leave it out")
    if not tools:
        raise ValueError(f"no tool is installed in this Python; start with {ours.NAME} itself: pip install .")
    return tools


def render_all(arguments: argparse.Namespace) -> None:
    """Draws the plots, writes the tables."""
    if not arguments.results.is_file():
        raise ValueError(f"{arguments.results}: no results yet; measure first: python -m benchmarks run CORPUS")
    measured = records.read(arguments.results)
    if not arguments.no_plots:
        plots.draw_all(measured, arguments.plots)
    if not arguments.into:
        print(render.markdown(measured))
    for path in arguments.into:
        names = render.names_in(path.read_text("utf-8")) or [""]
        write(path, {name: render.TABLES[name](measured) for name in names})


def write(into: Path, texts: dict[str, str]) -> None:
    """Write the texts between the markers of a document, and report whether it changed."""
    print(f"{into}: {'written' if render.write_document(into, texts) else 'already up to date'}")


def predict_cost(arguments: argparse.Namespace) -> None:
    """Show what the model predicts for measured runs and for planned ones."""
    planned = cost.Cluster(
        arguments.nodes, arguments.cores, arguments.memory, arguments.network, arguments.request_ms / 1000
    )
    measured = records.read(arguments.results)
    text = cost_text.text(measured, planned, arguments.plan, arguments.chunk_size)
    if arguments.into is None:
        print(text)
    else:
        write(arguments.into, {"": text})


def perform(arguments: argparse.Namespace) -> int:
    """Does the subcommand; returns 1 if any child failed, else 0."""
    if arguments.command == "list":
        run.list_tools()
        return 0
    if arguments.command == "render":
        render_all(arguments)
        return 0
    if arguments.command == "cost":
        predict_cost(arguments)
        return 0
    session = run.start_session(arguments.results, arguments.rounds, arguments.timeout, arguments.special_token)
    if arguments.command == "growth":
        done = growth.measure_growth(
            session,
            arguments.corpus,
            arguments.sizes,
            arguments.vocab_sizes,
            arguments.workers,
            arguments.pattern,
            arguments.vocab_size,
        )
    elif arguments.command == "cliffs":
        done = cliffs.measure_cliffs(
            session, arguments.reference, arguments.sizes, arguments.pattern, arguments.vocab_size
        )
    elif arguments.command == "memory":
        with opened_corpora(arguments) as opened:
            done = memory.measure_limits(session, opened, arguments.limits, arguments.pattern, arguments.vocab_size)
    elif arguments.command == "startup":
        done = startup.run(session)
    elif arguments.command == "cluster":
        with opened_corpora(arguments) as opened:
            done = cluster.run(session, opened, arguments.pattern, arguments.vocab_size)
    elif arguments.command == "counting":
        with opened_corpora(arguments) as opened:
            done = counting.run(session, opened, arguments.pattern)
    elif arguments.command == "encode":
        with opened_corpora(arguments) as opened:
            done = encoding.run(
                session, opened, arguments.pattern, arguments.vocab_size, arguments.tokenizer, files=arguments.files
            )
    else:
        tools = chosen_tools(arguments.tools)
        with opened_corpora(arguments) as opened:
            done = run.run(session, opened, tools, arguments.pattern, arguments.vocab_size)
        print("\n" + render.markdown(done))
    return 1 if any(record["status"] == "failed" for record in done) else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    arguments = parse_arguments(argv)
    try:
        return perform(arguments)
    except (ValueError, OSError) as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was measured so far is in the results file", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
