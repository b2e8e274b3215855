"""What `encode-chat` takes: its options, and what reads the values that only they have."""

import re
from dataclasses import MISSING
from datetime import date
from functools import partial

from bpe_pipeline.base.units import parse_whole_number
from bpe_pipeline.run import values as read
from bpe_pipeline.run.options import ClusterOptions, RowOptions, ShardsOptions, add_records
from bpe_pipeline.run.record import IN_GROUPS, as_in, flag
from bpe_pipeline.run.values import listed, number, parse_one_of, parse_text
from bpe_pipeline.storage import Location, parse_location

PUBLISHED_DATE = "26 Jul 2024"  # of the chat template that Llama 3.1 was published with
MIX_STRATEGIES = ("concat", "interleave_under", "interleave_over", "interleave_once")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_chat = partial(IN_GROUPS[6], "chat")


def parse_date(value: object) -> str:
    """Read a date, as templates write it or as in ISO 8601, or `today`."""
    text = value.isoformat() if isinstance(value, date) else value  # YAML reads a date
    if text == "today":
        return "today"
    written = re.fullmatch(r"(\d{1,2}) ([A-Z][a-z]{2}) (\d{4})", str(text))
    try:
        if written and written[2] in _MONTHS:
            return _written(date(int(written[3]), _MONTHS.index(written[2]) + 1, int(written[1])))
        return _written(date.fromisoformat(str(text)))
    except ValueError:
        raise ValueError("a date such as 2026-11-23 or '23 Nov 2026', or today") from None


def day_of(text: str) -> date:
    """Return the day that a date names as templates write it."""
    day, month, year = text.split()
    return date(int(year), _MONTHS.index(month) + 1, int(day))


def date_of(text: str) -> str:
    """Return a date that `parse_date` read as templates write it."""
    return _written(date.today()) if text == "today" else text


def _written(day: date) -> str:
    return f"{day.day:02} {_MONTHS[day.month - 1]} {day.year}"  # in English, whatever the locale is


def parse_any_text(value: object) -> str:
    """Read a text that may be empty."""
    return value if value == "" else parse_text(value)


def parse_names(value: object) -> tuple[str, ...]:
    """Read names, in a list or separated by commas."""
    if not (names := listed(value)):
        raise ValueError("names, separated by commas")
    return names


def parse_thinking(value: object) -> str:
    """Read true, false or null."""
    return parse_one_of("true", "false", "null")(str(value).lower() if isinstance(value, bool) else value)


def parse_shares(value: object) -> tuple[float, ...]:
    """Read shares between 0 and 1, in a list or separated by commas."""
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    shares = tuple(map(number, text.split(",")))
    if not all(0 <= share <= 1 for share in shares):
        raise ValueError("shares between 0 and 1, separated by commas")
    return shares


def parse_amount(value: object) -> float:
    """Read a share below 1, or a whole number."""
    amount = number(value)
    if not (0 <= amount < 1 or (amount >= 1 and amount.is_integer())):
        raise ValueError("a number of rows, or a share below 1")
    return amount


# fmt: off
class ChatOptions(ClusterOptions, ShardsOptions, RowOptions):
    """Of `encode-chat`."""

    output: Location | None = as_in(ShardsOptions, "output", help="the directory of the rows, a path or a URI")
    shard_format: str = as_in(RowOptions, "shard_format", default="arrow",
        help="format of the rows: arrow (as save_to_disk) or parquet")
    sequence_length: int | None = as_in(RowOptions, "sequence_length", shown="2048",
        help="most tokens of a row; longer conversations are truncated")
    pack: str = as_in(RowOptions, "pack", shown="none",
        help="how rows are filled: none, greedy, neat (greedy, masked apart)")
    template: str | None = _chat(None, read.parse_text,
        "required: llama3, chatml, qwen, gemma, ..., tokenizer (its own), or a file (Jinja, or slots in YAML)",
        "NAME|FILE")
    dataset_info: Location | None = _chat(None, parse_location,
        "LLaMA-Factory's dataset_info.json, which names files and the form of their rows", "FILE")
    dataset: tuple[str, ...] | None = _chat(None, parse_names,
        "which entries of --dataset-info to read", "NAME[,NAME...]", advanced=True)
    compatible: bool = _chat(False, read.parse_flag,
        "pack batches of 1,000 conversations, as LLaMA-Factory does, instead of all together", flag="compatible")
    train_on_prompt: bool = _chat(False, read.parse_flag, "train on the questions, too", advanced=True)
    mask_history: bool = _chat(False, read.parse_flag,
        "train only on the last answer; of a long conversation, keep the last turns", advanced=True)
    default_system: str | None = _chat(None, parse_any_text,
        "system text of conversations without one; default: the template's", "TEXT", advanced=True)
    enable_thinking: str = _chat("true", parse_thinking,
        "empty thoughts of reasoning templates: train on them, remove them, or (null) keep them masked",
        "true|false|null", advanced=True)
    preserve_thinking: bool = _chat(False, read.parse_flag,
        "keep thoughts of earlier answers with --mask-history", flag="preserve_thinking")
    tool_format: str | None = _chat(None, read.parse_one_of(*read.TOOL_FORMATS),
        "how tools and calls become text: default, llama3, qwen, mistral; default: the template's", flag="tool_format")
    date: str = _chat(PUBLISHED_DATE, parse_date,
        "date in Llama 3's description of tools, such as 2026-11-23, or today", "DATE", advanced=True)
    special_tokens_in_messages: str = _chat("text", read.parse_one_of(*read.SPECIAL_TOKENS_IN_TEXT),
        "what special tokens in messages become; LLaMA-Factory has tokens", "text|tokens|refuse",
        advanced=True)
    mix_strategy: str = _chat("concat", read.parse_one_of(*MIX_STRATEGIES),
        "concat (one data set after another), interleave_under, interleave_over, interleave_once",
        "NAME", advanced=True)
    interleave_probs: tuple[float, ...] | None = _chat(None, parse_shares,
        "probability of each data set to be next; default: in turns", "P[,P...]", advanced=True)
    val_size: float = _chat(0.0, parse_amount,
        "hold rows out for validation at random: a number, or a share below 1", flag="val_size")
    max_samples: int | None = _chat(None, parse_whole_number(1, (1 << 63) - 1),
        "take only the first N rows of each data set", "N", advanced=True)
# fmt: on


class EncodeChatOptions(ChatOptions):
    """What the command takes."""

    tokenizer: Location = flag(MISSING, parse_location, "a tokenizer directory, tokenizer.json, or a run", "DIR")


add_records(ChatOptions)
