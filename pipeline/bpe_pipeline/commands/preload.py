"""What worker processes of training and encoding import before their first task.

A function imports it, so that this module costs next to nothing: the workers start while the coordinator imports the
rest.
"""

from dataclasses import replace

from bpe_pipeline.executors import WorkerSetup


def _count_and_merge() -> object:
    from bpe_pipeline.counts import combine_worker, count_worker
    from bpe_pipeline.merges import merge_worker

    return count_worker, combine_worker, merge_worker


def _needs_of_arrow() -> object:
    """Import what Arrow imports; it starts a thread, so each worker imports Arrow itself."""
    import datetime
    import ssl
    import uuid

    return datetime, ssl, uuid


def _arrow() -> object:
    from pyarrow import parquet

    return parquet


def _encode() -> object:
    from bpe_pipeline.shards import encode_worker, finish

    return encode_worker, finish


TRAINING = WorkerSetup(
    preload=(_count_and_merge, _needs_of_arrow),
    idle=(_arrow,),
    # Arrow imports numpy where it is installed, at the price of its start; no task needs it.
    absent=("numpy",),
    # Arrow's own pools keep more of what was freed.
    environment={"ARROW_DEFAULT_MEMORY_POOL": "system"},
)
ENCODING = replace(TRAINING, preload=(_encode,), idle=())
