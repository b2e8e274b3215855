"""Commands that change a tokenizer: extend, prune."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from pipeline.base.errors import UsageError
from pipeline.cli.command import Session, base_argument, run_argument, run_command
from pipeline.cli.completion import LOCATION
from pipeline.run.options import ExtendOptions, OutputOptions
from pipeline.storage import Location
from pipeline.storage.atomic import single_output, write_whole

if TYPE_CHECKING:
    from pipeline.reports.result import Facts, Result


@run_command(ExtendOptions)
@base_argument
@run_argument
@click.option("--add", metavar="N", help="how many new tokens; with --stop-at-saving the most, default: 64000")
@click.option("--first-id", metavar="N", help="the first new id; default: one more than the largest of BASE")
@click.option(
    "--stop-at-saving", metavar="SHARE",
    help="add the smallest number from which on no doubling saves this share of tokens in any input, such as 1%",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="print how many tokens each number of new ones saves, and stop")
@click.option("--html", "page", type=LOCATION, metavar="FILE", help="with --dry-run: also write a page with a plot")
@click.option("--figures", type=LOCATION, metavar="DIR", help="with --dry-run: also write the plot as SVG, PDF and CSV")
def extend(session: Session, base: Location, run_directory: Location, page: Location | None, **new: Any) -> "Result":
    """Add tokens learned from the counts in RUN to the tokenizer BASE.

    All ids and merges of BASE stay. new-tokens.parquet next to the new tokenizer says how to start their embeddings.

    \b
    bpe-pipeline count swahili/*.txt --like gpt2/tokenizer.json --output runs/sw
    bpe-pipeline extend gpt2/tokenizer.json runs/sw --add 50000 --dry-run
    bpe-pipeline extend gpt2/tokenizer.json runs/sw --add 10000 --output gpt2-sw
    """
    from pipeline.guests.adapt import extend
    from pipeline.reports import figure_files

    figures, overwrite = new.pop("figures"), session.options.overwrite
    if not new["dry_run"] and (given := "--html" if page else "--figures" if figures else ""):
        raise UsageError(f"{given} is what --dry-run writes: give both, or leave it out")
    if figures is not None:
        figure_files.require_figures(figures, overwrite=overwrite)
    page = page and single_output(page, overwrite=overwrite)
    how = session.options, session.executor, session.listener
    change = extend.change_of(base, run_directory, new, session.options)
    if new["dry_run"]:
        plan = extend.run_dry(change, *how)
        if page is not None:
            write_whole(page, plan.page())
        if figures is not None:
            figure_files.write_figures(figures, [plan.figure()], plan.tables(), overwrite=overwrite)
        return plan
    done = extend.run_extend(change, *how)
    facts = {
        "new_tokens": len(done.plan),
        "new_ids": f"{done.plan[0].id} to {done.plan[-1].id}" if done.plan else "none",
        "made_again": len(done.made_again),
        "stopped": done.stopped,
        "last_pair": done.last_pair,
    }
    if done.notes:
        facts["special_tokens"] = done.special_tokens
    result = _changed("extended", session, facts, done.before, done.after)
    shown = {"special_tokens": done.notes} if done.notes else {}
    return replace(result, facts={**result.facts, "savings": done.savings}, shown_as=shown)


@run_command(OutputOptions)
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
) -> "Result":
    """Remove the tokens of BASE that the counts in RUN use least.

    A text whose encoding holds no removed token keeps its tokens. id-map.parquet and removed.parquet next to the new
    tokenizer say which ids moved, and what went.

    \b
    bpe-pipeline count my-texts --like base/tokenizer.json --output runs/mine
    bpe-pipeline prune base/tokenizer.json runs/mine --keep 50000 --output smaller
    """
    from pipeline.guests.adapt.prune import run_prune

    staying = {"keep": keep, "min_count": min_count, "protect": protect or (), "keep_ids": keep_ids}
    done = run_prune(base, run_directory, staying, session.options, session.executor, session.listener)
    facts = {"removed": len(done.removed), "tokens": done.tokenizer.vocab_size}
    return _changed("pruned", session, facts, done.before, done.after)


def _changed(event: str, session: Session, facts: dict[str, Any], before: int, after: int) -> "Facts":
    """Return the result of a changed tokenizer."""
    from pipeline.reports.result import Facts

    output = str(session.options.output)
    return Facts({"tokenizer": output, **facts, "tokens_before": before, "tokens_after": after}, event, short=output)
