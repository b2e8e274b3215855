"""What training returns to Python: tokenizers. The command prints a summary, and imports none of this."""

from bpe_pipeline.reports.summary import Summary
from bpe_pipeline.tokenizer.export import Trained
from bpe_pipeline.tokenizer.tokenizer import Tokenizer


def first_tokenizer(done: tuple[Summary, Trained]) -> Tokenizer:
    """Return the tokenizer of what was trained; of several sizes, the first."""
    trained = done[1]
    return Tokenizer.from_model(trained.model(trained.options.vocab_size[0]))


def all_tokenizers(done: tuple[Summary, Trained | None]) -> dict[int, Tokenizer]:
    """Return the tokenizers of what was trained by their sizes; none of a part, which counts."""
    trained = done[1]
    if trained is None:
        return {}
    return {size: Tokenizer.from_model(trained.model(size)) for size in trained.options.vocab_size}
