"""Whether the pre-tokens of a run are those that a tokenizer cuts: new tokens are learned from no others."""

from dataclasses import replace

from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.pattern.presets import name_of
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.open_run import rules_of
from bpe_pipeline.run.patterns import cut_by
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.tokenizer.model import Model

_CUTTING = {"expression": "the pattern", "by": "what splits", "unicode": "the Unicode version", "text": "the text"}


def _shown(name: str, value: str | None) -> str:
    """Return what a message says of a pattern: its name, or that it has none; of anything else the value."""
    if name != "expression":
        return repr(value)
    return (name_of(value) if value else None) or "one without a name"


def require_same_cutting(runner: Runner, model: Model, run: Run) -> None:
    """Raise `RunDirectoryError` if the run's pre-tokens are not those that the tokenizer cuts; warn of separators."""
    counting, expected = run.manifest.counting, cut_by(model.counting_pattern)
    for name, value in expected.items():
        if run.manifest.cutting.get(name) != value:
            there, here = (_shown(name, one) for one in (run.manifest.cutting.get(name), value))
            raise RunDirectoryError(
                f"{run.directory} was not split as the tokenizer splits: {_CUTTING[name]} is {there} there and {here} "
                "here; count the corpus with --like"
            )
    separators = set() if counting["special_tokens_as_text"] else {*counting["special_tokens"]}
    added = {*model.vocabulary.special_tokens}
    if (other := sorted(separators - added)) and run.manifest.source is None:
        raise RunDirectoryError(
            f"{run.directory} was counted with --special-token {other[0]!r}, which the tokenizer takes as text; count "
            f"the corpus with --like, and with --split-at {other[0]!r} if it separates documents there"
        )
    counted, preparation = rules_of(counting), model.preparation
    if run.manifest.source is None or all(text.is_run for text in run.manifest.source.texts):
        of_run = replace(preparation, rules=counted).reaching({*counted, *separators})
        of_model = preparation.reaching(added)
        if other := sorted(text for text in {*of_run, *of_model} if of_run.get(text) != of_model.get(text)):
            raise RunDirectoryError(
                f"{run.directory} was not split as the tokenizer splits: it finds the added token {other[0]!r} by "
                "other rules (lstrip, rstrip, single_word, normalized); count the corpus with --like"
            )
    if missing := sorted(added - separators - {*counting["split_at"]} - counted.keys()):
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        runner.warn(
            f"{run.directory} was counted without the special token {missing[0]!r}{more}: where the corpus has it, it "
            "was counted as text; count with --like if it does"
        )
