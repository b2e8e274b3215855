"""Why a text has its ids: load a tokenizer, and the counts of its merges if it is a run's, and explain the text."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from pipeline.guests.inspect.explanation import Explainer, Explanation, rows_of
from pipeline.merges import merge, merge_list
from pipeline.merges.vocabulary import Vocabulary
from pipeline.reports.page import element, html_of, plain_page
from pipeline.reports.tokens import readable
from pipeline.run import manifest
from pipeline.run.keywords import AnyPath
from pipeline.storage import Location, named
from pipeline.tokenizer.encode import Text
from pipeline.tokenizer.formats.load import load_model
from pipeline.tokenizer.tokenizer import Tokenizer

_SECTIONS = 500  # of different pieces, on a page
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


def page(explanation: Explanation, tokenizer: str) -> str:
    """Return a page: the tokens in colours, and a section for each different piece, up to a number."""
    tokens = [token for piece in explanation.pieces for token in piece.tokens]
    spans = (
        element("span", readable(token), class_=f"t{number % 4}", title=f"id {id_}")
        for number, (token, id_) in enumerate(zip(tokens, explanation.ids, strict=True))
    )
    whole = element(
        "section",
        element("h2", f"{len(explanation.ids):,} tokens in {len(explanation.pieces):,} pieces"),
        element("p", *spans, class_="cut", dir="auto"),
        element("p", "Each colour is a token, ␣ a space. Tokens of different pieces never merge.", class_="quiet"),
    )
    different = list({piece.piece: rows_of(piece) for piece in explanation.pieces}.values())
    sections = [element("section", element("h2", one.title), html_of(one)) for one in different[:_SECTIONS]]
    if len(different) > _SECTIONS:
        rest = f"The first {_SECTIONS:,} of {len(different):,} different pieces are explained here; --json has all."
        sections.append(element("p", rest, class_="quiet"))
    return plain_page(f"Why these tokens: {tokenizer}", whole, *sections)


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
