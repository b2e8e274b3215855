"""What a manifest stores is read back as it was, whatever of it has its default; other types are refused by name."""

import json

import pytest

from pipeline.corpus.chunks import Chunk, Span
from pipeline.corpus.files import CorpusFile
from pipeline.run.manifest import Manifest, Source, Weighted
from pipeline.run.plan import Plan
from pipeline.run.stored import plain, stored

FILES = CorpusFile("a", 9, 1, "x"), CorpusFile("b", 9, 1, "x", "jsonl", "zstd", 7, "stdin/b")
PLAN = Plan(FILES, (Chunk((Span(0, 0, 9), Span(1, 0, 9, 20))),), ("c",), ("a", "b"), (0, 1))
SOURCE = Source("runs", "d", "two", (Weighted("r", "f", (1, 2)),), {"alpha": 1.5})


def test_what_is_stored_is_read_back_and_defaults_are_not_stored() -> None:
    whole = Manifest({}, {"by": "x"}, PLAN, {"a": None}, 300, SOURCE, ("t",), {"t": "f"}, {"t": {}}, ("1", "2"))
    for manifest in (Manifest({"pattern": "gpt2"}, {}), whole):
        assert stored(Manifest, json.loads(json.dumps(plain(manifest)))) == manifest
    assert plain(FILES[0]) == {"path": "a", "size": 9, "mtime_ns": 1, "digest": "x"}
    assert plain(PLAN.chunks[0]) == {"spans": [[0, 0, 9], [1, 0, 9, 20]]}


@pytest.mark.parametrize(("value", "error", "reason"), [
    ({"kind": "runs", "digest": "d"}, KeyError, "description"),
    ({**plain(SOURCE), "kind": 5}, ValueError, "kind: 5 is not of type str"),
    ({**plain(SOURCE), "mixed": {}}, ValueError, "mixed: {} is not of type list"),
    ({**plain(SOURCE), "mixed": [{"run": "r", "counts": "f", "weight": [1]}]}, ValueError, "mixed: weight: "),
    ({**plain(SOURCE), "mixed": [{"run": "r", "counts": "f", "weight": [1, True]}]}, ValueError, "True is not"),
    ([], ValueError, r"\[\] is not of type dict"),
])  # fmt: skip
def test_values_of_other_types_are_refused_by_name(value, error, reason) -> None:
    with pytest.raises(error, match=reason):
        stored(Source, value)
