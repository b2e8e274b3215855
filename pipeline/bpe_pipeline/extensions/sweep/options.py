"""What `sweep` takes."""

from collections.abc import Mapping, Sequence

from bpe_pipeline.run import values as read
from bpe_pipeline.run.mixture import parse_temperature
from bpe_pipeline.run.options import MergeOptions, MixtureOptions, OutputOptions, VocabularyOptions
from bpe_pipeline.run.record import CALL, OWN, argument, as_in, flag
from bpe_pipeline.storage import Location, parse_location


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
        help="directory of the runs, the page and the recommended tokenizer")
    vocab_size: tuple[int, ...] = as_in(VocabularyOptions, "vocab_size",
        help="numbers of tokens to try, with commas")
    tie_break: str = as_in(MergeOptions, "tie_break")
    runs: tuple[Location, ...] = argument("[RUN ...]", read.parse_locations, "the directories of counted runs", ())
    candidates: tuple[Location, ...] = flag((), read.parse_locations,
        "trained run to compare on --held-out: of another pattern, by parity, with superwords; repeatable",
        "RUN", flag="--candidate")
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
    parameters: str | None = flag(None, lambda value: value,
        "size of the model without embeddings, such as 7B, to recommend a vocabulary size", "N",
        keyword=float | str | None)
    tokens: str | None = flag(None, lambda value: value,
        "tokens that the model is trained on, such as 2T  [default: compute-optimal]", "N",
        keyword=float | str | None)
    hidden_size: str | None = flag(None, lambda value: value,
        "width of the model, a row of its embedding  [default: usual for --parameters]", "N", advanced=True,
        keyword=float | str | None)
    figures: Location | None = flag(None, parse_location,
        "also write each figure as SVG, PDF and CSV, and each table as CSV", "DIR")
# fmt: on
