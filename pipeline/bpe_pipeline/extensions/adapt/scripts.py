"""Tokens of scripts that a model will not need: `extend --replace-scripts` gives their ids to new tokens."""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.units import format_count
from bpe_pipeline.extensions.adapt.prune_worker import RemovedToken, protected_ids, pruned, removed_tokens, with_new_ids
from bpe_pipeline.reports.tokens import KINDS, script_of_character
from bpe_pipeline.tokenizer.model import Model

_MOST_SHOWN = 16


@dataclass(frozen=True)
class Replaced:
    """A model without the tokens of some scripts, whose ids are free. removed: in order of removal."""

    model: Model
    removed: tuple[RemovedToken, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids that new tokens get first."""
        return tuple(sorted(one.old_id for one in self.removed))


def without_scripts(model: Model, scripts: Sequence[str]) -> Replaced:
    """Return the model without tokens that have a letter of these scripts; tokens that others are made of stay.

    Raises `UsageError` for a script of which the vocabulary has no token.
    """
    if not scripts:
        return Replaced(model)
    vocabulary = model.vocabulary
    found = {id_: _scripts_of(token) for id_, token in vocabulary.tokens.items()}
    known = Counter(script for of_token in found.values() for script in of_token)
    named = {script.casefold(): script for script in known}
    if unknown := [script for script in scripts if script.casefold() not in named]:
        shown = ", ".join(f"{script} {count:,}" for script, count in known.most_common(_MOST_SHOWN))
        raise UsageError(
            f"--replace-scripts: no token has a letter of the script {unknown[0]!r}; those of the tokenizer, with "
            f"their tokens: {shown}"
        )
    wanted = {named[script.casefold()] for script in scripts}
    staying = {id_ for id_, of_token in found.items() if wanted.isdisjoint(of_token)}
    asked = {"keep": None, "min_count": 1, "protected": staying | protected_ids(vocabulary, ())}
    merges = model.pre_token_encoder().last_merges(vocabulary.tokens)
    removed = removed_tokens(vocabulary, merges, None, asked)
    smaller, _ = pruned(model, removed.keys(), keep_ids=True)
    return Replaced(smaller, with_new_ids(vocabulary, removed, smaller))


def learned_again(removed: Sequence[RemovedToken], learned: Set[bytes]) -> str:
    """Say how many learned tokens are ones that were removed; empty if none is."""
    again = learned & {one.token for one in removed}
    if not again:
        return ""
    return (
        f"{format_count(len(again), 'new tokens')} are as ones that were removed, with other ids: the counted texts "
        "are in the scripts of --replace-scripts, too; count texts without them, or keep these scripts"
    )


def _scripts_of(token: bytes) -> frozenset[str]:
    """Return the scripts of a token's letters, as far as they are whole."""
    if token.isascii():
        return frozenset({"Latin"} if token.lower() != token.upper() else ())
    return frozenset(map(script_of_character, token.decode(errors="ignore"))) - KINDS
