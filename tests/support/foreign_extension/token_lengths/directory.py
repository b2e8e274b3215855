"""A kind of directory: `lengths.json` says how many tokens of a tokenizer have each length in bytes."""

import json
from collections import Counter
from typing import Any

from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.storage import MODEL_BYTES, Location, parse_location, read_bounded
from bpe_pipeline.storage.atomic import write_whole
from bpe_pipeline.tokenizer.formats.files import load_model

NAME = "lengths.json"


def lengths_of(tokenizer: Location, most: int) -> dict[str, int]:
    """Return the number of tokens by length. most: lengths above it are not counted."""
    tokens = load_model(tokenizer).vocabulary.tokens.values()
    lengths = sorted(Counter(map(len, tokens)).items())
    return {str(length): number for length, number in lengths if length <= most}


def write(home: Location, tokenizer: Location, most: int) -> Facts:
    """Write the directory; its file appears when it is whole."""
    stored = {"tokenizer": str(tokenizer), "most": most, "lengths": lengths_of(tokenizer, most)}
    home.mkdir(parents=True, exist_ok=True)
    write_whole(home / NAME, json.dumps(stored))
    return Facts(stored, "lengths", short=str(home))


def info(home: Location) -> Facts:
    """Return what `info` says of the directory."""
    stored = _read(home)
    return Facts({"lengths_of": stored["tokenizer"], "longest": max(map(int, stored["lengths"]))})


def verify(home: Location, *_: Any) -> dict[str, str]:
    """Count again; return what was verified."""
    stored = _read(home)
    if lengths_of(parse_location(stored["tokenizer"]), stored["most"]) != stored["lengths"]:
        raise RunDirectoryError(f"{home / NAME} is not of {stored['tokenizer']} as it is: make it again")
    return {"lengths": f"those of {stored['tokenizer']}"}


def report(home: Location, _executor: Any) -> Facts:
    """Return what `report` prints."""
    return Facts(_read(home)["lengths"], "reported")


def _read(home: Location) -> Any:
    return json.loads(read_bounded(home / NAME, MODEL_BYTES))
