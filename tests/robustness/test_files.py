"""Files that were damaged or made by somebody else: the same result, or one clear line; never another result."""

import json
import random
import resource
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import counter_files
import peers
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import Tokenizer, _core
from pipeline.base.errors import InputError, PipelineError, RunDirectoryError
from pipeline.cli import commands
from pipeline.counts import counter_file
from pipeline.merges import merge_list
from pipeline.run import manifest
from pipeline.run.options import read_config
from pipeline.storage import sealed_parquet

FLIPS = 250


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("run")
    (home / "text.txt").write_text("\n".join(peers.generated_text(seed, 1500) for seed in range(3)), newline="")
    result = CliRunner().invoke(commands, _words(home), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return home / "run"


def _words(home: Path) -> list[str]:
    options = ["--vocab-size", "500", "--chunk-size", "12KiB", "--workers", "1", "--quiet"]
    return ["train", str(home / "text.txt"), "--output", str(home / "run"), *options]


def damaged(good: bytes, seed: int, times: int = FLIPS) -> Iterator[bytes]:
    """The bytes with a bit flipped, or cut short, or with a stretch of them somewhere else."""
    source = random.Random(seed)
    for number in range(times):
        bad = bytearray(good)
        at = source.randrange(len(bad))
        if number % 8 == 0:
            del bad[at:]
        elif number % 8 == 1:
            bad[at : at + source.randint(1, 9)] = source.randbytes(source.randint(0, 9))
        else:
            # Half of them in the footer, which is small.
            at = source.randrange(max(0, len(bad) - 2500), len(bad)) if number % 2 else at
            bad[at] ^= 1 << source.randrange(8)
        yield bytes(bad)


def one_line(error: BaseException, name: str) -> None:
    assert isinstance(error, PipelineError), repr(error)
    assert name in str(error)
    assert "\n" not in str(error)


def _read_counter(path: Path) -> tuple[object, ...]:
    with counter_file.open_counter(path) as counter:
        return counter_files.read(path), counter.statistics, counter.fingerprint, counter.rows


def _read_merges(path: Path) -> object:
    fingerprint = manifest.require(path.parent).manifest.merge_fingerprint()
    return merge_list.load(path, fingerprint)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("counts/000001.parquet", _read_counter),
        ("counter.parquet", _read_counter),
        ("merges.parquet", _read_merges),
        ("run.json", lambda path: manifest.load(path.parent)),
    ],
)
def test_damage_is_reported_or_has_no_effect(
    run: Path, name: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    expected = read(run / name)
    (tmp_path / "run.json").write_bytes((run / "run.json").read_bytes())
    path = tmp_path / Path(name).name
    told = 0
    if name == "run.json":
        expected = manifest.Run(tmp_path, expected.manifest)
    for data in damaged((run / name).read_bytes(), len(name)):
        path.write_bytes(data)
        try:
            found = read(path)
        except PipelineError as error:
            one_line(error, path.name)
            told += 1
        else:
            assert found == expected
    assert told > FLIPS / 2


def test_damage_that_parquet_misses_is_found(run: Path, tmp_path: Path) -> None:
    """A digit of the footer's metadata, and a codec that Arrow would end the process for."""
    path = tmp_path / "counter.parquet"
    good = (run / "counter.parquet").read_bytes()
    at = good.index(b'"pieces": ') + len(b'"pieces": ')
    bad = good[:at] + (b"8" if good[at : at + 1] == b"7" else b"7") + good[at + 1 :]
    assert pq.read_table(pa.BufferReader(bad), page_checksum_verification=True).num_rows
    for place in [at, *range(len(good) - 200, len(good), 7)]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(RunDirectoryError, match=r"is not as it was written|not a whole Parquet file"):
            counter_file.open_counter(path)


def test_files_that_claim_too_much_are_refused_unread(tmp_path: Path) -> None:
    """Rows of nothing, packed to nothing: a bomb in a file of our own format, with a right seal."""
    path = tmp_path / "bomb.parquet"
    metadata = {b"bpe_pipeline.format": b"1", b"bpe_pipeline.fingerprint": b"f", b"bpe_pipeline.statistics": b"{}"}
    few = 1 << 20
    schema = pa.schema([("piece", pa.large_binary()), ("count", pa.uint64())], metadata=metadata)
    encoding = {"piece": "DELTA_LENGTH_BYTE_ARRAY", "count": "DELTA_BINARY_PACKED"}
    nothing = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), few, [None, pa.py_buffer(bytes(8 * few + 8)), pa.py_buffer(b"")]
    )
    with pq.ParquetWriter(path, schema, **sealed_parquet.WRITE_OPTIONS, column_encoding=encoding) as writer:
        table = pa.Table.from_arrays([nothing, pa.array(memoryview(bytes(8 * few)).cast("Q"))], schema=schema)
        writer.write_table(table, row_group_size=few)
        writer.add_key_value_metadata(sealed_parquet.seals(["0" * 48]))
    sealed_parquet.seal(path)
    assert path.stat().st_size < few / 10
    with pytest.raises(RunDirectoryError, match="claims to hold more than it does"):
        counter_file.open_counter(path)


def test_compressed_and_foreign_tables_are_refused_unread(tmp_path: Path) -> None:
    metadata = {b"bpe_pipeline.format": b"1", b"bpe_pipeline.fingerprint": b"f", b"bpe_pipeline.statistics": b"{}"}
    schema = pa.schema([("piece", pa.large_binary()), ("count", pa.uint64())], metadata=metadata)
    for options in ({"compression": "zstd", "use_dictionary": False}, {"compression": "none"}):
        with pq.ParquetWriter(tmp_path / "a.parquet", schema, **options) as writer:
            writer.write_table(pa.table({"piece": [b"a"] * 1000, "count": [1] * 1000}, schema=schema))
            writer.add_key_value_metadata(sealed_parquet.seals(["0" * 48]))
        sealed_parquet.seal(tmp_path / "a.parquet")
        with pytest.raises(RunDirectoryError, match="not encoded as they were written"):
            counter_file.open_counter(tmp_path / "a.parquet")


def test_inconsistent_columns_are_refused() -> None:
    """Whatever a counter's columns say, the core reads nothing beyond them."""
    for offsets, data, counts in [
        ([0, 9], b"ab", [1]),
        ([-3, 1], b"ab", [1]),
        ([0, 2, 1], b"ab", [1, 1]),
        ([0], b"", [1]),
    ]:
        engine = _core.MergeEngine()
        with pytest.raises(ValueError, match=r"offset|piece"):  # noqa: PT012 - now or then
            engine.add(array("q", offsets), data, array("Q", counts))
            engine.run(5)


@pytest.mark.usefixtures("in_process")
def test_damage_never_changes_the_result(run: Path) -> None:
    """The command itself, on runs that lost their last stages, each with a flipped bit in one of its files."""
    home = run.parent
    expected = (run / "tokenizer" / "tokenizer.json").read_bytes()
    source = random.Random(11)
    saved = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "log.txt"}
    for number in range(12):
        for path, data in saved.items():
            path.write_bytes(data)
        for name in ("merges.parquet", "counter.parquet")[: number % 3]:
            (run / name).unlink()
        victims = [run / "run.json", *run.glob("*.parquet"), *run.glob("counts/*.parquet")]
        victim = source.choice(victims)
        bad = bytearray(victim.read_bytes())
        bad[source.randrange(len(bad))] ^= 1 << source.randrange(8)
        victim.write_bytes(bad)
        result = CliRunner().invoke(commands, _words(home), catch_exceptions=True)
        if result.exception is None:
            assert (run / "tokenizer" / "tokenizer.json").read_bytes() == expected, victim
        else:
            one_line(result.exception, victim.name)
    for path, data in saved.items():
        path.write_bytes(data)


def test_damaged_tokenizer_is_refused_or_intact(run: Path, tmp_path: Path) -> None:
    good = (run / "tokenizer" / "tokenizer.json").read_bytes()
    path = tmp_path / "tokenizer.json"
    text = "the theory, naïve 東京 😀\n  12345 \x00"
    told = 0
    for data in damaged(good, 7, 120):
        path.write_bytes(data)
        try:
            tokenizer = Tokenizer.load(path)
        except InputError as error:
            one_line(error, "tokenizer.json")
            told += 1
        else:
            assert tokenizer.decode(tokenizer.encode_ordinary(text)) == text
    assert told > 20


@pytest.mark.parametrize("far", [(1 << 28) - 1, 1 << 20, 10**30])
def test_distant_id_takes_no_memory(run: Path, tmp_path: Path, far: int) -> None:
    document = json.loads((run / "tokenizer" / "tokenizer.json").read_text())
    last = next(text for text, id_ in document["model"]["vocab"].items() if id_ == 498)
    document["model"]["vocab"][last] = far
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if far == 1 << 20:
        tokenizer = Tokenizer.load(tmp_path)
        assert tokenizer.encode(tokenizer.vocab[far].decode())[-1] == far
    else:
        with pytest.raises(InputError, match=r"tokenizer\.json: token id \d+ is outside"):
            Tokenizer.load(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def _places(document: object, place: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    yield place
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for name, value in list(inner)[:40]:
        yield from _places(value, (*place, name))


def _replaced(document: object, place: tuple[object, ...], value: object) -> object:
    if not place:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[place[0]] = _replaced(document[place[0]], place[1:], value)
    return copy


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_forged_manifest_is_refused_or_read(run: Path, data: st.DataObject) -> None:
    """Any value at any place, under a right digest."""
    document = json.loads((run / "run.json").read_text())
    place = data.draw(st.sampled_from(list(_places(document))[1:]))
    forged = _replaced(document, place, data.draw(JSON))
    forged.pop("digest", None)
    forged["digest"] = manifest.fingerprint(forged)
    home = run.parent / "forged"
    home.mkdir(exist_ok=True)
    (home / "run.json").write_text(json.dumps(forged))
    try:
        found = manifest.load(home)
        assert found is not None
        found.manifest.counter_fingerprint()
    except RunDirectoryError as error:
        one_line(error, "run.json")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_forged_tokenizer_is_refused_or_intact(run: Path, data: st.DataObject) -> None:
    document = json.loads((run / "tokenizer" / "tokenizer.json").read_text())
    place = data.draw(st.sampled_from(list(_places(document))))
    path = run.parent / "tokenizer.json"
    path.write_text(json.dumps(_replaced(document, place, data.draw(JSON))))
    try:
        tokenizer = Tokenizer.load(path)
        assert tokenizer.decode(tokenizer.encode_ordinary("the word")) == "the word"
    except InputError as error:
        one_line(error, "tokenizer.json")


@pytest.mark.parametrize("name", ["config.yaml", "tokenizer.json", "run.json"])
def test_endless_files_are_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("pipeline.run.options.CONFIG_BYTES", 1 << 20)
    monkeypatch.setattr("pipeline.tokenizer.formats.fields.MODEL_BYTES", 1 << 20)
    monkeypatch.setattr("pipeline.storage.bounded.MANIFEST_BYTES", 1 << 20)
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(PipelineError, match=r"larger than 1,024 KiB"):
        {
            "config.yaml": read_config,
            "tokenizer.json": Tokenizer.load,
            "run.json": lambda path: manifest.load(path.parent),
        }[name](tmp_path / name)
