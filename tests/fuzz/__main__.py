"""Feed random and mutated inputs to the native core and to every reader of files, for any length of time.

    python -P tests/fuzz --seconds 300 --seed 1 [TARGET ...]

Run it with the core under sanitizers, as `.ci/sanitize --fuzz SECONDS` does: it looks for memory that is
read or written out of bounds, and for exceptions that are not errors of the package. Each input follows from a seed
alone, so `--seed N --inputs 1` repeats a failure by the seed that it names.

A target prepares itself in a directory and returns a function that tries one input: it takes a source of randomness,
makes an input from it, and raises an exception that is not one of the package's, or `AssertionError` for a result that
differs from another way of computing it.

It replaces atheris and libFuzzer: one fuzzer covers Python and core without another interpreter or compiler, and it
knows the formats, so few of its inputs are refused at their first byte.
"""

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path[:0] = map(str, Path(__file__).parents[1].iterdir())

import oracle_pattern
import pattern_texts
import peers
import samples
import test_config_files
import test_count_worker
import test_json_lines
import test_merge_worker
import test_tokenizer
import test_warc
from counter_files import read, write
from merge_cases import arrays, engine_of, learn

from bpe_pipeline import Tokenizer, _core
from bpe_pipeline.base.errors import InputError, PipelineError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.combine_worker import CombineTask, combine
from bpe_pipeline.counts.counter_file import Term, open_counter
from bpe_pipeline.executors.local import LocalExecutor
from bpe_pipeline.merges import merge_list
from bpe_pipeline.pattern.by_regex import cut_with_regex
from bpe_pipeline.pattern.parse import parse
from bpe_pipeline.run import manifest
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.open_run import open_run
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.runner import opened
from bpe_pipeline.tokenizer.formats.huggingface import write_model

Target = Callable[[random.Random], None]
_LETTERS = [*"abk \n\r\té1中\u00a0😀'", "<|a|>", "<|ab", *peers.WORDS[:20]]


def mutated(good: bytes, source: random.Random) -> bytes:
    """Return the bytes with some of them flipped, dropped, doubled, moved, or replaced by values that are special."""
    data = bytearray(good)
    for _ in range(source.choice([1, 1, 1, 2, 3, 8])):
        at, size = source.randrange(len(data) + 1), source.choice([1, 1, 2, 4, 8, 100])
        how = source.randrange(6)
        if how == 0 and at < len(data):
            data[at] ^= 1 << source.randrange(8)
        elif how == 1:
            del data[at : at + size]
        elif how == 2:
            data[at:at] = data[at : at + size]
        elif how == 3:
            data[at : at + size] = source.randbytes(size)
        elif how == 4:
            data[at : at + size] = source.choice([b"\xff" * size, bytes(size), b"9" * 20, b"[" * 200, b"null", b"-1"])
        else:
            other = source.randrange(len(data) + 1)
            data[at : at + size] = data[other : other + size]
    return bytes(data)


@contextmanager
def _refused_in_one_line(kind: type[PipelineError] = PipelineError) -> Iterator[None]:
    """Let a block end with an error of the package, whose message is one line."""
    try:
        yield
    except kind as error:
        assert "\n" not in str(error)


def counter_files(home: Path) -> Target:
    """Require that a damaged counter is refused, or read and combined as it was."""
    counts = {f"{number:x}".encode() * (number % 7 + 1): number + 1 for number in range(700)}
    counted_bytes = sum(len(pre_token) * count for pre_token, count in counts.items())
    good = write(home / "good.parquet", counts, partitions=2).read_bytes()
    bad = home / "bad.parquet"

    def try_input(source: random.Random) -> None:
        bad.write_bytes(mutated(good, source))
        both, total = [(bad, "f"), (home / "good.parquet", "f")], home / "sum.parquet"
        with _refused_in_one_line(), open_counter(bad, fingerprint="f") as counter:
            assert (counter.rows, counter.statistics) == (
                len(counts),
                ChunkStatistics(pre_tokens=sum(counts.values()), counted_bytes=counted_bytes),
            )
        rows = None
        with _refused_in_one_line():
            rows = combine(CombineTask([Term(both)], total, "s", threads=1)).rows
        if rows is not None:
            assert rows == len(counts)
            assert read(total) == {pre_token: 2 * count for pre_token, count in counts.items()}

    return try_input


def columns(_: Path) -> Target:
    """Require that wrong offsets of a counter are refused, or only move a border between two pre-tokens."""

    def try_input(source: random.Random) -> None:
        packed, data, counts = arrays({source.randbytes(source.randint(0, 30)): 3 for _ in range(20)})
        offsets = array("q", packed)
        offsets[source.randrange(len(offsets))] += source.choice([-1, 1, -(1 << 40), 1 << 40])
        engine = _core.MergeEngine()
        with suppress(ValueError, OverflowError):
            engine.add(offsets, data, counts)
            learn(engine, 20)

    return try_input


def merge_files(home: Path) -> Target:
    """Require that a damaged merge list is refused, taken for another run's, or read as it was."""
    result = learn(engine_of({peers.generated_text(1, 400).encode(): 3}), 90)
    lists = (result.left, "I"), (result.right, "I"), (result.counts, "Q"), (result.joined, "Q")
    merges = merge_list.MergeList(*(array(kind, column) for column, kind in lists), result.bytes, exhausted=False)
    path = home / "merges.parquet"
    merge_list.save(merges, path, "f")
    good = path.read_bytes()

    def try_input(source: random.Random) -> None:
        path.write_bytes(mutated(good, source))
        with _refused_in_one_line():
            assert merge_list.load(path, "f") in (merges, None)

    return try_input


def manifests(home: Path) -> Target:
    """Require that a damaged manifest, half of the time with a right digest, is refused or has a plan that fits."""
    (home / "text.txt").write_text("some text")
    options = make_options(TrainOptions, {"inputs": str(home / "text.txt"), "output": home / "run"})
    with opened(options, LocalExecutor(lambda: 1), lambda _: None) as (runner, directory):
        open_run(runner, directory, options)
    path = home / "run" / "run.json"
    good, expected = path.read_bytes(), manifest.require(path.parent).manifest

    def try_input(source: random.Random) -> None:
        data = mutated(good, source)
        forged = source.random() < 0.5
        if forged:
            with suppress(ValueError, AttributeError, TypeError):
                document = json.loads(data)
                document.pop("digest", None)
                data = json.dumps(document | {"digest": manifest.fingerprint(document)}).encode()
        path.write_bytes(data)
        with _refused_in_one_line():
            loaded = manifest.load(path.parent)
            assert loaded is not None
            assert forged or loaded.manifest == expected
            assert loaded.manifest.counter_fingerprint

    return try_input


def models(home: Path) -> Target:
    """Require that a damaged tokenizer is refused, or encodes and decodes."""
    files = []
    for name in samples.PATTERNS:
        write_model(Tokenizer.from_merges(samples.trained(name), ["<|a|>"], pattern=name).model, home / name[:3])
        files.append((home / name[:3] / "tokenizer.json").read_bytes())
    path = home / "tokenizer.json"

    def try_input(source: random.Random) -> None:
        path.write_bytes(mutated(source.choice(files), source))
        tokenizer = None
        with _refused_in_one_line(InputError):
            tokenizer = Tokenizer.load(path)
        if tokenizer is not None:
            text = "".join(source.choices(_LETTERS, k=60))
            assert tokenizer.decode(tokenizer.encode_ordinary(text)) == text

    return try_input


def patterns(_: Path) -> Target:
    """Require that automata cut as `regex` does, or where it errs, as a matcher that is plainly right."""

    def try_input(source: random.Random) -> None:
        expression, compiled = next(pattern_texts.accepted(source))
        text = "".join(source.choices(pattern_texts.PATTERN_ALPHABET, k=source.randint(1, 24)))
        pre_tokens = compiled.cut(text)
        if pre_tokens != list(cut_with_regex(expression, text)):
            assert pre_tokens == oracle_pattern.pre_tokens(parse(expression), text), (expression, text)

    return try_input


TARGETS = {make.__name__: make for make in (counter_files, merge_files, manifests, columns, models, patterns)}
for name, test in (  # property tests, to which Hypothesis gives what it makes of any bytes
    ("counting", test_count_worker.test_any_block_window_and_policy),
    ("merging", test_merge_worker.test_same_merges_as_the_reference),
    ("configs", test_config_files.test_a_configuration_of_any_bytes_is_refused_or_read),
    ("records", test_json_lines.test_records_are_those_of_the_standard_json),
    ("archives", test_warc.test_damaged_archives_are_read_alike_in_any_blocks),
    ("lines", test_json_lines.test_lines_do_not_depend_on_the_blocks),
    ("short pre-tokens", test_tokenizer.test_short_pre_tokens_are_merged_by_definition),
    ("long pre-tokens", test_tokenizer.test_long_pre_tokens_are_merged_by_definition),
):
    TARGETS[name] = lambda _, give=test.hypothesis.fuzz_one_input: lambda source: give(source.randbytes(3000))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=0, help="of the first input; the next has the next number")
    parser.add_argument("--inputs", type=int, default=sys.maxsize, help="at most so many for each target")
    options = parser.parse_args()
    names = options.targets or list(TARGETS)
    failures = 0
    with tempfile.TemporaryDirectory() as home:
        for name in names:
            tried = 0
            target = TARGETS[name](Path(home))
            ended = time.monotonic() + options.seconds / len(names)
            while tried < options.inputs and time.monotonic() < ended:
                seed, tried = options.seed + tried, tried + 1
                try:
                    target(random.Random(f"{name} {seed}"))
                except Exception:
                    failures += 1
                    sys.stderr.write(f"{name}, --seed {seed}:\n{traceback.format_exc()}\n")
            sys.stdout.write(f"{name:<12} {tried:>9,} inputs\n")
            sys.stdout.flush()
    sys.stdout.write(f"{failures} found\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
