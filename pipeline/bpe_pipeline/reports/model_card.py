"""The model card of a tokenizer: README.md as model hubs show it, from the numbers of the report.

It depends on the corpus and the options alone: times and the machine are in the report.
"""

from collections.abc import Iterable, Mapping, Sequence

from bpe_pipeline.base.printable import printable
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.counts.chunk_statistics import CorpusFacts
from bpe_pipeline.reports.numbers import Numbers
from bpe_pipeline.reports.parts import Rows, Table
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
    size = numbers.tokenizers[0][1]
    facts = Rows(
        (
            ("vocabulary", f"{size:,} tokens, byte-level BPE"),
            *((name, options[name]) for name in _OPTIONS if options.get(name, "none") not in ("none", "False", "0")),
            ("trained on", f"{format_bytes(corpus.bytes)} of text" if corpus.bytes else f"counts from {corpus.source}"),
            *((("left out", corpus.not_taken),) if str(corpus.not_taken) else ()),
            *((question, answer) for question, answer in answers if question != SKIPPED),
        )
    )
    listed = [*mixture_table(corpus), language_table(numbers), sizes(numbers.merged)]
    if numbers.vocabulary.special_tokens:
        listed.insert(0, special_token_table(numbers))
    head = "---\nlibrary_name: transformers\ntags:\n- tokenizer\n- bpe\n---"
    usage = (
        "```python\nfrom transformers import AutoTokenizer\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("PATH or OWNER/NAME")\n```'
    )
    title = f"# Byte-level BPE tokenizer, {size:,} tokens"
    blocks = [head, MARK, title, _markdown(("", ""), facts.rows), usage, *map(_section, listed)]
    return "\n\n".join(blocks) + "\n"


def _section(table: Table) -> str:
    return "\n\n".join(
        part for part in (f"## {table.title}", table.note, _markdown(table.headers, table.texts())) if part
    )


def _markdown(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table in Markdown."""
    lines = (headers, ["---"] * len(headers), *rows)
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: object) -> str:
    """Write a text so that it is neither a column, a line nor HTML."""
    return printable(text).replace("|", "\\|").replace("<", "&lt;")
