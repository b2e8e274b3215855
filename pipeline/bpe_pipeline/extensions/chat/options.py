"""What `encode-chat` takes: its options, what reads the values that only they have, and LLaMA-Factory's names."""

import json
from collections.abc import Mapping
from dataclasses import MISSING
from functools import partial
from typing import Any, Literal

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.run.options import ClusterOptions, RowOptions, ShardsOptions, add_records
from bpe_pipeline.run.options.shards import InText
from bpe_pipeline.run.record import IN_GROUPS, Scope, but, flag
from bpe_pipeline.run.values import listed
from bpe_pipeline.storage import Location

_chat = partial(IN_GROUPS[6], scope=Scope.CHAT)
_NO_VARIABLES = ("messages", "add_generation_prompt")  # which encoding chat data decides
_LLAMAFACTORY = {  # its names of options, and what they are called here
    "cutoff_len": "sequence_length",
    "tokenized_path": "output",
    "preprocessing_num_workers": "workers",
    "val_size": "val_fraction",
    "packing": "pack",
    "neat_packing": "pack",
    "dataset_dir": "dataset_info",
}


def parse_names(value: object) -> tuple[str, ...]:
    """Read names, in a list or separated by commas."""
    if not (names := listed(value)):
        raise ValueError("names, separated by commas")
    return names


def parse_variables(value: object) -> str:
    """Read an object, perhaps in JSON, that has variables of chat templates; return its JSON."""
    try:
        variables = json.loads(value) if isinstance(value, str) else value
        text = json.dumps(variables, sort_keys=True)
    except (ValueError, TypeError, RecursionError):
        variables = None
    if not isinstance(variables, Mapping):
        raise ValueError("""an object in JSON, such as '{"enable_thinking": false}'""")
    if names := [name for name in _NO_VARIABLES if name in variables]:
        raise ValueError(f"other names than {names[0]}, which the rows decide")
    return text


def of_llamafactory(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a file; one with names of LLaMA-Factory has its seed and special tokens in messages.

    >>> of_llamafactory({"cutoff_len": 1024, "packing": True})
    {'special_tokens_in_messages': 'tokens', 'seed': 42, 'sequence_length': 1024, 'pack': 'greedy'}
    """
    theirs = {name: value for name, value in values.items() if name in _LLAMAFACTORY and value is not None}
    options = {"special_tokens_in_messages": "tokens", "seed": 42} if theirs else {}
    options |= {name: value for name, value in values.items() if name not in _LLAMAFACTORY}
    for name, value in theirs.items():
        ours = _LLAMAFACTORY[name]
        if ours in values:
            raise UsageError(f"{name} and {ours} are one option: give one of them")
        if name == "val_size" and not 0 <= float(value) < 1:
            raise UsageError(f"val_size {value}: give a share below 1, which --val-fraction holds out")
        if name == "dataset_dir":
            value = f"{str(value).rstrip('/')}/dataset_info.json"
        if ours == "pack":
            value = "neat" if theirs.get("neat_packing") else "greedy" if theirs.get("packing") else "none"
        options[ours] = value or None if name == "val_size" else value
    return options


# fmt: off
class ChatOptions(ClusterOptions, ShardsOptions, RowOptions):
    """What conversations become."""

    output: Location | None = but(ShardsOptions.output, help="the directory of the rows, a path or a URI")
    shard_format: str = but(RowOptions.shard_format, default="arrow",
        help="format of the rows: arrow (as save_to_disk) or parquet")
    sequence_length: int | None = but(RowOptions.sequence_length, shown="2048",
        help="most tokens of a row; longer conversations are truncated")
    pack: Literal["concat", "best-fit", "none", "greedy", "neat"] = but(RowOptions.pack, shown="none",
        help="how rows are filled: none, greedy, neat (greedy, masked apart)")
    template: str = _chat("tokenizer",
        "chat template: tokenizer (its own), llama3, chatml, qwen, gemma, ..., or a file in Jinja", "NAME|FILE")
    template_kwargs: str | None = _chat(None,
        "variables of the template: apply_chat_template's names, such as enable_thinking", "JSON",
        read=parse_variables, keyword=Mapping[str, Any] | str | None)
    dataset_info: Location | None = _chat(None,
        "LLaMA-Factory's dataset_info.json, which names files and the form of their rows", "FILE")
    dataset: tuple[str, ...] | None = _chat(None, "which entries of --dataset-info to read", "NAME[,NAME...]",
        read=parse_names, advanced=True)
    train_on_prompt: bool = _chat(False, "train on the questions, too", advanced=True)
    mask_history: bool = _chat(False,
        "train only on the last answer; of a long conversation, keep the last turns", advanced=True)
    special_tokens_in_messages: InText = _chat("text",
        "what special tokens in messages become; apply_chat_template has tokens", "text|tokens|refuse",
        advanced=True)
# fmt: on


class EncodeChatOptions(ChatOptions):
    """What the command takes."""

    tokenizer: Location = flag(MISSING, "a tokenizer directory, tokenizer.json, or a run", "DIR")


add_records(ChatOptions)
