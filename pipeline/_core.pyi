"""
Native core of bpe-pipeline. Private: use the functions of the package.
"""

from collections.abc import Sequence
from typing import Annotated


from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from typing_extensions import Buffer

Columns: TypeAlias = tuple[Any, Any, Any]

class Automaton:
    """A compiled pattern: cuts UTF-8 text into pieces."""

    def __init__(self, class_starts: bytes, class_ids: bytes, classes: int, plain: bytes, folded: bytes, tentative: bytes, provable: bytes) -> None: ...

    def cut(self, text: object, *, room: int = 4096) -> list[int]:
        """
        The end of each piece of a whole document, UTF-8 in bytes. `room` pieces are cut in one native call.
        """

    def cut_part(self, text: Buffer, *, room: int = 4096) -> tuple[list[int], int]:
        """
        The end of each piece that text following this part could not change, and where the rest begins.
        """

    def cut_within(self, text: Buffer, ends: list[int]) -> list[int]:
        """
        The end of each piece where every stretch that ends at one of `ends` is a document of its own.
        """

    def count_pieces(self, text: object) -> int:
        """How many pieces a document has; for measuring the kernel."""

    def find_provable_cut(self, text: object, start: int, stop: int) -> int | None:
        """
        The first offset in [start, stop) where a document may be cut in two without changing a piece, or None.
        """

    @property
    def memory_bytes(self) -> int: ...

def hash64(piece: Buffer) -> int:
    """The hash by which counters are ordered."""

class SpecialTokens:
    """
    Finds special tokens in bytes: leftmost, and of those that start there the longest.
    """

    def __init__(self, tokens: Sequence[bytes]) -> None: ...

    @property
    def longest(self) -> int:
        """Bytes of the longest token; 0 without tokens."""

    def find(self, text: Buffer, start: int = 0) -> tuple[int, int, int] | None:
        """
        The first match at or after `start`: (start, end, index of the token), or None.
        """

    def match_at(self, text: Buffer, at: int) -> tuple[int, int, int] | None:
        """The longest token that stands at `at`: (start, end, index), or None."""

    def find_all(self, text: Buffer) -> list[tuple[int, int, int]]:
        """
        All matches from left to right, not overlapping: (start, end, index of the token).
        """

class ChunkCounter:
    """
    Counts the pieces of one chunk: texts fed in blocks of any size. `cutter` is an Automaton, or a function from a document to its pieces (slower).
    """

    def __init__(self, cutter: Automaton | Callable[[str], Iterable[str]], special_tokens: list[bytes], *, errors: str = 'replace', max_piece_bytes: int | None = None, window_bytes: int = 262144) -> None: ...

    def feed(self, block: Buffer, end: bool = False) -> None:
        """
        The next bytes of a text, `end` with the last; another text may follow. Under `strict`, ValueError at the first invalid byte, whose offset is then in statistics()['invalid_offsets'].
        """

    def start_inside_document(self) -> None:
        """
        Call before a text that starts inside a document, so that the document is not counted twice.
        """

    def add_pieces(self, pieces: Sequence[bytes], counts: Sequence[int]) -> None:
        """Adds counts of pieces that were cut elsewhere."""

    def __len__(self) -> int: ...

    def columns(self, partition: int = 0, partitions: int = 1) -> Columns:
        """
        The pieces of one of `partitions` equal ranges of hashes, in order of hash: offsets (int64), data (bytes), counts (uint64). The counter stays as it is.
        """

    def clear_counts(self) -> None:
        """
        Forgets the pieces counted so far, but not the text that waits for its end nor the statistics.
        """

    def memory_bytes(self) -> int: ...

    def statistics(self) -> dict[str, Any]:
        """
        bytes, documents, pieces, special_tokens, replacements, invalid_bytes, documents_skipped, bytes_skipped, pieces_cut; invalid_offsets: the first eight, counted from the first byte fed.
        """

def combine(counters: list[Columns]) -> Columns:
    """
    Adds counters, each in order of hash, into one that is. OverflowError beyond 2^63 - 1.
    """

def partition_starts(counter: Columns, partitions: int) -> list[int]:
    """
    The row at which each of `partitions` equal ranges of hashes starts, and the number of rows.
    """

class Specials:
    """Special tokens to recognise in a text, with their ids."""

    def __init__(self, texts: Sequence[str], ids: Sequence[int]) -> None: ...

    def find(self, text: str | bytes, start: int = 0) -> tuple[int, int, int] | None:
        """
        The first match at or after byte `start`: (start, end, id) in bytes, or None.
        """

class Encoder:
    """Text to token ids, by rank. Safe to share between threads."""

    def __init__(self, automaton: Automaton | None, tokens: dict[int, bytes], left: object, right: object, result: object, whole_pieces: bool = False, cache_bytes: int = 134217728) -> None:
        """
        tokens: id -> bytes; left, right, result: buffers of uint32, the ids of each merge in order of rank.
        """

    def encode(self, text: str | bytes, specials: Specials | None = None) -> list[int]:
        """
        The ids of a text. UnicodeEncodeError for a lone surrogate, UnicodeDecodeError for invalid UTF-8.
        """

    def encode_to_buffer(self, text: str | bytes, specials: Specials | None = None) -> memoryview:
        """The same as a memoryview of uint32."""

    def encode_pieces(self, pieces: list[str]) -> list[int]:
        """The ids of pieces that were cut already."""

    def encode_cut(self, text: str | bytes, ends: list[int]) -> list[int]:
        """The ids of a text whose pieces end at these bytes."""

    def unreachable(self, tokens: dict[int, bytes]) -> list[int]:
        """
        Ids of the tokens (id -> bytes) that the merges alone do not make of their bytes.
        """

def merges_of_ranks(tokens: dict[int, bytes]) -> tuple[list[int], list[int], list[int]]:
    """
    The merges that tiktoken's ranks (rank -> bytes) imply: left, right and result, in order of rank.
    """

class MergeResult:
    """A merge list, in order of rank."""

    @property
    def left(self, /) -> Annotated[memoryview, dict(int)]:
        """Ids on the left, 32 bit."""

    @property
    def right(self, /) -> Annotated[memoryview, dict(int)]:
        """Ids on the right, 32 bit."""

    @property
    def counts(self, /) -> Annotated[memoryview, dict(int)]:
        """The pair's count when it was merged, 64 bit."""

    @property
    def joined(self, /) -> Annotated[memoryview, dict(int)]:
        """
        Occurrences that became one token, 64 bit: the count, less overlaps as in `aaa`.
        """

    @property
    def bytes(self) -> int:
        """Bytes of all pieces, each as often as it was found."""

    @property
    def stop(self) -> str: ...

    @property
    def phases(self) -> int: ...

class MergeEngine:
    def __init__(self) -> None: ...

    def add(self, offsets: object, data: object, counts: object) -> None:
        """
        Adds pieces: piece i is data[offsets[i]:offsets[i + 1]] (offsets 64-bit signed, one more than counts), found counts[i] times (64-bit unsigned). The buffers are borrowed until run() has taken them in.
        """

    def run(self, max_merges: int, *, min_frequency: int = 1, max_token_bytes: int | None = None, tie_break: str = 'lowest-ids', threads: int = 1, progress: object | None = None, narrow_symbols: int = 65536, index_positions: int = 0, thread_bytes: int = 4194304) -> MergeResult:
        """
        Trains once on everything added. progress(merges, max_merges, best_count) is called at least every tenth of a second or so; what it raises, and Ctrl-C, stops the training and is raised here. narrow_symbols, index_positions and thread_bytes (of pieces, for each thread beyond the first) are tuning and change no result.
        """
