"""A section of the report of a run: how many of its tokens have each length."""

from collections import Counter
from typing import Any

from bpe_pipeline.reports.parts import Table
from bpe_pipeline.reports.summary import Section
from bpe_pipeline.run.manifest import Run


def section(_executor: Any, _run: Run, trained: Any) -> Section:
    """Return what the report says of a run."""
    tokens = trained.vocabulary(trained.options.vocab_size[0]).tokens.values()
    lengths = tuple(sorted(Counter(map(len, tokens)).items()))
    longest = f"{lengths[-1][0]} bytes at most"
    return Section((("length", longest),), {"lengths": lengths}, (Table("Lengths", ("bytes", "tokens"), lengths),))
