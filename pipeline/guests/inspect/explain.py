"""Why a text has its ids: load a tokenizer, and the counts of its merges if it is a run's, and explain the text."""

import json
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from pipeline.base.printable import printable
from pipeline.guests.inspect import explained
from pipeline.guests.inspect.explanation import Explainer, Explanation
from pipeline.merges import merge, merge_list
from pipeline.merges.vocabulary import Vocabulary
from pipeline.reports import progress
from pipeline.run import manifest
from pipeline.run.option_types import AnyPath
from pipeline.storage import Location, named
from pipeline.storage.atomic import write_whole
from pipeline.tokenizer.encode import Text
from pipeline.tokenizer.formats.load import load_model
from pipeline.tokenizer.tokenizer import Tokenizer

_explainers: WeakKeyDictionary[Tokenizer, Explainer] = WeakKeyDictionary()  # making one takes longer than most texts


def explain(text: Text, tokenizer: Tokenizer | AnyPath) -> Explanation:
    """Explain the ids of a text: its pieces, the merges of each in order, and why two neighbours stayed apart.

    >>> [piece] = pipeline.explain("lower", tokenizer).pieces
    >>> [(merge.rank, merge.left, merge.right) for merge in piece.merges]
    [(0, b'l', b'o'), (1, b'lo', b'w'), (2, b'e', b'r')]
    >>> [(apart.left, apart.right) for apart in piece.apart]
    [(b'low', b'er')]

    Args:
        text: str or bytes.
        tokenizer: a tokenizer, or the path or URI of one; the merges of one in a run directory have their counts.

    Returns:
        A value with the `ids` of `encode` and the `pieces`; `to_json()` returns it as plain values.

    Raises:
        UsageError: the text or the tokenizer has another type.
        InputError: the tokenizer at the path cannot be read.
    """
    if isinstance(tokenizer, Tokenizer):
        if tokenizer not in _explainers:
            _explainers[tokenizer] = Explainer(tokenizer.model)
        return _explainers[tokenizer].explain(text)
    path = named(tokenizer, "tokenizer")
    model = load_model(path)
    return Explainer(model, _counts(path, model.vocabulary)).explain(text)


def explain_command(path: Location, text: str, *, as_json: bool, page: Location | None) -> None:
    """Print why a text has its ids; page: where to write that as a page instead."""
    explanation = explain(text, path)
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
