"""The commands: their arguments, flags and help texts, and how each calls its story."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pipeline import __version__
from pipeline.base.errors import UsageError
from pipeline.base.printable import printable, printable_lines
from pipeline.cli.command import (
    CLUSTER_OPTIONS,
    COUNTING_OPTIONS,
    PROGRAM,
    RUN_OPTIONS,
    Request,
    Result,
    Session,
    as_utf8,
    base_argument,
    carry_out,
    command,
    inputs,
    json_option,
    overwrite_option,
    run_argument,
    run_command,
    summary_result,
    tokenizer_option,
)
from pipeline.cli.completion import LOCATION, PATH_TEXT, Names, WholeNumber, location_type
from pipeline.run.options import HELP, OPTION_FIELDS, READING_OPTIONS, flag_of, make_options, names_of
from pipeline.run.values import EXPORT_FORMATS
from pipeline.storage import Location
from pipeline.storage.atomic import single_output

_TRAIN = tuple(
    name for name in OPTION_FIELDS if name not in {"inputs", "added_special_tokens", *names_of("encode", "chat")}
)
_SPECIAL = (
    "added_special_tokens",
    "bos_token",
    "eos_token",
    "pad_token",
    "add_bos",
    "reserve_tokens",
    "round_vocab_to",
)
_COUNT = (
    *("exclude", "weights", "output", *COUNTING_OPTIONS, *READING_OPTIONS, "chunk_size", "pattern_timeout"),
    *("fail_on_loss", "dry_run", "overwrite", *CLUSTER_OPTIONS, *RUN_OPTIONS),
)
_MERGE = (
    *("weights", "vocab_size", "stop_at_saving", "tie_break", "min_frequency", "min_piece_count", "max_token_bytes"),
    *("whole_characters", "superwords_from", "superword_pattern", "superword_words", "superword_colon"),
    *("special_ids", "export", *_SPECIAL, "chat_template", "overwrite", *CLUSTER_OPTIONS, *RUN_OPTIONS),
)
_ENCODE = (
    *("exclude", "output", "shard_format", "shard_size", "documents", "separator", "shuffle", "repeat", "weights"),
    *("val_fraction", "val_tokens", "sequence_length", "pack", "position_ids", "add_bos", "errors", *READING_OPTIONS),
    *(name for name, option in OPTION_FIELDS.items() if option.metadata["stage"] == "chat"),
    *("chunk_size", "pattern_timeout", "fail_on_loss", "overwrite", *CLUSTER_OPTIONS, *RUN_OPTIONS),
)


@run_command(*_TRAIN)
@inputs
def train(session: Session) -> Result:
    """Train a tokenizer on INPUT: count, merge, export and report.

    INPUT is files, directories, globs and URIs; - is standard input. Without INPUT, train on the sample corpus: the
    running Python's own standard library.

    \b
    bpe-pipeline train
    bpe-pipeline train corpus/*.txt --output runs/a --vocab-size 32000
    bpe-pipeline train corpus --pattern llama3 --special-token '<|endoftext|>' --workers 8
    """
    from pipeline.commands.train import run_train

    return summary_result(run_train(session.options, session.executor, session.listener)[0])


def _like(request: Request, values: dict[str, Any]) -> Request:
    """Take the pattern and the special tokens of `count` from the tokenizer that --like names."""
    if (base := values.pop("like")) is None:
        return request
    for name in ("pattern", "special_tokens", "special_tokens_as_text", "max_piece_bytes"):
        if request.given.get(name):
            raise UsageError(f"{flag_of(name)} is what --like takes from the tokenizer: leave one of them out")
    from pipeline.guests.adapt.extend import counting_like

    return replace(request, options=counting_like(request.options, base))


@run_command(*_COUNT, settle=_like)
@inputs
@click.option(
    "--like", type=LOCATION, metavar="BASE",
    help="cut as this tokenizer does, for `extend` and `prune`: its pattern, and its special tokens",
)  # fmt: skip
def count(session: Session) -> Result:
    """Count the pieces of INPUT into a run directory, for `merge`.

    \b
    bpe-pipeline count corpus --output runs/a
    bpe-pipeline count corpus/*.jsonl.zst --text-field body --pattern llama3 --output runs/b
    bpe-pipeline count corpus --like gpt2/tokenizer.json --output runs/c
    """
    from pipeline.commands.count import run_count

    return summary_result(run_count(session.options, session.executor, session.listener))


@run_command(*_MERGE)
@click.argument("runs", nargs=-1, type=LOCATION, metavar="RUN ...", required=True)
@click.option("--parity", is_flag=True, help="let the RUNs, one a language, choose merges so that all compress alike")
@click.option(
    "--output", "-o", type=LOCATION, metavar="DIR",
    help="with --parity: the new run directory; default: a new one under runs/",
)  # fmt: skip
@click.option(
    "--dev", multiple=True, type=LOCATION, metavar="RUN",
    help="with --parity: what is measured in place of each RUN, such as translations of one text; repeatable",
)  # fmt: skip
@click.option(
    "--ratio", multiple=True, type=float, metavar="NUMBER",
    help="with --parity: how much each RUN is to be compressed in relation to the others; repeatable",
)  # fmt: skip
@click.option(
    "--parity-window", type=WholeNumber(1), metavar="N",
    help="with --parity: let no RUN have more than its share of the last N choices",
)  # fmt: skip
@click.option(
    "--parity-alpha", type=float, metavar="NUMBER",
    help="with --parity-window: a share is this, divided by the number of RUNs  [default: 2]",
)  # fmt: skip
@click.option(
    "--global-merges", type=WholeNumber(0), metavar="N",
    help="with --parity: choose the first N merges by the counts of all RUNs together",
)  # fmt: skip
def merge(session: Session, runs: tuple[Location, ...], parity: bool, **chosen_by: Any) -> Result:
    """Learn a vocabulary from the counts in RUN and export it.

    Nothing is counted again, with other --weight of the inputs that were counted neither; --superwords-from reads the
    corpus a second time, once. With --parity, the counts of several RUNs become those of a new run, --output.

    \b
    bpe-pipeline merge runs/a --vocab-size 32000
    bpe-pipeline merge runs/a --vocab-size 8000,16000 --export hf,tiktoken
    bpe-pipeline merge runs/a --vocab-size 32000 --superwords-from 80%
    bpe-pipeline merge runs/en runs/sw --parity --vocab-size 32000 --output runs/fair
    """
    if parity:
        return _merge_by_parity(session, runs, **chosen_by)
    for name, value in chosen_by.items():
        if value not in (None, ()):
            raise UsageError(f"{flag_of(name)} means nothing without --parity: give both, or neither")
    if len(runs) > 1:
        raise UsageError("merge takes one RUN: give --parity, or add the counts of several with `combine`")
    from pipeline.commands.merge import run_merge

    return summary_result(run_merge(runs[0], session.given, session.executor, session.listener)[0])


def _by_name(runs: tuple[Location, ...]) -> list[tuple[str, Location]]:
    """Give each run the name of its directory, or its whole location where several have that name."""
    homes = [run.resolve() if isinstance(run, Path) else run for run in runs]
    names = [home.name for home in homes]
    return [(name if names.count(name) == 1 else str(home), home) for name, home in zip(names, homes, strict=True)]


def _merge_by_parity(
    session: Session,
    runs: tuple[Location, ...],
    *,
    dev: tuple[Location, ...],
    ratio: tuple[float, ...],
    parity_window: int | None,
    parity_alpha: float | None,
    global_merges: int | None,
    output: Location | None,
) -> Result:
    from pipeline.commands.parity import run_parity

    if parity_alpha is not None and parity_window is None:
        raise UsageError("--parity-alpha means nothing without --parity-window: give both, or neither")
    settings = {
        "ratios": ratio,
        "window": parity_window or 0,
        "alpha": 2.0 if parity_alpha is None else parity_alpha,
        "global_merges": global_merges or 0,
    }
    languages, measured = _by_name(runs), _by_name(dev)
    given = session.given if output is None else {**session.given, "output": output}
    return summary_result(run_parity(languages, measured, settings, given, session.executor, session.listener)[0])


@run_command("output", "overwrite", *RUN_OPTIONS, only_here=True)
@click.argument("runs", nargs=-1, type=LOCATION, metavar="RUN ...", required=True)
@click.option(
    "--weight", "weights", multiple=True, metavar="NUMBER", help="of each run, in their order: 2.5, 1/3  [default: 1]"
)
def combine(session: Session, runs: tuple[Location, ...], weights: tuple[str, ...]) -> Result:
    """Add the counts of RUNs, with weights, into a new run.

    Nothing is counted again. Each count is multiplied by its run's weight, rounded half up and never below 1.

    \b
    bpe-pipeline combine runs/english runs/code --weight 1 --weight 2.5 --output runs/mixed
    bpe-pipeline merge runs/mixed --vocab-size 32000
    """
    from pipeline.commands.combine import run_combine

    return summary_result(run_combine(runs, weights, session.options, session.executor, session.listener))


@run_command(
    "output", *(name for name in _MERGE if not name.startswith(("weight", "stop_", "superword"))), only_here=True
)
@click.argument("runs", nargs=-1, type=LOCATION, metavar="RUN ...", required=True)
@click.option(
    "--weights", multiple=True, metavar="'NAME=W,W ...'",
    help="of runs, by the last part of their paths: every choice of one weight for each is a mixture; 0 leaves a run "
    "out; repeatable  [default: 1]",
)  # fmt: skip
@click.option(
    "--held-out", multiple=True, type=LOCATION, metavar="PATH...",
    help="text that was not counted, to measure with, such as a file for each language",
)  # fmt: skip
@click.option(
    "--parameters", metavar="N", help="of the model, without embeddings, such as 7B: they say which size fits"
)
@click.option(
    "--tokens", metavar="N", help="that the model is trained on, such as 2T  [default: its optimum of compute]"
)
@click.option(
    "--hidden-size", metavar="N", help="of the model, a row of the embedding  [default: usual for --parameters]"
)
def sweep(
    session: Session,
    runs: tuple[Location, ...],
    weights: tuple[str, ...],
    held_out: tuple[Location, ...],
    **model: str | None,
) -> Result:
    """Measure mixtures of RUNs at several sizes, and recommend one.

    Nothing is counted again. Each mixture is a run of its own in --output, with one merge list for all sizes; a table,
    a page and the tokenizer that is recommended are written next to them. The same command resumes, and one with more
    sizes or weights computes what is new; --overwrite computes all of it again.

    \b
    bpe-pipeline sweep runs/english runs/code --weights 'code=1,2,4' --vocab-size 8k,32k,128k --output sweep
    bpe-pipeline sweep runs/* --vocab-size 32k,64k --held-out unseen/*.txt --parameters 7B --tokens 2T --output sweep
    """
    from pipeline.guests.sweep.page import render
    from pipeline.guests.sweep.rule import for_model
    from pipeline.guests.sweep.sweep import run_sweep, to_json

    files = [one for one in runs if held_out and isinstance(one, Path) and one.is_file()]  # of --held-out *.txt
    runs, held_out = tuple(one for one in runs if one not in files), (*held_out, *files)
    swept = run_sweep(
        *(runs, session.given, session.options, session.executor, session.listener),
        weights=weights, held_out=held_out, model=for_model(**model),
    )  # fmt: skip
    text = render(str(swept.directory), swept.points, swept.recommendation, swept.parts)
    return Result("swept", to_json(swept), text, str(swept.directory / "tokenizer"))


@run_command("output", "min_frequency", "whole_characters", "overwrite", *RUN_OPTIONS, only_here=True)
@base_argument
@run_argument
@click.option("--add", required=True, metavar="N", help="how many new tokens")
@click.option("--first-id", metavar="N", help="the first new id; default: one more than the largest of BASE")
def extend(session: Session, base: Location, run_directory: Location, add: str, first_id: str | None) -> Result:
    """Add tokens learned from the counts in RUN to the tokenizer BASE.

    All ids and merges of BASE stay. new-tokens.parquet next to the new tokenizer says how to start their embeddings.

    \b
    bpe-pipeline count swahili/*.txt --like gpt2/tokenizer.json --output runs/sw
    bpe-pipeline extend gpt2/tokenizer.json runs/sw --add 10000 --output gpt2-sw
    """
    from pipeline.guests.adapt.extend import run_extend

    done = run_extend(
        base, run_directory, session.options, session.executor, session.listener, add=add, first_id=first_id
    )
    facts = {
        "new_tokens": len(done.plan),
        "new_ids": f"{done.plan[0].id} to {done.plan[-1].id}" if done.plan else "none",
        "made_again": len(done.made_again),
        "stopped": done.stopped,
    }
    return _changed("extended", session, facts, done.before, done.after)


@run_command("output", "overwrite", *RUN_OPTIONS, only_here=True)
@base_argument
@run_argument
@click.option("--keep", metavar="N", help="how many tokens stay, special tokens included")
@click.option("--min-count", metavar="N", help="instead of --keep: remove tokens that are used less often")
@click.option("--protect", type=LOCATION, metavar="FILE", help="tokens that stay, one a line, as in vocab.json")
@click.option("--keep-ids", is_flag=True, help="leave gaps where tokens were, so that no id moves")
def prune(
    session: Session,
    base: Location,
    run_directory: Location,
    keep: str | None,
    min_count: str | None,
    protect: Location | None,
    keep_ids: bool,
) -> Result:
    """Remove the tokens of BASE that the counts in RUN use least.

    A text whose encoding holds no removed token keeps its tokens. id-map.parquet and removed.parquet next to the new
    tokenizer say which ids moved, and what went.

    \b
    bpe-pipeline count my-texts --like base/tokenizer.json --output runs/mine
    bpe-pipeline prune base/tokenizer.json runs/mine --keep 50000 --output smaller
    """
    from pipeline.guests.adapt.prune import read_protected, run_prune

    done = run_prune(
        *(base, run_directory, session.options, session.executor, session.listener),
        keep=keep,
        min_count=min_count,
        protect=[] if protect is None else read_protected(protect),
        keep_ids=keep_ids,
    )
    facts = {"removed": len(done.removed), "tokens": done.tokenizer.vocab_size}
    return _changed("pruned", session, facts, done.before, done.after)


def _changed(event: str, session: Session, facts: dict[str, Any], before: int, after: int) -> Result:
    """Print the result of a changed tokenizer."""
    from pipeline.reports.summary import two_columns

    values = {"tokenizer": str(session.options.output), **facts, "tokens_before": before, "tokens_after": after}
    shown = (
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else value) for name, value in values.items()
    )
    return Result(event, values, two_columns(shown), str(session.options.output))


@run_command("output", *COUNTING_OPTIONS, "pattern_timeout", "overwrite", *RUN_OPTIONS, name="import", only_here=True)
@click.argument("files", nargs=-1, type=LOCATION, metavar="FILE ...", required=True)
def import_(session: Session, files: tuple[Location, ...]) -> Result:
    """Make a run from the piece counts in FILEs.

    A FILE is TSV (piece, tab, count) or Parquet (columns piece, count), a path or a URI. The options describe how the
    pieces were made; `merge` learns a vocabulary from the run.

    \b
    bpe-pipeline import counts.tsv --pattern gpt2 --output runs/imported
    bpe-pipeline merge runs/imported --vocab-size 32000
    """
    from pipeline.commands.import_counts import run_import

    return summary_result(run_import(list(files), session.options, session.executor, session.listener))


@run_command(*RUN_OPTIONS, only_here=True)
@run_argument
def verify(session: Session, run_directory: Location) -> Result:
    """Check everything in RUN.

    That is: checksums, sums of counts, each merge by a second method, the tokenizers' files.

    \b
    bpe-pipeline verify runs/a
    """
    from pipeline.commands.verify import run_verify
    from pipeline.reports.summary import two_columns

    verified = run_verify(run_directory, session.options, session.executor, session.listener)
    return Result("verified", verified, two_columns(verified.items()))


@run_command(*RUN_OPTIONS, only_here=True)
@run_argument
@click.argument("more", nargs=-1, type=LOCATION, metavar="")
@click.option(
    "--compare", multiple=True, type=LOCATION, metavar="PATH...",
    help="other tokenizers on the same sample: directories, files, runs, SentencePiece .model, or names such as gpt2",
)  # fmt: skip
@click.option(
    "--hidden-size", type=WholeNumber(1), metavar="N", help="of the model: also report what its embedding costs"
)
@click.option(
    "--held-out", multiple=True, type=LOCATION, metavar="PATH",
    help="text that was not trained on, to measure with; repeatable; default: a sample of the run's corpus",
)  # fmt: skip
@click.option(
    "--output", "-o", type=LOCATION, metavar="FILE",
    help="path of the page, with its numbers next to it as .json; default: the run directory",
)  # fmt: skip
@overwrite_option
def report(
    session: Session,
    run_directory: Location,
    more: tuple[Location, ...],
    compare: tuple[Location, ...],
    hidden_size: int | None,
    held_out: tuple[Location, ...],
    output: Location | None,
    overwrite: bool,
) -> Result:
    """Make the report of RUN, or of one of its tokenizers, again.

    It is a page, a text and JSON; a tokenizer is named by its directory, such as RUN/tokenizer-8000. Of a directory
    that `extend` or `prune` made, print what changed, and the tokens of the counted text before and after.

    \b
    bpe-pipeline report runs/a
    bpe-pipeline report runs/a --held-out unseen.txt --compare runs/b gpt2 llama3
    """
    from pipeline.base.events import Notice
    from pipeline.commands.made_by import guest_of
    from pipeline.commands.report import page_outputs, run_report

    if (guest := guest_of(run_directory)) is not None:
        flags = {"--compare": compare or more, "--held-out": held_out, "--hidden-size": hidden_size}
        if unfit_flags := [flag for flag, value in flags.items() if value] + ["--output"] * bool(output):
            raise UsageError(
                f"{run_directory} was made by extend or prune, and its report is only printed: leave out "
                + ", ".join(unfit_flags)
            )
        return Result("reported", *guest.report(run_directory, session.executor))
    if overwrite and output is None:
        raise UsageError(
            "--overwrite is for --output: give both; the report in the run directory is replaced without it"
        )
    if more and not compare:
        raise UsageError(f"report takes one run: {more[0]} is another argument; to compare with it, use --compare")
    outputs = None if output is None else page_outputs(output, overwrite=overwrite)
    reported = run_report(
        run_directory, session.options, session.executor, compare=(*compare, *more), held_out=held_out, outputs=outputs,
        hidden_size=hidden_size,
    )  # fmt: skip
    for warning in reported.warnings:
        session.listener(Notice("warning", warning))
    if reported.hint and not session.options.log_json:
        session.listener(Notice("info", reported.hint))
    written = list(map(str, reported.written))
    return Result("reported", {"written": written, "hint": reported.hint}, *[printable_lines(written)] * 2)


@command()
@click.argument("tokenizer", type=LOCATION, metavar="RUN|TOKENIZER")
@click.option(
    "--output", "-o", type=LOCATION, metavar="DIR", help="where to write; default: the tokenizer's own directory"
)
@click.option(
    "--export",
    multiple=True,
    type=Names("export"),
    metavar="LIST",
    help=f"of {', '.join(EXPORT_FORMATS)}; default: all that fit",
)
@click.option(
    "--chat-template",
    type=Names("chat_template"),
    metavar="NAME|FILE",
    help=HELP["chat_template"],
)
@click.option("--bos-token", metavar="TEXT", help="the special token that starts a text; added if it is none yet")
@click.option("--eos-token", metavar="TEXT", help="the special token that ends a text; added if it is none yet")
@click.option("--pad-token", metavar="TEXT", help="the special token for padding; added if it is none yet")
@click.option(
    "--special-token", "added_special_tokens", multiple=True, metavar="TEXT",
    help="one more special token, such as a chat mark: it takes the next reserved one, or a new id; repeatable",
)  # fmt: skip
@click.option("--add-bos", is_flag=True, default=None, help="let encoding start each text with the --bos-token")
@click.option(
    "--check", is_flag=True, help="load each file in its own library and compare ids; exit code 1 if one differs"
)
@click.option(
    "--sample", "samples", multiple=True, type=LOCATION, metavar="FILE",
    help="text to check with, besides hard strings; repeatable; default: a sample of the run's corpus",
)  # fmt: skip
@click.option(
    "--push-to-hub", metavar="OWNER/NAME",
    help="upload the files of transformers and the model card to this repository, made if it is missing",
)  # fmt: skip
@click.option("--counts", type=LOCATION, metavar="FILE", help="write the run's piece counts instead: .tsv or .parquet")
@click.option("--memory-limit", metavar="SIZE", help="for writing piece counts, for all processes together")
@overwrite_option
def export(
    tokenizer: Location,
    push_to_hub: str | None,
    check: bool,
    samples: tuple[Location, ...],
    counts: Location | None,
    memory_limit: str | None,
    overwrite: bool,
    **values: Any,
) -> None:
    """Write a tokenizer's files for other runtimes, or a run's counts.

    The formats are those of Hugging Face, GPT-2 tools and tiktoken; --check loads them there. Each count is a line
    `piece<TAB>count`, the most frequent first; `import` reads them back exactly.

    \b
    bpe-pipeline export runs/a --export hf,tiktoken --check
    bpe-pipeline export runs/a --counts counts.tsv
    """
    from pipeline.reports import progress

    if counts is not None:
        if check or samples or push_to_hub or any(values.values()):
            raise UsageError(
                "--counts writes piece counts, not a tokenizer; leave out --output, --export, --check, "
                "--sample, --push-to-hub and what is said of tokens"
            )
        if counts.suffix not in (".tsv", ".parquet"):
            raise UsageError(f"--counts {counts}: the name must end in .tsv or .parquet, which says the format")
        from pipeline.commands.export_counts import export_counts

        export_counts(tokenizer, counts, memory_limit=memory_limit, overwrite=overwrite)
        progress.write(printable(counts))
        return
    if memory_limit is not None or overwrite:
        only = "--overwrite" if memory_limit is None else "--memory-limit"
        raise UsageError(f"{only} is for piece counts: give --counts FILE too, or leave it out")
    if samples and not check:
        raise UsageError("--sample is for --check: give both")
    from pipeline.commands.encode_text import load_tokenizer
    from pipeline.counts.as_text import bounds_at
    from pipeline.pattern.translate import not_in_tokenizers_1
    from pipeline.tokenizer.export import (
        export_in_place,
        limits_of,
        news_of,
        with_chat_template,
        with_roles,
    )
    from pipeline.tokenizer.formats.load import tokenizer_home
    from pipeline.tokenizer.formats.save import default_formats
    from pipeline.tokenizer.hub import card_in, push, require_login
    from pipeline.tokenizer.tokenizer import Tokenizer

    options = make_options({**values, "export": values["export"] or None}, flag_of)
    if push_to_hub is not None:
        require_login("--push-to-hub", push_to_hub)
    loaded = load_tokenizer(tokenizer)
    before, home = loaded.model, tokenizer_home(tokenizer)
    directory = options.output or home
    model = with_chat_template(with_roles(loaded.model, options), options)
    if options.output is None and model.vocabulary != loaded.vocabulary:
        lacking = [text for text in model.vocabulary.special_tokens if text not in loaded.special_tokens]
        raise UsageError(
            f"{directory} lacks {', '.join(lacking)}; give --output for a tokenizer that has more, or "
            "name them when you merge"
        )
    for line in (*news_of(loaded.model, model), *bounds_at(tokenizer, options.added_special_tokens)):
        progress.write_error(f"note: {line}")
    loaded = Tokenizer.from_model(model)
    same = all(
        getattr(model, name) == getattr(before, name)
        for name in ("vocabulary", "bos_token", "eos_token", "pad_token", "front")
    )
    cards = card_in(home)
    written, refused = export_in_place(model, directory, options, changed=not same)
    for path in written:
        progress.write(printable(path))
    if cards and not card_in(home):
        again = f"bpe-pipeline report {printable(home)}"
        progress.write_error(f"note: the model card was of other special tokens and is removed; {again} makes it again")
    for name, reason in refused.items():
        progress.write_error(f"no {name} files: {reason}")
    if any(path.name == "tokenizer.json" for path in written) and (note := not_in_tokenizers_1(loaded.pattern)):
        progress.write_error(f"note: {note}")
    for limit in limits_of(model, options.export or ()):
        progress.write_error(f"note: {limit}")
    if check:
        from pipeline.tokenizer.check import check_command

        formats_written = [name for name in options.export or default_formats() if name not in refused]
        for line in check_command(loaded, tokenizer, directory, formats_written, samples):
            progress.write(printable(line))
    if push_to_hub is not None:
        from pipeline.reports.model_card import MARK

        more = {name: card for name, card in cards.items() if same or MARK.encode() not in card}
        progress.write(push(model, push_to_hub, more=more))


@command(*_ENCODE)
@inputs
@click.option("--text", "texts", multiple=True, metavar="STRING", help="encode this text instead of files; repeatable")
@tokenizer_option
@click.option("--ordinary", is_flag=True, help="encode special tokens in the text as plain text")
def encode(request: Request, texts: tuple[str, ...], tokenizer: Location, ordinary: bool) -> None:
    """Print the token ids of a text, or encode a corpus into shards.

    Without --output, print the ids of INPUTs (`-`: standard input) or of --text, a line each. A corpus is files,
    directories, globs, URIs, as for `train`. --output is the directory of the shards.

    \b
    bpe-pipeline encode --tokenizer runs/a --text 'Hello world'
    bpe-pipeline encode corpus --tokenizer runs/a --output shards --shard-format bin
    bpe-pipeline encode data.jsonl --chat --template llama3 --tokenizer runs/a --pack neat --output sft
    """
    options = request.options
    is_chat = options.chat or options.dataset_info is not None
    others = names_of("encode", "mix") - {"shard_format", "shard_size", "sequence_length", "pack"} | {
        "errors",
        "text_field",
        "add_bos",
    }
    if given := [name for name in request.given if name in (others if is_chat else names_of("chat"))]:
        whose = "means nothing for chat data" if is_chat else "is for chat data: give --chat, or --dataset-info"
        raise UsageError(f"{flag_of(given[0])} {whose}")
    if not is_chat and options.pack in ("greedy", "neat"):
        raise UsageError(f"--pack {options.pack} is for chat data: give --chat, or choose concat, best-fit or none")
    if not is_chat and bool(texts) == bool(options.inputs):
        raise UsageError("encode needs either files or --text STRING")
    texts = tuple(map(as_utf8, texts))
    if re.search("[\ud800-\udfff]", "".join(texts)):
        raise UsageError("--text is not valid UTF-8: pipe it into `encode -`, which replaces invalid bytes by U+FFFD")
    if options.output is None:
        unfit = next((name for name in request.given if name not in ("inputs", *RUN_OPTIONS)), None)
        if unfit is not None:
            raise UsageError(f"{flag_of(unfit)} is for a corpus: give --output, the directory of the shards")
        from pipeline.commands.encode_text import encode_command

        encode_command(tokenizer, [location_type(name) for name in options.inputs or ()], texts, ordinary=ordinary)
    elif texts or ordinary:
        raise UsageError("--output is for a corpus: leave out --text and --ordinary, or --output")
    else:
        from pipeline.run.workers import CHAT, ENCODING, executor_for

        def encode_corpus(session: Session) -> Result:
            from pipeline.tokenizer.formats.load import load_model

            options = session.options
            if is_chat:
                from pipeline.guests.chat.encode_chat import run_encode_chat as run

                if "shard_format" not in session.given:
                    options = replace(options, shard_format="arrow")
            else:
                from pipeline.commands.encode import run_encode as run
            summary = run(options, load_model(tokenizer), session.executor, session.listener)
            return Result("summary", summary.to_json(), summary.render(tokenizer), str(summary.directory))

        carry_out(request, encode_corpus, lambda options: executor_for(options, CHAT if is_chat else ENCODING))


@command()
@click.argument("words", nargs=-1, metavar="[ID ...|SHARDS]", type=PATH_TEXT)
@tokenizer_option
def decode(words: tuple[str, ...], tokenizer: Location) -> None:
    """Print the text of token IDs or of SHARDS.

    Without any, IDs are read from standard input. SHARDS is what `encode --output` wrote: a directory, or one or
    several of the shards in it.

    \b
    bpe-pipeline decode --tokenizer runs/a 15496 995
    bpe-pipeline decode --tokenizer runs/a shards
    """
    from pipeline.commands.encode_text import decode_command, decode_shards_command

    ids = " ".join(words).split()  # also of quoted ones: "1 2 3"
    if words and not (ids and ids[0].lstrip("+-").isdigit()):
        decode_shards_command(tokenizer, [location_type(word) for word in words])
    else:
        decode_command(tokenizer, ids)


@command()
@click.argument("text")
@tokenizer_option
@json_option
@click.option("--html", "page", type=LOCATION, metavar="FILE", help="write a page instead of printing")
@overwrite_option
def explain(text: str, tokenizer: Location, as_json: bool, page: Location | None, overwrite: bool) -> None:
    """Print why TEXT has its ids.

    That is: its pieces, the merges of each in order, and why two neighbours did not merge. The counts of the merges are
    those of the run, where the tokenizer is stored in one.

    \b
    bpe-pipeline explain --tokenizer runs/a 'Hello world'
    bpe-pipeline explain --tokenizer gpt2/tokenizer.json 'Hello world' --html hello.html
    """
    from pipeline.guests.inspect.explain import explain_command

    if as_json and page is not None:
        raise UsageError("--json prints, and --html writes a page: give one of them")
    if overwrite and page is None:
        raise UsageError("--overwrite is for --html FILE: give both, or leave it out")
    page = None if page is None else single_output(page, overwrite=overwrite)
    explain_command(tokenizer, as_utf8(text), as_json=as_json, page=page)


@command()
@click.argument("first", type=LOCATION, metavar="A")
@click.argument("second", type=LOCATION, metavar="B")
@click.argument("paths", nargs=-1, type=LOCATION, metavar="[INPUT ...]")
@click.option("--exclude", multiple=True, metavar="GLOB", help=HELP["exclude"])
@click.option("--text", "texts", multiple=True, metavar="STRING", help="compare on this text; repeatable")
@json_option
def diff(
    first: Location,
    second: Location,
    paths: tuple[Location, ...],
    exclude: tuple[str, ...],
    texts: tuple[str, ...],
    as_json: bool,
) -> int:
    """Print how the tokenizers A and B differ.

    The exit code is 0 if they are equal, 1 if not, 3 if the comparison failed. Printed are tokens that only one has,
    ids and ranks that moved, settings, and the texts that are cut differently, with the bytes per token of both. Texts
    are samples of INPUTs and those of --text; without any, built-in sentences in several languages.

    \b
    bpe-pipeline diff runs/a runs/b
    bpe-pipeline diff runs/a gpt2/tokenizer.json unseen/*.txt --json
    """
    from pipeline.guests.inspect.diff import diff_command

    exclude = make_options({"exclude": exclude or None}, flag_of).exclude or ()
    return diff_command(first, second, paths, [as_utf8(text) for text in texts], exclude=exclude, as_json=as_json)


@command()
@click.argument("tokenizer", type=LOCATION, metavar="TOKENIZER")
@click.option(
    "--sample", "samples", multiple=True, type=LOCATION, metavar="FILE",
    help="text to compare runtimes on, besides hard strings; repeatable; default: a sample of the run's corpus",
)  # fmt: skip
@click.option("--counts", type=LOCATION, metavar="RUN", help="whose counts say which tokens are used; default: its run")
@click.option("--strict", is_flag=True, help="advice makes the exit code 1, too")
@json_option
def doctor(
    tokenizer: Location, samples: tuple[Location, ...], counts: Location | None, strict: bool, as_json: bool
) -> int:
    """Print what is wrong with a tokenizer, each with a remedy.

    The exit code is 1 if anything is. TOKENIZER is a directory or file, of this package or another's. Its files are
    compared with each other and, id by id, in each installed library that reads them; tokens, special tokens, settings
    and round trips are checked.

    \b
    bpe-pipeline doctor runs/a/tokenizer
    bpe-pipeline doctor downloaded/model --sample unseen.txt --json
    """
    from pipeline.guests.inspect.doctor import doctor_command

    return doctor_command(tokenizer, samples, counts, strict=strict, as_json=as_json)


@command()
@click.argument("path", type=LOCATION, metavar="RUN|TOKENIZER|SHARDS")
@click.option("--log-json", is_flag=True, help=HELP["log_json"])
def info(path: Location, log_json: bool) -> None:
    """Print what a run, a tokenizer or a directory of shards is.

    That is: sizes, special tokens with their ids, pattern, chat template, files, fingerprint.

    \b
    bpe-pipeline info runs/a
    bpe-pipeline info runs/a/tokenizer --log-json
    """
    from pipeline.commands.info import render, run_info
    from pipeline.reports import progress

    facts = run_info(path)
    progress.write(render(facts)) if not log_json else progress.write_json("info", facts)


@command(*CLUSTER_OPTIONS)
def env(request: Request) -> None:
    """Print versions and the machine, for a bug report.

    With --executor ray, also the nodes of the cluster.

    \b
    bpe-pipeline env
    bpe-pipeline env --executor ray --ray-address auto
    """
    from pipeline.base.machine import describe
    from pipeline.reports import progress
    from pipeline.run.workers import nodes

    machines = nodes(request.options)
    facts = describe() | {f"node {number}": str(node) for number, node in enumerate(machines)}
    if request.options.executor != "local" and not machines:
        facts["nodes"] = "none with cores"
    for name, value in facts.items():
        progress.write(f"{name + ':':26}{value}")


@command()
def version() -> None:
    """Print the version.

    \b
    bpe-pipeline version
    """
    click.echo(f"{PROGRAM} {__version__}")
