"""From files to ids, one function a tool, run in a process of its own: `python -P file_adapters.py JOB`, JOB as JSON.

Each function uses its tool as the tool's authors document it, with all cores; the clock starts when everything is
imported and the tokenizer is loaded. The process prints one JSON line. Imports only the standard library and, inside
its function, the tool: nothing else may weigh on it.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

# Encodes, and takes the ids, as arrays of them, out of what that returned.
Files = tuple[Callable[[], Any], Callable[[Any], Iterable[Any]]]
BLOCK_IDS = 8 << 20
PART_BYTES = 32 << 20  # of text, for tools that do not read files or hold all ids; ends where a document ends


def files_ours(directory: Path, corpus: str) -> Files:
    """This package: an array in memory. Everything is imported before the clock starts, as the other tools are."""
    import bpe_pipeline

    tokenizer, encode = bpe_pipeline.Tokenizer.load(directory), bpe_pipeline.encode
    return lambda: encode(corpus, tokenizer), lambda encoded: [encoded.ids]


def files_to_shards(directory: Path, corpus: str) -> Files:
    """This package: shards on the disk."""
    import bpe_pipeline

    tokenizer, encode = bpe_pipeline.Tokenizer.load(directory), bpe_pipeline.encode

    def ids(encoded: Any) -> Iterator[Any]:
        import numpy

        for shard in encoded.shards:
            yield numpy.memmap(Path("shards", shard.name), encoded.dtype, "r")

    return lambda: encode(corpus, tokenizer, "shards", shard_format="bin"), ids


def files_gigatoken(directory: Path, corpus: str) -> Files:
    """gigatoken: an array in memory."""
    from gigatoken import Tokenizer

    tokenizer = Tokenizer(str(directory / "tokenizer.json"))
    return lambda: tokenizer.encode_files([corpus]), lambda rows: [rows.layout.content.data]


def files_gigatoken_saved(directory: Path, corpus: str) -> Files:
    """gigatoken and NumPy: the array, of the narrowest type that holds all ids, saved to the disk."""
    import numpy

    encode, _ = files_gigatoken(directory, corpus)

    def run() -> None:
        ids = numpy.asarray(encode().layout.content.data)
        numpy.save("ids.npy", ids.astype("uint16" if ids.max(initial=0) < 1 << 16 else "uint32", copy=False))

    return run, lambda _: [numpy.load("ids.npy", mmap_mode="r")]


def text_in_parts(path: str, separator: bytes) -> Iterator[bytes]:
    """The text in parts of about PART_BYTES that end after a separator, or where the text ends."""
    text = b""
    with Path(path).open("rb") as file:
        while block := file.read(PART_BYTES):
            text += block
            end = text.rfind(separator) + len(separator)
            if end >= len(separator):
                yield text[:end]
                text = text[end:]
    if text:
        yield text


def _saved_in_parts(encode: Callable[[bytes], Any], corpus: str, separator: bytes, bytes_per_id: int) -> Files:
    dtype = f"uint{8 * bytes_per_id}"

    def run() -> None:
        with Path("ids.bin").open("wb") as out:
            for part in text_in_parts(corpus, separator):
                encode(part).astype(dtype, copy=False).tofile(out)

    def ids(_: Any) -> list[Any]:
        import numpy

        return [numpy.memmap("ids.bin", dtype, "r")]

    return run, ids


def _end_of_documents(directory: Path) -> bytes:
    """The special token of a tokenizer that has one."""
    return str(json.loads((directory / "tokenizer.json").read_text("utf-8"))["added_tokens"][0]["content"]).encode()


def _bytes_per_id(size: int) -> int:
    return 2 if size <= 1 << 16 else 4


def files_gigatoken_in_parts(directory: Path, corpus: str) -> Files:
    """gigatoken with the memory of one part: reads, encodes and writes a part after the other."""
    from gigatoken import Tokenizer

    tokenizer = Tokenizer(str(directory / "tokenizer.json"))

    def encode(part: bytes) -> Any:
        return tokenizer.encode_batch([part]).layout.content.data

    return _saved_in_parts(encode, corpus, _end_of_documents(directory), _bytes_per_id(tokenizer.vocab_size))


def _load_fastokens(directory: Path) -> tuple[Callable[[bytes], Any], bytes, int]:
    import numpy
    from fastokens import Tokenizer

    tokenizer, end = Tokenizer.from_file(str(directory / "tokenizer.json")), _end_of_documents(directory).decode()

    def encode(part: bytes) -> Any:
        documents = part.decode("utf-8", errors="replace").split(end)
        texts = [f"{document}{end}" for document in documents[:-1]] + documents[-1:]
        return numpy.frombuffer(tokenizer.encode_batch_flat(texts)[0], numpy.uint32)

    return encode, end.encode(), _bytes_per_id(tokenizer.vocab_size)


def files_fastokens(directory: Path, corpus: str) -> Files:
    """fastokens, which reads no files: a batch of documents after the other, to one array of the narrowest type."""
    import numpy

    encode, end, bytes_per_id = _load_fastokens(directory)
    dtype = f"uint{8 * bytes_per_id}"

    def run() -> Any:
        return numpy.concatenate([encode(part).astype(dtype) for part in text_in_parts(corpus, end)])

    return run, lambda ids: [ids]


def files_fastokens_saved(directory: Path, corpus: str) -> Files:
    """fastokens, and each batch written to the disk."""
    encode, end, bytes_per_id = _load_fastokens(directory)
    return _saved_in_parts(encode, corpus, end, bytes_per_id)


def _written_as_records(corpus: str, end: bytes, files: int) -> list[Path]:
    """Write the documents as JSON Lines, in order, to files of about the same size; return these."""
    (directory := Path("records")).mkdir()
    paths, size, done = [directory / f"{number}.jsonl" for number in range(files)], Path(corpus).stat().st_size, 0
    for part in text_in_parts(corpus, end):
        with paths[done * files // size].open("a", encoding="utf-8") as file:
            for text in part.removesuffix(end).decode("utf-8", errors="replace").split(end.decode()):
                file.write(json.dumps({"text": text}) + "\n")
        done += len(part)
    return [path for path in paths if path.exists()]


_of_worker: dict[str, Any] = {}


def _load_in_worker(tokenizer: str, end: str) -> None:
    from tokenizers import Tokenizer

    _of_worker.update(tokenizer=Tokenizer.from_file(tokenizer), end=end)


def _ids_of_record(line: str) -> list[int]:
    tokenizer = _of_worker["tokenizer"]
    return [*tokenizer.encode(json.loads(line)["text"]).ids, tokenizer.token_to_id(_of_worker["end"])]


def files_megatron(directory: Path, corpus: str) -> Files:
    """Megatron-LM: its indexed dataset, made as its `preprocess_data.py` does: records to ids by a process a core."""
    import multiprocessing

    import numpy
    from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder
    from tokenizers import Tokenizer

    path, end = str(directory / "tokenizer.json"), _end_of_documents(directory)
    [records] = _written_as_records(corpus, end, 1)
    dtype = DType.optimal_dtype(Tokenizer.from_file(path).get_vocab_size())

    def run() -> None:
        builder = IndexedDatasetBuilder("ids.bin", dtype=dtype)
        pool = multiprocessing.Pool(initializer=_load_in_worker, initargs=(path, end.decode()))
        with records.open(encoding="utf-8") as lines:
            for ids in pool.imap(_ids_of_record, lines, 32):
                builder.add_document(ids, [len(ids)])
        pool.close()
        pool.join()
        builder.finalize("ids.idx")

    return run, lambda _: [numpy.memmap("ids.bin", dtype, "r")]


def files_datatrove(directory: Path, corpus: str) -> Files:
    """datatrove: records tokenized by a task a core, and the files of the tasks merged to one, in order."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer, DocumentTokenizerMerger
    from tokenizers import Tokenizer

    path, end = str(directory / "tokenizer.json"), _end_of_documents(directory)
    tasks = len(_written_as_records(corpus, end, os.cpu_count() or 1))
    dtype = f"uint{8 * _bytes_per_id(Tokenizer.from_file(path).get_vocab_size())}"

    def run() -> None:
        tokenize = DocumentTokenizer("tokenized", path, eos_token=end.decode(), shuffle_documents=False)
        merge = DocumentTokenizerMerger("tokenized", "merged", "ids", shuffle=False, progress=False)
        for steps, count in (([JsonlReader("records"), tokenize], tasks), ([merge], 1)):
            # Children that are forked are in the CPU time of this process.
            LocalPipelineExecutor(steps, count, count, f"logs-{type(steps[-1]).__name__}", start_method="fork").run()

    def ids(_: Any) -> list[Any]:
        import numpy

        return [numpy.memmap(path, dtype, "r") for path in sorted(Path("merged").glob("*.ds"))]

    return run, ids


FILES: dict[str, Callable[[Path, str], Files]] = {
    "bpe-pipeline": files_ours,
    "gigatoken": files_gigatoken,
    "bpe-pipeline to shards": files_to_shards,
    "gigatoken to npy": files_gigatoken_saved,
    "gigatoken in parts to bin": files_gigatoken_in_parts,
    "fastokens": files_fastokens,
    "fastokens to bin": files_fastokens_saved,
    "megatron-core to bin": files_megatron,
    "datatrove to bin": files_datatrove,
}


def digest_of_ids(arrays: Iterable[Any], ends: set[int]) -> dict[str, Any]:
    """Number and hash of the ids of arrays, as 4 bytes each, without the last one if it is one of `ends`."""
    import numpy

    hasher, count, last = hashlib.blake2b(digest_size=16), 0, numpy.empty(0, "<u4")
    for ids in arrays:
        for start in range(0, len(ids), BLOCK_IDS):
            hasher.update(last)
            count, last = count + len(last), numpy.asarray(ids[start : start + BLOCK_IDS]).astype("<u4")
    last = last[:-1] if len(last) and int(last[-1]) in ends else last
    hasher.update(last)
    return {"tokens": count + len(last), "ids_digest": hasher.hexdigest()}


def encode_files(job: dict[str, Any]) -> dict[str, Any]:
    """Go from a file to ids; a separator that ends the corpus is none of the ids compared."""
    started = time.perf_counter()
    run, ids = FILES[job["tool"]](Path(job["tokenizer"]), job["corpus"])
    loaded, cpu_s = time.perf_counter(), sum(os.times()[:4])
    result = run()
    encode_s, cpu_s = time.perf_counter() - loaded, sum(os.times()[:4]) - cpu_s
    Path(job["done"]).touch()
    end = json.loads((Path(job["tokenizer"]) / "tokenizer.json").read_text())["added_tokens"]
    ends = {token["id"] for token in end if token["content"] == job["special_token"]}
    answer = {"load_s": loaded - started, "encode_s": encode_s, "cpu_s": cpu_s, "memory_of": "encoding"}
    return answer | digest_of_ids(ids(result), ends)


if __name__ == "__main__":
    print("\n" + json.dumps(encode_files(json.loads(sys.argv[1]))), flush=True)
