"""Corpora to shards: the ids of `Tokenizer.encode`, and the same bytes with any chunks and workers."""

import base64
import json
import os
import re
from functools import partial
from itertools import pairwise
from pathlib import Path

import command
import peers
import published
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encoded import EOT, IM, corpus_texts, everything, expected, read_shards, write_corpus

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, InvalidTextError, RunDirectoryError, UsageError
from bpe_pipeline.run.options import RECORDS
from bpe_pipeline.run.values import shard_formats
from bpe_pipeline.shards.blocks import SourceResumer
from bpe_pipeline.shards.formats import IDS, Layout
from bpe_pipeline.shards.formats import shard_format as format_of


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus")


def write_text(path: Path, documents: int, words: int) -> Path:
    path.write_text(EOT.join(peers.generated_text(seed, words) for seed in range(documents)))
    return path


def test_long_row_is_encoded_in_blocks(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, monkeypatch) -> None:
    """All ids of a value of 100 MB at once took ten times its size, beyond the limit."""
    rows = ["", "é", peers.generated_text(5, 9000) * 12 + f"{EOT}語", "", f"{EOT}b{IM}"]
    pq.write_table(pa.table({"text": rows}), tmp_path / "a.parquet")
    blocks, own = [], SourceResumer.add

    def add(self: SourceResumer, ids: memoryview, ends: memoryview) -> None:
        blocks.append(len(ids))
        own(self, ids, ends)

    monkeypatch.setattr(SourceResumer, "add", add)
    monkeypatch.setattr("bpe_pipeline.shards.encode_worker._BLOCK_BYTES", 777, raising=False)
    monkeypatch.setattr("bpe_pipeline.shards.encode_worker._BLOCK_IDS", 100)
    bpe_pipeline.encode(tmp_path / "a.parquet", tokenizer, tmp_path / "shards", workers=1)
    assert read_shards(tmp_path / "shards") == expected(tokenizer, rows)
    assert max(blocks) < sum(blocks) / 2


@pytest.mark.filterwarnings("ignore:1 file without a byte")
@pytest.mark.parametrize("shard_format", sorted(shard_formats()))
def test_shards_hold_the_ids_of_encode(
    corpus: Path, tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, shard_format: str
) -> None:
    output, ids = tmp_path / "shards", expected(tokenizer, corpus_texts())
    options = {"shard_format": shard_format, "shard_size": 1000, "chunk_size": 700, "workers": 2}
    result = bpe_pipeline.encode(corpus, tokenizer, output, **options)
    assert read_shards(output) == ids
    assert (result.tokens, result.documents) == (len(ids), ids.count(tokenizer.special_tokens[EOT]))
    losses = {"records_without_field": 2, "replacements": 3, "files_empty": 1}
    assert {name: loss["count"] for name, loss in result.losses.items() if name in losses} == losses
    sizes = [shard.tokens for shard in result.shards]
    assert max(sizes) <= 1000
    if not format_of(shard_format).rows:
        assert set(sizes[:-1]) == {1000}
    assert b"".join(bpe_pipeline.decode(output, tokenizer)) == tokenizer.decode_bytes(ids)


@pytest.mark.processes
def test_bytes_of_text_in_nfc_do_not_depend_on_workers(tmp_path: Path) -> None:
    tokenizer, separator, corpus = published.pair("qwen2", "plain")[1], published.EOT, tmp_path / "a.txt"
    corpus.write_bytes(text := f"cafe\u0301 {separator} 12 \u1100\u1161\u11a8 {separator}".encode() * 50)
    options = {"shard_format": "bin", "documents": "offsets", "shard_size": 777, "separator": separator}
    for name, chunk_size, workers in (("one", 900, 2), ("two", 1 << 20, 3)):
        bpe_pipeline.encode(corpus, tokenizer, tmp_path / name, chunk_size=chunk_size, workers=workers, **options)
    assert everything(tmp_path / "one") == everything(tmp_path / "two")
    ids, end = expected(tokenizer, [text], separator), tokenizer.special_tokens[separator]
    assert read_shards(tmp_path / "one") == [id_ for id_ in ids if id_ != end]


@pytest.mark.filterwarnings("ignore:1 file without a byte")
def test_offsets_separate_documents(corpus: Path, tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    output, options = tmp_path / "shards", {"documents": "offsets", "shard_size": 900, "chunk_size": 300}
    result = bpe_pipeline.encode(corpus, tokenizer, output, **options)
    ids, ends = [], [0]
    for shard in result.shards:
        own, offsets = (numpy.load(output / str(name)).tolist() for name in (shard.name, shard.offsets))
        assert (offsets[0], offsets[-1]) == (0, len(own))
        ends += [len(ids) + end for end in offsets[1 : shard.documents + 1]]
        ids += own
    rows = [[*ids[low:high], tokenizer.special_tokens[EOT]] for low, high in pairwise(ends)]
    assert [id_ for row in rows for id_ in row] == expected(tokenizer, corpus_texts())
    assert result.documents == len(rows)


@pytest.mark.parametrize("added", [None, "flags"])
def test_skipped_documents_leave_no_ids(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, added: str | None) -> None:
    """Nor where the tokenizer puts text into NFC."""
    ours, separator = (published.pair("qwen2", added)[1], published.EOT) if added else (tokenizer, EOT)
    path, bad = tmp_path / "a.txt", peers.generated_text(1, 3000).encode() + b"\xff" + b"tail"
    path.write_bytes(separator.encode().join(["cafe\u0301".encode(), bad, b"two"]))
    encode = partial(bpe_pipeline.encode, path, ours, separator=separator, workers=1)
    for chunk_size in (1 << 10, 1 << 20):
        output = tmp_path / str(chunk_size)
        result = encode(output, errors="skip", chunk_size=chunk_size)
        assert read_shards(output) == ours.encode(f"cafe\u0301{separator}two{separator}")
        assert result.losses["documents_skipped"]["count"] == 1
    with pytest.raises(InvalidTextError, match="byte"):
        encode(tmp_path / "strict", errors="strict")
    with pytest.raises(InputError, match="fail"):
        encode(tmp_path / "loss", fail_on_loss=True)


def test_ids_of_four_bytes(tmp_path: Path) -> None:
    merges = [(bytes([first]), bytes([second])) for first in range(256) for second in range(256)]
    tokenizer = bpe_pipeline.Tokenizer.from_merges(merges, [EOT])
    text = write_text(tmp_path / "a.txt", 1, 20)
    for shard_format in shard_formats():
        output = tmp_path / shard_format
        assert bpe_pipeline.encode(text, tokenizer, output, shard_format=shard_format, workers=1).dtype == "uint32"
        assert read_shards(output) == expected(tokenizer, [text.read_bytes()])
    encoded = bpe_pipeline.encode(text, tokenizer)
    assert (encoded.ids.format, encoded.ids.tolist()) == ("I", expected(tokenizer, [text.read_bytes()]))


def test_command_encodes_and_resumes(corpus: Path, saved: Path, tmp_path: Path) -> None:
    output = tmp_path / "shards"
    words = ["encode", corpus, "--tokenizer", saved, "--output", output, "--workers", 2, "--shard-size", 5000]
    first = command.succeeded(command.run(*words))
    assert "bytes of text each" in first.stdout
    assert f"{EOT} (id 498) follows each" in first.stdout
    before = everything(output)
    assert "encoding kept, writing shards kept" in command.run(*words).stdout
    assert everything(output) == before
    for path in (*output.glob("shard-*"), output / "shards.json"):
        path.unlink()
    assert command.run(*words, "--quiet").stdout.strip() == str(output)
    assert everything(output) == before
    decoded = command.run("decode", output, "--tokenizer", saved).stdout
    assert decoded.endswith(f"end{EOT}")
    shards = sorted(output.glob("*.npy"))
    assert len(shards) > 2
    assert command.run("decode", *shards, "--tokenizer", saved).stdout == decoded


def test_command_refuses_unfit_options(saved: Path, tmp_path: Path) -> None:
    text, output = write_text(tmp_path / "a.txt", 1, 20), tmp_path / "shards"
    base = ["encode", text, "--tokenizer", saved, "--output", output, "--workers", 1]
    assert command.run(*base).returncode == 0
    before = everything(output)
    for words, code, reason in (
        (["--shard-format", "bin"], 1, "--shard-format 'npy', not 'bin'"),
        (["--separator", IM], 1, f"--separator '{EOT}', not '{IM}'"),
        (["--separator", "nothing"], 2, "is not a special token of the tokenizer"),
        (["--shard-size", "0"], 2, "a whole number of at least 1"),
        (["--text", "x"], 2, "encode needs either files or --text"),
        (["--add-bos"], 2, "--add-bos: the tokenizer has no bos token; export it with --bos-token first"),
    ):
        assert reason in command.refused(command.run(*base, *words), code)
    assert everything(output) == before


def test_options_of_other_commands_are_refused(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("one")
    for name, value in {"vocab_size": 300, "pattern": "gpt2", "special_tokens": [EOT], "dry_run": True}.items():
        with pytest.raises(UsageError, match=f"option '{name}' means nothing here"):
            bpe_pipeline.encode(text, tokenizer, tmp_path / "shards", **{name: value})
    with pytest.raises(UsageError, match="inputs: expected a value, not None"):
        bpe_pipeline.encode(None, tokenizer, tmp_path / "shards")
    with pytest.raises(UsageError, match="dry_run is for the command: use bpe-pipeline train --dry-run"):
        bpe_pipeline.train(text, dry_run=True)
    for call in (bpe_pipeline.train, bpe_pipeline.merge, bpe_pipeline.train_from_iterator):
        with pytest.raises(UsageError, match="option 'shard_size' means nothing here"):
            call(text, output=tmp_path / "run", shard_size=10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt"]


def test_directory_of_another_corpus_is_refused(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path) -> None:
    one, two = (write_text(tmp_path / f"{name}.txt", 1, 20) for name in ("one", "two"))
    output, encode = tmp_path / "shards", partial(bpe_pipeline.encode, workers=1)
    encode(one, tokenizer, output)
    with pytest.raises(RunDirectoryError, match=r"another corpus, without .*two\.txt"):
        encode([one, two], tokenizer, output)
    with pytest.raises(InputError, match="or one of shards"):
        encode(output, tokenizer, tmp_path / "other")
    encode([one, two], tokenizer, output, overwrite=True)
    assert read_shards(output) == expected(tokenizer, [one.read_bytes(), two.read_bytes()])
    (output / "encoding.json").unlink()
    with pytest.raises(RunDirectoryError, match="somebody else's"):
        encode(one, tokenizer, output)
    run = bpe_pipeline.combine({"low": 3}, output=tmp_path / "run")
    with pytest.raises(RunDirectoryError, match=r"is a run \(run.json\)"):
        encode(one, tokenizer, run, overwrite=True)


def test_tokenizer_without_special_tokens_has_offsets(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path) -> None:
    text, output = write_text(tmp_path / "a.txt", 1, 20), tmp_path / "bare"
    bare = bpe_pipeline.Tokenizer.from_merges([(b"o", b"n")])
    with pytest.raises(UsageError, match="no special token to write after each document"):
        bpe_pipeline.encode(text, bare, output)
    bpe_pipeline.encode(text, bare, output, documents="offsets")
    with pytest.raises(InputError, match="another tokenizer"):
        list(bpe_pipeline.decode(output, tokenizer))
    assert b"".join(bpe_pipeline.decode(output, bare)) == text.read_bytes()


def test_a_damaged_part_is_named(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path) -> None:
    text, output = write_text(tmp_path / "a.txt", 6, 300), tmp_path / "shards"
    encode = partial(bpe_pipeline.encode, text, tokenizer, output, chunk_size=1000, shuffle=True)
    encode(part="1/1")
    parts = sorted((output / "parts").iterdir())
    assert len(parts) > 3
    parts[0].write_bytes(parts[0].read_bytes()[:-1])
    parts[1].write_bytes(flipped(parts[1].read_bytes(), 3))
    for part in parts[:2]:
        with pytest.raises(RunDirectoryError, match=f"{part.name} is .*; remove that file and run the same command"):
            encode()
        part.unlink()
    encode()
    assert sorted(read_shards(output)) == sorted(expected(tokenizer, [text.read_bytes()]))


def flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell proportional set sizes")
def test_encoding_keeps_to_the_memory_limit(saved: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text(peers.generated_text(5, 20_000) * 30)
    output = tmp_path / "shards"
    words = ["encode", text, "--tokenizer", saved, "--output", output, "--workers", 2, "--log-json"]
    limited = command.succeeded(command.run(*words, "--memory-limit", "150MiB"))
    assert json.loads(limited.stdout.splitlines()[-1])["peak_memory_bytes"] <= 150 << 20
    assert "too small" in command.refused(command.run(*words, "--memory-limit", "50MiB"), 2)
    text.write_text("some words " + "x" * (20 << 20))
    line = command.refused(command.run(*words[:-1], "--overwrite", "--memory-limit", "150MiB"), 1)
    assert "byte 1" in line
    assert line.endswith("of a worker; give a larger --memory-limit or fewer --workers")


@pytest.mark.one_of(4)
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell proportional set sizes")
@pytest.mark.parametrize(
    "options",
    [
        "--shard-format parquet",
        "--shard-format arrow --shuffle",
        "--shard-format npy --sequence-length 6000000 --pack best-fit",
        "--shard-format mds --sequence-length 6000000 --pack none",
    ],
)
def test_long_row_keeps_to_the_limit_that_the_refusal_names(saved: Path, tmp_path: Path, options: str) -> None:
    """A format that gathers rows has memory for the longest one, or says how much when that document ends."""
    text, output = tmp_path / "a.txt", tmp_path / "shards"
    text.write_text(f"short{EOT}" + peers.generated_text(5, 40_000) * 30 + EOT + "more of it. " * 100_000)
    words = ["encode", text, "--tokenizer", saved, "--output", output, "--workers", 1, "--log-json", *options.split()]
    line = command.refused(command.run(*words, "--memory-limit", "131MiB"), 2)
    enough = re.search(r"with a row of [\d,]+ tokens takes at least .*; give --memory-limit (\d+)MiB", line)
    assert enough, line
    if "--sequence-length" not in options:
        assert "writing document 2 as" in line
        assert not list(output.glob(".train*.shard"))
    limited = command.succeeded(command.run(*words, "--memory-limit", f"{enough[1]}MiB"))
    assert json.loads(limited.stdout.splitlines()[-1])["peak_memory_bytes"] <= int(enough[1]) << 20


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "options",
    [{}, {"documents": "offsets"}, {"shard_format": "bin", "documents": "offsets"}, {"shard_format": "parquet"}],
)
def test_missing_or_damaged_shards_are_written_again(
    tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path, options
) -> None:
    text, output = write_text(tmp_path / "a.txt", 6, 300), tmp_path / "shards"
    encode = partial(bpe_pipeline.encode, text, tokenizer, output, shard_size=1000, **options)
    encode()
    encode()  # without a warning
    before = everything(output)
    first, second, *_, last = (name for name in before if name.startswith("shard-"))
    names = [first, second, last]  # a shard or its offsets, and the last
    for name in names:
        path, whole = output / name, before[name]
        for content in (None, whole[:-10], flipped(whole, -10)):
            path.unlink()
            if content is not None:
                path.write_bytes(content)
            with pytest.warns(UserWarning, match=rf"{path.name} is missing, or not what was written"):
                encode()
            assert everything(output) == before
    for name in names:  # without shards.json, which has the checksums
        (output / "shards.json").unlink()
        (output / name).write_bytes(flipped(before[name], len(before[name]) // 2))
        (output / names[0]).write_bytes(before[names[0]][:100])
        encode()
        assert everything(output) == before


def test_every_id_is_below_vocab_size(tmp_path: Path) -> None:
    text, ranks = tmp_path / "a.txt", tmp_path / "bytes.tiktoken"
    text.write_text("one")
    ranks.write_text("".join(f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256)))
    sparse = bpe_pipeline.Tokenizer.from_tiktoken_file(ranks, pattern="gpt2", special_tokens={EOT: 65535})
    encoded = bpe_pipeline.encode(text, sparse, tmp_path / "shards", workers=1)
    assert (encoded.vocab_size, encoded.dtype) == (65536, "uint16")
    assert read_shards(tmp_path / "shards") == [*b"one", 65535]


def test_row_is_a_document_and_a_record_without_text_is_none(tokenizer: bpe_pipeline.Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    texts = ["hello world", "", EOT, f"x{EOT}y{EOT}", "last"]
    path.write_text("".join(json.dumps({"page": {"body": text}}) + "\n" for text in texts))
    options = {"shard_format": "parquet", "documents": "offsets", "text_field": "page.body"}
    encoded = bpe_pipeline.encode(path, tokenizer, tmp_path / "rows", **options)
    rows = pq.read_table(tmp_path / "rows" / "shard-00000.parquet").column("input_ids").to_pylist()
    assert rows == [tokenizer.encode(text) for text in ("hello world", "", "x", "y", "last")]
    assert encoded.documents == 5


def test_lists_of_shard_formats_are_the_registry() -> None:
    listed = re.sub(r"\(.*?\)", "", RECORDS["shard_format"].help.removeprefix("format of shards: "))
    assert re.findall(r"\w+", listed.replace(" or ", " ")) == [*shard_formats()]
    layout = Layout({IDS: "uint16"})
    mapped = [name for name in shard_formats() if format_of(name).header(layout, 0) is not None]
    listed = "{}, {} and {}".format(*mapped)
    assert f"in the formats {listed}, for training" in str(bpe_pipeline.open_shards.__doc__)
    pages = Path(__file__).parents[2] / "docs" / "pages" / "how-to"
    page = (pages / "encoding.md").read_text(encoding="utf-8")
    table = page.partition("| `--shard-format` | content |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [*shard_formats()]
    page = (pages / "training-code.md").read_text(encoding="utf-8")
    assert "`open_shards` maps [shards](encoding.md) of `{}`, `{}` and `{}` into memory".format(*mapped) in page
