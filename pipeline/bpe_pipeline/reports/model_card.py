"""The model card of a tokenizer: README.md as model hubs show it, from the numbers of the report.

It depends on the corpus and the options alone: times and the machine are in the report.
"""

from collections.abc import Mapping, Sequence

from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.counts.chunk_statistics import CorpusFacts
from bpe_pipeline.reports.html import templates
from bpe_pipeline.reports.numbers import Numbers
from bpe_pipeline.reports.tables import language_table, mixture_table, sizes, special_token_table
from bpe_pipeline.reports.verdict import SKIPPED

MARK = "<!-- Made by bpe-pipeline from the report; without this line it is kept as you edit it. -->"
_OPTIONS = (
    *("pattern", "tie break", "min frequency", "superwords from", "add bos"),
    *("sample", "seed", "max document chars"),
)


def model_card(
    options: Mapping[str, str], numbers: Numbers, corpus: CorpusFacts, answers: Sequence[tuple[str, str]]
) -> str:
    """Return the card: what the tokenizer is, how to load it, and how it cuts text.

    options: as it was made with; answers: the verdict.
    """
    size = f"{numbers.tokenizers[0][1]:,}"
    given = ((name, options[name]) for name in _OPTIONS if options.get(name, "none") not in ("none", "False", "0"))
    facts = [
        ("vocabulary", f"{size} tokens, byte-level BPE"),
        *given,
        ("trained on", f"{format_bytes(corpus.bytes)} of text" if corpus.bytes else f"counts from {corpus.source}"),
        ("left out", str(corpus.not_taken)),
        *((question, answer) for question, answer in answers if question != SKIPPED),
    ]
    listed = [*mixture_table(corpus), language_table(numbers), sizes(numbers.merged)]
    if numbers.vocabulary.special_tokens:
        listed.insert(0, special_token_table(numbers))
    card: str = (
        templates()
        .get_template("card.md")
        .render(mark=MARK, size=size, facts=[fact for fact in facts if fact[1]], tables=listed)
    )
    return card.rstrip() + "\n"
