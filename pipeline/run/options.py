"""The options of a run: one table for the command's flags, the configuration file and Python's keywords.

Each field of `Options` has a default, a reader of its value, and what depends on it (`stage`): "count" and "merge"
options are part of what a run *is*, "special" options of one tokenizer of it, "mix" options of its counts or of shards,
"encode" and "chat" options of what shards are and those of chat data, "run" options only of how it runs.
"""

import difflib
import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar, get_args

from pipeline.base.errors import UsageError, unfit
from pipeline.base.units import parse_bytes, parse_piece_bytes, parse_whole_number
from pipeline.run import values as read
from pipeline.run.ids import BYTE_ORDER, Roles, SpecialTokens
from pipeline.storage import Location, parse_location
from pipeline.storage.bounded import CONFIG_BYTES, read_bounded

Function = TypeVar("Function", bound=Callable[..., Any])
LARGEST_CHOSEN = 256_000  # tokens, with stop_at_saving alone
READING_OPTIONS = ("input_format", "compression", "text_field")  # where the text is, not what its pieces are
# A dotted name in TOML; tomllib takes time that grows with the square of its parts.
_LONG_NAME = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""")


def _option(stage: str, default: Any, parse: Callable[[object], Any], metavar: str = "VALUE") -> Any:
    return field(default=default, metadata={"stage": stage, "parse": parse, "metavar": metavar})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything that can be asked of a run; sizes in bytes, times in seconds."""

    inputs: tuple[str, ...] | None = _option("run", None, read.parse_paths)
    exclude: tuple[str, ...] | None = _option("run", None, read.parse_globs, "GLOB")
    output: Location | None = _option("run", None, parse_location, "DIR")
    vocab_size: tuple[int, ...] = _option("vocabulary", (32_000,), read.parse_vocab_size, "N[,N...]")
    stop_at_saving: float | None = _option("vocabulary", None, read.parse_saving, "SHARE")
    special_tokens: tuple[str, ...] = _option("count", ("<|endoftext|>",), read.parse_special_tokens, "TEXT")
    special_tokens_as_text: bool = _option("count", False, read.parse_flag)
    pattern: str = _option("count", "gpt2", read.parse_pattern, "NAME|REGEX")
    errors: str = _option("count", "replace", read.parse_one_of("replace", "strict", "skip"))
    pattern_timeout: int = _option("run", 60, parse_whole_number(1, 1_000_000), "SECONDS")
    max_piece_bytes: int | None = _option("count", None, parse_piece_bytes, "SIZE")
    input_format: str = _option("count", "auto", read.parse_one_of("auto", "text", "lines", "jsonl", "parquet"))
    compression: str = _option("count", "auto", read.parse_one_of("auto", "none", "gzip", "zstd", "bzip2", "xz"))
    text_field: str = _option("count", "text", read.parse_text_field, "NAME")
    tie_break: str = _option("merge", "lowest-ids", read.parse_one_of("lowest-ids", "greatest-bytes"))
    min_frequency: int = _option("merge", 1, parse_whole_number(1, (1 << 63) - 1), "N")
    min_piece_count: int = _option("merge", 1, parse_whole_number(1, (1 << 63) - 1), "N")
    max_token_bytes: int | None = _option("merge", None, parse_whole_number(2, 1 << 30), "N")
    whole_characters: bool = _option("merge", False, read.parse_flag)
    superwords_from: int | str | None = _option("merge", None, read.parse_first_stage, "N|80%")
    superword_pattern: str = _option("merge", "superbpe", read.parse_superword_pattern, "NAME|REGEX")
    superword_words: int | str = _option("merge", 4, read.parse_superword_words, "N|none")
    superword_colon: bool = _option("merge", False, read.parse_flag)
    special_ids: str = _option("merge", "last", read.parse_one_of("last", "first"))
    bos_token: str | None = _option("special", None, read.parse_special_token, "TEXT")
    eos_token: str | None = _option("special", None, read.parse_special_token, "TEXT")
    pad_token: str | None = _option("special", None, read.parse_special_token, "TEXT")
    added_special_tokens: tuple[str, ...] = _option("special", (), read.parse_special_tokens, "TEXT")
    add_bos: bool = _option("special", False, read.parse_flag)
    reserve_tokens: int = _option("special", 0, parse_whole_number(0, 1 << 20), "N")
    round_vocab_to: int = _option("special", 1, parse_whole_number(1, 1 << 20), "N")
    export: tuple[str, ...] | None = _option("run", None, read.parse_formats, "LIST")
    chat_template: str | None = _option("run", None, read.parse_chat_template, "NAME|FILE")
    shard_format: str = _option("encode", "npy", read.parse_shard_format, "NAME")
    shard_size: int = _option("encode", 100_000_000, parse_whole_number(1, (1 << 31) - 1), "N")
    documents: str = _option("encode", "separator", read.parse_one_of("separator", "offsets"), "NAME")
    separator: str | None = _option("encode", None, read.parse_text, "TEXT")
    shuffle: int | None = _option("encode", None, parse_whole_number(0, (1 << 63) - 1), "SEED")
    repeat: int = _option("encode", 1, parse_whole_number(1, 1000), "N")
    weights: tuple[str, ...] | None = _option("mix", None, read.parse_weights, "NUMBER")
    val_fraction: float | None = _option("encode", None, read.parse_fraction, "SHARE")
    val_tokens: int | None = _option("encode", None, parse_whole_number(1, (1 << 63) - 1), "N")
    sequence_length: int | None = _option("encode", None, parse_whole_number(1, 1 << 26), "N")
    pack: str = _option("encode", "concat", read.parse_one_of(*read.PACKS), "NAME")
    position_ids: bool = _option("encode", False, read.parse_flag)
    chat: bool = _option("chat", False, read.parse_flag)
    template: str | None = _option("chat", None, read.parse_text, "NAME|FILE")
    dataset_info: Location | None = _option("chat", None, parse_location, "FILE")
    dataset: tuple[str, ...] | None = _option("chat", None, read.parse_names, "NAME[,NAME...]")
    compatible: bool = _option("chat", False, read.parse_flag)
    train_on_prompt: bool = _option("chat", False, read.parse_flag)
    mask_history: bool = _option("chat", False, read.parse_flag)
    default_system: str | None = _option("chat", None, read.parse_any_text, "TEXT")
    enable_thinking: str = _option("chat", "true", read.parse_thinking, "true|false|null")
    preserve_thinking: bool = _option("chat", False, read.parse_flag)
    tool_format: str | None = _option("chat", None, read.parse_one_of(*read.TOOL_FORMATS), "NAME")
    date: str = _option("chat", read.PUBLISHED_DATE, read.parse_date, "DATE")
    special_tokens_in_messages: str = _option(
        "chat", "text", read.parse_one_of(*read.SPECIAL_TOKENS_IN_MESSAGES), "text|tokens|refuse"
    )
    mix_strategy: str = _option("chat", "concat", read.parse_one_of(*read.MIX_STRATEGIES), "NAME")
    interleave_probs: tuple[float, ...] | None = _option("chat", None, read.parse_shares, "P[,P...]")
    seed: int = _option("chat", 42, parse_whole_number(0, (1 << 32) - 1), "N")
    val_size: float = _option("chat", 0.0, read.parse_amount, "N|SHARE")
    max_samples: int | None = _option("chat", None, parse_whole_number(1, (1 << 63) - 1), "N")
    workers: int | None = _option("run", None, parse_whole_number(1, 4096), "N")
    executor: str = _option("run", "local", read.parse_one_of("local", "ray"))
    ray_address: str | None = _option("run", None, read.parse_text, "ADDRESS")
    chunk_size: int | None = _option("run", None, parse_bytes, "SIZE")
    memory_limit: int | None = _option("run", None, parse_bytes, "SIZE")
    fail_on_loss: bool = _option("run", False, read.parse_flag)
    dry_run: bool = _option("run", False, read.parse_flag)
    overwrite: bool = _option("run", False, read.parse_flag)
    quiet: bool = _option("run", False, read.parse_flag)
    log_json: bool = _option("run", False, read.parse_flag)

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


HELP = {  # of the flags
    "exclude": "leave out the files and directories of INPUT with this name or path; repeatable",
    "output": "the run directory, a path or a URI; default: a new one under runs/",
    "vocab_size": "tokens in all: 256 bytes, merges, special tokens; several sizes with commas, the first is the run's "
    "own",
    "stop_at_saving": "choose the smallest size from which on no doubling saves this share of tokens, such as 1%; "
    "--vocab-size is then the largest allowed, without it 256000",
    "special_tokens": "text that separates documents and gets its own id",
    "special_tokens_as_text": "count special tokens in the corpus as any text: they separate nothing",
    "no_special_tokens": "start from none: without --special-token, every file is one document",
    "pattern": "gpt2, cl100k, llama3, o200k, qwen2, qwen3.5, superbpe, digits-from-right, deepseek-v3, "
    "kimi-k2, none, or a regular expression",
    "errors": "invalid UTF-8: replace it, stop, or skip its document",
    "pattern_timeout": "seconds for a document, for each MiB of a long one, where the regex package cuts",
    "max_piece_bytes": "cut longer pieces (the tokenizer will not cut so)",
    "input_format": "of all inputs: text, lines (each a document), jsonl, parquet; auto: by content and name",
    "compression": "of all inputs: none, gzip, zstd, bzip2, xz; auto: by content",
    "text_field": "the field of JSON Lines or column of Parquet to read; a.b for nested",
    "tie_break": "which of equally frequent pairs is merged first",
    "min_frequency": "merge no pair that occurs less often",
    "min_piece_count": "leave pieces that occur less often out of merging",
    "max_token_bytes": "make no token longer than this",
    "whole_characters": "join no part of a character of UTF-8 with anything but its other bytes",
    "superwords_from": "let tokens hold several words from this size on, or this share of the size; reads the corpus "
    "twice",
    "superword_pattern": "what still cuts then: superbpe, superbpe-digits, or a regular expression",
    "superword_words": "words in such a token, at most; none: any number",
    "superword_colon": "let such tokens hold a colon followed by a space",
    "special_ids": "where the special tokens' ids are: after the merges or before",
    "bos_token": "the special token that starts a text; added if it is none yet",
    "eos_token": "the special token that ends a text; default: the one that separates the corpus",
    "added_special_tokens": "a special token that was text while counting, such as a chat mark; repeatable",
    "pad_token": "the special token for padding; added if it is none yet",
    "add_bos": "let encoding start each text with the --bos-token, here and in transformers",
    "reserve_tokens": "special tokens without a meaning, for later, at the end of the vocabulary",
    "round_vocab_to": "round the size up to a multiple of this, with reserved tokens",
    "export": "formats to write: hf, gpt2, tiktoken, gguf; default: each that can express the tokenizer",
    "chat_template": "chat template of the hf export: llama3, chatml, or a file with one in Jinja",
    "shard_format": "npy, bin (ids alone), parquet (a row a document), arrow (as datasets.save_to_disk), megatron, mds",
    "shard_size": "tokens in a shard, at most",
    "documents": "what separates documents in shards: the separator after each, or offsets in a file of their own",
    "separator": "the special token that ends a document; default: the one that separated the training corpus",
    "shuffle": "put all documents in one random order that this seed decides",
    "repeat": "take the corpus this often, each time in another order if it is shuffled",
    "weights": "of each INPUT, in their order: how often its text is taken: 2, 0.5, 1/3; repeatable",
    "val_fraction": "hold this share of the documents out for validation, chosen by a hash of their content",
    "val_tokens": "hold documents with this many tokens out for validation",
    "sequence_length": "make rows of this many tokens; of chat data at most, default: 2048",
    "pack": "documents in rows: concat end to end, best-fit whole where they fit, none one each; conversations: none, "
    "greedy, neat (with numbers of parts as mask)",
    "position_ids": "add columns position_ids and document_ids (best-fit has them in any case)",
    "chat": "INPUT is chat data: rows with messages, conversations, or instruction and output",
    "template": "chat template: llama3, chatml, qwen, qwen3, mistral, gemma, deepseek3, alpaca, ..., or a YAML file",
    "dataset_info": "dataset_info.json of LLaMA-Factory, whose entries name files and what their rows are",
    "dataset": "entries of --dataset-info to read",
    "compatible": "pack batches of 1,000 conversations, as LLaMA-Factory does, instead of all together",
    "train_on_prompt": "learn questions too",
    "mask_history": "learn only the last answer, and keep the last turns where a conversation is too long",
    "default_system": "the system text of conversations without one, in place of the template's",
    "enable_thinking": "empty thoughts of reasoning templates: learned, false: none are kept, null: not learned",
    "preserve_thinking": "keep thoughts of earlier answers with --mask-history",
    "tool_format": "how tools and calls become text: default, llama3, qwen, mistral; default: the template's",
    "date": "what Llama 3's description of tools names as today, such as 2026-11-23, or today",
    "special_tokens_in_messages": "what special tokens that messages contain become; LLaMA-Factory: tokens",
    "mix_strategy": "how data sets follow each other: concat, interleave_under, interleave_over, interleave_once",
    "interleave_probs": "how often each data set is next; default: they take turns",
    "seed": "of interleaving, samples and the split",
    "val_size": "rows for validation: a number, or a share below 1",
    "max_samples": "take only the first rows of each data set",
    "workers": "worker processes; default: physical cores (ray: all of the cluster)",
    "executor": "where workers run: on this machine, or on a Ray cluster",
    "ray_address": "of the Ray cluster: auto, HOST:PORT or ray://HOST:PORT; default: this machine's",
    "chunk_size": "bytes of corpus in a chunk; default: by memory and cores",
    "memory_limit": "memory for all processes together (ray: on each node); default: 80 % of what is free",
    "fail_on_loss": "fail if input was skipped or altered",
    "dry_run": "print the plan and stop",
    "overwrite": "start again in a directory that holds another run",
    "quiet": "print only errors and the final result",
    "log_json": "print one JSON object a line instead of text",
}
OPTION_FIELDS: dict[str, Field[Any]] = {option.name: option for option in fields(Options)}


def holds_several(name: str) -> bool:
    """Whether an option is a list, to which each repetition of its flag adds."""
    return "tuple[" in str(OPTION_FIELDS[name].type)


def flag_of(name: str) -> str:
    """Return the command's spelling of an option: `special_tokens` -> `--special-token`."""
    special = {
        "special_tokens": "--special-token",
        "added_special_tokens": "--special-token",
        "weights": "--weight",
        "inputs": "INPUT",
    }
    return special.get(name) or "--" + name.replace("_", "-")


def lists_options(function: Function) -> Function:
    """Append the options that a function takes as keywords to its docstring, as the table describes them."""
    [kind] = get_args(function.__annotations__["options"])
    names = {flag_of(name): name for name in OPTION_FIELDS}
    lines = ["", "", "Keyword Args:"]
    for name, hint in kind.__annotations__.items():
        text = re.sub("--[a-z-]+", lambda flag: names.get(flag[0], flag[0]), HELP[name])
        default = OPTION_FIELDS[name].default if name in OPTION_FIELDS else False
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
        if name not in OPTION_FIELDS:
            near = difflib.get_close_matches(name, OPTION_FIELDS, 1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(OPTION_FIELDS)}"
            raise UsageError(f"{spell(name)} is unknown{hint}")
        if value is None:
            continue
        try:
            checked[name] = OPTION_FIELDS[name].metadata["parse"](value)
        except ValueError as error:
            one = value[0] if isinstance(value, tuple) and len(value) == 1 else value  # of a flag that is given once
            expected, wrong = (*error.args, one)[:2]
            raise unfit(spell(name), expected, wrong) from None
        except UsageError as error:
            raise UsageError(f"{spell(name)}: {error}") from None
    if "stop_at_saving" in checked and len(checked.setdefault("vocab_size", (LARGEST_CHOSEN,))) > 1:
        raise UsageError(f"{spell('stop_at_saving')} chooses one size: give {spell('vocab_size')} one, the largest")
    return Options(**checked)


def names_of(*stages: str) -> set[str]:
    """Return the names of the options of these stages."""
    return {name for name, option in OPTION_FIELDS.items() if option.metadata["stage"] in stages}


def refuse_unfit(given: Mapping[str, Any], unfit: Collection[str], work: str) -> None:
    """Raise `UsageError` for the first option that was given and would change nothing of this work."""
    for name, value in given.items():
        if value is not None and name in unfit:
            raise UsageError(f"option {name!r} means nothing for {work}: leave it out")


def check_vocabulary(options: Options) -> None:
    """Raise `UsageError` if a vocabulary size is too small: for bytes, special tokens, a first stage."""
    for size in options.vocab_size:
        options.special.merge_budget(size)
    first = options.first_stage
    if first is None:
        for name in ("superword_pattern", "superword_words", "superword_colon"):
            if getattr(options, name) != OPTION_FIELDS[name].default:
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


def read_config(path: Location) -> dict[str, Any]:
    """Read the names and values in a YAML, JSON or TOML file, dashes as underscores."""
    try:
        text = read_bounded(path, CONFIG_BYTES).decode("utf-8").replace("\r\n", "\n")
        values = _parse_config(path.suffix.lower(), text)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"configuration file {path} cannot be read: {reason}; give a readable UTF-8 file") from None
    except ValueError as error:
        raise UsageError(f"configuration file {path}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(
            f"configuration file {path} is nested too deeply; it needs only names and values, such as "
            "'vocab_size: 32000'"
        ) from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise UsageError(f"configuration file {path} must hold names and values, such as 'vocab_size: 32000'")
    renamed: dict[str, Any] = {}
    spelt: dict[str, str] = {}
    for name, value in values.items():
        known = name.replace("-", "_")
        known = {"special_token": "special_tokens", "weight": "weights"}.get(known, known)
        if known in renamed:
            raise UsageError(
                f"configuration file {path} has both {spelt[known]!r} and {name!r}, which are one option; remove one"
            )
        renamed[known], spelt[known] = value, name
    return renamed


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = next(name for name, number in Counter(name for name, _ in pairs).items() if number > 1)
        raise ValueError(f"{twice!r} is given twice; remove one")
    return values


def _number(read: Callable[[Any, Any], Any], loader: Any, node: Any) -> Any:
    """Leave 1:30, which is 90 in YAML 1.1, and 010, which is 8, as text: the option's reader takes or refuses it."""
    return node.value if re.search(":|^[-+]?0[0-9_]", node.value) else read(loader, node)


def _parse_config(suffix: str, text: str) -> object:
    if suffix == ".json":
        return json.loads(text, object_pairs_hook=_each_once)
    if suffix == ".toml":
        import tomllib

        if _LONG_NAME.search(text):
            raise ValueError("a name in it has more than 64 parts: give names of options")
        return tomllib.loads(text)
    if suffix in (".yaml", ".yml"):
        import yaml

        class Loader(yaml.SafeLoader):
            """Without aliases: lists of aliases of lists of aliases ... are more than could ever be shown."""

            def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
                if self.check_event(yaml.AliasEvent):
                    raise ValueError("it has an alias (*name): write the value out")
                return super().compose_node(parent, index)

            def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
                _each_once([(name.value, None) for name, _ in node.value if isinstance(name, yaml.ScalarNode)])
                return super().construct_mapping(node, deep)

        for name in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
            Loader.add_constructor(name, partial(_number, yaml.SafeLoader.yaml_constructors[name]))
        try:
            return yaml.load(text, Loader)  # noqa: S506 - a safe one
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
    raise ValueError("the name must end in .yaml, .yml, .json or .toml")
