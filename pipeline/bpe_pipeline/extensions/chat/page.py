"""What rows of chat data are, for `info` and `report`: how long conversations are, what is cut, dropped and trained on.

Also what other cutoffs would truncate.
"""

from collections.abc import Iterable

from bpe_pipeline.commands.info import info_of
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.chat.lengths import Conversations
from bpe_pipeline.extensions.chat.show import marked_rows as marked_rows  # for `decode --mask`
from bpe_pipeline.reports.parts import Part, Rows, Table
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.stored import stored
from bpe_pipeline.shards import manifest
from bpe_pipeline.shards.encoded_corpus import RESULT, load_result
from bpe_pipeline.shards.manifest import SHARDS
from bpe_pipeline.storage import Location


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
