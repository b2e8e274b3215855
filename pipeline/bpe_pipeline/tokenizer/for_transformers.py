"""A tokenizer that is one of transformers, whose texts the native core encodes; only `as_transformers` imports this.

The core encodes single texts and lists of them. Everything else, such as pairs, words and overflowing tokens, goes to
the class of transformers, which also decodes and saves: the results are the same.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import transformers

from bpe_pipeline.base.errors import PipelineError
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.storage import named
from bpe_pipeline.tokenizer.arguments import Array, threads_of
from bpe_pipeline.tokenizer.encode import TextEncoder
from bpe_pipeline.tokenizer.formats.read_huggingface import load_huggingface
from bpe_pipeline.tokenizer.model import Model

_Theirs: Any = transformers.PreTrainedTokenizerFast


@dataclass(slots=True)
class _Call:
    """What a call of transformers asks for, in the names and with the defaults of its `_encode_plus`."""

    add_special_tokens: bool = True
    padding_strategy: str = "do_not_pad"
    truncation_strategy: str = "do_not_truncate"
    max_length: int | None = None
    stride: int = 0
    is_split_into_words: bool = False
    pad_to_multiple_of: int | None = None
    padding_side: str | None = None
    return_tensors: Any = None
    return_token_type_ids: bool | None = None
    return_attention_mask: bool | None = None
    return_overflowing_tokens: bool = False
    return_special_tokens_mask: bool = False
    return_offsets_mapping: bool = False
    return_length: bool = False
    verbose: bool = True
    split_special_tokens: bool | None = None
    sanitize_control_tokens: bool = False

    def is_plain(self, added: int) -> bool:
        """Whether it asks for the ids of whole texts, perhaps cut to a length that holds the added tokens and more."""
        others = self.is_split_into_words, self.return_overflowing_tokens, self.stride
        if any((*others, self.split_special_tokens, self.sanitize_control_tokens)):
            return False
        plain = self.truncation_strategy != "only_second" and (self.max_length or 0) > added
        return plain or self.truncation_strategy == "do_not_truncate"

    def kept(self, length: int, added: int, side: str) -> slice:
        """Return the part of a text's ids that truncation keeps."""
        most = length if self.truncation_strategy == "do_not_truncate" else (self.max_length or 0) - added
        return slice(max(0, length - most), None) if side == "left" else slice(most)

    def row_length(self, rows: Sequence[Sequence[int]]) -> int:
        """Return the length that shorter rows are filled up to."""
        if self.padding_strategy == "do_not_pad":
            return 0
        given, multiple = self.max_length, self.pad_to_multiple_of or 1
        length = max(map(len, rows)) if given is None or self.padding_strategy == "longest" else given
        return -(-length // multiple) * multiple


class _Later(Sequence[Any]):
    """The `tokenizers.Encoding` of each row, made by transformers when the first of them is asked for."""

    def __init__(self, rows: int, make: Callable[[], list[Any]]) -> None:
        self._rows, self._make = rows, make

    @cached_property
    def _made(self) -> list[Any]:
        return self._make()

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, index: Any) -> Any:
        return self._made[index]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self._made,)


class _Native:
    """Encodes in place of a backend, with the offsets that the backend gives.

    spaces: the last offsets that the backend gives for " ", and for a line break with a space.
    """

    def __init__(self, model: Model, spaces: Sequence[tuple[int, int]]) -> None:
        special = model.vocabulary.special_tokens
        self._parts, self._vocabulary = (model, spaces), model.vocabulary
        self.front, self.behind = ([special[text] for text in texts] for texts in (model.front, model.behind))
        self.has_offsets = not (model.is_prepared or model.vocabulary.lost_bytes)
        self._takes_spaces = spaces[1] not in ((0, 2), (1, 2))
        self._but_one = spaces[0] == (0, 0)  # of a text's first token, which transformers may have put there
        self._encoder = TextEncoder(model)
        self._specials, self._threads = self._encoder.recognising(special.keys()), threads_of(None)

    @classmethod
    def of(cls, model: Model, backend: Any) -> "_Native | None":
        """Make it of a backend's model; None where a text alone has types other than 0."""
        spaces = [backend.encode(text, add_special_tokens=False).offsets[-1] for text in (" ", "\n ")]
        return None if any(backend.encode("a").type_ids) else cls(model, spaces)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Native, self._parts

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        return self._encoder.encode_batch(texts, self._specials, self._threads)

    @cached_property
    def _sizes(self) -> Array:
        """The bytes of each id's token, and its spaces at the start and the end."""
        vocabulary = self._vocabulary
        sizes = np.zeros((3, vocabulary.max_id + 1), np.int64)
        for id_, token in vocabulary.to_dict().items():
            letters = vocabulary.texts.get(id_, token.decode(errors="replace")).replace("Ġ", " ")
            ends = (len(letters) - len(part) for part in (letters.lstrip(), letters.rstrip()))
            sizes[:, id_] = (len(token), *ends)
        return sizes

    def offsets(self, text: str, ids: list[int], kept: slice) -> list[tuple[int, int]]:
        """Return the characters of each kept token, start and end; all of which it has a byte."""
        sizes, leading, trailing = self._sizes[:, ids]
        stops = np.cumsum(sizes)
        starts = stops - sizes
        if not text.isascii():
            characters = np.cumsum((np.frombuffer(text.encode(), np.uint8) & 0xC0) != 0x80)
            starts, stops = characters[starts] - 1, characters[stops - 1]
        starts, stops, leading, trailing = starts[kept], stops[kept], leading[kept], trailing[kept]
        if self._takes_spaces:
            is_first = (starts == 0) | (np.arange(len(starts)) == 0)
            leading = np.where(is_first & self._but_one & (leading == 1), 0, leading)
            starts = np.minimum(starts + leading, stops)
            stops = np.where(stops >= trailing, np.maximum(stops - trailing, starts), stops)
        return list(zip(starts.tolist(), stops.tolist(), strict=True))


class NativeTokenizer(_Theirs):  # type: ignore[misc]
    """A tokenizer of transformers that encodes in native threads.

    After a change, such as added tokens or another post-processor, it reads again what transformers would save; where
    that cannot be reproduced exactly, transformers encodes.
    """

    _native: _Native | None = None
    _native_state: Any = None  # what it was made of

    def attach(self, model: Model) -> "NativeTokenizer":
        """Encode with this model, which is that of the backend as it is."""
        self._native, self._native_state = _Native.of(model, self._tokenizer), self._state()
        self._auto_class = None  # files name no code of ours, also where the class was loaded by name before
        return self

    def _state(self) -> tuple[Any, ...]:
        backend = self._tokenizer
        parts = (backend.normalizer, backend.pre_tokenizer, backend.post_processor)
        return backend.get_vocab_size(), *(None if part is None else part.__getstate__() for part in parts)

    def _current(self) -> _Native | None:
        if (state := self._state()) != self._native_state:
            backend = type(self._tokenizer).from_str(self._tokenizer.to_str())
            backend.no_truncation()
            backend.no_padding()
            with tempfile.TemporaryDirectory() as directory:
                backend.save(file := f"{directory}/tokenizer.json")
                try:
                    self._native = _Native.of(load_huggingface(named(file)), backend)
                except PipelineError:
                    self._native = None
            self._native_state = state
        return self._native

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        self._native_state = None  # also if a known token gets other rules
        return int(super()._add_tokens(new_tokens, special_tokens=special_tokens))

    def _encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        theirs = partial(super()._encode_plus, text, text_pair, **options)
        texts = text if isinstance(text, list | tuple) else [text]
        try:
            call = _Call(**options)
        except TypeError:  # an option of another version
            return theirs()
        native = self._current()
        if call.split_special_tokens is None:
            call.split_special_tokens = self.split_special_tokens
        if native is None or text_pair is not None or not texts or not all(isinstance(one, str) for one in texts):
            return theirs()
        front, behind = (native.front, native.behind) if call.add_special_tokens else ([], [])
        if not call.is_plain(len(front) + len(behind)) or (call.return_offsets_mapping and not native.has_offsets):
            return theirs()
        data: dict[str, Any] = dict(self._columns(native, texts, call, front, behind))
        for ids in data["input_ids"]:
            self._eventual_warn_about_too_long_sequence(ids, call.max_length, call.verbose)
        if texts is not text and call.return_tensors is None:
            data = {name: column if name == "length" else column[0] for name, column in data.items()}
        later = _Later(len(texts), lambda: theirs(return_tensors=None).encodings)
        return transformers.BatchEncoding(data, later, tensor_type=call.return_tensors, n_sequences=1)

    def _columns(
        self, native: _Native, texts: Sequence[str], call: _Call, front: list[int], behind: list[int]
    ) -> Iterator[tuple[str, list[Any]]]:
        """Yield what a BatchEncoding holds, in the order of transformers: a name and a list for each text."""
        encoded = native.encode(texts)
        kept = [call.kept(len(ids), len(front) + len(behind), self.truncation_side) for ids in encoded]
        rows = [front + ids[part] + behind for ids, part in zip(encoded, kept, strict=True)]
        length, is_left = call.row_length(rows), (call.padding_side or self.padding_side) == "left"

        def filled(row: list[Any], value: Any) -> list[Any]:
            filling = [value] * (length - len(row))
            return filling + row if is_left else row + filling

        def around(row: list[Any], value: Any) -> list[Any]:
            return filled([value] * len(front) + row + [value] * len(behind), value)

        def is_wanted(name: str, flag: bool | None) -> bool:
            return name in self.model_input_names if flag is None else flag

        padded = [filled(row, self.pad_token_id) for row in rows] if length else rows
        yield "input_ids", padded
        if is_wanted("token_type_ids", call.return_token_type_ids):
            yield "token_type_ids", [filled([0] * len(row), self.pad_token_type_id) for row in rows]
        if is_wanted("attention_mask", call.return_attention_mask):
            yield "attention_mask", [filled([1] * len(row), 0) for row in rows]
        if call.return_special_tokens_mask:
            yield "special_tokens_mask", [around([0] * (len(row) - len(front) - len(behind)), 1) for row in rows]
        if call.return_offsets_mapping:
            offsets = map(native.offsets, texts, encoded, kept)
            yield "offset_mapping", [around(row, (0, 0)) for row in offsets]
        if call.return_length:
            yield "length", list(map(len, padded))


NativeTokenizer.__name__ = _Theirs.__name__  # which `save_pretrained` writes: the class to load
