"""What rows of chat data are, for `info` and `report`: how long conversations are, what is cut, dropped and trained on.

`decode --mask` shows rows as text, with what is trained on between two marks. Also what other cutoffs would truncate.
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import groupby, takewhile

from bpe_pipeline.commands.info import info_of
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.chat.about import Conversations
from bpe_pipeline.extensions.chat.training_rows import LABELS
from bpe_pipeline.reports.parts import Part, Rows, Table
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.stored import stored
from bpe_pipeline.shards import manifest
from bpe_pipeline.shards.encoded_corpus import RESULT, EncodedCorpus, load_result
from bpe_pipeline.shards.finish import POSITIONS
from bpe_pipeline.shards.formats import IDS, ShardFacts
from bpe_pipeline.shards.manifest import SHARDS
from bpe_pipeline.shards.read import blocks_of
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.decode import tokens_of
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

START, STOP = "\u27e6".encode(), "\u27e7".encode()  # around what is trained on
_IGNORED = (1 << 32) - 100


class ChatReport(Facts):
    """Shows rows of chat data by the facts that `info` returns."""

    @property
    def _of(self) -> Conversations:
        conversations: Conversations = self["conversations"]
        return conversations

    def shown(self) -> Iterable[Part]:
        """Return numbers, and what other cutoffs would truncate."""
        cut_off, trained = self._of.cut_off, self["trained_on_tokens"]
        cut, share, left_out = self._of.cut_by(cut_off)
        ids = self["tokens"] - self["padded_tokens"]
        yield Rows(
            (
                ("rows", self["shards"]),
                ("template", self["template"]),
                ("conversations", self._of),
                (
                    "cutoff",
                    f"{cut_off:,} tokens truncated {cut:,} ({share:.1%}), leaving out {left_out:.1%} of the tokens",
                ),
                ("trained on", f"{trained:,} of {ids:,} tokens in the rows ({trained / ids:.1%})"),
                ("skipped or altered", self["skipped_or_altered"] or "none"),
            )
        )
        yield self._table()

    def _table(self) -> Table:
        """Return what other cutoffs would leave out: powers of two, from half of all conversations to the longest."""
        first, last = (max(self._of.longest(share) - 1, 0).bit_length() for share in (0.5, 1.0))
        powers = {1 << power for power in range(first, last + 1)} - {self._of.cut_off + 1}  # packed rows take one less
        rows = tuple((at, *self._of.cut_by(at)) for at in sorted(powers | {self._of.cut_off}))
        headers = ("cutoff", "conversations truncated", "of all", "tokens left out")
        note = f"These rows are truncated to {self._of.cut_off:,} tokens."
        return Table("What a cutoff truncates", headers, rows, note, {2: ".1%", 3: ".1%"})


def info(home: Location) -> Facts:
    """Return the template, and what of the rows is trained on."""
    corpus, encoding = load_result(home / RESULT), manifest.load(Directory(home, SHARDS))
    assert corpus is not None, "these shards name this extension"
    trained, padded = (sum(getattr(shard, name) or 0 for shard in corpus.shards) for name in ("trained_on", "padded"))
    facts = {
        "template": encoding.options.get("template") if encoding else None,
        "trained_on_tokens": trained,
        "padded_tokens": padded,
        "conversations": stored(Conversations, corpus.about),
    }
    share = f"{trained / (corpus.tokens - padded):.1%}" + (" of those that are not padding" if padded else "")
    return Facts(facts, shown_as={"trained_on_tokens": f"{trained:,} ({share})", "padded_tokens": padded or ""})


def report(path: Location, _: Executor) -> ChatReport:
    """Return the report of rows."""
    return ChatReport(info_of(path), "reported", str(path))


def marked_rows(tokenizer: Tokenizer, directory: Location, corpus: EncodedCorpus, shard: ShardFacts) -> Iterator[bytes]:
    """Yield each row of a shard: how many of its tokens are trained on, and its text without padding."""
    for ids, labels, *positions in _rows(directory, corpus, shard):
        padded = sum(1 for _ in takewhile(lambda at: at == 0, reversed(positions[0]))) if positions else 0
        size, trained = len(ids) - padded, len(ids) - labels.count(_IGNORED)
        text = [f"{size:,} tokens, {trained:,} trained on{f', {padded:,} padded' if padded else ''}\n".encode()]
        tokens = iter(tokens_of(tokenizer.vocab, ids[:size]))
        for ignored, run in groupby(labels[:size], _IGNORED.__eq__):
            stretch = b"".join(next(tokens) for _ in run)
            text.append(stretch if ignored else START + stretch + STOP)
        yield b"".join([*text, b"\n"])


def _rows(directory: Location, corpus: EncodedCorpus, shard: ShardFacts) -> Iterator[list["array[int]"]]:
    """Yield the ids, labels and, of packed rows, positions of each row of a shard."""
    columns = [name for name in (IDS, LABELS, POSITIONS) if name in (corpus.columns or {})]
    waiting, first = [array("I") for _ in columns], 0
    for blocks in zip(*(blocks_of(directory, corpus, shard, column) for column in columns), strict=True):
        for values, (block, _) in zip(waiting, blocks, strict=True):
            values.frombytes(block.cast("B"))
        ends = blocks[0][1]
        for start, end in zip([first, *ends], ends, strict=False):
            yield [values[start - first : end - first] for values in waiting]
        if ends:
            waiting, first = [values[ends[-1] - first :] for values in waiting], ends[-1]
