"""Formats that are no plain text, although some begin with text: the inputs are made from the table of marks."""

import bz2
import gzip
import lzma
import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest
from chunk_tasks import count
from command import refused, run, succeeded
from corpus_files import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from bpe_pipeline.base.errors import InvalidTextError
from bpe_pipeline.corpus.contents import HEAD_BYTES, refuse_other
from bpe_pipeline.corpus.files import FileType
from bpe_pipeline.corpus.marks import MARKS, Mark, Rule

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 1048576\n" % 0
EXAMPLES = {
    "a git-lfs pointer": LFS,
    "a git-annex pointer": b"/annex/objects/SHA256E-s31390--f50d7ac4.txt\n",
    "an ARC file": b"filedesc://IA-001.arc.gz 0.0.0.0 19960923142103 text/plain 200 - - 0 x 122\n",
    "a MediaWiki dump": b'<?xml version="1.0"?>\n<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">\n',
    "an error page of an object store": b'\xef\xbb\xbf<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>',
    "an error page of the hub": b"Entry not found",
    "an mbox of mails": b"From ann@example.org Thu Jan  4 12:00:00 2024\nSubject: river\n\nText\n",
    "a Jupyter notebook": b'{\n "cells": [\n  {\n   "cell_type": "code",\n   "source": []\n  }\n ]\n}\n',
    "a PDF file": b"%PDF-1.7\n1 0 obj\n",
    "a PostScript file": b"%!PS-Adobe-3.0\n(text) show\n",
    "a PNG image": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
}
COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
EVERY = pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark.format)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@EVERY
def test_a_file_that_begins_with_a_mark_is_refused_or_warned_of_with_its_format_and_remedy(mark: Mark) -> None:
    message = re.escape(f"is {mark.format}") + ".*" + re.escape(mark.remedy)

    @settings(max_examples=20)
    @given(st.from_regex(mark.begin))
    def holds(content: bytes) -> None:
        head = content[:HEAD_BYTES]
        if not mark.is_of(head):  # what is searched for is behind the head
            return
        if mark.rule is Rule.WARNED_OF:
            refuse_other("a", head)
        else:
            with pytest.raises(InvalidTextError, match=message):
                refuse_other("a", head)
        if mark.rule is Rule.REFUSED_UNLESS_NAMED:
            refuse_other("a", head, is_named=True)

    holds()


@pytest.mark.parametrize("format_", EXAMPLES)
@pytest.mark.parametrize("suffix", COMPRESS)
def test_what_programs_write_is_recognized_in_every_compression(format_: str, suffix: str) -> None:
    [mark] = [mark for mark in MARKS if mark.format == format_]
    name, content = f"a.txt{suffix}", COMPRESS[suffix](EXAMPLES[format_])
    Path(name).write_bytes(content)
    if mark.rule is Rule.WARNED_OF:
        [example] = count(Path.cwd(), name)[2]["files_of_other_formats"]["examples"]
        assert example == f"{Path.cwd()}/{name}, {mark.format}: {mark.remedy}"
    else:
        with pytest.raises(InvalidTextError, match=re.escape(mark.format)):
            count(Path.cwd(), name)
    if mark.rule is not Rule.REFUSED:
        assert "files_of_other_formats" not in count(Path.cwd(), name, asked=FileType("text"))[2]


@pytest.mark.parametrize("name", ["a.txt", "a.parquet", "a.arrow", "a.jsonl", "a.txt.gz", "a.jsonl.zst"])
def test_a_pointer_is_named_as_such_by_whatever_name(name: str) -> None:
    Path(name).write_bytes(LFS)
    assert "is a git-lfs pointer, which would be read as text: fetch the file itself (git lfs pull)" in refused(
        run("train", name, "-o", "run"), 1
    )


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "zstd", "snappy"])
def test_files_that_libraries_write_are_recognized(compression: str) -> None:
    orc.write_table(pa.table({"text": ["the map", "of the house"] * 99}), "000000_0", compression=compression)
    with pytest.raises(InvalidTextError, match="is an ORC file"):
        count(Path.cwd(), "000000_0")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for value in (["text"], {"text": 1}, ("a", "b"), "text", Path("a")):
            if protocol != 1:  # which begins as any text may
                Path("a").write_bytes(pickle.dumps(value, protocol))
                with pytest.raises(InvalidTextError, match="is a pickle"):
                    count(Path.cwd(), "a")


@pytest.mark.parametrize(
    "text",
    ["ORCHIDS grow\n", "From the house of Thu\n", "WARC is a format", "version 1\n", "BM", "%", "P1 2 3\n", "(a)\n"],
)
def test_a_text_that_begins_nearly_so_is_text(text: str) -> None:
    Path("a").write_text(text)
    assert count(Path.cwd(), "a")[1:] == (1, {})


def test_a_format_that_is_warned_of_fails_on_loss() -> None:
    Path("a.ipynb").write_bytes(EXAMPLES["a Jupyter notebook"])
    done = succeeded(run("count", "a.ipynb", "-o", "run"))
    assert "warning: 1 file read as text that begin as another format does" in done.stderr
    assert "a Jupyter notebook: convert it (jupyter nbconvert" in done.stderr
    assert "a Jupyter notebook" in refused(run("count", "a.ipynb", "-o", "strict", "--fail-on-loss"), 1)
