"""Learn the tokens that extend a vocabulary, in a worker process: pre-tokens as the base encodes them, then merges.

Every old id and merge stays. A new merge has a higher rank than every old one, so a pre-token's ids change only where a
new pair stands in its old encoding. Two kinds of merges are never made: one that makes the text of an added token,
since tokenizer.json gives equal texts one id, and one that makes an old token which a merge needs, since old merges
would then fire after new ones. An old token that no merge needs, and that merges alone did not make, may be made again:
it keeps its id.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline._core import MergeResult
from bpe_pipeline.base.errors import ExportRefusedError, TrainingError, UsageError
from bpe_pipeline.base.units import format_count
from bpe_pipeline.counts.counter_file import CounterFile, open_counter
from bpe_pipeline.executors.worker import report_progress, report_totals
from bpe_pipeline.extensions.adapt.change_worker import ChangeTask
from bpe_pipeline.extensions.adapt.savings import Saving
from bpe_pipeline.merges.forecast import surely_enough
from bpe_pipeline.merges.merge_list import number_that_repays
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import write_rows
from bpe_pipeline.tokenizer.model import REFUSED, Model, bytes_of_letters, refused_texts


@dataclass(frozen=True)
class NewToken:
    """A token that was added.

    left_id, right_id: what its merge joins. count: of this pair when it was merged. old_ids: its bytes as the old
    tokenizer's merges encode them; the mean of their rows starts its embedding.
    """

    id: int
    token: bytes
    left_id: int
    right_id: int
    count: int
    old_ids: tuple[int, ...]


@dataclass(frozen=True)
class Start:
    """The tokens of a base as the merge engine numbers them, in order of ids, and what merges may not make.

    again: numbers of the tokens that may be made once more.
    """

    tokens: tuple[bytes, ...]
    ids: "array[int]"
    first_new_id: int
    forbidden: tuple[bytes, ...]
    again: tuple[int, ...]


@dataclass(frozen=True)
class Learned:
    """New merges by ids, in order of rank. after: the tokens of all pre-tokens with all of them.

    new: the tokens that they add; made_again: old ids that they make, which merges alone did not. tokens[n]: of all
    pre-tokens with the first n new tokens. chosen: why there are not more, if that was asked for.
    """

    left: "array[int]"
    right: "array[int]"
    counts: "array[int]"
    result: "array[int]"
    new: tuple[NewToken, ...]
    made_again: tuple[int, ...]
    exhausted: bool
    after: int
    tokens: "array[int]"
    chosen: str = ""

    def first(self, count: int) -> "Learned":
        """Return the first new tokens."""
        if count >= len(self.new):
            return self
        end = self.result.index(self.new[count - 1].id) + 1 if count else 0
        result, tokens = self.result[:end], self.tokens[: count + 1]
        return replace(
            self,
            left=self.left[:end],
            right=self.right[:end],
            counts=self.counts[:end],
            result=result,
            new=self.new[:count],
            made_again=tuple(id_ for id_ in result if id_ in self.made_again),
            exhausted=False,
            after=tokens[-1],
            tokens=tokens,
        )

    def enough(self, most: int, saving: float, by_name: Mapping[str, Sequence[int]]) -> tuple[int, str]:
        """Return how many of the new tokens repay, and why: from there on no doubling of them saves this share.

        by_name: `tokens` of each input, or of each run that was combined: as many as the one that needs most.
        """
        enough = {
            name: number_that_repays(tokens[1:] or tokens, most, saving, least=1, all_known=self.exhausted)
            for name, tokens in (by_name or {"": self.tokens}).items()
        }
        neediest = max(enough, key=lambda name: enough[name][0])
        count = enough[neediest][0]
        reasons = [f"{name}: {why}" if name else why for name, (_, why) in enough.items()]
        shown = "" if len(enough) == 1 else f"{format_count(count, 'tokens')}, as {neediest} needs; "
        return min(count, len(self.new)), f"at {shown}{'; '.join(reasons)}"

    def savings(self) -> tuple[Saving, ...]:
        """Return what this many new tokens save, and half as many, and so on."""
        halves = (len(self.new) >> times for times in range(len(self.new).bit_length()))
        return tuple(Saving.of(self.tokens, count) for count in sorted(halves))


def start_of(model: Model, add: int, first_id: int | None) -> Start:
    """Return what learning starts from; `UsageError` where a new id would be one that is taken."""
    old = model.vocabulary
    first = old.max_id + 1 if first_id is None else first_id
    end = first + max(add, 1)
    taken = sorted(id_ for id_ in (*old.tokens, *old.special_tokens.values()) if first <= id_ < end)
    if taken:
        raise UsageError(
            f"--first-id {first} with {add:,} new ids would take the id {taken[0]}, which is another token's; give "
            f"--first-id {old.max_id + 1} or leave it out"
        )
    needed, lost = {*old.left, *old.right}, model.unreachable_tokens()
    numbers = {id_: number for number, id_ in enumerate(old.tokens)}
    behind = range(max(first + add, old.max_id + 1), 1 << 32)  # ids of bytes without a token, which the engine needs
    # What added tokens would be in the vocabulary: their bytes, and what their text is in the byte alphabet.
    added = (token for text in old.special_tokens for token in (text.encode(), *bytes_of_letters(text)))
    return Start(
        tokens=(*old.tokens.values(), *old.missing_bytes),
        ids=array("I", [*old.tokens, *behind[: len(old.missing_bytes)]]),
        first_new_id=first,
        forbidden=(*added, *(old.tokens[id_] for id_ in lost if id_ in needed)),
        again=tuple(numbers[id_] for id_ in lost if id_ not in needed),
    )


def learned_of(start: Start, merged: MergeResult) -> Learned:
    """Turn the engine's numbers into ids."""
    ids, tokens = array("I", start.ids), list(start.tokens)
    old_ids: dict[int, tuple[int, ...]] = {id_: (id_,) for id_ in ids}
    old, again = {*start.ids}, {start.tokens[number]: start.ids[number] for number in start.again}
    new: list[NewToken] = []
    tokens_with, after = array("Q", [merged.bytes]), merged.bytes
    for a, b, count, fewer in zip(merged.left, merged.right, merged.counts, merged.joined, strict=True):
        left, right, token = ids[a], ids[b], tokens[a] + tokens[b]
        id_ = again.get(token, start.first_new_id + len(new))
        after -= fewer
        old_ids[id_] = old_ids[left] + old_ids[right]
        if token not in again:
            new.append(NewToken(id_, token, left, right, count, old_ids[id_]))
            tokens_with.append(after)
        ids.append(id_)
        tokens.append(token)
    result = ids[len(start.tokens) :]
    return Learned(
        left=array("I", map(ids.__getitem__, merged.left)),
        right=array("I", map(ids.__getitem__, merged.right)),
        counts=array("Q", merged.counts),
        result=result,
        new=tuple(new),
        made_again=tuple(id_ for id_ in result if id_ in old),
        exhausted=merged.stop == "min-frequency",
        after=after,
        tokens=tokens_with,
    )


def extended(model: Model, learned: Learned) -> Model:
    """Return the model with the new tokens and merges."""
    old = model.vocabulary
    tokens = old.tokens | {one.id: one.token for one in learned.new}
    lefts, rights = [*old.left, *learned.left], [*old.right, *learned.right]
    merges = ((tokens[left], tokens[right]) for left, right in zip(lefts, rights, strict=True))
    vocabulary = Vocabulary.from_tokens(tokens, merges, old.special_tokens, lossy=bool(old.lost_bytes))
    new = replace(model, vocabulary=vocabulary, trained=False)
    if lost := [id_ for id_ in new.unreachable_tokens() if id_ in learned.result]:
        raise ExportRefusedError(f"the new token {tokens[lost[0]]!r} is not made of its own bytes: this is a defect")
    return new


PLAN_NAME = "new-tokens.parquet"
_BYTES_PER_WORD = 32  # of a pre-token that is encoded, without its ids


def learn(task: ChangeTask) -> Learned:
    """Learn the new merges; `TrainingError` if there is nothing to learn."""
    asked, rules, engine = task.asked, MergeRules.among(task.asked), _core.MergeEngine()
    start = start_of(task.model, asked["add"], asked["first_id"])
    path, fingerprint = task.counts
    with open_counter(path, fingerprint=fingerprint) as counter:
        _take(task, start, counter, engine)
    result = engine.run(
        asked["add"],
        rules,
        threads=task.threads,
        progress=report_totals(),
        start=(start.tokens, start.ids, start.first_new_id, start.forbidden, start.again),
    )
    if asked["add"] and not len(result.left):
        often = "" if rules.min_frequency == 1 else f" {rules.min_frequency:,} times"
        raise TrainingError(
            f"nothing to learn: no two neighbouring tokens that may be joined occur{often} in the pre-tokens of "
            f"{path}; count another corpus, or give a smaller --min-frequency"
        )
    return learned_of(start, result)


def _take(task: ChangeTask, start: Start, counter: CounterFile, engine: _core.MergeEngine) -> None:
    """Give the engine all pre-tokens as the base encodes them."""
    base = task.model.vocabulary
    numbers = {id_: number for number, id_ in enumerate(base.tokens)}
    merges = base.left, base.right, base.result
    left, right, result = (array("I", map(numbers.__getitem__, ids)) for ids in merges)
    tokens, unknown = dict(enumerate(start.tokens)), task.model.unknown
    number = len(base.tokens) if unknown.text in base.special_tokens else REFUSED  # of a byte that no pre-token has
    lost = base.lost_bytes, None if unknown.text is None else number, unknown.fused
    encoder = _core.Encoder(None, tokens, left, right, result, task.model.whole_pre_tokens, 0, 1, *lost)
    words = slots = 0
    for columns in counter.read_all():
        with refused_texts():
            ends, ids = encoder.encode_rows(columns)
        counts = columns[2]
        if base.lost_bytes and unknown.text is not None:
            ends, ids, counts = _apart(number, ends, ids, counts)
        words, slots = words + len(ends), slots + len(ids) + len(ends)
        if _needed(task, words, slots) > task.grant.bytes:
            needed = _needed(task, counter.rows, counter.rows + counter.pre_token_bytes)
            raise task.grant.refusal(needed, f"extending with {counter.rows:,} pre-tokens", ", or count less text")
        engine.add(ends, ids, counts)
        report_progress(memoryview(columns[2]).nbytes // 8)


def _apart(unknown: int, ends: memoryview, ids: memoryview, counts: Any) -> tuple[memoryview, memoryview, memoryview]:
    """Return rows of numbers and their counts with each unknown token in a row of its own: no merge joins it."""
    numbers, offsets = ids.cast("B").cast("I"), pairwise(ends.cast("B").cast("q"))
    new_ends, new_ids, new_counts = array("q", [0]), array("I"), array("Q")
    for (start, end), count in zip(offsets, memoryview(counts).cast("B").cast("Q"), strict=True):
        for is_unknown, group in groupby(numbers[start // 4 : end // 4], unknown.__eq__):
            row = [*group]
            for part in zip(row) if is_unknown else [row]:
                new_ids.extend(part)
                new_ends.append(4 * len(new_ids))
                new_counts.append(count)
    return memoryview(new_ends), memoryview(new_ids), memoryview(new_counts)


def _needed(task: ChangeTask, words: int, slots: int) -> int:
    """Return the most bytes that words take, while they are encoded and merged."""
    return surely_enough(words, slots, task.asked["add"], threads=task.threads) + _BYTES_PER_WORD * words + 4 * slots


def write_table(learned_and_directory: tuple[Learned, Location]) -> None:
    """Write new-tokens.parquet, a row a token; in the text, bytes that are no complete UTF-8 character are escaped."""
    learned, directory = learned_and_directory
    kinds = {"id": "uint32", "token": "binary", "text": "string", "left_id": "uint32", "right_id": "uint32"}
    kinds |= {"count": "uint64", "old_ids": "uint32[]", "tokens_after": "uint64"}
    rows = (
        {**vars(one), "text": one.token.decode(errors="backslashreplace"), "tokens_after": after}
        for one, after in zip(learned.new, learned.tokens[1:], strict=True)
    )
    write_rows(directory / PLAN_NAME, rows, kinds)
