"""Locations are parsed and shown; what a query may hide is stored and printed nowhere."""

import json
import pickle
from pathlib import Path

import pytest
from command import run_here
from hypothesis import given
from hypothesis import strategies as st

from bpe_pipeline import storage
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.cli.settle import settle
from bpe_pipeline.commands.public.train import train
from bpe_pipeline.storage import Location, Remote, location


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a/b.txt", Path("a/b.txt")),
        ("file:///a/b%20c.txt", Path("/a/b c.txt")),
        ("FILE://localhost/a", Path("/a")),
        ("c:/a", Path("c:/a")),
        ("s3://b", Remote("s3://b", "", "")),
        ("s3://b/k/l/?region=x&scheme=http", Remote("s3://b", "region=x&scheme=http", "k/l")),
        ("S3://b//k%20é//l#1", Remote("s3://b", "", "k é/l#1")),
        ("abfss://c@account.example/k", Remote("abfss://c@account.example", "", "k")),
        ("hdfs:///k", Remote("hdfs://", "", "k")),
    ],
)
def test_location_of_a_text(text: str, named: Location) -> None:
    assert location(text) == named
    assert location(str(named)) == named


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("s4://b/k", "known scheme"),
        ("http://b/k", "known scheme"),
        ("s3://", "names something"),
        ("s3:///k", "names something"),
        ("file://", "local file"),
        ("file://host/k", "local file"),
        ("s3://key:hunter2@b/k?sig=hunter2", "without a user's password"),
        ("s4://b/k?sig=hunter2;token=hunter2", "known scheme"),
        ("s3://[b/k", "a URI such as"),
        (Path("s3://b/k"), "as a text"),
    ],
)
def test_invalid_location_is_refused_with_the_reason(value: str | Path, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        location(value)
    with pytest.raises(UsageError, match=reason) as error:
        storage.named(value)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://b/k?X-Amz-Credential=hunter2&region=x&X-Amz-Signature=hunter2", "s3://b/k?region=x"),
        ("abfs://c@account/k?Signature=hunter2&sig=hunter2&enable_tls=true", "abfs://c@account/k?enable_tls=true"),
        ("gs://b/k?key=hunter2", "gs://b/k"),
        ("fsspec+http://host/k?region=hunter2&token=hunter2", "fsspec+http://host/k"),
    ],
)
def test_rest_of_a_query_opens_a_location_and_is_not_shown(uri: str, shown: str) -> None:
    where = location(uri)
    assert isinstance(where, Remote)
    for one in (where, where.parent, where / "x", location(str(where)), pickle.loads(pickle.dumps(str(where)))):
        assert "hunter2" not in f"{one} {one!r}"
        assert "hunter2" in location(one).secret
    assert (str(where), json.dumps(str(where))) == (shown, f'"{shown}"')
    assert where == location(shown)


@pytest.mark.here  # what is stored in the memory of this process
def test_rest_of_a_query_is_stored_and_printed_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setattr("bpe_pipeline.reports.drawing.can_draw", lambda: False)
    store = fsspec.filesystem("memory")
    for secret in ("hunter2", "hunter3"):
        store.pipe(f"/pages/a.txt?sig={secret}", b"some text to learn from " * 9)
    page, output, local = "fsspec+memory://pages/a.txt", tmp_path / "run", tmp_path / "a.txt"
    local.write_text("some text to learn from " * 9)
    rest = ["--output", output, "--vocab-size", 260]
    printed = ""
    for command, code in (
        (["train", f"{page}?sig=hunter2", *rest, "-v"], 0),
        (["train", f"{page}?sig=hunter3", *rest], 0),
        (["train", f"{page}?sig=hunter3", *rest, "--dry-run"], 0),
        (["train", page, *rest], 1),
        (["train", f"{page}?sig=hunter2", f"{page}?sig=hunter3", *rest], 1),
        (["encode", f"{page}?sig=hunter2", "--tokenizer", output, "--output", tmp_path / "shards"], 0),
        *((["report", output], 0), (["info", output], 0), (["info", f"s3://me:hunter2@{page}"], 2)),
        *((["info", f"{page}?sig=hunter2"], 1), ([f"{page}?sig=hunter2"], 2)),
        (["train", f"file://{local}?sig=hunter2", "--output", tmp_path / "local", "--vocab-size", 260], 0),
    ):
        result = run_here(*command)
        assert result.returncode == code, result.stderr
        printed += result.stdout + result.stderr
    assert "counting kept" in printed
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 10
    assert not any(b"hunter" in one for one in [printed.encode(), *written])


_KEYS = st.lists(st.text(st.characters(exclude_characters="/", exclude_categories=("Cs",)), min_size=1), min_size=1)


@given(_KEYS, st.sampled_from(["", "region=eu-west-1", "scheme=http&endpoint_override=localhost:9000"]))
def test_uri_round_trip(parts: list[str], query: str) -> None:
    where = Remote("s3://bucket", query, "/".join(parts))
    assert location(str(where)) == where
    assert pickle.loads(pickle.dumps(where)) == where
    assert (where.name, where.parent / where.name, where.with_name("x")) == (parts[-1], where, where.parent / "x")


def test_options_take_uris(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    (tmp_path / "run.yaml").write_text("output: s3://bucket/run?region=eu-west-1\ninputs: s3://bucket/corpus/*.txt\n")
    options = settle(train, {"config": f"fsspec+file://{tmp_path}/run.yaml"})
    assert str(options.output) == "s3://bucket/run?region=eu-west-1"
    assert options.inputs == ("s3://bucket/corpus/*.txt",)
