"""JSON that is not one record a line, as a format of corpus files: of chat data, whose rows `rows` reads."""

from typing import Any

from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.formats import CorpusFormat, Part


def _whole(file: CorpusFile, *_: Any) -> list[Part]:
    return [Part(0, file.size)]


JSON = CorpusFormat(title="JSON", offered=False, position="row", cuts=_whole)
