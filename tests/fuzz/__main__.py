"""The long fuzzer: random and mutated inputs for the native core and every reader of files, for as long as one likes.

    python -P tests/fuzz --seconds 300 --seed 1 [TARGET ...]

Run it with the core under sanitizers, as `.ci/sanitize --fuzz SECONDS` does: what it is after is memory read or
written where nobody should, and whatever escapes that is not an error of the package. An input is made from a seed
alone, so that `--seed N --inputs 1` repeats the one that is named when something is found.

Ours rather than atheris or libFuzzer: one fuzzer for Python and core, which needs no other interpreter or compiler;
it knows the formats, so that few of its inputs are refused at their first byte.
"""

import argparse
import itertools
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = map(str, Path(__file__).parents[1].iterdir())

import file_targets
import test_config_files
import test_count_worker
import test_json_lines
import test_merge_worker
import test_patterns
import test_tokenizer

TARGETS: dict[str, Callable[[Path], file_targets.Target]] = {
    target.__name__: target
    for target in (
        *(file_targets.counter_files, file_targets.merge_files, file_targets.manifests),
        *(file_targets.columns, file_targets.models),
    )
}
for name, test in (  # property tests, to which Hypothesis gives what it makes of any bytes
    ("pattern", test_patterns.test_generated_patterns_cut_as_regex_does),
    ("counting", test_count_worker.test_any_block_window_and_policy),
    ("merging", test_merge_worker.test_same_merges_as_the_reference),
    ("configs", test_config_files.test_a_configuration_of_any_bytes_is_refused_or_read),
    ("records", test_json_lines.test_records_are_those_of_the_standard_json),
    ("lines", test_json_lines.test_lines_do_not_depend_on_the_blocks),
    ("short pieces", test_tokenizer.test_short_pieces_are_merged_by_definition),
    ("long pieces", test_tokenizer.test_long_pieces_are_merged_by_definition),
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
    found = 0
    with tempfile.TemporaryDirectory() as home:
        for name in names:
            tried = 0
            target = TARGETS[name](Path(home))
            ended = time.monotonic() + options.seconds / len(names)
            for seed in itertools.count(options.seed):
                if tried >= options.inputs or time.monotonic() > ended:
                    break
                tried += 1
                try:
                    target(random.Random(f"{name} {seed}"))
                except Exception:
                    found += 1
                    sys.stderr.write(f"{name}, --seed {seed}:\n{traceback.format_exc()}\n")
            sys.stdout.write(f"{name:<12} {tried:>9,} inputs\n")
            sys.stdout.flush()
    sys.stdout.write(f"{found} found\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
