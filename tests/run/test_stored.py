"""What a manifest stores is read back as it was, whatever of it has its default; other types are refused by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe_pipeline.corpus.chunks import Chunk, Span
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.counts.checkpoint import Checkpoint
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.manifest import Manifest
from bpe_pipeline.run.plan import Plan
from bpe_pipeline.run.stored import plain, stored
from bpe_pipeline.run.texts import Source, Text

TEXTS, NUMBERS = st.text(max_size=5), st.integers(0, 1 << 64)
COUNTS = st.dictionaries(TEXTS, NUMBERS, max_size=3)
FILES = st.builds(CorpusFile, TEXTS, NUMBERS, NUMBERS, TEXTS, ctime_ns=NUMBERS, by_name=st.booleans())
SPANS = st.builds(Span, NUMBERS, NUMBERS, NUMBERS, st.none() | NUMBERS)
CHUNKS = st.builds(Chunk, st.lists(SPANS, max_size=3).map(tuple))
SOURCE = Source("runs", "d", "two", {"alpha": 1.5})
TEXT = Text("r", "f", (1, 2))


def several(values):
    return st.lists(values, max_size=3).map(tuple)


VALUES = {
    Plan: st.builds(Plan, several(FILES), several(CHUNKS), several(TEXTS), several(NUMBERS)),
    Text: st.builds(Text, TEXTS, TEXTS, st.tuples(NUMBERS, NUMBERS), st.none() | NUMBERS),
    ChunkStatistics: st.builds(ChunkStatistics, bytes=NUMBERS, looks_special=COUNTS, concerned_characters=TEXTS),
    Checkpoint: st.builds(Checkpoint, NUMBERS, NUMBERS, several(TEXTS)),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_what_is_stored_is_read_back(kind, data):
    value = data.draw(VALUES[kind])
    assert stored(kind, json.loads(json.dumps(plain(value)))) == value


def test_a_whole_manifest_is_read_back():
    plan = Plan((CorpusFile("a", 9, 1, "x"),), (Chunk((Span(0, 0, 9, 20),)),), ("c",), (0,))
    whole = Manifest({}, {"by": "x"}, plan, {"a": None}, 300, SOURCE, ("t",), {"t": "f"}, {"t": {}}, (TEXT,))
    assert stored(Manifest, json.loads(json.dumps(plain(whole)))) == whole


def test_a_count_among_measures_stays_a_whole_number():
    read = stored(dict[str, int | float], json.loads('{"tokens": 3, "rate": 3.0}'))
    assert [(name, type(value)) for name, value in read.items()] == [("tokens", int), ("rate", float)]


def test_defaults_are_not_stored():
    assert plain(CorpusFile("a", 9, 1, "x")) == {"path": "a", "size": 9, "mtime_ns": 1, "digest": "x"}
    assert plain(Chunk((Span(0, 0, 9), Span(1, 0, 9, 20)))) == {"spans": [[0, 0, 9], [1, 0, 9, 20]]}


def test_names_that_a_type_does_not_have_are_ignored():
    assert stored(Source, plain(SOURCE) | {"of a later release": 1}) == SOURCE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": 5}, "name: Expected `str`, got `int`"),
        ({"weight": {}}, "weight: Expected `array`, got `object`"),
        ({"weight": [1]}, "weight: "),
        ({"weight": [1, True]}, r"weight\[1\]: Expected `int`, got `bool`"),
    ],
)
def test_values_of_other_types_are_refused_by_name(changes, reason):
    with pytest.raises(ValueError, match=reason):
        stored(Text, plain(TEXT) | changes)


def test_a_missing_name_is_refused():
    with pytest.raises(ValueError, match="missing required field `description`"):
        stored(Source, {"kind": "runs", "digest": "d"})


def test_what_is_no_object_is_refused():
    with pytest.raises(ValueError, match="Expected `object`, got `array`"):
        stored(Source, [])
