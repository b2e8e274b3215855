"""What `sweep` takes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

from bpe_pipeline.run import values as read
from bpe_pipeline.run.options import LearningOptions, MixtureOptions, OutputOptions, VocabularyOptions
from bpe_pipeline.run.record import OWN, Scope, argument, but, flag
from bpe_pipeline.storage import Location


def _listed(value: Any) -> list[Any]:
    """Split words at commas."""
    listed = value if isinstance(value, list | tuple) else [value]
    return [word for one in listed for word in (one.split(",") if isinstance(one, str) else [one])]


def _parse_weights(value: Any) -> dict[str, list[Fraction]]:
    """Read weights to try, by the names of runs; on the command line as `NAME=W,W`.

    >>> _parse_weights(("code=1,1/2", "code=0"))
    {'code': [Fraction(1, 1), Fraction(1, 2), Fraction(0, 1)]}
    """
    words = value if isinstance(value, list | tuple) else ()
    listed = value.items() if isinstance(value, Mapping) else [str(word).rpartition("=")[::2] for word in words]
    if not all(name for name, _ in listed) or (value and not listed):
        raise ValueError("weights by the names of runs, such as NAME=1,2")
    choices = defaultdict[str, list[Fraction]](list)
    for name, weights in listed:
        choices[name] += (Fraction(0) if one in (0, "0") else read.parse_weight(one) for one in _listed(weights))
    return dict(choices)


def _parse_temperatures(value: object) -> tuple[str, ...]:
    """Read temperatures, of the command line with commas."""
    return tuple(dict.fromkeys(map(read.parse_temperature, _listed(value))))


# fmt: off
class SweepOptions(OutputOptions, VocabularyOptions):
    """What `sweep` takes."""

    output: Location | None = but(OutputOptions.output, help="directory of the table, and of a run for each mixture")
    vocab_size: tuple[int, ...] = but(VocabularyOptions.vocab_size, help="numbers of tokens to try, with commas")
    tie_break: Literal["lowest-ids", "greatest-bytes"] = LearningOptions.tie_break
    runs: tuple[Location, ...] = argument("RUN ...", "the directories of counted runs")
    weights: Mapping[str, Sequence[Fraction]] | None = flag(None,
        "weights to try for the run in directory NAME, 0: without it; every combination is a mixture; repeatable  "
        "[default: 1]", "NAME=W[,W...]", read=_parse_weights, flag="--weight",
        keyword=Mapping[str, float | str | Sequence[float | str]] | None)
    temperatures: tuple[str, ...] = flag((),
        "instead of weights: temperatures to try, each a mixture; 1: as counted, inf: equal shares", "T[,T...]",
        read=_parse_temperatures, flag="--temperature", keyword=Sequence[float | str] | float | str)
    shares: tuple[str, ...] | None = but(MixtureOptions.shares, group=OWN, scope=Scope.CALL, advanced=False)
    held_out: tuple[Location, ...] = flag((),
        "text that was not trained on: files, directories, globs; repeatable; default: what each RUN counted", "PATH")
# fmt: on
