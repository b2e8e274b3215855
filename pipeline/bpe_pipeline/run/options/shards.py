"""Options of shards: what text becomes which ids, and how these are stored."""

from functools import partial
from typing import Literal

from bpe_pipeline.base.units import parse_whole_number
from bpe_pipeline.run import values as read
from bpe_pipeline.run.record import IN_GROUPS, Scope, Values

InText = Literal["tokens", "text", "refuse"]
_shards, _order, _packing = (partial(one, scope=Scope.ENCODE) for one in IN_GROUPS[3:6])


# fmt: off
class IdsOptions(Values):
    """What text becomes which ids."""

    documents: Literal["separator", "offsets"] = _shards("separator",
        "mark the end of a document by the separator after it, or by offsets in a file", "NAME", advanced=True)
    separator: str | None = _shards(None,
        "special token after each document; default: the separator of the training corpus", "TEXT", advanced=True)
    special_tokens_in_text: InText = _shards("tokens",
        "what special tokens in the text become; the separator between documents stays one", advanced=True)


class StorageOptions(Values):
    """How ids are stored, and which of them for validation."""

    val_fraction: float | None = _order(None,
        "hold out this share of documents or rows for validation, by a hash of their content", "SHARE",
        read=read.parse_share)
    shard_format: str = _shards("npy",
        "npy, bin (raw ids), parquet (one row per document), arrow (as save_to_disk), megatron or mds",
        "NAME", read=read.parse_shard_format, examples=read.shard_formats)
    shard_size: int = _shards(100_000_000, "most tokens in a shard", "N", read=parse_whole_number(1, (1 << 31) - 1))
    sequence_length: int | None = _packing(None, "store documents in rows of N tokens, as --pack says", "N",
        read=parse_whole_number(1, 1 << 26))
    pack: Literal["concat", "best-fit", "none", "greedy", "neat"] = _packing("concat",
        "how documents fill rows: concat (end to end), best-fit (whole where they fit), none (one each)",
        "NAME", keyword=Literal["concat", "best-fit", "none"])  # the others are of chat data


class ArrangementOptions(Values):
    """How the documents of a corpus are arranged in shards."""

    single: bool = _shards(False,
        "one file for training, and one for validation: train.bin and val.bin with --shard-format bin")
    shuffle: bool = _order(False, "put all documents in one random order", read=read.parse_shuffle)
    position_ids: bool = _packing(False,
        "add columns position_ids and document_ids (best-fit has them in any case)", advanced=True)
# fmt: on
