"""The plan of an encoding: what is read, where it is cut, and what separates documents.

The plan is made once and stored in `encoding.json`; a resumed encoding keeps it, also with other workers.

Where a corpus has too few documents to choose among, the last share of its text is validation's. That is for plain,
uncompressed text: a single text without separators, such as nanoGPT's `input.txt`, or a few files. Text is cut where a
line ends, and a document ends there; without lines between documents, at a space, or anywhere. Elsewhere a hash of each
document decides.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate, islice
from os import PathLike
from typing import Any

from bpe_pipeline._core import SpecialTokens
from bpe_pipeline.base.errors import InputError, RunDirectoryError, UsageError
from bpe_pipeline.base.units import format_count
from bpe_pipeline.corpus.chunks import Chunk, Cutting, SearchedText, Span, cutting_of, find_line_end, find_separator
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.corpus.files import CorpusFile, opened
from bpe_pipeline.corpus.listing import Listing
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics, most_frequent
from bpe_pipeline.executors import Node
from bpe_pipeline.pattern.token_rules import TokenRule
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.ids import CHAT_MARKS, WELL_KNOWN
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.make_options import refuse_other_options
from bpe_pipeline.run.options import (
    READING_OPTIONS,
    CorpusOptions,
    EncodeFilesOptions,
    EncodeOptions,
    ShardsOptions,
)
from bpe_pipeline.run.parts import processes
from bpe_pipeline.run.patterns import on_regex
from bpe_pipeline.run.plan import SLOW_CHUNK_BYTES, Plan, corpus_bytes, list_corpus, with_share
from bpe_pipeline.run.record import Scope
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.run.workers import worker_count
from bpe_pipeline.shards import manifest as shards
from bpe_pipeline.shards.encoded_corpus import ENOUGH_DOCUMENTS
from bpe_pipeline.shards.encoding_tasks import (
    Separators,
    dtype_of,
    separators_of,
)
from bpe_pipeline.shards.formats import shard_format, single_formats
from bpe_pipeline.shards.manifest import Encoding
from bpe_pipeline.storage import named
from bpe_pipeline.tokenizer.formats.files import load_model, tokenizer_home
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

_LEAST_CHUNK_BYTES, _MOST_CHUNK_BYTES = 1 << 20, 32 << 20
_CHUNKS_PER_WORKER = 8
_READ_BYTES = 1 << 20


def refuse_swapped(inputs: object, call: str) -> None:
    """Raise `UsageError` where the tokenizer is given as the inputs."""
    if isinstance(inputs, Tokenizer):
        raise UsageError(f"the inputs are a tokenizer: the order is {call}")


def model_of(tokenizer: Tokenizer | AnyPath, inputs: object) -> Model:
    """Return the model of a tokenizer or of the path of one; `UsageError` where the inputs are that path."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.model
    try:
        return load_model(named(tokenizer, "tokenizer"))
    except InputError:
        if isinstance(inputs, str | PathLike) and (tokenizer_home(named(inputs)) / "tokenizer.json").exists():
            raise UsageError(f"{inputs} is a tokenizer, and {tokenizer} is none: inputs come before it") from None
        raise


def warnings_of(
    model: Model, options: EncodeFilesOptions, total: ChunkStatistics, documents: int, plan: Plan
) -> Iterator[str]:
    """Yield warnings of special tokens in the text that are not what the tokenizer takes for the separator."""
    if warning := other_separator(model, separators_of(model, options).token, total.special_found, documents, plan):
        yield warning
    elif ending := ending_of_turns(model, options):
        yield ending
    if total.special_in_text and options.special_tokens_in_text == "tokens":
        yield (
            f"the text has special tokens, encoded as special tokens: {most_frequent(total.special_in_text)}; "
            "--special-tokens-in-text text encodes them as text, refuse makes them an error"
        )
    if model.lossy:
        yield model.lossy
    if total.looks_special:
        yield (
            f"{total.special_text('encoded')}; if they are special, encode with a tokenizer that has them as special "
            "tokens"
        )


def other_separator(
    model: Model, separator: str | None, counts: Mapping[str, int], documents: int, plan: Plan
) -> str | None:
    """Return a warning if another special token, but a pad, bos or chat mark, separates the text more often."""
    expected: set[str | None] = {separator}
    if separator in counts or not any(file.kind.begins_anywhere for file in plan.files):
        expected |= {model.pad_token, model.bos_token, *WELL_KNOWN["bos"], *WELL_KNOWN["pad"], *CHAT_MARKS}
    candidates = {text: counts.get(text, 0) for text in model.separating if text not in expected}
    candidates = {text: count for text, count in candidates.items() if count > documents}
    if separator is None or not candidates:
        return None
    text_found = max(candidates, key=candidates.__getitem__)
    return (
        f"{text_found!r} occurs {candidates[text_found]:,} times in the text, but {separator!r} is the separator and "
        f"ended {format_count(documents, 'documents')}: name what separates this corpus with --separator, and encode "
        "it again"
    )


def require_one_search(model: Model, options: EncodeFilesOptions) -> None:
    """Raise `UsageError` if the core cannot make the ids of a corpus by one search for tokens and NFC."""
    special_tokens, rules = _recognised(model, options, separators_of(model, options))
    texts = dict.fromkeys([*(token.decode() for token in special_tokens), *rules])
    replace(model.preparation, rules=rules).require_one_search(list(texts))


def ending_of_turns(model: Model, options: EncodeFilesOptions) -> str | None:
    """Return a warning if documents end with what ends turns of a chat, and the tokenizer has an end of text."""
    ends = [text for text in WELL_KNOWN["end"] if text in model.separating]
    if options.separator is not None or model.separator not in WELL_KNOWN["turn end"] or not ends:
        return None
    return (
        f"documents end with {model.separator!r}, which ends turns of a chat, and the tokenizer has {ends[0]!r}: if "
        f"that ends documents, encode them again with --separator '{ends[0]}'"
    )


def with_bos(model: Model, options: EncodeOptions) -> Model:
    """Return the model whose documents start with bos if the options ask for it."""
    if options.add_bos and model.bos_token is None:
        raise UsageError("--add-bos: the tokenizer has no bos token; export it with --bos-token first")
    return model.adding_bos(options.add_bos)


def require_fitting_format(options: EncodeOptions) -> None:
    """Raise `UsageError` for options that the format of the shards cannot keep, or for the name of a file."""
    if options.sequence_length is None and (options.pack != "concat" or options.position_ids):
        raise UsageError("--pack and --position-ids are for rows: give --sequence-length")
    output, name = options.output, options.shard_format
    stem, _, single = ("" if output is None else output.name).rpartition(".")
    if output is not None and stem and single in single_formats() and not output.is_dir():
        raise UsageError(
            f"--output {output} names a file: give its directory with --single --shard-format {single}, which writes "
            f"train.{single} there, and val.{single} with --val-fraction"
        )
    if options.position_ids and not shard_format(name).columns:
        raise UsageError(f"--position-ids: {name} has no place for them: choose arrow, parquet or mds")
    if options.single and not shard_format(name).alone:
        alone = ", ".join(single_formats())
        raise UsageError(f"--single: a shard of {name} is not one file: choose --shard-format {alone}")


def asked_of(options: EncodeOptions, model: Model) -> dict[str, Any]:
    """Return what the shards of a corpus depend on in addition to its text."""
    return {
        **{name: getattr(options, name) for name in READING_OPTIONS},
        **asdict(DocumentJudge.of(options.values)),
        **options.in_scope(Scope.ENCODE),
        "seed": options.seed,
        "separator": separators_of(model, options).token,
        "tokenizer": shards.tokenizer_fingerprint(model),
        "dtype": dtype_of(model),
    }


def open_encoding(
    runner: Runner,
    directory: Directory,
    options: ShardsOptions,
    requested: dict[str, Any],
    cut: Callable[[Listing], Plan],
) -> Encoding:
    """Return the encoding that is requested: the stored one, or a new one with its plan, which `cut` makes."""
    stored = None if options.overwrite else shards.load(directory)
    listing = list_corpus(options, runner.listener, may_be_empty=stored is not None)
    directory.refuse_corpus_inside(file.path for file in listing.files)
    requested = with_share(requested, listing.files)
    if stored is not None:
        refuse_other_options(directory.location, "encoding", stored.options, requested)
        added = stored.plan.added_files(directory, listing, runner.listener)
        if added:
            raise RunDirectoryError(
                f"{directory} holds the shards of another corpus, without {added[0].path}; choose another "
                "--output, or start again with --overwrite"
            )
        return replace(stored, plan=stored.plan.reopened(listing))
    directory.refuse_linked_directories()
    if not options.overwrite:
        directory.refuse_foreign_files()
    plan = cut(listing)
    encoding = Encoding(directory, requested, plan)
    if options.overwrite:
        with suppress(RunDirectoryError):  # damaged: its list of files cannot be trusted
            if (old := shards.load(directory)) is not None:
                shards.remove_all(old)
    if shards.save(encoding, absent=bool(runner.part)):
        return encoding
    return open_encoding(runner, directory, options, requested, cut)  # another part's plan was first


def chunk_bytes_of(files: Sequence[CorpusFile], options: CorpusOptions, nodes: Sequence[Node], most: int) -> int:
    """Return the bytes of a chunk, so that all workers end together."""
    workers = worker_count(options.workers, nodes=nodes) * processes(options)
    size = -(-corpus_bytes(files) // (workers * _CHUNKS_PER_WORKER))
    return options.chunk_size or min(max(size, _LEAST_CHUNK_BYTES), most)


def _recognised(
    model: Model, options: EncodeFilesOptions, separators: Separators
) -> tuple[tuple[bytes, ...], dict[str, TokenRule]]:
    """Return the tokens that separate documents in texts, and the rules of all that are recognised there."""
    rules = dict(model.preparation.rules)
    if options.special_tokens_in_text != "text":
        return separators.separating, rules
    ends = tuple(text.encode() for text in separators.becoming)
    others = {token.decode() for token in separators.separating if token not in ends}
    return ends, {text: rule for text, rule in rules.items() if text not in others}


def cut_corpus(listing: Listing, model: Model, options: EncodeFilesOptions, nodes: Sequence[Node] = ()) -> Plan:
    """Return the plan; `InputError` if there is nothing to read at all."""
    most = SLOW_CHUNK_BYTES if on_regex(model.pattern) else _MOST_CHUNK_BYTES
    chunk_bytes = chunk_bytes_of(listing.files, options, nodes, most)
    separators = separators_of(model, options)
    special_tokens, rules = _recognised(model, options, separators)
    judge = DocumentJudge.of(options.values)
    reading: dict[str, Any] = {
        "judge": judge,
        "ending": len(separators.ending),
        "text_field": options.text_field,
    }
    cutting = cutting_of(special_tokens, rules, model.counting_pattern, **reading)
    known = {*(token.decode() for token in special_tokens), *rules}
    separator = separators.token or ""
    ends_alike = [text for text in known if separator and text.endswith(separator)]
    if judge.needs_whole_documents or ((model.front or model.behind) and ends_alike[1:]):
        # Elsewhere the text before a cut does not say whether a document has started there: parts may be skipped. And a
        # separator is left out with the document before it.
        cuts = separator.encode() in cutting.special_tokens
        cutting = replace(
            cutting,
            special_tokens=cutting.special_tokens if cuts else (),
            separator=separator.encode() if cuts else b"",
        )
    plan = Plan(empty=listing.empty).extended(
        listing.files, cutting, chunk_bytes, [file.kind.begins_anywhere for file in listing.files]
    )
    share = getattr(options, "val_fraction", None)
    ends = [text.encode() for text in separators.becoming]
    return holding_out_last(plan, cutting, ends, share) if share else plan


def holding_out_last(plan: Plan, cutting: Cutting, ends: Sequence[bytes], share: float) -> Plan:
    """Return the plan with a cut before the last share of its text, if it has too few documents; elsewhere as it is."""
    if not all(file.is_plain for file in plan.files):
        return plan
    texts = _Texts(plan.files, cutting, ends)
    begins = list(islice(texts.begins(), ENOUGH_DOCUMENTS))
    if len(begins) == ENOUGH_DOCUMENTS:
        return plan
    wanted = texts.starts[-1] - int(share * texts.starts[-1])
    cut = texts.line_near(wanted) or max(begins) or texts.word_near(wanted)
    return _cut(plan, *texts.file_at(cut)) if cut else plan


@dataclass(frozen=True)
class _Texts:
    """The files of a corpus as one text, in which positions are counted. ends: what ends documents."""

    files: Sequence[CorpusFile]
    cutting: Cutting
    ends: Sequence[bytes]

    @property
    def starts(self) -> list[int]:
        """Where each file starts, and the last one ends."""
        return [*accumulate((file.size for file in self.files), initial=0)]

    def file_at(self, position: int) -> tuple[int, int]:
        """Return the file that has the byte at a position, and the offset there."""
        starts = self.starts
        file = bisect_right(starts, position) - 1
        return file, position - starts[file]

    def begins(self) -> Iterator[int]:
        """Yield where documents begin."""
        specials = self.cutting.specials()
        find = partial(_find_any, specials, self.ends)
        for file, start in zip(self.files, self.starts, strict=False):
            with opened(file.path) as stream:
                text, at = SearchedText(stream.read_at, file.size, _READ_BYTES, specials), 0
                while at < file.size:
                    yield start + at
                    if (found := text.first(at, file.size, find, 1)) is None:
                        break
                    data = stream.read_at(found, specials.longest)
                    at = found + max(len(end) for end in self.ends if data.startswith(end))

    def line_near(self, wanted: int) -> int:
        """Return where the first line starts from a position on, or else the last before it; 0 if there is none."""
        index, at = self.file_at(min(wanted, self.starts[-1] - 1))
        file, start = self.files[index], self.starts[index]
        with opened(file.path) as stream:
            text = SearchedText(stream.read_at, file.size, _READ_BYTES, self.cutting.specials())
            last = file.size - (index == len(self.files) - 1)  # behind the end of the corpus nothing is left
            end = text.first(max(at - 1, 0), last, find_line_end, 1)
            if end is None and index < len(self.files) - 1:
                return self.starts[index + 1]
            for block in range(at, 0, -_READ_BYTES):
                if end is not None:
                    break
                *_, end = None, *_ends_in(text, max(block - _READ_BYTES, 0), block)
        return start if end is None else start + end + 1

    def word_near(self, wanted: int) -> int:
        """Return where a space is in the one file from a position on, or else a character; 0 if it has only one."""
        file, at = self.files[0], max(wanted, 1)
        with opened(file.path) as stream:
            text = SearchedText(stream.read_at, file.size, _READ_BYTES, self.cutting.specials())
            searches = ((at, _find_space), (at, _find_character), (1, _find_character))
            return next(filter(None, (text.first(start, file.size, find, 1) for start, find in searches)), 0)


def _find_any(specials: SpecialTokens, ends: Sequence[bytes], data: bytes, low: int, high: int) -> int | None:
    found = (find_separator(specials, end, data, low, high) for end in ends)
    return min((at for at in found if at is not None), default=None)


def _find_space(data: bytes, low: int, high: int) -> int | None:
    at = data.find(b" ", low, high)
    return None if at < 0 else at


def _find_character(data: bytes, low: int, high: int) -> int | None:
    return next((at for at in range(low, high) if data[at] & 0xC0 != 0x80), None)


def _ends_in(text: SearchedText, start: int, stop: int) -> Iterator[int]:
    """Yield where lines end in a range."""
    while (end := text.first(start, stop, find_line_end, 1)) is not None:
        yield end
        start = end + 1


def _cut(plan: Plan, file: int, at: int) -> Plan:
    """Return the plan with a chunk that starts at this byte of this file: what is held out."""

    def halves(span: Span) -> tuple[Span, Span]:
        stop = span.stop if span.file < file else span.start
        middle = min(max(at, span.start), span.stop) if span.file == file else stop
        return span._replace(stop=middle), span._replace(start=middle)

    sides = (side for chunk in plan.chunks for side in zip(*map(halves, chunk.spans), strict=True))
    chunks = [Chunk(spans) for side in sides if (spans := tuple(span for span in side if span.bytes))]
    first = next(number for number, chunk in enumerate(chunks) if chunk.spans[0][:2] == (file, at))
    return replace(plan, chunks=tuple(chunks), held_out=first)
