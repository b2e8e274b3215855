"""What `sweep` takes."""

from collections.abc import Mapping, Sequence

from bpe_pipeline.run import values as read
from bpe_pipeline.run.mixture import parse_temperature
from bpe_pipeline.run.options import MergeOptions, MixtureOptions, OutputOptions, VocabularyOptions
from bpe_pipeline.run.record import CALL, OWN, argument, as_in, flag
from bpe_pipeline.storage import Location


def _parse_weights(value: object) -> tuple[str, ...]:
    """Read weights to try, by the names of runs, as `NAME=W,W`."""
    if isinstance(value, Mapping):
        listed = {name: one if isinstance(one, list | tuple) else [one] for name, one in value.items()}
        return tuple(f"{name}={','.join(map(str, weights))}" for name, weights in listed.items())
    if not isinstance(value, tuple):  # of words
        raise ValueError("weights for the names of runs, such as {'code': [1, 2]}")
    return value


def _parse_temperatures(value: object) -> tuple[str, ...]:
    """Read temperatures, of the command line with commas."""
    listed = value if isinstance(value, list | tuple) else [value]
    words = [word for one in listed for word in (one.split(",") if isinstance(one, str) else [one])]
    return tuple(dict.fromkeys(map(parse_temperature, words)))


# fmt: off
class SweepOptions(OutputOptions, VocabularyOptions):
    """What `sweep` takes."""

    output: Location | None = as_in(OutputOptions, "output",
        help="directory of the runs, the table and the recommended tokenizer")
    vocab_size: tuple[int, ...] = as_in(VocabularyOptions, "vocab_size",
        help="numbers of tokens to try, with commas")
    tie_break: str = as_in(MergeOptions, "tie_break")
    runs: tuple[Location, ...] = argument("RUN ...", read.parse_locations, "the directories of counted runs")
    weights: tuple[str, ...] = flag((), _parse_weights,
        "weights to try for the run in directory NAME, 0: without it; every combination is a mixture; repeatable  "
        "[default: 1]", "NAME=W[,W...]", flag="--weight",
        keyword=Mapping[str, float | str | Sequence[float | str]] | None)
    temperatures: tuple[str, ...] = flag((), _parse_temperatures,
        "instead of weights: temperatures to try, each a mixture; 1: as counted, inf: equal shares", "T[,T...]",
        flag="--temperature", keyword=Sequence[float | str] | float | str)
    shares: tuple[str, ...] | None = as_in(MixtureOptions, "shares", group=OWN, stage=CALL, advanced=False)
    held_out: tuple[Location, ...] = flag((), read.parse_locations,
        "text that was not trained on: files, directories, globs; repeatable; default: what each RUN counted", "PATH")
# fmt: on
