"""Choose which tokens to remove, in a worker: those that a counter uses least first, or those that were merged last.

A token's canonical merge is the last one when its own bytes are merged; a leaf is a token that no kept token's
canonical merge joins. So every token that stays is still made by the same merges, and a pre-token whose encoding holds
no removed token keeps its tokens.
"""

import heapq
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.extensions.adapt.change_worker import ChangeTask
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import write_rows
from bpe_pipeline.tokenizer.model import Model, bytes_of_letters


@dataclass(frozen=True)
class RemovedToken:
    """A token that was removed. score: how often it was used, with what removed tokens made of it; 0 without counts.

    new_ids: what its bytes are encoded as now.
    """

    old_id: int
    token: bytes
    score: int
    new_ids: tuple[int, ...]


def removed_tokens(
    vocabulary: Vocabulary, merges: Mapping[int, int], uses: Sequence[int] | None, asked: Mapping[str, Any]
) -> dict[int, int]:
    """Return the ids to remove with their scores, in order of removal.

    merges: the rank of the canonical merge of each reachable token that is no byte. uses: by id; None: the last merge
    goes first. Raises `UsageError` if that size cannot be reached, or nothing is to be removed.
    """
    parts = {id_: (vocabulary.left[rank], vocabulary.right[rank]) for id_, rank in merges.items()}
    last = len(vocabulary.left)
    order = {id_: id_ if uses else merges.get(id_, last) for id_ in vocabulary.tokens}  # of equally used ones
    keep, min_count, protected = asked["keep"], asked["min_count"], {*asked["protected"]}
    score = {id_: uses[id_] if uses else 0 for id_ in vocabulary.tokens}
    users = Counter(part for id_, two in parts.items() for part in {*two})
    leaves = [(score[id_], -order[id_], id_) for id_ in score if not users[id_] and id_ not in protected]
    heapq.heapify(leaves)
    removed: dict[int, int] = {}
    size = vocabulary.size
    while leaves and (size - len(removed) > keep if keep is not None else leaves[0][0] < (min_count or 0)):
        count, _, id_ = heapq.heappop(leaves)
        removed[id_] = count
        two = parts.get(id_, ())
        for part in two:
            score[part] += count
        for part in {*two}:
            users[part] -= 1
            if not users[part] and part not in protected:
                heapq.heappush(leaves, (score[part], -order[part], part))
    if keep is not None and size - len(removed) > keep:
        raise UsageError(
            f"--keep {keep:,} is too small: {size - len(removed):,} tokens are bytes, added or protected tokens, or "
            "what these are made of; give at least this number"
        )
    if not removed:
        why = f"it has {size:,} tokens" if keep is not None else f"each token occurs {min_count:,} times or is needed"
        raise UsageError(
            f"there is nothing to remove from the tokenizer: {why}; give a smaller number of tokens to keep"
        )
    return removed


def protected_ids(vocabulary: Vocabulary, named: Iterable[str | bytes]) -> set[int]:
    """Return the ids that stay whatever they are used: bytes, added tokens, those named; `UsageError` for no token.

    A name is a token's text in the byte alphabet, as vocab.json has it, or its own text.
    """
    by_bytes = {token: id_ for id_, token in vocabulary.tokens.items()}
    kept = {id_ for id_, token in vocabulary.tokens.items() if len(token) == 1} | {*vocabulary.special_tokens.values()}
    for text in vocabulary.special_tokens:
        kept |= {by_bytes[token] for token in bytes_of_letters(text) if token in by_bytes}
    for name in named:
        spellings = [name] if isinstance(name, bytes) else [*bytes_of_letters(name), name.encode()]
        found = [by_bytes[token] for token in spellings if token in by_bytes]
        if not found and name not in vocabulary.special_tokens:
            raise UsageError(
                f"{name!r} is to be protected, but is not a token: write it as vocab.json does, or leave it out"
            )
        kept |= {*found}
    return kept


def pruned(model: Model, removed: Set[int], *, keep_ids: bool) -> tuple[Model, dict[int, int]]:
    """Return the model without these ids, and old id -> new id of all others in order.

    Where ids move, it has no settings that may name one, and no padding by a token that is removed.
    """
    old = model.vocabulary
    kept = sorted({*old.tokens, *old.special_tokens.values()} - removed)
    new_of = dict(zip(kept, kept if keep_ids else range(len(kept)), strict=True))
    tokens = {new_of[id_]: token for id_, token in old.tokens.items() if id_ in new_of}
    rows = [row for row in zip(old.left, old.right, old.result, strict=True) if removed.isdisjoint(row)]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    left, right, result = (array("I", map(new_of.__getitem__, column)) for column in columns)
    special = {text: new_of[id_] for text, id_ in old.special_tokens.items()}
    smaller = replace(model, vocabulary=Vocabulary(tokens, left, right, result, special), trained=False)
    if not keep_ids:
        settings = {name: value for name, value in model.settings.items() if name not in settings_with_ids(model)}
        kept_members = {**model.kept, "padding": _moved_padding(model.kept.get("padding"), new_of)}
        smaller = replace(smaller, generation=b"", settings=settings, kept=kept_members)
    return smaller, new_of


def _moved_padding(padding: Any, new_of: Mapping[int, int]) -> Any:
    old = padding.get("pad_id") if isinstance(padding, dict) else None
    return {**padding, "pad_id": new_of[old]} if isinstance(old, int) and old in new_of else None


def settings_with_ids(model: Model) -> list[str]:
    """Return the names of settings of a tokenizer_config.json that say that they are ids."""
    return [name for name in model.settings if name.endswith(("_id", "_ids"))]


MAP_NAME, REMOVED_NAME = "id-map.parquet", "removed.parquet"


@dataclass(frozen=True)
class Pruning:
    """What to remove, in order. id_map: new id -> old id of each token that stays. before, after: the tokens of all
    counted pre-tokens, if any are."""

    removed: tuple[RemovedToken, ...]
    id_map: Mapping[int, int]
    before: int | None
    after: int | None


def prune(task: ChangeTask) -> Pruning:
    """Choose what to remove; raises as `removed_tokens` does."""
    old, asked = task.model.vocabulary, task.asked
    uses = _uses(task, task.model)
    scores = removed_tokens(old, task.model.pre_token_encoder().last_merges(old.tokens), uses, asked)
    model, new_of = pruned(task.model, scores.keys(), keep_ids=asked["keep_ids"])
    encoder = model.pre_token_encoder()
    removed = tuple(
        RemovedToken(id_, old.tokens[id_], score, tuple(encoder.encode_pre_tokens([old.tokens[id_]])))
        for id_, score in scores.items()
    )
    before, after = (None if of_model is None else sum(of_model) for of_model in (uses, _uses(task, model)))
    return Pruning(removed, {new: id_ for id_, new in new_of.items()}, before, after)


def _uses(task: ChangeTask, model: Model) -> Sequence[int] | None:
    """Return how often each token is used in the pre-tokens of the counter; None without one."""
    if task.counter is None:
        return None
    path, fingerprint = task.counter
    with open_counter(path, fingerprint=fingerprint) as counter:
        return model.uses(counter.read_all())


def write_tables(made: tuple[Pruning, Vocabulary, Location]) -> None:
    """Write id-map.parquet, a row a token that stays, and removed.parquet, a row a token that goes."""
    pruning, old, directory = made
    tokens = old.to_dict()
    ids = ({"new_id": new, "old_id": was, "token": tokens[was]} for new, was in pruning.id_map.items())
    write_rows(directory / MAP_NAME, ids, {"new_id": "uint32", "old_id": "uint32", "token": "binary"})
    kinds = {"old_id": "uint32", "token": "binary", "score": "uint64", "new_ids": "uint32[]"}
    write_rows(directory / REMOVED_NAME, map(vars, pruning.removed), kinds)
