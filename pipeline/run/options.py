"""The options: one record each, of which flags, configuration files, Python's keywords, help and fingerprints are made.

A record is the line of a field of `Options`. What depends on the value is its stage: "count" and "merge" options are
part of what a run *is*, "special" options of one tokenizer of it, "mix" options of its counts or of shards, "encode"
and "chat" options of what shards are and those of chat data, "run" options only of how it runs.
"""

import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar, get_args

from pipeline.base.errors import UsageError, unfit
from pipeline.base.units import parse_bytes, parse_piece_bytes, parse_whole_number
from pipeline.run import values as read
from pipeline.run.ids import BYTE_ORDER, Roles, SpecialTokens
from pipeline.storage import Location, parse_location

Function = TypeVar("Function", bound=Callable[..., Any])
LARGEST_CHOSEN = 256_000  # tokens, with stop_at_saving alone
READING_OPTIONS = ("input_format", "compression", "text_field")  # where the text is, not what its pieces are
GROUPS = (
    *("Input", "Vocabulary", "Special tokens", "Shards", "Order and split", "Packing", "Chat data", "Output"),
    "Resources",
)
# What takes an option. `encode` is three commands: of a corpus, chat data, a text; `encode_files` is a function.
COUNTING = "train count import"
LEARNING = "train merge parity sweep"
READING = "train count encode encode-chat encode-files"
SHARED = "train count merge parity sweep encode encode-chat"  # which a cluster can do
MAKING = "train count combine parity sweep extend prune import encode encode-chat"
ANY = f"{MAKING} merge verify report encode-text"


@dataclass(frozen=True)
class Record:
    """All that is said of an option.

    commands: what takes it. flag: its spelling where that is not its name; INPUT is no flag. without: of a list, the
    help of `--no-NAME`, which starts from none. keyword: its type in Python where that does not follow from kind.
    """

    name: str
    kind: Any
    default: Any
    group: str
    stage: str
    commands: frozenset[str]
    parse: Callable[[object], Any]
    help: str
    metavar: str
    advanced: bool = False
    flag: str = ""
    short: str = ""
    without: str = ""
    keyword: str = ""

    @property
    def several(self) -> bool:
        """Whether it is a list, to which each repetition of its flag adds."""
        return "tuple[" in str(self.kind)

    @property
    def choices(self) -> tuple[str, ...]:
        """The names of which it is one; none if it can be more than names."""
        return self.parse.args[0] if isinstance(self.parse, partial) else ()


def _option(
    group: str, stage: str, commands: str, default: Any, parse: Callable[[object], Any], help_text: str,
    metavar: str = "", **rare: Any,
) -> Any:  # fmt: skip
    """Return the field of an option, with all of its record but name, kind and default."""
    said = {"group": group, "stage": stage, "commands": frozenset(commands.split()), "parse": parse, "help": help_text}
    return field(default=default, metadata=said | {"metavar": metavar} | rare)


_input, _vocabulary, _special, _shards, _order, _packing, _of_chat, _output, _resource = (
    partial(_option, group) for group in GROUPS
)
_chat = partial(_of_chat, "chat", "encode-chat")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything that can be asked of a run; sizes in bytes, times in seconds."""

    # fmt: off
    inputs: tuple[str, ...] | None = _input("run", f"{READING} encode-text", None, read.parse_paths,
        "files, directories, globs and URIs; - is standard input", flag="INPUT")
    exclude: tuple[str, ...] | None = _input("run", READING, None, read.parse_globs,
        "leave out the files and directories of INPUT with this name or path; repeatable", "GLOB")
    output: Location | None = _output("run", MAKING, None, parse_location,
        "the directory to write, a path or a URI; of a run, default: a new one under runs/", "DIR", short="-o")
    vocab_size: tuple[int, ...] = _vocabulary("vocabulary", LEARNING, (32_000,), read.parse_vocab_size,
        "tokens in all: 256 bytes, merges, special tokens; several sizes with commas, the first is the run's own",
        "N[,N...]", keyword="int | str | Sequence[int]")
    stop_at_saving: float | None = _vocabulary("vocabulary", "train merge parity", None, read.parse_saving,
        "choose the smallest size from which on no doubling saves this share of tokens, such as 1%; --vocab-size is "
        "then the largest allowed, without it 256000", "SHARE")
    special_tokens: tuple[str, ...] = _special("count", COUNTING, ("<|endoftext|>",), read.parse_special_tokens,
        "text that separates documents and gets its own id", "TEXT",
        flag="--special-token", without="start from none: without --special-token, every file is one document")
    special_tokens_as_text: bool = _special("count", COUNTING, False, read.parse_flag,
        "count special tokens in the corpus as any text: they separate nothing", advanced=True)
    pattern: str = _vocabulary("count", COUNTING, "gpt2", read.parse_pattern,
        "gpt2, cl100k, llama3, o200k, qwen2, qwen3.5, superbpe, digits-from-right, deepseek-v3, kimi-k2, none, or a "
        "regular expression", "NAME|REGEX")
    errors: str = _input(
        "count", "train count import encode encode-files", "replace", read.parse_one_of("replace", "strict", "skip"),
        "invalid UTF-8: replace it, stop, or skip its document", advanced=True)
    pattern_timeout: int = _resource("run", f"{READING} import", 60, parse_whole_number(1, 1_000_000),
        "seconds for a document, for each MiB of a long one, where the regex package cuts", "SECONDS", advanced=True)
    max_piece_bytes: int | None = _vocabulary("count", COUNTING, None, parse_piece_bytes,
        "cut longer pieces (the tokenizer will not cut so)", "SIZE", advanced=True)
    input_format: str = _input("count", READING, "auto", read.parse_one_of("auto", "text", "lines", "jsonl", "parquet"),
        "of all inputs: text, lines (each a document), jsonl, parquet; auto: by content and name", advanced=True)
    compression: str = _input(
        "count", READING, "auto", read.parse_one_of("auto", "none", "gzip", "zstd", "bzip2", "xz"),
        "of all inputs: none, gzip, zstd, bzip2, xz; auto: by content", advanced=True)
    text_field: str = _input("count", "train count encode encode-files", "text", read.parse_text_field,
        "the field of JSON Lines or column of Parquet to read; a.b for nested", "NAME")
    tie_break: str = _vocabulary(
        "merge", "train merge sweep", "lowest-ids", read.parse_one_of("lowest-ids", "greatest-bytes"),
        "which of equally frequent pairs is merged first", advanced=True)
    min_frequency: int = _vocabulary("merge", f"{LEARNING} extend", 1, parse_whole_number(1, (1 << 63) - 1),
        "merge no pair that occurs less often", "N")
    min_piece_count: int = _vocabulary("merge", LEARNING, 1, parse_whole_number(1, (1 << 63) - 1),
        "leave pieces that occur less often out of merging", "N", advanced=True)
    max_token_bytes: int | None = _vocabulary("merge", LEARNING, None, parse_whole_number(2, 1 << 30),
        "make no token longer than this", "N", advanced=True)
    whole_characters: bool = _vocabulary("merge", f"{LEARNING} extend", False, read.parse_flag,
        "join no part of a character of UTF-8 with anything but its other bytes", advanced=True)
    superwords_from: int | str | None = _vocabulary("merge", "train merge", None, read.parse_first_stage,
        "let tokens hold several words from this size on, or this share of the size; reads the corpus twice", "N|80%",
        advanced=True)
    superword_pattern: str = _vocabulary("merge", "train merge", "superbpe", read.parse_superword_pattern,
        "what still cuts then: superbpe, superbpe-digits, or a regular expression", "NAME|REGEX", advanced=True)
    superword_words: int | str = _vocabulary("merge", "train merge", 4, read.parse_superword_words,
        "words in such a token, at most; none: any number", "N|none", advanced=True)
    superword_colon: bool = _vocabulary("merge", "train merge", False, read.parse_flag,
        "let such tokens hold a colon followed by a space", advanced=True)
    special_ids: str = _special("merge", LEARNING, "last", read.parse_one_of("last", "first"),
        "where the special tokens' ids are: after the merges or before", advanced=True)
    bos_token: str | None = _special("special", f"{LEARNING} export", None, read.parse_special_token,
        "the special token that starts a text; added if it is none yet", "TEXT")
    eos_token: str | None = _special("special", f"{LEARNING} export", None, read.parse_special_token,
        "the special token that ends a text; default: the one that separates the corpus", "TEXT")
    pad_token: str | None = _special("special", f"{LEARNING} export", None, read.parse_special_token,
        "the special token for padding; added if it is none yet", "TEXT")
    added_special_tokens: tuple[str, ...] = _special(
        "special", "merge parity sweep export", (), read.parse_special_tokens,
        "one more special token, such as a chat mark counted as text; repeatable", "TEXT", flag="--special-token")
    add_bos: bool = _special("special", f"{LEARNING} encode export", False, read.parse_flag,
        "let encoding start each text with the --bos-token, here and in transformers", advanced=True)
    reserve_tokens: int = _special("special", LEARNING, 0, parse_whole_number(0, 1 << 20),
        "special tokens without a meaning, for later, at the end of the vocabulary", "N", advanced=True)
    round_vocab_to: int = _special("special", LEARNING, 1, parse_whole_number(1, 1 << 20),
        "round the size up to a multiple of this, with reserved tokens", "N", advanced=True)
    export: tuple[str, ...] | None = _output("run", f"{LEARNING} export", None, read.parse_formats,
        "formats to write: hf, gpt2, tiktoken, gguf; default: each that can express the tokenizer", "LIST")
    chat_template: str | None = _output("run", f"{LEARNING} export", None, read.parse_chat_template,
        "chat template of the hf export: llama3, chatml, or a file with one in Jinja", "NAME|FILE")
    shard_format: str = _shards("encode", "encode encode-chat", "npy", read.parse_shard_format,
        "npy, bin (ids alone), parquet (a row a document), arrow (as datasets.save_to_disk), megatron, mds", "NAME",
        keyword=f"Literal{[*read.SHARD_FORMATS]}")
    shard_size: int = _shards("encode", "encode encode-chat", 100_000_000, parse_whole_number(1, (1 << 31) - 1),
        "tokens in a shard, at most", "N")
    documents: str = _shards("encode", "encode encode-files", "separator", read.parse_one_of("separator", "offsets"),
        "what separates documents in shards: the separator after each, or offsets in a file of their own", "NAME",
        advanced=True)
    separator: str | None = _shards("encode", "encode encode-files", None, read.parse_text,
        "the special token that ends a document; default: the one that separated the training corpus", "TEXT",
        advanced=True)
    shuffle: int | None = _order("encode", "encode", None, parse_whole_number(0, (1 << 63) - 1),
        "put all documents in one random order that this seed decides", "SEED")
    repeat: int = _order("encode", "encode", 1, parse_whole_number(1, 1000),
        "take the corpus this often, each time in another order if it is shuffled", "N")
    weights: tuple[str, ...] | None = _input("mix", "train count merge encode", None, read.parse_weights,
        "of each INPUT, in their order: how often its text is taken: 2, 0.5, 1/3; repeatable", "NUMBER",
        flag="--weight", keyword="Sequence[float | str] | None")
    val_fraction: float | None = _order("encode", "encode", None, read.parse_fraction,
        "hold this share of the documents out for validation, chosen by a hash of their content", "SHARE")
    val_tokens: int | None = _order("encode", "encode", None, parse_whole_number(1, (1 << 63) - 1),
        "hold documents with this many tokens out for validation", "N", advanced=True)
    sequence_length: int | None = _packing("encode", "encode encode-chat", None, parse_whole_number(1, 1 << 26),
        "make rows of this many tokens; of chat data at most, default: 2048", "N")
    pack: str = _packing("encode", "encode encode-chat", "concat", read.parse_one_of(*read.PACKS),
        "documents in rows: concat end to end, best-fit whole where they fit, none one each; conversations: none, "
        "greedy, neat (with numbers of parts as mask)", "NAME", keyword='Literal["concat", "best-fit", "none"]')
    position_ids: bool = _packing("encode", "encode", False, read.parse_flag,
        "add columns position_ids and document_ids (best-fit has them in any case)", advanced=True)
    chat: bool = _chat(False, read.parse_flag,
        "INPUT is chat data: rows with messages, conversations, or instruction and output")
    template: str | None = _chat(None, read.parse_text,
        "chat template: llama3, chatml, qwen, qwen3, mistral, gemma, deepseek3, alpaca, ..., or a YAML file",
        "NAME|FILE")
    dataset_info: Location | None = _chat(None, parse_location,
        "dataset_info.json of LLaMA-Factory, whose entries name files and what their rows are", "FILE")
    dataset: tuple[str, ...] | None = _chat(None, read.parse_names,
        "entries of --dataset-info to read", "NAME[,NAME...]", advanced=True)
    compatible: bool = _chat(False, read.parse_flag,
        "pack batches of 1,000 conversations, as LLaMA-Factory does, instead of all together", advanced=True)
    train_on_prompt: bool = _chat(False, read.parse_flag, "learn questions too", advanced=True)
    mask_history: bool = _chat(False, read.parse_flag,
        "learn only the last answer, and keep the last turns where a conversation is too long", advanced=True)
    default_system: str | None = _chat(None, read.parse_any_text,
        "the system text of conversations without one, in place of the template's", "TEXT", advanced=True)
    enable_thinking: str = _chat("true", read.parse_thinking,
        "empty thoughts of reasoning templates: learned, false: none are kept, null: not learned", "true|false|null",
        advanced=True)
    preserve_thinking: bool = _chat(False, read.parse_flag,
        "keep thoughts of earlier answers with --mask-history", advanced=True)
    tool_format: str | None = _chat(None, read.parse_one_of(*read.TOOL_FORMATS),
        "how tools and calls become text: default, llama3, qwen, mistral; default: the template's", "NAME",
        advanced=True)
    date: str = _chat(read.PUBLISHED_DATE, read.parse_date,
        "what Llama 3's description of tools names as today, such as 2026-11-23, or today", "DATE", advanced=True)
    special_tokens_in_messages: str = _chat("text", read.parse_one_of(*read.SPECIAL_TOKENS_IN_MESSAGES),
        "what special tokens that messages contain become; LLaMA-Factory: tokens", "text|tokens|refuse", advanced=True)
    mix_strategy: str = _chat("concat", read.parse_one_of(*read.MIX_STRATEGIES),
        "how data sets follow each other: concat, interleave_under, interleave_over, interleave_once", "NAME",
        advanced=True)
    interleave_probs: tuple[float, ...] | None = _chat(None, read.parse_shares,
        "how often each data set is next; default: they take turns", "P[,P...]", advanced=True)
    seed: int = _chat(42, parse_whole_number(0, (1 << 32) - 1),
        "of interleaving, samples and the split", "N", advanced=True)
    val_size: float = _chat(0.0, read.parse_amount,
        "rows for validation: a number, or a share below 1", "N|SHARE", advanced=True)
    max_samples: int | None = _chat(None, parse_whole_number(1, (1 << 63) - 1),
        "take only the first rows of each data set", "N", advanced=True)
    workers: int | None = _resource(
        "run", f"{ANY} encode-files", None, parse_whole_number(1, 4096),
        "worker processes; default: physical cores (ray: all of the cluster)", "N")
    executor: str = _resource("run", f"{SHARED} env", "local", read.parse_one_of("local", "ray"),
        "where workers run: on this machine, or on a Ray cluster")
    ray_address: str | None = _resource("run", f"{SHARED} env", None, read.parse_text,
        "of the Ray cluster: auto, HOST:PORT or ray://HOST:PORT; default: this machine's", "ADDRESS")
    chunk_size: int | None = _resource("run", READING, None, parse_bytes,
        "bytes of corpus in a chunk; default: by memory and cores", "SIZE", advanced=True)
    memory_limit: int | None = _resource("run", f"{ANY} encode-files", None, parse_bytes,
        "memory for all processes together (ray: on each node); default: 80 % of what is free", "SIZE")
    fail_on_loss: bool = _input("run", READING, False, read.parse_flag,
        "fail if input was skipped or altered", advanced=True)
    dry_run: bool = _output("run", "train count", False, read.parse_flag, "print the plan and stop")
    overwrite: bool = _output("run", f"{MAKING} merge", False, read.parse_flag,
        "start again in a directory that holds another run")
    quiet: bool = _output("run", ANY, False, read.parse_flag,
        "print only errors and the final result", short="-q")
    log_json: bool = _output("run", ANY, False, read.parse_flag,
        "print one JSON object a line instead of text", advanced=True)
    # fmt: on

    @property
    def special(self) -> SpecialTokens:
        """The special tokens of the vocabulary that is asked for."""
        roles = Roles(self.bos_token, self.eos_token, self.pad_token)
        roles = replace(roles, separator=roles.separator_among(self.special_tokens))
        added = self.added_special_tokens
        return SpecialTokens(self.special_tokens, roles, self.reserve_tokens, self.round_vocab_to, added)

    @property
    def first_stage(self) -> int | None:
        """The size without special tokens from which on merges may cross spaces; None: none does."""
        if not isinstance(self.superwords_from, str):
            return self.superwords_from
        return int(Fraction(self.superwords_from.removesuffix("%")) * self.vocab_size[0] / 100)

    @property
    def most_words(self) -> int:
        """Words in a token of the second stage; 0: any number."""
        return 0 if isinstance(self.superword_words, str) else self.superword_words

    def of_stage(self, *stages: str) -> dict[str, Any]:
        """Return the options of these stages as plain JSON values."""
        return {
            option.name: list(value) if isinstance(value := getattr(self, option.name), tuple) else value
            for option in fields(self)
            if option.metadata["stage"] in stages
        }


RECORDS = {one.name: Record(one.name, one.type, one.default, **one.metadata) for one in fields(Options)}


def flag_of(name: str) -> str:
    """Return the command's spelling of an option: `special_tokens` -> `--special-token`."""
    said = RECORDS[name].flag if name in RECORDS else ""
    return said or "--" + name.replace("_", "-")


FLAGS = {flag_of(name): name for name in reversed(RECORDS)}  # of two options, the first


def options_of(*commands: str) -> tuple[str, ...]:
    """Return the names of the options that one of these commands takes."""
    return tuple(name for name, record in RECORDS.items() if not record.commands.isdisjoint(commands))


def refuse_unfit(given: Mapping[str, Any], work: str, *commands: str) -> None:
    """Raise `UsageError` for the first option that was given and that none of these commands takes."""
    for name, value in given.items():
        record = RECORDS.get(name) or RECORDS.get(name.removeprefix("no_"))
        if value is not None and record is not None and record.commands.isdisjoint(commands):
            raise UsageError(f"option {name!r} means nothing for {work}: leave it out")


def lists_options(function: Function) -> Function:
    """Append the options that a function takes as keywords to its docstring, as their records describe them."""
    [kind] = get_args(function.__annotations__["options"])
    lines = ["", "", "Keyword Args:"]
    for name, hint in kind.__annotations__.items():
        record = RECORDS.get(name)
        text, default = (record.help, record.default) if record else (RECORDS[name.removeprefix("no_")].without, False)
        text = re.sub("--[a-z-]+", lambda flag: FLAGS.get(flag[0], flag[0]), text)
        text += f"  [default: {default!r}]" if default is not None else ""
        lines.append(f"    {name} ({re.sub(r'[a-z.]+[.](?=[A-Z])', '', inspect.formatannotation(hint))}): {text}")
    function.__doc__ = inspect.cleandoc(function.__doc__ or "") + "\n".join(lines)
    return function


def make_options(values: Mapping[str, Any], spell: Callable[[str], str] = "option {!r}".format) -> Options:
    """Check and complete the options given by name; `None` means the default. `spell` says how messages name them."""
    values = dict(values)
    if values.pop("no_special_tokens", None):
        if values.get("special_tokens"):
            raise UsageError(f"{spell('special_tokens')} and {spell('no_special_tokens')} exclude each other; give one")
        values["special_tokens"] = ()
    checked = {}
    for name, value in values.items():
        if name not in RECORDS:
            near = difflib.get_close_matches(name, RECORDS, 1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(RECORDS)}"
            raise UsageError(f"{spell(name)} is unknown{hint}")
        if value is None:
            continue
        try:
            checked[name] = RECORDS[name].parse(value)
        except ValueError as error:
            one = value[0] if isinstance(value, tuple) and len(value) == 1 else value  # of a flag that is given once
            expected, wrong = (*error.args, one)[:2]
            raise unfit(spell(name), expected, wrong) from None
        except UsageError as error:
            raise UsageError(f"{spell(name)}: {error}") from None
    if "stop_at_saving" in checked and len(checked.setdefault("vocab_size", (LARGEST_CHOSEN,))) > 1:
        raise UsageError(f"{spell('stop_at_saving')} chooses one size: give {spell('vocab_size')} one, the largest")
    return Options(**checked)


def check_vocabulary(options: Options) -> None:
    """Raise `UsageError` if a vocabulary size is too small: for bytes, special tokens, a first stage."""
    for size in options.vocab_size:
        options.special.merge_budget(size)
    first = options.first_stage
    if first is None:
        for name in ("superword_pattern", "superword_words", "superword_colon"):
            if getattr(options, name) != RECORDS[name].default:
                raise UsageError(f"{flag_of(name)} means nothing without --superwords-from: give both, or neither")
        return
    if options.stop_at_saving is not None:
        raise UsageError(
            "--stop-at-saving chooses the size of ordinary tokenizers; give one --vocab-size for superwords"
        )
    largest = len(BYTE_ORDER) + min(map(options.special.merge_budget, options.vocab_size))
    if isinstance(options.superwords_from, str) and len(options.vocab_size) > 1:
        raise UsageError(
            f"--superwords-from {options.superwords_from} is another number for each of several sizes, and a run has "
            "one first stage; give a number of tokens, or one --vocab-size"
        )
    if not len(BYTE_ORDER) <= first <= largest:
        raise UsageError(
            f"--superwords-from {options.superwords_from} is {first:,} tokens; give {len(BYTE_ORDER)}, the bytes "
            f"alone, to {largest:,}, the vocabulary size without special tokens"
        )
