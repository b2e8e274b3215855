"""`explain`: how a text becomes its ids: pre-tokens, the merges of each in order, and why two neighbours stayed apart.

The core says which merges a pre-token has; what else was possible is found here, for texts that people read.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.merges import merge, merge_list
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.pattern.prepare import SpecialSearch
from bpe_pipeline.reports.parts import Note, Part, Rows
from bpe_pipeline.reports.result import Result
from bpe_pipeline.reports.tokens import readable
from bpe_pipeline.run import manifest
from bpe_pipeline.storage import Location, named
from bpe_pipeline.tokenizer.encode import Text, utf8_of
from bpe_pipeline.tokenizer.formats.files import load_model
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class MergeStep:
    """One merge in a pre-token.

    at: byte of the pre-token where the new token starts; count: in training, if it is known.
    """

    rank: int
    left: bytes
    right: bytes
    id: int
    at: int
    count: int | None = None


@dataclass(frozen=True)
class LostMerge:
    """A merge that was possible over a border until one of a lower rank took one of the two tokens."""

    rank: int
    left: bytes
    right: bytes
    taken_by: int  # its rank


@dataclass(frozen=True)
class Apart:
    """Two neighbours in a pre-token that did not merge: no merge joins them. at: byte of the pre-token between them.

    token: id of the token with the bytes of both, if there is one: it is made of other parts.
    """

    at: int
    left: bytes
    right: bytes
    token: int | None
    lost: tuple[LostMerge, ...]


@dataclass(frozen=True)
class ExplainedPreToken:
    """A pre-token, or a special token. start: its first byte in the text, as it was prepared.

    kind: "merged", "whole" (looked up as a token before any merge), or "special".
    """

    start: int
    pre_token: bytes
    kind: str
    ids: tuple[int, ...]
    tokens: tuple[bytes, ...]
    merges: tuple[MergeStep, ...] = ()
    apart: tuple[Apart, ...] = ()


_KINDS = {"special": "special token", "whole": "a token as a whole: looked up before any merge"}


def rows_of(pre_token: ExplainedPreToken) -> Rows:
    """Show a pre-token: its tokens, its merges in order, and what stayed apart."""
    if pre_token.kind in _KINDS:
        became = f"id {pre_token.ids[0]}, {_KINDS[pre_token.kind]}"
    else:
        became = ", ".join(
            f"{id_} {readable(token)}" for token, id_ in zip(pre_token.tokens, pre_token.ids, strict=True)
        )
    merges = (
        (
            f"{readable(one.left)} + {readable(one.right)}",
            f"rank {one.rank:,}" + ("" if one.count is None else f", {one.count:,} times in training"),
        )
        for one in pre_token.merges
    )
    apart = ((f"{readable(one.left)} | {readable(one.right)}", _why(one)) for one in pre_token.apart)
    return Rows((*merges, *apart), f"{readable(pre_token.pre_token)}: {became}")


def _why(apart: Apart) -> str:
    """Say why two neighbours did not merge."""
    made = "" if apart.token is None else f"; token {apart.token} has their bytes, but is made of other parts"
    lost = "".join(
        f"; {readable(one.left)} + {readable(one.right)} (rank {one.rank:,}) was possible until rank {one.taken_by:,} "
        "took a part of it"
        for one in apart.lost
    )
    return f"no merge joins them{made}{lost}"


@dataclass(frozen=True)
class Explanation(Result):
    """The pre-tokens of a text in order, and all of its ids. Neighbours in different pre-tokens never merge."""

    ids: tuple[int, ...]
    pre_tokens: tuple[ExplainedPreToken, ...]

    def shown(self) -> Iterable[Part]:
        """Return rows for each pre-token."""
        return list(map(rows_of, self.pre_tokens)) or [Note("no ids", "the text is empty")]


class Explainer:
    """Explains texts of one model. counts: of the merges when they were learned, by rank, if they are known."""

    def __init__(self, model: Model, counts: Sequence[int] = ()) -> None:
        self._model, self._counts = model, counts
        vocabulary: Vocabulary = model.vocabulary
        self._tokens = vocabulary.tokens
        self._ids = {token: id_ for id_, token in vocabulary.tokens.items()}
        self._encoder = model.pre_token_encoder()
        self._ranks = {pair: rank for rank, pair in enumerate(zip(vocabulary.left, vocabulary.right, strict=True))}

    def explain(self, text: Text) -> Explanation:
        """Explain a text as `Tokenizer.encode` encodes it."""
        pre_tokens = list(self._pre_tokens(utf8_of(text)))
        return Explanation(tuple(id_ for pre_token in pre_tokens for id_ in pre_token.ids), tuple(pre_tokens))

    def _pre_tokens(self, data: bytes) -> Iterator[ExplainedPreToken]:
        model, special_tokens = self._model, self._model.vocabulary.special_tokens
        texts, start = {id_: text.encode() for text, id_ in special_tokens.items()}, 0
        front, behind = ([(b"", special_tokens[text], 0) for text in added] for added in (model.front, model.behind))
        stretches = SpecialSearch(special_tokens, model.preparation).stretches(data)
        for stretch, id_, _ in (*front, *stretches, *behind):
            if id_ is not None:  # what encoding puts around a text has no bytes in it
                yield ExplainedPreToken(start, stretch or texts[id_], "special", (id_,), (texts[id_],))
                start += len(stretch)
                continue
            for text in model.pattern.cut(stretch.decode()):
                pre_token = text.encode(errors="surrogateescape")
                yield self._pre_token(start, pre_token)
                start += len(pre_token)

    def _pre_token(self, start: int, pre_token: bytes) -> ExplainedPreToken:
        """Explain a pre-token by its merges in order, noting what each of them makes impossible."""
        if self._model.whole_pre_tokens and pre_token in self._ids:
            return ExplainedPreToken(start, pre_token, "whole", (self._ids[pre_token],), (pre_token,))
        if len(pre_token.translate(None, self._model.vocabulary.lost_bytes)) < len(pre_token):
            raise InputError(f"the pre-token {pre_token!r} cannot be explained: {self._model.lossy}")
        made, token, merges = self._model.vocabulary.result, self._tokens.__getitem__, list[MergeStep]()
        ids, starts = [self._ids[pre_token[at : at + 1]] for at in range(len(pre_token))], [*range(len(pre_token))]
        lost = defaultdict[int, list[LostMerge]](list)  # by the byte between the two tokens
        for rank, at in self._encoder.steps(pre_token):
            index = bisect_left(starts, at)
            for left in (index - 1, index + 1):  # its pair will not be neighbours any more
                for one, two in pairwise(ids[max(left, 0) : left + 2]):
                    if (other := self._ranks.get((one, two))) is not None:
                        lost[starts[left + 1]].append(LostMerge(other, token(one), token(two), rank))
            lost.pop(starts.pop(index + 1), None)
            parts = token(ids[index]), token(ids.pop(index + 1))
            ids[index] = made[rank]
            count = self._counts[rank] if rank < len(self._counts) else None
            merges.append(MergeStep(rank, *parts, made[rank], at, count))
        tokens = tuple(map(token, ids))
        apart = tuple(
            Apart(at, left, right, self._ids.get(left + right), tuple(lost[at]))
            for at, (left, right) in zip(starts[1:], pairwise(tokens), strict=True)
        )
        return ExplainedPreToken(start, pre_token, "merged", tuple(ids), tokens, tuple(merges), apart)


_explainers: WeakKeyDictionary[Tokenizer, Explainer] = WeakKeyDictionary()  # making one takes longer than most texts


def explain(text: Text, tokenizer: Tokenizer | Location) -> Explanation:
    """Explain the ids of a text: its pre-tokens, the merges of each in order, and why two neighbours stayed apart."""
    if isinstance(tokenizer, Tokenizer):
        if tokenizer not in _explainers:
            _explainers[tokenizer] = Explainer(tokenizer.model)
        return _explainers[tokenizer].explain(text)
    path = named(tokenizer, "tokenizer")
    model = load_model(path)
    return Explainer(model, _counts(path, model.vocabulary)).explain(text)


def _counts(path: Location, vocabulary: Vocabulary) -> Sequence[int]:
    """Return the counts of the merges if the tokenizer is one of a run and has its merges, otherwise none."""
    run = manifest.run_of(path)
    if run is None or run.manifest.merging is None:
        return ()
    learned = merge_list.load(*merge.learning_of(run).merges)
    if learned is None or len(learned) < len(vocabulary.left):
        return ()
    learned = learned.first(len(vocabulary.left))
    same = Vocabulary.from_id_pairs(learned.left, learned.right).merges() == vocabulary.merges()
    return learned.counts if same else ()
