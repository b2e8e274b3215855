"""Files that were damaged or made by somebody else: the same result, or one clear line; never another result.

The targets of tests/fuzz damage the files themselves.
"""

import json
import random
import resource
from array import array
from collections.abc import Iterator
from pathlib import Path

import peers
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import one_line, refused, run, succeeded
from hypothesis import given, settings
from hypothesis import strategies as st

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError, PipelineError, RunDirectoryError
from bpe_pipeline.counts import counter_file
from bpe_pipeline.run import manifest
from bpe_pipeline.run.config_file import read_config
from bpe_pipeline.storage import sealed_parquet

TRAIN = ["train", "text.txt", "--output=run", "--vocab-size=500", "--chunk-size=12KiB", "--workers=1", "--quiet"]
TEXT = "the theory, naïve 東京 😀\n  12345 \x00"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("run")
    (home / "text.txt").write_text("\n".join(peers.generated_text(seed, 1500) for seed in range(3)), newline="")
    succeeded(run(*TRAIN, cwd=home))
    return home / "run"


def _read_manifest(path: Path) -> object:
    found = manifest.load(path.parent).manifest
    return found.counter_fingerprint and found


def _read_tokenizer(path: Path) -> object:
    """Damage may make another tokenizer, of which this is true."""
    tokenizer = Tokenizer.load(path)
    return tokenizer.decode(tokenizer.encode_ordinary(TEXT)) == TEXT


def test_damage_that_parquet_misses_is_found(made: Path, tmp_path: Path) -> None:
    """A digit of the footer's metadata, and a codec that Arrow would end the process for."""
    path = tmp_path / "counter.parquet"
    good = (made / "counter.parquet").read_bytes()
    at = good.index(b'"pre_tokens": ') + len(b'"pre_tokens": ')
    bad = good[:at] + (b"8" if good[at : at + 1] == b"7" else b"7") + good[at + 1 :]
    assert pq.read_table(pa.BufferReader(bad), page_checksum_verification=True).num_rows
    for place in [at, *range(len(good) - 200, len(good), 7)]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(RunDirectoryError, match=r"is not as it was written|not a whole Parquet file"):
            counter_file.open_counter(path)


NOTHING = 1 << 20  # rows of an empty pre-token, which take no bytes
NOTHINGS = pa.LargeBinaryArray.from_buffers(
    pa.large_binary(), NOTHING, [None, pa.py_buffer(bytes(8 * NOTHING + 8)), pa.py_buffer(b"")]
)
PACKED = {"pre_token": "DELTA_LENGTH_BYTE_ARRAY", "count": "DELTA_BINARY_PACKED"}
PLAIN = {**sealed_parquet.WRITE_OPTIONS, "column_encoding": PACKED}
ZSTD, DICTIONARY = {"compression": "zstd", "use_dictionary": False}, {"compression": "none"}
GOOD, LESS = [b"a"] * 999, [b"a", None] + [b"a"] * 997


@pytest.mark.parametrize(
    ("pre_tokens", "options", "groups", "message"),
    [
        pytest.param(NOTHINGS, PLAIN, (NOTHING, 1), "claims to hold more than", id="a bomb"),
        pytest.param(GOOD, ZSTD, (999, 1), "not encoded as they were written", id="compressed"),
        pytest.param(GOOD, DICTIONARY, (999, 1), "not encoded as they were written", id="a dictionary"),
        pytest.param(GOOD, PLAIN, (500, 1), "its row groups are not those that were written", id="more groups"),
        pytest.param(GOOD, PLAIN, (333, 3), "3 row groups are not a power of two", id="three groups"),
        pytest.param(GOOD, PLAIN, (999, 1), "row group 0 is not as it was written", id="other rows"),
        pytest.param(LESS, PLAIN, (999, 1), "a row without pre-token or count", id="a row without a pre-token"),
    ],
)
def test_foreign_tables_under_a_right_seal_are_refused(tmp_path: Path, pre_tokens, options, groups, message) -> None:
    counts = pa.array(memoryview(array("Q", [len(pre_tokens) == 999]) * len(pre_tokens)))
    metadata = {b"bpe_pipeline.format": b"1", b"bpe_pipeline.fingerprint": b"f", b"bpe_pipeline.statistics": b"{}"}
    schema = pa.schema([("pre_token", pa.large_binary()), ("count", pa.uint64())], metadata=metadata)
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, schema, **options) as writer:
        writer.write_table(
            pa.table({"pre_token": pre_tokens, "count": counts}, schema=schema), row_group_size=groups[0]
        )
        writer.add_key_value_metadata(sealed_parquet.seals(["0" * 48] * groups[1]))
    sealed_parquet.seal(path)
    assert path.stat().st_size < NOTHING / 10
    with pytest.raises(RunDirectoryError, match=message):
        counter_file.open_counter(path).read(0)


def test_damage_never_changes_the_result(made: Path) -> None:
    """The command itself, on runs that lost their last stages, each with a flipped bit in one of its files."""
    expected = (made / "tokenizer" / "tokenizer.json").read_bytes()
    source = random.Random(11)
    saved = {path: path.read_bytes() for path in made.rglob("*") if path.is_file() and path.name != "log.txt"}
    for number in range(12):
        for path, data in saved.items():
            path.write_bytes(data)
        for name in ("merges.parquet", "counter.parquet")[: number % 3]:
            (made / name).unlink()
        victim = source.choice([made / "run.json", *made.glob("*.parquet"), *made.glob("counts/*.parquet")])
        bad = bytearray(victim.read_bytes())
        bad[source.randrange(len(bad))] ^= 1 << source.randrange(8)
        victim.write_bytes(bad)
        result = run(*TRAIN, cwd=made.parent)
        if result.returncode:
            assert victim.name in refused(result, 1)
        else:
            assert (made / "tokenizer" / "tokenizer.json").read_bytes() == expected, victim
    for path, data in saved.items():
        path.write_bytes(data)


@pytest.mark.parametrize("far", [(1 << 28) - 1, 1 << 20, 10**30])
def test_distant_id_takes_no_memory(made: Path, tmp_path: Path, far: int) -> None:
    document = json.loads((made / "tokenizer" / "tokenizer.json").read_text())
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
    if isinstance(document, dict | list):
        inner = document.items() if isinstance(document, dict) else enumerate(document)
        for name, value in list(inner)[:40]:
            yield from _places(value, (*place, name))


def _replaced(document: object, place: tuple[object, ...], value: object) -> object:
    if not place:
        return value
    copy = type(document)(document)
    copy[place[0]] = _replaced(document[place[0]], place[1:], value)
    return copy


@pytest.mark.parametrize(
    ("name", "read"), [("run.json", _read_manifest), ("tokenizer/tokenizer.json", _read_tokenizer)]
)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_forged_file_is_refused_or_intact(made: Path, name: str, read, data: st.DataObject) -> None:
    """Any value at any place, of a manifest under a right digest."""
    document = json.loads((made / name).read_text())
    places = list(_places(document))[name == "run.json" :]
    forged = _replaced(document, data.draw(st.sampled_from(places)), data.draw(JSON))
    if name == "run.json":
        forged.pop("digest", None)
        forged["digest"] = manifest.fingerprint(forged)
    path = made.parent / "forged" / Path(name).name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(forged))
    try:
        assert read(path)
    except (RunDirectoryError, InputError) as error:
        one_line(error, path.name)


@pytest.mark.parametrize(
    ("name", "read"), [("config.yaml", read_config), ("tokenizer.json", Tokenizer.load), ("run.json", _read_manifest)]
)
def test_endless_files_are_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, read) -> None:
    limits = ("run.config_file.CONFIG_BYTES", "tokenizer.formats.fields.MODEL_BYTES", "storage.MANIFEST_BYTES")
    for limit in limits:
        monkeypatch.setattr(f"bpe_pipeline.{limit}", 1 << 20)
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(PipelineError, match=r"larger than 1,024 KiB"):
        read(tmp_path / name)
