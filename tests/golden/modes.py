"""The ways to merge that no option chooses for a small corpus: the only file here that knows the core."""

import random
import tempfile
from ast import literal_eval
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from merge_cases import Counter, arrays
from reference import GPT2_BYTES

from bpe_pipeline import _core
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.run.options import RECORDS, flag_of

RULES = {flag_of(rule.name): rule.name for rule in fields(MergeRules) if rule.name in RECORDS}
THREADS = {"--workers": "threads"}
PARITY = {"--window": "window", "--alpha": "alpha", "--global-merges": "global_merges"}
MODES = ["memory", "compact", "disk-1", "disk-300", "disk-3000", "disk-30000"]


def merged(
    mode: str, flags: Sequence[str], counters: Sequence[Counter], dev: Sequence[Counter], merges: int, stop: int | None
) -> list[tuple[bytes, bytes, int]]:
    """Merge in a mode with a stop after that many merges. Lists and shares of threads are tiny, for many phases."""
    chance = random.Random(f"{mode} {flags}")
    rules = MergeRules(**named(RULES, flags))
    threads = named(THREADS, flags)
    tuning = {"index_positions": chance.choice((40, 400)), "narrow_symbols": chance.choice((0, 300, 65536))}
    columns = [[arrays(one) for one in several] for several in (counters, dev)]
    known: dict[str, Any] = {}
    for limit in [*([] if stop is None else [stop]), merges]:
        if mode == "parity":
            shares = [float(value) for flag, value in pairwise(flags) if flag == "--ratio"]
            readers = [[lambda one=one: [one] for one in several] for several in columns]
            chosen = named(PARITY, flags) | {"ratios": shares}
            languages: Any = _core.ParityTraining(limit, rules, *readers, **threads, **tuning, **chosen, **known)
            while languages.merge(0.01):
                pass
            result, (spent, recent) = languages.result, languages.choice
            known = {"chosen_by": languages.chosen_by, "spent": spent, "recent": recent}
        else:
            engine = _core.MergeEngine()
            engine.add(*columns[0][0])
            if known:
                engine.resume(*known.values())
            how: Any = {"compact": mode == "compact", "thread_bytes": 1, "share_from": 30}
            with tempfile.TemporaryDirectory() as scratch:
                if "disk" in mode:
                    how |= {"resident_bytes": int(mode[5:]), "scratch": str(Path(scratch, "words"))}
                result, known = engine.run(limit, rules, **threads, **tuning, **how), {}
        known = {name: getattr(result, name) for name in ("left", "right", "counts", "joined")} | known
    tokens = [bytes([byte]) for byte in GPT2_BYTES]
    for left, right in zip(result.left, result.right, strict=True):
        tokens.append(tokens[left] + tokens[right])
    pairs = zip(result.left, result.right, result.counts, strict=True)
    return [(tokens[left], tokens[right], count) for left, right, count in pairs]


def named(names: dict[str, str], flags: Sequence[str]) -> dict[str, Any]:
    given = [(names[flag], value) for flag, value in pairwise([*flags, "--"]) if flag in names]
    return {
        name: True if value[:2] == "--" else literal_eval(value) if value[0].isdigit() else value
        for name, value in given
    }
