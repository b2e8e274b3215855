"""The most often that a text, now a special token, can have been counted as text: a bound from the counts alone.

Where the pattern proves that a piece ends between two characters whatever is around them, the pieces between two such
places are in every text that holds these characters. The rarest of them is the bound; 0 is a proof. Nothing is known of
a text without two such places. Weights are at least 1, so a weighted count is a bound, too.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from pipeline.base.units import format_count
from pipeline.corpus.chunks import find_provable
from pipeline.counts.counter_file import as_batch, naming_damage, open_counter
from pipeline.executors import Executor
from pipeline.pattern.compiled import CompiledPattern, PatternSequence
from pipeline.pattern.normal_form import nfc
from pipeline.run.make_options import make_options
from pipeline.run.manifest import Run, run_of
from pipeline.run.options import CountOptions
from pipeline.run.patterns import pattern_of
from pipeline.storage import Location


def certain_pieces(text: str, pattern: CompiledPattern) -> Counter[bytes]:
    """Return the pieces that every text with this one in it has, and how often."""
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
    """Return the counts of those of these pieces that occur in a counter with this fingerprint; run by a worker."""
    import pyarrow as pa
    import pyarrow.compute as pc

    path, fingerprint, pieces = task
    wanted, counts = pa.array(pieces, pa.large_binary()), dict[bytes, int]()
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
    certain = {text: certain_pieces(text, pattern) for text in texts}
    if most_bytes := run.manifest.counting["max_piece_bytes"]:  # longer ones were cut
        certain = {
            text: Counter({piece: n for piece, n in c.items() if len(piece) <= most_bytes})
            for text, c in certain.items()
        }
    pieces = tuple(dict.fromkeys(piece for counts in certain.values() for piece in counts))
    task = (*run.counter, pieces)
    counted = find(task) if executor is None else executor.one(find, task)
    lines = []
    for text, counts in certain.items():
        if text in run.manifest.counting["split_at"]:
            lines.append((f"{text!r} was never counted as text: --split-at names it", True))
            continue
        often = {piece: counted.get(piece, 0) // times for piece, times in counts.items()}
        if not often:
            said = f"how often {text!r} was counted as text is unknown: the pattern may cut it in other ways"
            lines.append(
                (f"{said}; to be sure, count again with --special-token {text!r} (or --split-at, with --like)", False)
            )
            continue
        rarest = min(often, key=often.__getitem__)
        shown, most = rarest.decode(errors="replace"), often[rarest]
        said = f"{text!r} was counted as text at most {format_count(most, 'times')}, as often as the piece {shown!r}"
        lines.append(
            (said if most else f"{text!r} was never counted as text: the piece {shown!r} does not occur", not most)
        )
    return lines


def bounds_at(path: Location, texts: Sequence[str]) -> list[str]:
    """Say it of the run that a path names, if it names one with counts."""
    run = run_of(path) if texts else None
    return [line for line, _ in bounds(run, texts)] if run is not None and run.counter_path.exists() else []
