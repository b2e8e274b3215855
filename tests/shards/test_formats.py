"""What each registered format of shards says of itself."""

import re
from pathlib import Path

import pytest

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.run.values import shard_formats
from bpe_pipeline.shards.finish import layout_of
from bpe_pipeline.shards.formats import IDS, Layout, shard_format, single_formats

IDS_ALONE = Layout({IDS: "uint16"})
WITH_OFFSETS = Layout({IDS: "uint16"}, offsets=True)


@pytest.mark.parametrize("name", sorted(shard_formats()))
def test_a_format_that_is_complete_alone_is_named_as_its_extension(name: str) -> None:
    format_ = shard_format(name)
    assert (name in single_formats()) == format_.alone
    assert not format_.alone or format_.extension == name
    assert not format_.alone or not format_.index(IDS_ALONE, {"": ()})


@pytest.mark.parametrize("name", sorted(shard_formats()))
def test_documents_are_kept_apart_by_rows_or_offsets(name: str) -> None:
    format_ = shard_format(name)
    assert format_.ends_with_row(IDS_ALONE) == format_.rows
    assert format_.ends_with_row(WITH_OFFSETS)
    assert format_.rows or format_.second


@pytest.mark.parametrize("name", sorted(shard_formats()))
def test_the_page_says_which_formats_pad_a_row_for_each_document(name: str) -> None:
    page = Path(__file__).parents[2].joinpath("docs", "pages", "how-to", "encoding.md").read_text()
    [padded] = re.findall(r"a row for each document, truncated; rows of (.*) are padded", page)
    options = {"sequence_length": 8, "pack": "none", "dtype": "uint16", "position_ids": False}
    assert (layout_of(options, shard_format(name)).row_tokens == 8) == (f"`{name}`" in padded)


def test_offsets_are_a_second_file() -> None:
    assert shard_format("npy").names("shard-00001", IDS_ALONE) == ("shard-00001.npy", None)
    assert shard_format("npy").names("shard-00001", WITH_OFFSETS) == ("shard-00001.npy", "shard-00001.documents.npy")
    assert shard_format("megatron").names("shard-00001", IDS_ALONE) == ("shard-00001.bin", "shard-00001.idx")
    assert shard_format("parquet").names("train", WITH_OFFSETS) == ("train.parquet", None)


def test_arrow_stores_ids_as_trainers_have_them() -> None:
    assert [shard_format("arrow").stored_dtype(dtype) for dtype in ("uint16", "uint32", "int8")] == [
        "int32",
        "int32",
        "int8",
    ]
    assert shard_format("parquet").stored_dtype("uint16") == "uint16"


def test_a_format_that_is_not_installed_is_named() -> None:
    with pytest.raises(InputError, match=r"the shard format 'lines' is none of npy, .*: install the package with it"):
        shard_format("lines")
