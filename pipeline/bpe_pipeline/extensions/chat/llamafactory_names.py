"""LLaMA-Factory's names of the options that decide the rows of chat data, in files and on the command line."""

from collections.abc import Mapping
from typing import Any

from bpe_pipeline.base.errors import UsageError

_SAME_AS = {"cutoff_len": "sequence_length", "tokenized_path": "output", "preprocessing_num_workers": "workers"}
_IGNORED = ("overwrite_cache",)
_FIXED = {"stage": "sft", "preprocessing_batch_size": "1000", "split_special_tokens": "false", "streaming": "false"}
THEIRS = (*_SAME_AS, "packing", "neat_packing", "dataset_dir", *_IGNORED, *_FIXED)


def of_their_file(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a file; one with their names has their seed, and their special tokens in messages.

    >>> of_their_file({"cutoff_len": 1024, "packing": True})
    {'sequence_length': 1024, 'pack': 'greedy', 'special_tokens_in_messages': 'tokens', 'seed': 42}
    """
    theirs = {"special_tokens_in_messages": "tokens", "seed": 42} if any(name in THEIRS for name in values) else {}
    found = with_our_names(values)
    return {**found, **{name: value for name, value in theirs.items() if name not in found}}


def with_our_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with our names in place of theirs; `UsageError` for both, or for what is not done here."""
    found = {name: value for name, value in values.items() if name not in THEIRS}
    for name, ours in _SAME_AS.items():
        if values.get(name) is not None:
            if ours in found:
                raise UsageError(f"{name} and {ours} are one option: give one of them")
            found[ours] = values[name]
    for name, needed in _FIXED.items():
        if name in values and str(values[name]).lower() != needed:
            raise UsageError(f"{name} {values[name]}: only {needed} is done here; leave it out")
    neat, packing = (str(values.get(name)).lower() == "true" for name in ("neat_packing", "packing"))
    if neat or packing:
        found.setdefault("pack", "neat" if neat else "greedy")
    if values.get("dataset_dir") is not None:
        found.setdefault("dataset_info", f"{str(values['dataset_dir']).rstrip('/')}/dataset_info.json")
    if "enable_thinking" in found and found["enable_thinking"] is None:
        found["enable_thinking"] = "null"
    return found
