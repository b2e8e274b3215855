"""What counting found in a corpus, as plain numbers for the summary and the report."""

from dataclasses import dataclass

from pipeline.corpus.skipped_or_altered import SkippedOrAltered


@dataclass(frozen=True)
class CorpusFacts:
    """Sums over all chunks of a corpus."""

    files: int
    bytes: int
    documents: int
    pieces: int
    different_pieces: int
    losses: tuple[SkippedOrAltered, ...] = ()  # skipped or altered input
    concerned_characters: str = ""  # characters of the corpus that `regex` and the runtimes classify differently
    source: str = ""  # where the counts come from, if no corpus was listed
