"""
Native core of bpe-pipeline. Private: use the functions of the package.
"""

from collections.abc import Sequence


from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from typing_extensions import Buffer

from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.merges.rules import MergeRules

Columns: TypeAlias = tuple[Any, Any, Any]

def simd() -> list[str]:
    """
    The instruction sets that this machine runs, the one in use first; BPE_PIPELINE_SIMD chooses another.
    """

class Automaton:
    """A compiled pattern: cuts UTF-8 text into pre-tokens."""

    def __init__(self, class_starts: Buffer, class_ids: Buffer, classes: int, plain: Buffer, folded: Buffer, tentative: Buffer, provable: Buffer, ahead: Buffer = ..., variants: Buffer = ...) -> None: ...

    def cut(self, text: Buffer, *, batch: int = 4096) -> list[int]:
        """
        The end of each pre-token of a whole document, UTF-8 in bytes. `batch` pre-tokens are cut in one native call.
        """

    def cut_part(self, text: Buffer, *, batch: int = 4096) -> tuple[list[int], int]:
        """
        The end of each pre-token that text following this part could not change, and where the rest starts.
        """

    def cut_within(self, text: Buffer, ends: Sequence[int]) -> list[int]:
        """
        The end of each pre-token where every stretch that ends at one of `ends` is a document of its own.
        """

    def find_provable_cut(self, text: Buffer, start: int, stop: int) -> int | None:
        """
        The first offset in [start, stop) where a document may be cut in two without changing a pre-token, or None.
        """

    @property
    def memory_bytes(self) -> int: ...

class NormalForm:
    """Puts text into a normal form where it is not in it already."""

    def __init__(self, active: Sequence[tuple[int, int]], normalize: Callable[[str], str]) -> None:
        """
        active: first and last code points of runs of characters that normalizing may change, move, or join with what stands before them; none is below U+0300.
        """

    def can_cut(self, text: Buffer, at: int) -> bool:
        """
        Whether both sides of a position in valid UTF-8 are normalized apart as together, and the two characters at it stay as they are.
        """

class SpecialTokens:
    """
    Finds special tokens in bytes: leftmost, and of those that start there the longest.
    """

    def __init__(self, tokens: Sequence[str | bytes], ids: Sequence[int] = ()) -> None:
        """ids: one a token; without them its index."""

    @property
    def longest(self) -> int:
        """Bytes of the longest token; 0 without tokens."""

    def find(self, text: Buffer, start: int = 0) -> tuple[int, int, int] | None:
        """The first match at or after `start`: (start, end, id), or None."""

    def tally(self, text: Buffer) -> list[int]:
        """How often a text has each token, of those without ids."""

    def match_at(self, text: Buffer, at: int) -> tuple[int, int, int] | None:
        """The longest token that starts at `at`: (start, end, id), or None."""

def line_offsets(lines: Buffer) -> memoryview:
    """
    Offsets (int64) of lines with their endings, which are line feeds: of each, and of the end of the last.
    """

def json_texts(lines: Buffer, path: Sequence[str]) -> tuple[memoryview, memoryview, list[tuple[int, list[int]]]]:
    """
    One field of whole lines of JSON, to which the keys of `path` lead: offsets (int64) and data, a row for each line that is not blank; then the rows that are not JSON, without the field, not text: how many, and where the first few lines start.
    """

def hash64(pre_token: Buffer) -> int:
    """The hash by which counters are ordered."""

def give_back_memory() -> None:
    """Returns freed memory to the system."""

class PreTokenSink:
    """What takes a ChunkCounter's pre-tokens instead of counting them."""

class ChunkCounter:
    """
    Counts the pre-tokens of one chunk: texts fed in blocks of any size. `cutter` is an Automaton, or a function from a document to its pre-tokens (slower).
    """

    def __init__(self, cutter: Automaton | Callable[[str], Iterable[str]], special_tokens: Sequence[str | bytes], *, added_tokens: Sequence[str | bytes] = (), judge: DocumentJudge | None = None, window_bytes: int = 262144, budget_bytes: int | None = None, spill: Callable[[ChunkCounter], None] | None = None, sink: PreTokenSink | None = None, form: NormalForm | None = None, refused: Sequence[int] = (), line_cutter: Automaton | None = None) -> None:
        """
        added_tokens: cut out of the text as special tokens are, but separating no documents. budget_bytes: what text and tables may take in all. Before they would take more, spill(counter) is called, which writes columns() somewhere; the counter then starts empty again. sink: what the pre-tokens go to instead of being counted. form: what each stretch between special tokens is put into before it is cut. refused: which of the special and added tokens raise LookupError(token, offset) where text has them. line_cutter: cuts lines as documents, many at once.
        """

    def feed(self, block: Buffer, end: bool = False) -> None:
        """
        The next bytes of a text, `end` with the last; another text may follow. Under `strict`, UnicodeError(text, offset) at the first invalid byte. MemoryError(offset, bytes) if a pre-token (what a document needs, if one may be dropped) does not fit into budget_bytes.
        """

    def feed_documents(self, offsets: Buffer, data: Buffer, offset_bytes: int = 8, are_lines: bool = False) -> None:
        """
        Documents in a column in Arrow's layout: row i is data[offsets[i]:offsets[i + 1]], with one offset more than rows, of `offset_bytes` (4 or 8), signed. The rows are fed one after the other, or at once where they are lines, each with its ending. Errors as of feed().
        """

    def start_inside_document(self) -> None:
        """
        Call before a text that starts inside a document, so that the document is not counted twice.
        """

    def add_pre_tokens(self, pre_tokens: Sequence[bytes], counts: Sequence[int]) -> None:
        """Adds counts of pre-tokens that were cut elsewhere."""

    def __len__(self) -> int: ...

    def columns(self, partition: int = 0, partitions: int = 1) -> Columns:
        """
        The pre-tokens of one of `partitions` equal ranges of hashes, in order of hash: offsets (int64), data (bytes), counts (uint64). The counter stays as it is.
        """

    def clear_counts(self) -> None:
        """
        Forgets the pre-tokens counted so far and frees their memory, but not the text that waits for its end nor the statistics.
        """

    def set_budget(self, budget_bytes: int) -> None:
        """
        Another budget_bytes from now on, perhaps a smaller one: then spill(counter) may be called.
        """

    def fed_bytes(self) -> int: ...

    def long_pre_token_bytes(self) -> int:
        """The bytes of the pre-tokens that are longer than 15."""

    def memory_bytes(self) -> int: ...

    def statistics(self) -> dict[str, Any]:
        """
        bytes, documents, pre-tokens, special_tokens, invalid_bytes; left_out, cut: documents, bytes and characters that the judge does not take; noted: of each kind of input that was skipped or altered, how often it occurred, and where the first eight are, from the first byte fed.
        """

def combine(counters: Sequence[Columns], weights: Sequence[tuple[int, int]] = ()) -> Columns:
    """
    Adds counters, each in order of hash, into one that is. weights: for each counter a fraction, numerator and denominator, that its counts are multiplied by, rounded half up and never below 1. OverflowError beyond 2^63 - 1.
    """

def totals(counter: Columns) -> tuple[tuple[int, int], tuple[int, int]]:
    """
    The sum of a counter's counts, and the bytes of its pre-tokens, each as often as it occurs: of each the upper and lower 64 bits.
    """

def partition_starts(counter: Columns, partitions: int) -> list[int]:
    """
    The row at which each of `partitions` equal ranges of hashes starts, and the number of rows.
    """

class CountTally:
    """How much of a counter is counted how often."""

    def __init__(self, min_count: int = 1) -> None: ...

    def add(self, counter: Columns) -> None: ...

    def classes(self) -> list[tuple[int, int, int, int, float, float]]:
        """
        A row a class of counts, the lowest first: its lowest count, different pre-tokens, their bytes, their slots in the merge engine, how often they were found, and the bytes of text they make up (bytes times counts).
        """

    def is_text(self) -> bool:
        """
        Whether compact words can hold the pre-tokens: no byte is never in UTF-8.
        """

    def first_index(self, max_pairs: int, max_positions: int) -> tuple[int, int, int]:
        """
        What the engine indexes first, of pre-tokens counted at least min_count times: pairs, their positions, and the positions of the most frequent pair of bytes.
        """

class MergeResult:
    """A merge list, in order of rank."""

    @property
    def left(self) -> memoryview:
        """Ids on the left, 32 bit."""

    @property
    def right(self) -> memoryview:
        """Ids on the right, 32 bit."""

    @property
    def counts(self) -> memoryview:
        """The pair's count when it was merged, 64 bit."""

    @property
    def joined(self) -> memoryview:
        """
        Occurrences that became one token, 64 bit: the count, less overlaps as in `aaa`.
        """

    @property
    def bytes(self) -> int:
        """Bytes of all pre-tokens, each as often as it was found."""

    @property
    def left_out_pre_tokens(self) -> int:
        """Different pre-tokens counted less often than min_pre_token_count."""

    @property
    def left_out_bytes(self) -> int:
        """Bytes of them, each as often as it was found."""

    @property
    def stop(self) -> str: ...

    @property
    def phases(self) -> int: ...

def engine_rules() -> list[str]:
    """The names of the rules that the engine obeys."""

class MergeEngine:
    def __init__(self) -> None: ...

    def add(self, offsets: Buffer, data: Buffer, counts: Buffer) -> None:
        """
        Adds pre-tokens: pre-token i is data[offsets[i]:offsets[i + 1]] (offsets 64-bit signed, one more than counts), found counts[i] times (64-bit unsigned). The buffers are borrowed until run() has taken them in.
        """

    def stream(self, read: Callable[[], Iterable[Columns]], slots: int) -> None:
        """
        Instead of add(): read() returns all columns, about that many bytes and pre-tokens in all; run() calls it once or twice, so that they need not be in memory together.
        """

    def resume(self, left: Buffer, right: Buffer, counts: Buffer, joined: Buffer) -> None:
        """
        Continues after these merges, in order of rank: run() makes those that come after them and returns all. They are as phase_end was given them, or come from other pre-tokens; what they join is counted in these.
        """

    def run(self, max_merges: int, rules: MergeRules, *, threads: int = 1, progress: object | None = None, narrow_symbols: int = 65536, index_positions: int = 0, thread_bytes: int = 4194304, share_from: int = 1500, compact: bool = False, resident_bytes: int = 0, scratch: str = '', phase_end: object | None = None, start: tuple[Sequence[str | bytes], Sequence[int], int, Sequence[str | bytes], Sequence[int]] | None = None) -> MergeResult:
        """
        Trains once on everything added. progress(merges, max_merges, best_count) is called at least every tenth of a second or so; what it raises, and Ctrl-C, stops the training and is raised here. narrow_symbols, index_positions, thread_bytes (of pre-tokens, for each thread beyond the first) and share_from (occurrences of a pair) are tuning and change no result. compact: in less memory, a fifth slower. With resident_bytes, words that a phase does not need are in files whose names begin with scratch (OSError where they cannot be written), so that any number of bytes is enough; words, lists and pairs take about that many. phase_end(result) is called after each phase with the merges so far. start: where pre-tokens are rows of 32-bit numbers of tokens, which are all kept in memory: their bytes, their ids for the tie-break, the id of the first new token, bytes that are never made, and the numbers of tokens that may be made again and are then not new.
        """

class ParityTraining:
    """Merges that languages choose in turn."""

    def __init__(self, max_merges: int, rules: MergeRules, languages: Sequence[Callable[[], Iterable[Columns]]], dev: Sequence[Callable[[], Iterable[Columns]]] = [], *, threads: int = 1, narrow_symbols: int = 65536, index_positions: int = 0, share_from: int = 1500, ratios: Sequence[float] = [], window: int = 0, alpha: float = 2.0, global_merges: int = 0, left: Buffer = ..., right: Buffer = ..., counts: Buffer = ..., joined: Buffer = ..., chosen_by: Buffer = ..., spent: Sequence[int] = [], recent: Sequence[int] = []) -> None:
        """
        languages: each returns all columns of a language and is called twice; dev: measured in their place. rules: their tie-break means nothing. ratios, window (0: none), alpha, global_merges as in Hugging Face's ParityBpeTrainer. left to recent: of the merges that are known, as the properties returned them.
        """

    def merge(self, seconds: float) -> bool:
        """Makes merges for about that long; False when no merge is left."""

    @property
    def result(self) -> MergeResult:
        """The merges so far."""

    @property
    def chosen_by(self) -> memoryview:
        """The language that chose each merge, 32 bit; 2^32 - 1: all together."""

    @property
    def measured(self) -> list[tuple[int, int]]:
        """Bytes and tokens of each language, as they are measured."""

    @property
    def choice(self) -> tuple[list[int], list[int]]:
        """The languages that have no pair left, and the last choices."""

class Encoder:
    """Text to token ids, by rank. Safe to share between threads."""

    def __init__(self, automaton: Automaton | None, tokens: dict[int, bytes], left: Buffer, right: Buffer, result: Buffer, whole_pre_tokens: bool = False, cache_bytes: int = 268435456, threads: int = 0, lost_bytes: bytes = ..., unknown: int | None = None, fused: bool = False) -> None:
        """
        tokens: id -> bytes; left, right, result: buffers of uint32, the ids of each merge in order of rank. threads: how many share what is known of pre-tokens at a time; 0: as many as there are cores. lost_bytes: what no token stands for; text has nothing instead, or the id `unknown`: for each of them, or `fused` for each run in a pre-token; 2**32 - 1: RuntimeError.
        """

    def encode(self, text: str | bytes, specials: SpecialTokens | None = None) -> list[int]:
        """
        The ids of a text. UnicodeEncodeError for a lone surrogate, UnicodeDecodeError for invalid UTF-8.
        """

    def encode_to_buffer(self, text: str | bytes, specials: SpecialTokens | None = None) -> memoryview:
        """The same as a memoryview of uint32."""

    def count(self, text: str | bytes, specials: SpecialTokens | None = None) -> int:
        """How many ids a text has."""

    def encode_part(self, text: str | bytes, specials: SpecialTokens | None = None) -> tuple[list[int], int]:
        """
        The ids that text following this part could not change, and the byte where the rest starts.
        """

    def encode_batch(self, texts: Sequence[str | bytes], specials: SpecialTokens | None, threads: int, turn_bytes: int = 32768) -> list[list[int]]:
        """
        The ids of each text of a list, in its order, by up to `threads` threads. turn_bytes: what a thread takes at once, of many texts or of one; the ids are the same.
        """

    def encode_rows(self, counter: Columns) -> tuple[memoryview, memoryview]:
        """
        Offsets in bytes (64-bit signed) and ids (uint32) of each pre-token of a counter: columns of numbers.
        """

    def add_uses(self, counter: Columns, uses: Buffer) -> int:
        """
        Adds to uses[id] (uint64) how often each token occurs in the pre-tokens of a counter; returns the sum.
        """

    def last_merges(self, tokens: dict[int, bytes]) -> dict[int, int]:
        """
        Id -> the rank of the last merge that makes a token (id -> bytes) of its own bytes, where merges do.
        """

    def steps(self, pre_token: bytes) -> list[tuple[int, int]]:
        """
        The merges of a pre-token in their order: rank, and the byte where the token starts.
        """

    def encode_pre_tokens(self, pre_tokens: Sequence[str | bytes]) -> list[int]:
        """The ids of pre-tokens that were cut already."""

    def encode_cut(self, text: str | bytes, ends: Sequence[int]) -> list[int]:
        """The ids of a text whose pre-tokens end at these bytes."""

class ChunkIds(PreTokenSink):
    """
    The ids of a chunk, which a ChunkCounter feeds, and where its documents end.
    """

    def __init__(self, encoder: Encoder, special_ids: Sequence[int], *, separator: int | None = None, separators: bool = True, judged: bool = False, front: Sequence[int] = (), behind: Sequence[int] = ()) -> None:
        """
        special_ids: of the counter's special tokens, in their order. separator: the id that ends a document, which is among the ids if `separators`. judged: the counter may drop documents. front, behind: the ids around the text of a document.
        """

    def start_text(self, inside_document: bool) -> None:
        """
        Call before a text; inside_document: it continues a document which started elsewhere.
        """

    def end_inside_document(self) -> None:
        """Call before the end of a text whose last document continues elsewhere."""

    def recognise(self, special_ids: Sequence[int]) -> None:
        """
        Token i of the counter has this id from here on; they are counted from 0.
        """

    def found(self) -> list[int]:
        """How often the text has each special token."""

    def text(self) -> tuple[int, int]:
        """The text between special tokens, as it was cut: its ids and its bytes."""

    def ready(self) -> int:
        """How many ids take() would return."""

    def take(self, id_bytes: int) -> memoryview:
        """
        The ids since the last call whose documents are not dropped any more, in 2 or 4 bytes each.
        """

    def take_ends(self) -> memoryview:
        """
        Where documents end, as numbers of ids from the chunk's first, found since the last call; uint64.
        """

def merges_of_ranks(tokens: dict[int, bytes]) -> tuple[list[int], list[int], list[int]]:
    """
    The merges that tiktoken's ranks (rank -> bytes) imply: left, right and result, in order of rank.
    """

def entries_of(ids: int, ends: Buffer, first: int, seed: int, number: int) -> memoryview:
    """
    The entries of a block: for each document, or stretch of one, its sort key and its ids, and whether it ends.
    """

def deal(ids: Buffer, entries: Buffer, id_bytes: int, skip: int, bits: int) -> tuple[memoryview, memoryview, memoryview]:
    """
    The ids and the entries of all buckets, by bits of their keys, and how many entries and ids each bucket has.
    """

def hash_documents(ids: Buffer, ends: Buffer, id_bytes: int, first: int, state: int) -> tuple[memoryview, int]:
    """
    A hash of each document that ends in a block, and the state after the block.
    """

def in_order(ids: Buffer, entries: Buffer, id_bytes: int) -> tuple[memoryview, memoryview]:
    """
    The ids of entries in the order of their keys, as bytes, and where documents end.
    """

class Packer:
    """Packs documents into rows of a fixed number of tokens."""

    def __init__(self, id_bytes: int, *, row: int, pad: int, window: int, packing: str, padded: bool) -> None: ...

    def add(self, ids: Buffer, ends: Buffer, first: int) -> None: ...

    def end(self) -> None: ...

    def ready(self) -> bool: ...

    def take(self, columns: bool) -> tuple[memoryview, memoryview, memoryview, memoryview]:
        """
        The rows so far: ids as bytes, where rows end, and positions and numbers of documents if they are asked for.
        """

    def amounts(self) -> tuple[int, int, int]: ...
