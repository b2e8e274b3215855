"""Two small languages for tests of `parity`, trained by the package and by the definition."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from merge_cases import natural_counter
from parity_rules import Parity, train_by_parity
from reference import GPT2_BYTES

from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.parity.options import ParityCommandOptions
from bpe_pipeline.extensions.parity.parity import run_parity
from bpe_pipeline.merges import merge
from bpe_pipeline.merges.merge_worker import MergeTask
from bpe_pipeline.run import manifest
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.runner import watched
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

Named = Sequence[tuple[str, Path]]
Train = Callable[..., list[tuple[bytes, bytes]]]  # of an output and options: the merges


def _words(seed: int, pre_tokens: int) -> dict[bytes, int]:
    """Pre-tokens that gpt2's pattern does not cut."""
    return {
        pre_token: n for pre_token, n in natural_counter(seed, pre_tokens).items() if pre_token[1:].decode().isalpha()
    }


TRAIN = {name: _words(seed, 300) for seed, name in enumerate(["en", "sw"])}
DEV = {name: _words(seed + 20, 50) for seed, name in enumerate(["en", "sw"])}


def by_parity(languages: Named, dev: Named, executor: Executor, **options: Any) -> Tokenizer:
    """Train on counted runs; options: of merging, and the settings of parity. Without a measure, RUNs are their own."""
    own = () if {"ratio", "temperature"} & {*options} else languages
    asked = make_options(ParityCommandOptions, {"languages": dict(languages), **options})
    _, trained = run_parity(languages, dev or own, asked, executor, lambda _: None)
    return Tokenizer.from_model(trained.model(trained.options.vocab_size[0]))


def expected(
    merges: int, *, dev: bool = False, weights: Sequence[Fraction] = (), **options: Any
) -> tuple[list[tuple[bytes, bytes]], list[int | None]]:
    """The merges of TRAIN by the definition, and the language that chose each. weights: of the counters, or none."""
    train = [
        {pre_token: math.floor(count * weight + Fraction(1, 2)) for pre_token, count in counter.items()}
        for counter, weight in zip(TRAIN.values(), weights or [Fraction(1)] * len(TRAIN), strict=True)
    ]
    made = train_by_parity(Parity(train, dev=[*DEV.values()] if dev else None, **options), merges)
    tokens = [bytes([byte]) for byte in GPT2_BYTES]
    for left, right, _ in made:
        tokens.append(tokens[left] + tokens[right])
    return [(tokens[left], tokens[right]) for left, right, _ in made], [language for *_, language in made]


def task_of(home: Path, executor: Executor, vocab_size: int) -> MergeTask:
    """The task of merging a run to that size."""
    options = make_options(TrainOptions, {"output": home, "special_tokens": [], "vocab_size": vocab_size})
    run = manifest.require(home)
    with watched(options, executor, lambda _: None) as runner:
        return merge.task_of(runner, merge.learning_of(run), require_counted(run, executor), options)


def tokens_of(tokenizer: Tokenizer, counter: Mapping[bytes, int]) -> int:
    """The tokens of all pre-tokens of a counter."""
    return sum(len(tokenizer.encode(pre_token.decode())) * count for pre_token, count in counter.items())
