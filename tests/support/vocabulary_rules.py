"""Extending and pruning by their definitions, one recount a step: what the package is compared with."""

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st
from recorded import recorded
from reference import GPT2_BYTES, count_pairs, may_be_made, merge_word
from samples import naive_merge

from bpe_pipeline import Tokenizer, combine
from bpe_pipeline.merges.vocabulary import Vocabulary, text_to_token, token_to_text
from bpe_pipeline.tokenizer.model import Model


@dataclass(frozen=True)
class Base:
    """Token ids by bytes, merges in order of rank, and what a file says besides."""

    ids: Mapping[bytes, int]
    merges: Sequence[tuple[bytes, bytes]]
    added: Mapping[str, int] = field(default_factory=dict)
    whole_pre_tokens: bool = False

    def merged(self, pre_token: bytes) -> list[bytes]:
        """Merges alone, without whole pre-tokens."""
        return naive_merge(pre_token, self.merges)

    def encode(self, pre_token: bytes) -> list[int]:
        whole = self.whole_pre_tokens and pre_token in self.ids
        return [self.ids[token] for token in ([pre_token] if whole else self.merged(pre_token))]

    def parts(self, token: bytes) -> tuple[bytes, bytes] | None:
        """What the last merge of a token's own bytes joins: the merge without which it stays in two parts."""
        others = [pair for pair in self.merges if b"".join(pair) != token]
        found = Base(self.ids, others).merged(token)
        reached = len(token) > 1 and self.merged(token) == [token]
        return (found[0], found[1]) if reached else None

    def model(self) -> Model:
        tokens = {id_: token for token, id_ in self.ids.items()}
        tokenizer = Tokenizer(
            Vocabulary.from_tokens(tokens, self.merges, self.added), whole_pre_tokens=self.whole_pre_tokens
        )
        return tokenizer.model

    def save(self, directory: Path) -> Path:
        """Write tokenizer.json as other libraries do."""
        vocab = {token_to_text(token): id_ for token, id_ in self.ids.items()} | dict(self.added)
        plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        added = [{"id": id_, "content": text, **plain, "special": True} for text, id_ in self.added.items()]
        merges = [[token_to_text(left), token_to_text(right)] for left, right in self.merges]
        model = {"type": "BPE", "ignore_merges": self.whole_pre_tokens, "vocab": vocab, "merges": merges}
        document = {"version": "1.0", "added_tokens": added, "model": model}
        document |= {"pre_tokenizer": byte_level, "decoder": byte_level}
        directory.mkdir()
        (directory / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False))
        return directory


def base_of_case(found: Mapping[str, Any]) -> Base:
    ids = {bytes([byte]): id_ for id_, byte in enumerate(GPT2_BYTES)}
    ids |= {text_to_token(text): id_ for text, id_ in found["vocab"].items()}
    merges = [(text_to_token(left), text_to_token(right)) for left, right in found["merges"]]
    return Base(ids, merges, found["added_tokens"], found["ignore_merges"])


def recorded_cases(command: str, home: Path) -> Iterator[tuple[dict[str, Any], Path, Any]]:
    """Yield each recorded case with the directory of its tokenizer and its counts, both written below `home`."""
    for path, case in recorded("vocabularies", f"{command}-*.json"):
        own = home / path.stem
        own.mkdir()
        base = base_of_case(case["base"]).save(own / "base")
        counter = {text_to_token(text): count for text, count in case["counter"].items()}
        yield case, base, combine(counter, output=own / "run", special_tokens=[])


def require_probes(case: dict[str, Any], base: Path, changed: Tokenizer) -> None:
    """Require the recorded ids of pre-tokens, before and after."""
    encoders = Tokenizer.load(base).model.encoder(), changed.model.encoder()
    for probe in case["probes"]:
        found = [one.encode_pre_tokens([text_to_token(probe["piece"])]) for one in encoders]  # as it was recorded
        assert found == [probe["old"], probe["new"]], (base, probe)


def extend_by_rules(
    base: Base,
    counter: Mapping[bytes, int],
    add: int,
    *,
    min_frequency: int = 1,
    first_id: int | None = None,
    **token_rules: Any,
) -> SimpleNamespace:
    ids, listed = dict(base.ids), list(base.merges)
    bytes_of = {id_: token for token, id_ in ids.items()}
    following = max([*ids.values(), *base.added.values()]) + 1 if first_id is None else first_id
    forbidden = {text.encode() for text in base.added}
    for text in base.added:
        with suppress(UnicodeEncodeError):
            forbidden.add(text_to_token(text))
    offering = {
        pre_token: n for pre_token, n in counter.items() if not (base.whole_pre_tokens and pre_token in base.ids)
    }
    words = [
        (base.encode(pre_token), count) for pre_token, count in offering.items()
    ]  # a whole pre-token offers no pairs
    merges: list[tuple[bytes, bytes, int]] = []
    new_ids: dict[bytes, int] = {}
    made_again: list[int] = []
    while len(new_ids) < add:
        kept = forbidden | ({part for pair in listed for part in pair} & {*ids})
        offered = [
            (-count, left, right)
            for (left, right), count in count_pairs(words).items()
            if count >= max(min_frequency, 1)
            and bytes_of[left] + bytes_of[right] not in kept
            and may_be_made(bytes_of[left] + bytes_of[right], **token_rules)
        ]
        if not offered:
            break
        best = min(offered)
        pair = bytes_of[best[1]], bytes_of[best[2]]
        made = pair[0] + pair[1]
        if made in ids:
            made_again.append(ids[made])
        else:
            ids[made] = new_ids[made] = following
            bytes_of[following] = made
            following += 1
        listed.append(pair)
        merges.append((*pair, -best[0]))
        words = [(merge_word(word, (best[1], best[2]), ids[made]), count) for word, count in words]
    return SimpleNamespace(merges=merges, new_ids=new_ids, made_again=made_again)


def prune_by_rules(
    base: Base,
    counter: Mapping[bytes, int] | None,
    protect: Sequence[bytes] = (),
    keep: int = 0,
    min_count: int | None = None,
) -> list[tuple[int, int]]:
    """Ids and scores in order of removal; without `min_count` down to `keep`, or as far as there are leaves.

    Without a counter those that no merge makes go first, then the others from the last merge on.
    """
    bytes_of = {id_: token for token, id_ in base.ids.items()}
    score = dict.fromkeys(bytes_of, 0)
    for pre_token, count in (counter or {}).items():
        for id_ in base.encode(pre_token):
            score[id_] += count
    stay = {id_ for token, id_ in base.ids.items() if len(token) == 1 or token in protect}
    stay |= {id_ for id_ in bytes_of if id_ in base.added.values() or token_to_text(bytes_of[id_]) in base.added}
    parts = {id_: base.parts(token) or () for token, id_ in base.ids.items()}
    ranks = {id_: base.merges.index(parts[id_]) if parts[id_] else len(base.merges) for id_ in bytes_of}
    before = (lambda id_: (score[id_], -id_)) if counter is not None else (lambda id_: (-ranks[id_], id_))
    removed: list[tuple[int, int]] = []
    size = len({*bytes_of, *base.added.values()})
    while min_count is not None or size - len(removed) > keep:
        kept = set(bytes_of) - {id_ for id_, _ in removed}
        leaves = {id_ for id_ in kept - stay if not any(bytes_of[id_] in parts[other] for other in kept)}
        best = heapq.nsmallest(1, leaves, key=before)
        if not best or (min_count is not None and score[best[0]] >= min_count):
            break
        removed.append((best[0], score[best[0]]))
        for part in parts[best[0]]:
            score[base.ids[part]] += score[best[0]]
    return removed


@st.composite
def bases(draw: st.DrawFn) -> Base:
    """Vocabularies of three letters: learned merges, dead ones, unreachable tokens, any ids, gaps, added tokens."""
    alphabet = "abc"
    tokens = [bytes([byte]) for byte in GPT2_BYTES]
    made = [letter.encode() for letter in alphabet]
    merges: list[tuple[bytes, bytes]] = []
    for _ in range(draw(st.integers(0, 12))):
        pair = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        token = b"".join(pair)
        if pair in merges or len(token) > 6:
            continue
        merges.append(pair)  # where the token exists: perhaps dead
        if token not in made:
            made.append(token)
    tokens += [token for token in made if len(token) > 1]
    lost = draw(st.lists(st.text(alphabet, min_size=2, max_size=5), max_size=4, unique=True))
    tokens += [token for token in map(str.encode, lost) if token not in tokens]
    if draw(st.booleans()):  # merges of which a part is never made
        more = [(left, right) for left in tokens[256:] for right in (b"a", b"b") if left + right in tokens]
        merges += [pair for pair in more if pair not in merges]
    merges = draw(st.permutations(merges)) if draw(st.booleans()) else merges
    texts = draw(st.lists(st.sampled_from(["<a>", "abc", "ab<", "Ġa", "ca"]), max_size=2, unique=True))
    texts = [text for text in texts if text.encode() not in tokens and text_to_token(text) not in tokens]
    numbers = draw(st.permutations(range(256, 256 + len(tokens) - 256 + len(texts) + 3)))
    ids = dict(zip(tokens, [*range(256), *numbers], strict=False))
    added = dict(zip(texts, numbers[len(tokens) - 256 :], strict=False))
    return Base(ids, merges, added, draw(st.booleans()))


pre_tokens = st.text("abc<>", min_size=1, max_size=9).map(str.encode)
counters = st.dictionaries(pre_tokens, st.integers(1, 6), min_size=1, max_size=10)
