"""What rows of chat data are, for `info` and `report`: how long conversations are, what is cut, dropped and trained on.

Also what other cutoffs would truncate.
"""

from collections.abc import Iterable

from bpe_pipeline.commands.info import info_of
from bpe_pipeline.commands.report_again import Extras
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.chat.lengths import Conversations
from bpe_pipeline.extensions.chat.show import marked_rows as marked_rows  # for `decode --mask`
from bpe_pipeline.reports.figure import Axis, Figure, Series
from bpe_pipeline.reports.figure_files import images, write_figures
from bpe_pipeline.reports.page import figure_element, plain_page
from bpe_pipeline.reports.parts import Part, Rows, Table, element, html_of
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.stored import stored
from bpe_pipeline.shards import manifest
from bpe_pipeline.shards.encoded_corpus import RESULT, load_result
from bpe_pipeline.shards.manifest import SHARDS
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import write_json, write_whole

_MOST_BARS = 32
_SHARE = Axis("% of the conversations", form=".1f", zero=True)


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
        yield from self.tables()

    def tables(self) -> list[Table]:
        """Return what other cutoffs would leave out: powers of two, from half of all conversations to the longest."""
        first, last = (max(self._of.longest(share) - 1, 0).bit_length() for share in (0.5, 1.0))
        powers = {1 << power for power in range(first, last + 1)} - {self._of.cut_off + 1}  # packed rows take one less
        rows = tuple((at, *self._of.cut_by(at)) for at in sorted(powers | {self._of.cut_off}))
        headers = ("cutoff", "conversations truncated", "of all", "tokens left out")
        note = f"These rows are truncated to {self._of.cut_off:,} tokens."
        return [Table("What a cutoff truncates", headers, rows, note, {2: ".1%", 3: ".1%"})]

    def figures(self) -> list[Figure]:
        """Draw the lengths, whole and truncated, and the shares that are trained on."""
        trained = dict.fromkeys(range(0, 100, 5), 0) | dict(self._of.trained_on)
        shares = Series("", tuple((at + 2.5, self._percent(count)) for at, count in trained.items()))
        x = Axis("% of its tokens", form=".0f", limits=(-6, 100))
        title = "Share of each conversation that is trained on"
        note = f"{self['trained_on_tokens']:,} tokens of the rows are trained on."
        return [self._lengths(), Figure("trained-on", title, "bars", x, _SHARE, (shares,), note)]

    def _lengths(self) -> Figure:
        """Draw bars of one width, of which one ends at the cutoff, and the last one has all longer conversations."""
        cut_off, longest = self._of.cut_off, self._of.longest(1)
        span = max(self._of.longest(0.95), min(longest, cut_off + 1))
        width = 1 << ((span - 1) // _MOST_BARS).bit_length()
        first, last = (-((cut_off - at) // width) for at in (1, span))  # 0 is the bar that ends at the cutoff
        bars = dict.fromkeys(range(first, last + 1), 0)
        for length, count in self._of.lengths:
            bars[min(-((cut_off - length) // width), last)] += count
        points = [(cut_off + (at - 0.5) * width, self._percent(count)) for at, count in bars.items()]
        parts = {"whole": tuple(points[: 1 - first]), "truncated": tuple(points[1 - first :])}
        end = cut_off + last * width
        note = f"Each conversation once, before it is truncated to {cut_off:,} tokens. A bar is {width:,} tokens wide"
        note += "." if longest <= end else f", and the last one has all longer conversations: up to {longest:,}."
        seen = cut_off <= 1.5 * end
        shown = max(end, cut_off) if seen else end
        ticks: list[tuple[float, str]] = []
        if longest > end:
            ticks = [(at, f"{at:,}") for at in _round_numbers(end) if at < 0.85 * end]
            ticks.append((end - width / 2, f">{end - width:,}"))
        x = Axis(
            f"tokens; cutoff {cut_off:,}",
            form=",.0f",
            ticks=tuple(ticks),
            limits=(-0.06 * shown, 1.02 * shown),
            mark=cut_off if seen else None,
        )
        series = tuple(Series(name, bars_of) for name, bars_of in parts.items() if bars_of)
        return Figure("lengths", "Lengths of the conversations", "bars", x, _SHARE, series, note)

    def page(self) -> str:
        """Return a page: the numbers, the figures and the table."""
        figures, (numbers, table) = self.figures(), self.shown()
        drawn = element("div", *map(figure_element, figures), class_="plots")
        sections = (element("section", part) for part in (html_of(numbers), drawn, html_of(table)))
        return plain_page(f"Chat data: {self['shards']}", *sections, figures=figures)

    def _repr_html_(self) -> str:
        return super()._repr_html_() + images(self.figures())

    def _percent(self, count: int) -> float:
        return round(100 * count / self._of.count, 3)


def _round_numbers(last: int) -> range:
    """Return multiples of 1, 2 or 5 times a power of ten, of which at most five follow 0.

    >>> list(_round_numbers(1_920))
    [0, 500, 1000, 1500]
    """
    power = 10 ** max(len(str(last)) - 2, 0)
    step = next(times * power for times in (1, 2, 5, 10, 20, 50) if last < 6 * times * power)
    return range(0, last + 1, step)


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


def report(path: Location, extras: Extras, _: Executor) -> ChatReport:
    """Return the report of rows, after writing the page and the figures that were asked for."""
    extras.refuse(f"{path} has rows, not a tokenizer", kept=("output", "figures", "overwrite"))
    outputs = extras.outputs()
    report = ChatReport(info_of(path), "reported", str(path))
    if outputs is not None:
        write_whole(outputs[0], report.page())
        write_json(outputs[1], report.to_json())
    if extras.figures is not None:
        write_figures(extras.figures, report.figures(), report.tables(), overwrite=extras.overwrite)
    return report
