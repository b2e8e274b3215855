"""Llama 3's tokenizer over a tiktoken rank file, with the interface and the ids of Meta's reference.

256 special tokens follow the ranks. Text is encoded in windows of 400,000 characters, and a run of white space, or of
anything else, is cut after every 25,000, as the reference does. Its ids depend on these cuts.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from os import PathLike
from typing import Any, Literal

from bpe_pipeline.base.errors import unfit
from bpe_pipeline.storage import Remote, named
from bpe_pipeline.tokenizer.formats.rank_lists import model_of_ranks, read_ranks
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

WINDOW_CHARACTERS = 400_000
RUN_CHARACTERS = 25_000

_SPACE, _NO_SPACE = re.compile(r"\s"), re.compile(r"\S")  # for text, `re` means str.isspace by these

_RESERVED = tuple(f"<|reserved_special_token_{number}|>" for number in range(251))
SPECIAL_TOKENS = (
    *("<|begin_of_text|>", "<|end_of_text|>", *_RESERVED[:4]),
    *("<|start_header_id|>", "<|end_header_id|>", _RESERVED[4], "<|eot_id|>", *_RESERVED[5:]),
)


class Llama3Tokenizer:
    """Encode and decode as Llama 3 does.

    >>> from bpe_pipeline.compat import Llama3Tokenizer
    >>> llama = Llama3Tokenizer("tokenizer.model")
    >>> llama.encode("lower", bos=True, eos=False)
    [259, 257, 258]

    Its attributes are those of Meta's class: `n_words`, `bos_id`, `eos_id`, `pad_id` (-1: none), `stop_tokens` (ids
    that end a generation), `special_tokens` (text -> id); and `tokenizer`, the `Tokenizer` that does the work.

    Args:
        path: the rank file.

    Raises:
        InputError: the file is missing or damaged.
    """

    def __init__(self, path: str | PathLike[str] | Remote) -> None:
        file = named(path)
        ranks = read_ranks(file)
        first = len(ranks)
        specials = {text: first + index for index, text in enumerate(SPECIAL_TOKENS)}
        self.tokenizer = Tokenizer.from_model(model_of_ranks(file, ranks, "llama3", specials))
        self.special_tokens = specials
        self.n_words = first + len(SPECIAL_TOKENS)
        self.bos_id = specials["<|begin_of_text|>"]
        self.eos_id = specials["<|end_of_text|>"]
        self.pad_id = -1
        self.stop_tokens = {specials["<|end_of_text|>"], specials["<|eot_id|>"]}

    def encode(
        self,
        text: str,
        *,
        bos: bool,
        eos: bool,
        allowed_special: Literal["all"] | AbstractSet[str] = frozenset(),
        disallowed_special: Literal["all"] | Collection[str] = (),
    ) -> list[int]:
        """Return the ids of a text.

        >>> llama.encode("low<|eot_id|>", bos=False, eos=False, allowed_special="all")
        [257, 268]

        Args:
            text: a str.
            bos: whether begin_of_text comes first.
            eos: whether end_of_text comes last.
            allowed_special: special tokens to recognise, or "all".
            disallowed_special: special tokens to refuse, or "all" that are not allowed; others are encoded as text.

        Returns:
            The token ids.

        Raises:
            SpecialTokenError: the text contains a disallowed special token; a ValueError.
        """
        if not isinstance(text, str):
            raise unfit("text", "str", text)
        ids = [self.bos_id] if bos else []
        specials: Any = {"allowed_special": allowed_special, "disallowed_special": disallowed_special}
        for stretch in stretches(text):
            ids += self.tokenizer.encode(stretch, **specials)
        return [*ids, self.eos_id] if eos else ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, with special tokens.

        >>> llama.decode([259, 257, 258])
        '<|begin_of_text|>lower'

        Args:
            ids: any iterable of one dimension.

        Returns:
            The text.

        Raises:
            InputError: an id is not in the vocabulary or not a whole number.
        """
        return self.tokenizer.decode(ids)


def stretches(
    text: str, *, window_characters: int = WINDOW_CHARACTERS, run_characters: int = RUN_CHARACTERS
) -> Iterator[str]:
    """Cut a text where a window ends, and in it after every `run_characters` of white space or of anything else."""
    for start in range(0, len(text), window_characters):
        window = text[start : start + window_characters]
        done = 0
        for run_start, run_end in _runs(window, run_characters):
            for cut in range(run_start + run_characters, run_end, run_characters):
                yield window[done:cut]
                done = cut
        yield window[done:]


def _runs(text: str, step: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the runs that hold a position divisible by `step`: every longer run is among them."""
    end = 0
    for at in range(0, len(text), step):
        if at < end:
            continue  # in the run before
        other = _NO_SPACE if text[at].isspace() else _SPACE
        after, before = other.search(text, at), other.search(text[max(0, at - step) : at][::-1])
        end = after.start() if after else len(text)
        yield at - (before.start() if before else min(at, step)), end
