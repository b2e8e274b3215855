"""The most often that a text, now a special token, can have been counted as text: a bound from the counts alone.

Where the pattern proves that a pre-token ends between two characters whatever is around them, the pre-tokens between
two such places are in every text that holds these characters. The rarest of them is the bound; 0 is a proof. Nothing is
known of a text without two such places. Weights are at least 1, so a weighted count is a bound, too.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from bpe_pipeline.base.units import format_count
from bpe_pipeline.corpus.chunks import find_provable
from bpe_pipeline.counts.counter_file import as_batch, naming_damage, open_counter
from bpe_pipeline.executors import Executor
from bpe_pipeline.pattern.compiled import CompiledPattern, PatternSequence
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import Run, run_of
from bpe_pipeline.run.options import CountOptions
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.storage import Location


def certain_pre_tokens(text: str, pattern: CompiledPattern) -> Counter[bytes]:
    """Return the pre-tokens that every text with this one in it has, and how often."""
    automaton = None if isinstance(pattern, PatternSequence) else pattern.automaton
    text = nfc(text) if pattern.nfc else text
    data, cuts, at = text.encode(), list[int](), 1
    high = len(text[:-1].encode()) if pattern.nfc else len(data)  # the last character may join with what follows
    while automaton is not None and (cut := find_provable(automaton, pattern.form, data, at, high)) is not None:
        cuts.append(cut)
        at = cut + 1
    if automaton is None or len(cuts) < 2:
        return Counter()
    inner = data[cuts[0] : cuts[-1]]
    ends = [0, *automaton.cut(inner)]
    return Counter(inner[start:stop] for start, stop in pairwise(ends))


def find(task: tuple[Location, str, Sequence[bytes]]) -> dict[bytes, int]:
    """Return the counts of those of these pre-tokens that occur in a counter with this fingerprint; run by a worker."""
    import pyarrow as pa
    import pyarrow.compute as pc

    path, fingerprint, pre_tokens = task
    wanted, counts = pa.array(pre_tokens, pa.large_binary()), dict[bytes, int]()
    with open_counter(path, fingerprint=fingerprint) as counter, naming_damage(path):
        for columns in counter.read_all():
            batch = as_batch(columns)
            rows = batch.filter(pc.is_in(batch.column(0), wanted))
            counts.update(zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True))
    return counts


def bounds(run: Run, texts: Sequence[str], executor: Executor | None = None) -> list[tuple[str, bool]]:
    """Say of each text how often it can have been counted as text at most, and whether that is a proof of never."""
    if not texts:
        return []
    pattern = pattern_of(make_options(CountOptions, run.manifest.counting))
    certain = {text: certain_pre_tokens(text, pattern) for text in texts}
    pre_tokens = tuple(dict.fromkeys(pre_token for counts in certain.values() for pre_token in counts))
    task = (*run.counter, pre_tokens)
    counted = find(task) if executor is None else executor.one(find, task)
    split_at = run.manifest.counting["split_at"]
    return [_bound(text, counts, counted, is_split=text in split_at) for text, counts in certain.items()]


def _bound(text: str, certain: Counter[bytes], counted: Mapping[bytes, int], *, is_split: bool) -> tuple[str, bool]:
    if is_split:
        return f"{text!r} was never counted as text: --split-at names it", True
    if not certain:
        said = f"how often {text!r} was counted as text is unknown: the pattern may split it in other ways"
        return f"{said}; to be sure, count again with --special-token {text!r} (or --split-at, with --like)", False
    often = {pre_token: counted.get(pre_token, 0) // times for pre_token, times in certain.items()}
    rarest = min(often, key=often.__getitem__)
    shown, most = rarest.decode(errors="replace"), format_count(often[rarest], "times")
    if not often[rarest]:
        return f"{text!r} was never counted as text: the pre-token {shown!r} does not occur", True
    return f"{text!r} was counted as text at most {most}, as often as the pre-token {shown!r}", False


def bounds_at(path: Location, texts: Sequence[str]) -> list[str]:
    """Say it of the run that a path names, if it names one with counts."""
    run = run_of(path) if texts else None
    return [line for line, _ in bounds(run, texts)] if run is not None and run.counter_path.exists() else []
