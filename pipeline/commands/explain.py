"""The story of `explain`: load a tokenizer, and the counts of its merges where its run has them, and explain a text."""

import json
from collections.abc import Sequence

from pipeline.base.printable import printable
from pipeline.merges import merge, merge_list
from pipeline.merges.vocabulary import Vocabulary
from pipeline.report import explained, progress
from pipeline.run import manifest
from pipeline.storage import Location
from pipeline.storage.atomic import write_whole
from pipeline.tokenizer.explain import Explainer
from pipeline.tokenizer.formats.load import load_model


def explain_command(path: Location, text: str, *, as_json: bool, page: Location | None) -> None:
    """Print why a text has its ids; page: where to write that as a page instead."""
    vocabulary = (model := load_model(path)).vocabulary
    explanation = Explainer(model, _counts(path, vocabulary)).explain(text)
    if page is not None:
        write_whole(page, explained.page(explanation, str(path)))
        progress.write(printable(page))
    elif as_json:
        progress.write(json.dumps(explanation.to_json(), ensure_ascii=False))
    else:
        progress.write(explained.render(explanation))


def _counts(path: Location, vocabulary: Vocabulary) -> Sequence[int]:
    """Return the counts of the merges if the tokenizer is one of a run and has its merges, otherwise none."""
    run = manifest.run_of(path)
    if run is None or run.manifest.merging is None:
        return ()
    learned = merge_list.load(run.merges_path, merge.merges_fingerprint(run, run.manifest.options_of()))
    if learned is None or len(learned) < len(vocabulary.left):
        return ()
    learned = learned.first(len(vocabulary.left))
    same = Vocabulary.from_id_pairs(learned.left, learned.right).merges() == vocabulary.merges()
    return learned.counts if same else ()
