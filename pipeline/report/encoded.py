"""The summary at the end of `encode --output`: plain numbers in, text or JSON out."""

import shlex
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.base.units import format_bytes, format_count
from pipeline.corpus.skipped_or_altered import in_words
from pipeline.executors import ClusterUse
from pipeline.report.summary import table, used_rows
from pipeline.shards.manifest import EncodedCorpus
from pipeline.storage import Location


@dataclass(frozen=True)
class Encoded:
    """What came of encoding a corpus.

    times: seconds of each stage; None: kept from an earlier run. cluster: what was used of one; None: this machine.
    """

    directory: Location
    corpus: EncodedCorpus
    times: dict[str, float | None]
    peak_memory_bytes: int
    retries: int
    cluster: ClusterUse | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for `--log-json`."""
        return {**asdict(self), "directory": str(self.directory)}


def render(encoded: Encoded, tokenizer: Location) -> str:
    """The summary as text: a line a fact, the next command at the end."""
    corpus = encoded.corpus
    documents = format_count(corpus.documents, "documents")
    rows = [
        ("shards", str(encoded.directory)),
        ("corpus", f"{format_count(corpus.files, 'files')}, {format_bytes(corpus.text_bytes)}, {documents}"),
        *(("not as it stood", str(loss)) for loss in in_words(corpus.losses)),
        ("tokens", f"{corpus.tokens:,} ({corpus.text_bytes / max(corpus.tokens, 1):.3f} bytes of text each)"),
    ]
    if corpus.documents_by == "separator" or corpus.separator is not None:
        how = "stands behind each" if corpus.documents_by == "separator" else "ends each, told by offsets or rows"
        rows.append(("documents", f"{corpus.separator} (id {corpus.separator_id}) {how}"))
    size = sum(shard.bytes for shard in corpus.shards)
    rows.append(("files", f"{len(corpus.shards):,} {corpus.format} of {corpus.dtype}, {format_bytes(size)}"))
    times = ", ".join(f"{name} {'kept' if s is None else f'{s:.2f} s'}" for name, s in encoded.times.items())
    rows.append(("time", times))
    nodes, node_bytes = (0, 0) if encoded.cluster is None else (encoded.cluster.nodes, encoded.cluster.peak_bytes)
    rows += used_rows(encoded.retries, encoded.peak_memory_bytes, nodes, node_bytes)
    words = ["bpe-pipeline", "decode", str(encoded.directory), "--tokenizer", str(tokenizer)]
    rows.append(("next", shlex.join(words)))
    return table(rows)
