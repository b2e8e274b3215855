"""Frames of compressed files: headers against what decompressing finds, and spans of frames that are the whole text."""

import gzip
import io
import random
import struct
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from amount import FULL
from corpus_files import zstd
from peers import generated_text

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus import frames
from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.cut_files import plan_chunks
from bpe_pipeline.corpus.decompress import decompress
from bpe_pipeline.corpus.files import FileSpan, FileType
from bpe_pipeline.corpus.listing import describe
from bpe_pipeline.corpus.read_budget import UNLIMITED
from bpe_pipeline.corpus.readers import read_span, text_range
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.storage import location, open_file

END = b"<|endoftext|>"
TEXT = b"".join(generated_text(seed, 1300).encode() + (END if seed % 3 == 0 else b"\n") for seed in range(24))
CUTTING = Cutting((END,), compile_pattern("gpt2").automaton, between_frames=True)


def split(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


def bgzip(text, size):
    """As the specification of SAM files, section 4.1, defines it."""
    out = io.BytesIO()
    for block in [*split(text, size), b""]:
        packer = zlib.compressobj(wbits=-15)
        data = packer.compress(block) + packer.flush()
        out.write(b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0" + struct.pack("<H", len(data) + 25) + data)
        out.write(struct.pack("<II", zlib.crc32(block), len(block)))
    return out.getvalue()


MAKERS = {"a.txt.zst": (zstd, 2000), "a.txt.gz": (bgzip, 2000)}


@pytest.fixture(params=MAKERS)
def file(request, tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "_LEAST_TEXT_BYTES", 1)
    make, size = MAKERS[request.param]
    path = tmp_path / request.param
    path.write_bytes(make(TEXT, size))
    return describe(str(path))


def read_in_chunks(file, cutting, chunk_bytes):
    """The text of all chunks, the bytes reported as progress, the spans and the range of the text that each reads."""
    chunks = plan_chunks([file], cutting, chunk_bytes=chunk_bytes)
    spans = [span for chunk in chunks for span in chunk.spans]
    ranges = [text_range(FileSpan(file, span.start, span.stop), cutting) for span in spans]
    texts, progress = [], []
    for span, text in zip(spans, ranges, strict=True):
        found = read_span(FileSpan(file, span.start, span.stop), "text", progress.append, UNLIMITED, text)
        texts += [one if isinstance(one, bytes) else bytes(one.data) for one in found]
    return b"".join(texts), sum(progress), spans, ranges


def test_decompressing_from_a_frame_gives_the_text_from_there(file):
    listed = frames.frames_of(file)
    assert len(listed) > 10
    assert frames.text_bytes(file) == listed[-1].text == len(TEXT)
    with open_file(location(file.path)) as stream:
        for frame in listed[:-1:3]:
            assert b"".join(decompress(file, stream, UNLIMITED, frame)) == TEXT[frame.text :]
    for automaton in (None, compile_pattern("none").automaton):  # without safe positions
        assert len(plan_chunks([file], Cutting((END,), automaton, between_frames=True), chunk_bytes=7000)) == 1


@pytest.mark.parametrize("form", ["text", "lines"])
@pytest.mark.parametrize("chunk_bytes", [7000, 21_000, 1 << 30])
def test_spans_of_frames_are_the_whole_text_once(file, form, chunk_bytes):
    file = describe(file.path, FileType(form))
    text, progress, spans, ranges = read_in_chunks(file, CUTTING, chunk_bytes)
    assert (text, progress) == (TEXT, file.size)
    assert (len(spans) > 2) == (chunk_bytes < len(TEXT))
    assert sum(span.bytes for span in spans) == len(TEXT)
    assert all(one[1] == after[0] for one, after in pairwise(ranges))


def test_every_change_of_a_byte_is_judged_as_without_frames(file, tmp_path):
    data, random_ = Path(file.path).read_bytes(), random.Random(0)

    def text_or_error(changed, chunk_bytes):
        try:
            return read_in_chunks(changed, CUTTING, chunk_bytes)[0]
        except InputError:
            return None

    for _ in range(30 if FULL else 12):
        at, bit = random_.randrange(len(data)), 1 << random_.randrange(8)
        path = tmp_path / f"changed-{Path(file.path).name}"
        path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
        try:
            changed = describe(str(path))
        except InputError:
            continue
        assert text_or_error(changed, 12_000) == text_or_error(changed, 1 << 30)


def test_a_file_that_changed_after_its_frames_were_listed_is_an_error(file):
    listed = frames.frames_of(file)
    with pytest.raises(InputError, match="changed since the run was planned; restore it, or start again with --overw"):
        text_range(FileSpan(file, listed[1].start + 1, file.size), CUTTING)
    Path(file.path).write_bytes(Path(file.path).read_bytes()[: listed[3].start + 20])
    with open_file(location(file.path)) as stream, pytest.raises(InputError, match=r"truncated before byte .*; res"):
        list(decompress(file, stream, UNLIMITED, listed[3]))


def test_a_file_whose_frames_do_not_fit_together_has_none(file):
    whole = Path(file.path).read_bytes()
    for damaged in (whole + b"garbage!", whole[:-3], whole[:20] + whole[9000:]):
        Path(file.path).write_bytes(damaged)
        assert frames.frames_of(describe(file.path)) == []


def test_a_last_line_that_begins_before_the_last_part_is_read_once(file):
    text = TEXT[:8000].replace(b"\n", b" ") + b"\n" + b"x" * 12_000 + b"\n"
    make, size = MAKERS[Path(file.path).name]
    Path(file.path).write_bytes(make(text, size))
    file = describe(file.path, FileType("lines"))
    for chunk_bytes in (2000, 4000, 12_000):
        read, _, _, ranges = read_in_chunks(file, Cutting(between_frames=True), chunk_bytes)
        assert (read, ranges[-1]) == (text, (len(text), None))  # nothing is left for the last


@pytest.mark.parametrize(("name", "compress"), [("a.gz", gzip.compress), ("a.zst", zstd)])
def test_text_bytes_of_single_frames(tmp_path, name, compress):
    (tmp_path / name).write_bytes(compress(TEXT))
    found = describe(str(tmp_path / name))
    assert (frames.text_bytes(found), len(plan_chunks([found], CUTTING, chunk_bytes=7000))) == (len(TEXT), 1)
