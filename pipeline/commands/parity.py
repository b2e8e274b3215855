"""`merge --parity`: one vocabulary from the counts of several languages, which take turns in choosing its merges.

A new run holds the sum of the counts; its merges are learned from those of each language, where they are stored.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from pipeline.base.errors import UsageError, unfit
from pipeline.base.events import Listener
from pipeline.commands.combine import combine_languages
from pipeline.commands.merge import run_merge
from pipeline.executors import Executor
from pipeline.reports.progress import for_python
from pipeline.reports.summary import Summary
from pipeline.run import manifest
from pipeline.run.manifest import Run
from pipeline.run.option_types import AnyPath, MergeOptions
from pipeline.run.options import flag_of, lists_options, make_options
from pipeline.run.parity import Language, Parity
from pipeline.run.workers import executor_for
from pipeline.storage import Location, named, same_location
from pipeline.tokenizer.export import Trained
from pipeline.tokenizer.tokenizer import Tokenizer


@lists_options
def train_parity(
    languages: Mapping[str, AnyPath],
    *,
    dev: Mapping[str, AnyPath] | None = None,
    ratio: Mapping[str, float] | None = None,
    window: int = 0,
    alpha: float = 2.0,
    global_merges: int = 0,
    progress: bool = False,
    **options: Unpack[MergeOptions],
) -> Tokenizer:
    """Train one vocabulary on several languages so that all are compressed alike, as `merge --parity` does.

    Args:
        languages: the counted run of each language, by a name for it.
        dev: a counted run for each language whose texts are measured, such as translations of the same sentences;
            default: the languages' own texts.
        ratio: instead of dev, how much each language is to be compressed in relation to the others.
        window: how many of the last choices are looked at, so that no language chooses too often; 0: none.
        alpha: with a window, a language may have alpha / number of languages of these choices.
        global_merges: how many merges are chosen by the counts of all languages together, first.
        progress: as of `pipeline.train`.
        **options: of merging, such as `vocab_size`, and the new run's `output`.

    Returns:
        The tokenizer; of several sizes, the first.

    Raises:
        UsageError: for settings that do not fit the languages, or a memory limit that is too small.
        RunDirectoryError: for runs that are not completely counted or cannot be compared.

    >>> one = pipeline.import_counts({"aabb": 10}, output="runs/one")
    >>> two = pipeline.import_counts({"ccdd": 10}, output="runs/two")
    >>> tokenizer = pipeline.train_parity({"one": one, "two": two}, vocab_size=259, output="runs/parity")
    >>> tokenizer.merges
    [(b'b', b'b'), (b'd', b'd')]
    """
    if not isinstance(languages, Mapping) or not languages or not all(isinstance(name, str) for name in languages):
        raise unfit("languages", "a run directory for each name of a language", languages)
    for name, given in (("dev", dev), ("ratio", ratio)):
        if given is not None and (not isinstance(given, Mapping) or set(given) != set(languages)):
            raise unfit(name, "a value for each of the languages", given)
    homes = [(name, named(run, "languages")) for name, run in languages.items()]
    of_dev = [] if dev is None else [(name, named(dev[name], "dev")) for name in languages]
    settings = {
        "ratios": [] if ratio is None else [_above_zero("ratio", ratio[name]) for name in languages],
        "window": _whole("window", window),
        "alpha": _above_zero("alpha", alpha),
        "global_merges": _whole("global_merges", global_merges),
    }
    with for_python(progress) as listener, executor_for(make_options(options)) as executor:
        _, trained = run_parity(homes, of_dev, settings, options, executor, listener)
    return Tokenizer.from_model(trained.model(trained.options.vocab_size[0]))


def _above_zero(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise unfit(name, "a number above 0", value)
    return float(value)


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise unfit(name, "a whole number, 0 or more", value)
    return value


def run_parity(
    languages: Sequence[tuple[str, Location]],
    dev: Sequence[tuple[str, Location]],
    settings: Mapping[str, Any],
    given: Mapping[str, Any],
    executor: Executor,
    listener: Listener,
) -> tuple[Summary, Trained]:
    """Combine the counts of the languages into a new run, and learn its merges by parity."""
    for name in ("tie_break", "superwords_from", "weights"):
        if given.get(name) is not None:
            raise UsageError(f"{flag_of(name)} means nothing for merges that are chosen by parity: leave it out")
    runs, of_dev = _runs(languages, "RUN"), _runs(dev, "--dev")
    parity = Parity(
        tuple(_language(name, run) for (name, _), run in zip(languages, runs, strict=True)),
        tuple(_language(name, run) for (name, _), run in zip(dev, of_dev, strict=True)),
        **{**settings, "ratios": tuple(settings["ratios"])},
    )
    parity.check()
    making = {name: given[name] for name in ("output", "overwrite", "workers", "memory_limit") if name in given}
    location = combine_languages(runs, of_dev, parity, make_options(making), executor, listener).directory
    return run_merge(location, {name: one for name, one in given.items() if name != "output"}, executor, listener)


def _runs(languages: Sequence[tuple[str, Location]], of_what: str) -> list[Run]:
    """Return the runs of languages; `UsageError` if one is named twice."""
    homes = [home for _, home in languages]
    for index, home in enumerate(homes):
        if any(same_location(home, other) for other in homes[:index]):
            raise UsageError(f"{of_what} {home} is named twice: a language has one run")
    return [manifest.require(home) for home in homes]


def _language(name: str, run: Run) -> Language:
    path = run.counter_path.absolute() if isinstance(run.counter_path, Path) else run.counter_path
    return Language(name, str(path), run.manifest.counter_fingerprint())
