"""JSON that is not one record a line, as a format of corpus files: of chat data, whose rows `rows` reads."""

from collections.abc import Iterator

from bpe_pipeline.corpus.chunks import Cutting
from bpe_pipeline.corpus.documents import Records
from bpe_pipeline.corpus.files import CorpusFile, FileSpan
from bpe_pipeline.corpus.formats import CorpusFormat, Part, Progress, Stretch
from bpe_pipeline.corpus.read_budget import ReadBudget


class Json(CorpusFormat):
    """A file of values is one part."""

    title = "JSON"
    offered = False
    position = "row"

    def cuts(self, file: CorpusFile, cutting: Cutting, chunk_bytes: int) -> list[Part]:
        return [Part(0, file.size)]

    def read(
        self, span: FileSpan, text_field: str, progress: Progress, budget: ReadBudget, text: Stretch
    ) -> Iterator[Records]:
        raise AssertionError("its rows are no texts")


JSON = Json()
