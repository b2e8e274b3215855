"""`report` of an extended or pruned tokenizer: what was added and removed, and the tokens of the counted text."""

from pipeline.base.units import format_count
from pipeline.commands.verify_changed import made_from
from pipeline.counts.count import require_counted
from pipeline.executors import Executor
from pipeline.report.summary import two_columns
from pipeline.storage import Location
from pipeline.tokenizer.formats.load import load_model
from pipeline.tokenizer.origin import require
from pipeline.tokenizer.prune_worker import TotalTask, total


def run_report_changed(location: Location, executor: Executor) -> tuple[dict[str, object], str]:
    """Return the facts, by name and as text; `RunDirectoryError` if the base or the counts changed or are gone."""
    origin = require(location)
    base, run = made_from(location, origin)
    model, counted = load_model(location), require_counted(run, executor)
    task = TotalTask(counted.path, counted.fingerprint, (base, model))
    [(_, (before, after))] = executor.run(total, [task])
    old, new = ({*one.vocabulary.tokens.values()} for one in (base, model))
    facts: dict[str, object] = {
        "tokenizer": str(location),
        "made_by": origin.done,
        "base": origin.base,
        "run": origin.run,
        "vocabulary_before": base.vocabulary.size,
        "vocabulary_after": model.vocabulary.size,
        "added": len(new - old),
        "removed": len(old - new),
        "tokens_before": before,
        "tokens_after": after,
    }
    shown = {name.replace("_", " "): f"{one:,}" if isinstance(one, int) else one for name, one in facts.items()}
    shown["tokens after"] = f"{after:,} ({after / max(before, 1) - 1:+.1%})"
    if documents := counted.facts.documents:
        facts |= {"documents": documents}
        each = f"{before / documents:,.2f} before, {after / documents:,.2f} after"
        shown["tokens per document"] = f"{each} ({format_count(documents, 'documents')})"
    return facts, two_columns(shown.items())
