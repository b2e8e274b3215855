"""Arguments of the public methods, checked: an error names the argument and what it takes."""

import codecs
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

from bpe_pipeline.base.errors import unfit
from bpe_pipeline.base.machine import default_workers
from bpe_pipeline.corpus.items import is_table
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.presets import resolve
from bpe_pipeline.run.ids import SpecialTokens
from bpe_pipeline.run.values import parse_texts, parsed
from bpe_pipeline.tokenizer.encode import Text

if TYPE_CHECKING:
    from numpy import integer
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[integer]
else:
    Array = Any  # numpy may be missing
_MOST_THREADS = 4096  # more than any machine has cores


def pattern_of(pattern: object) -> CompiledPattern:
    """Compile the name or expression of a pattern, unless it is compiled."""
    if isinstance(pattern, CompiledPattern):
        return pattern
    if not isinstance(pattern, str):
        raise unfit("pattern", "a pattern's name, a regular expression, or a compiled pattern", pattern)
    return compile_pattern(resolve(pattern))


def pairs_of(merges: Iterable[Any]) -> list[tuple[bytes, bytes]]:
    """List merges."""
    try:
        listed = [(left, right) for left, right in merges]
        if {type(part) for pair in listed for part in pair} <= {bytes}:
            return listed
    except (TypeError, ValueError):
        pass
    raise unfit("merges", "pairs of byte strings, such as [(b'l', b'o'), (b'lo', b'w')]", merges)


def tokens_by_id(vocab: Any, special_tokens: object) -> tuple[dict[int, bytes], dict[str, int]]:
    """Return the other tokens of a vocabulary, and the special ones: with its ids, or the next after the last one."""
    if not isinstance(vocab, Mapping) or {(type(id_), type(token)) for id_, token in vocab.items()} - {(int, bytes)}:
        raise unfit("vocab", "a mapping id -> bytes, such as {0: b'!'}", vocab)
    tokens, ids = dict(vocab), {token: id_ for id_, token in vocab.items()}
    following = count(max(tokens, default=-1) + 1)
    texts = SpecialTokens(special_texts(special_tokens)).named()
    specials = {text: ids[token] if (token := text.encode()) in ids else next(following) for text in texts}
    for id_ in specials.values():
        tokens.pop(id_, None)
    return tokens, specials


def special_texts(special_tokens: object) -> tuple[str, ...]:
    """List the texts of special tokens."""
    return parsed("special_tokens", special_tokens, parse_texts)


def texts_of(texts: Iterable[Text]) -> Sequence[Text]:
    """List the texts of a batch."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise unfit("texts", "a list of texts (for one text, call encode)", texts)
    if isinstance(texts, Mapping) or is_table(texts):
        raise unfit("texts", "a list of texts (of a mapping or a table one column, as texts['text'])", texts)
    return texts if isinstance(texts, list) else list(texts)


def threads_of(num_threads: int | None) -> int:
    """Return a number of threads; None: that of the cores."""
    if num_threads is None:
        return default_workers()
    try:
        number = index(num_threads)
    except TypeError:
        number = 0
    if number < 1:
        raise unfit("num_threads", "a whole number of at least 1", num_threads)
    return min(number, _MOST_THREADS)


def integer_dtype(dtype: Any, max_id: int) -> Any:
    """Return numpy's integer type that holds every id; None: int64."""
    import numpy as np

    try:
        wanted = np.dtype("int64" if dtype is None else dtype)
    except TypeError:
        wanted = np.dtype(object)
    if wanted.kind not in "iu" or np.iinfo(wanted).max < max_id:
        raise unfit("dtype", f"an integer type that holds the ids up to {max_id}, such as 'uint32'", dtype)
    return wanted


def flag(name: str, value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise unfit(name, "True or False", value)
    return value


def error_handler(errors: object) -> str:
    """Return the name of an error handler of `bytes.decode`."""
    try:
        codecs.lookup_error(str(errors))
    except LookupError:
        raise unfit("errors", "'replace', 'strict', 'ignore' or another name that bytes.decode takes", errors) from None
    return str(errors)
