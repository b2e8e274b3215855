"""A document on each line: the line itself, or a field of its record of JSON."""

from collections.abc import Iterator

from bpe_pipeline.corpus.chunks import Cutting, SearchedText, line_cut
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.formats.byte_format import ByteFormat
from bpe_pipeline.corpus.lines import read_json_lines, read_lines
from bpe_pipeline.corpus.read_budget import ReadBudget


class Lines(ByteFormat):
    """Lines of text, each with its ending: only `--input-format lines` reads a file so."""

    title = "lines"
    has_fields = False
    are_lines = True

    def cut(self, cutting: Cutting, text: SearchedText, reach: int, wanted: int) -> int | None:
        return line_cut(text, reach, wanted)

    def parse(
        self, file: CorpusFile, blocks: Iterator[bytes], at: int, text_field: str, budget: ReadBudget
    ) -> Iterator[Records]:
        return read_lines(file, blocks, at, budget)


class JsonLines(Lines):
    """Records of JSON. The names of files decide, since any text may begin as they do."""

    title = "JSON Lines"
    suffixes = (".jsonl", ".ndjson", ".jsonlines", ".json")
    has_fields = True
    are_lines = False

    def parse(
        self, file: CorpusFile, blocks: Iterator[bytes], at: int, text_field: str, budget: ReadBudget
    ) -> Iterator[Records]:
        return read_json_lines(file, blocks, at, text_field, budget)


LINES, JSON_LINES = Lines(), JsonLines()
