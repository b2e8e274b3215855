"""The public tokenizer: text to ids and back, and to and from files.

Ids are those of exact byte-pair encoding by rank. It holds no state besides caches; threads may share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

from bpe_pipeline.base.errors import UsageError, unfit
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.run.ids import Roles, SpecialTokens
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.storage import Remote, named
from bpe_pipeline.tokenizer import arguments
from bpe_pipeline.tokenizer.chat_templates import Message, render, render_continued, require_variables
from bpe_pipeline.tokenizer.conversions import Conversions
from bpe_pipeline.tokenizer.decode import Decoding
from bpe_pipeline.tokenizer.encode import utf8_of
from bpe_pipeline.tokenizer.encoding import Encoding
from bpe_pipeline.tokenizer.formats.files import load_model
from bpe_pipeline.tokenizer.formats.huggingface import write_model
from bpe_pipeline.tokenizer.formats.rank_lists import model_of_ranks, read_ranks
from bpe_pipeline.tokenizer.model import Model


class Tokenizer(Encoding, Decoding, Conversions):
    """Encode and decode text with a vocabulary and a pattern; `model` is the value that exports are written from.

    Texts are str or bytes; lone surrogates and invalid UTF-8 are read as U+FFFD. The methods' examples use this one:

    >>> from bpe_pipeline import Tokenizer
    >>> merges = [(b"l", b"o"), (b"lo", b"w"), (b"e", b"r")]
    >>> tokenizer = Tokenizer.from_merges(merges, ["<|endoftext|>"])
    >>> tokenizer.encode("lower<|endoftext|>")
    [257, 258, 259]

    Tokenizers are equal if what their files say is equal; they are pickled without their caches.

    Args:
        vocabulary: a path or URI, as for `load`; or ids, bytes, merges and special tokens.
        pattern: a name, a regular expression or a compiled pattern; None: gpt2, or what a path says.
        pad_token: one of the special tokens, for exports.
        whole_pre_tokens: whether a pre-token that is a token is that token, even if no merges lead to it.

    Raises:
        UsageError: the pad token is not one of the special tokens, or more than a path is given.
        PatternError: the pattern is not a name or a valid expression.
        InputError: the tokenizer at the path cannot be read.
    """

    def __init__(
        self,
        vocabulary: Vocabulary | AnyPath,
        pattern: CompiledPattern | str | None = None,
        *,
        pad_token: str | None = None,
        whole_pre_tokens: bool = False,
    ) -> None:
        if isinstance(vocabulary, Vocabulary):
            compiled = arguments.pattern_of("gpt2" if pattern is None else pattern)
            self._set_model(Model(vocabulary, compiled, Roles(pad=pad_token), whole_pre_tokens))
        elif not isinstance(vocabulary, str | PathLike | Remote):
            wanted = "a path (ids and bytes: Tokenizer.from_vocab, merges: Tokenizer.from_merges)"
            raise unfit("vocabulary", wanted, vocabulary)
        elif pattern is not None or pad_token is not None or whole_pre_tokens:
            raise UsageError("a tokenizer at a path has a pattern and a pad token: leave the other arguments out")
        else:
            self._set_model(load_model(named(vocabulary, "vocabulary")))

    def __repr__(self) -> str:
        special = f"{len(self.special_tokens)} special"
        return f"Tokenizer({len(self)} tokens, {self.pattern.name or self.pattern.expression}, {special})"

    def __len__(self) -> int:
        return self.vocab_size

    def __bool__(self) -> bool:
        return True

    def __contains__(self, text: object) -> bool:
        if not isinstance(text, str | bytes):
            raise unfit("the text before `in`", "str or bytes (for an id, `id in tokenizer.vocab`)", text)
        return (utf8_of(text) if isinstance(text, str) else text) in self._known_bytes

    def __eq__(self, other: object) -> bool:
        return self.model == other.model if isinstance(other, Tokenizer) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.vocab_size, self.pattern.expression))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_model, (self.model,)

    @classmethod
    def from_model(cls, model: Model) -> Tokenizer:
        """Make a tokenizer of a model, which also holds a chat template, a normalizer and the like.

        >>> Tokenizer.from_model(tokenizer.model).encode("lower")
        [257, 258]

        Args:
            model: the `model` of another tokenizer.

        Returns:
            The tokenizer.
        """
        if not isinstance(model, Model):
            raise unfit("model", "the model of a tokenizer", model)
        tokenizer = cls.__new__(cls)
        tokenizer._set_model(model)
        return tokenizer

    @classmethod
    def from_merges(
        cls,
        merges: Iterable[tuple[bytes, bytes]],
        special_tokens: Sequence[str] = (),
        *,
        pattern: CompiledPattern | str = "gpt2",
        special_ids: Literal["last", "first"] = "last",
        pad_token: str | None = None,
    ) -> Tokenizer:
        """Make a tokenizer of a merge list: the 256 bytes, then a token for each merge that makes new bytes.

        >>> Tokenizer.from_merges([(b"a", b"b")], pad_token="<pad>").encode("ab<pad>")
        [256, 257]

        Args:
            merges: pairs of byte strings, in order of rank.
            special_tokens: their texts, in order of ids.
            pattern: as in `Tokenizer`.
            special_ids: "last": after the merges; "first": before the bytes.
            pad_token: one of the special tokens, or one to add after them.

        Returns:
            The tokenizer.

        Raises:
            InputError: a merge joins a token that no earlier merge makes.
            UsageError: a special token is empty, repeated or a single byte, or `special_ids` is unknown.
        """
        arguments.special_texts([] if pad_token is None else [pad_token])
        listed = SpecialTokens(arguments.special_texts(special_tokens), Roles(pad=pad_token)).named()
        vocabulary = Vocabulary.from_merges(arguments.pairs_of(merges), listed, special_ids=special_ids)
        return cls(vocabulary, pattern, pad_token=pad_token)

    @classmethod
    def from_vocab(
        cls,
        vocab: Mapping[int, bytes],
        merges: Iterable[tuple[bytes, bytes]],
        special_tokens: Sequence[str] | None = None,
        *,
        pattern: CompiledPattern | str = "gpt2",
    ) -> Tokenizer:
        """Make a tokenizer with given ids.

        >>> Tokenizer.from_vocab(tokenizer.vocab, tokenizer.merges, ["<|endoftext|>", "<new>"]).encode("low<new>")
        [257, 260]

        Args:
            vocab: id -> bytes, with or without special tokens.
            merges: pairs of byte strings, in order of rank.
            special_tokens: their texts; one that `vocab` lacks gets the next id.
            pattern: as in `Tokenizer`.

        Returns:
            The tokenizer.

        Raises:
            InputError: `vocab` lacks a byte or a token of a merge, or has the same bytes twice.
            UsageError: a special token is empty, repeated or a single byte.
        """
        tokens, specials = arguments.tokens_by_id(vocab, special_tokens or ())
        return cls(Vocabulary.from_tokens(tokens, arguments.pairs_of(merges), specials), pattern)

    @classmethod
    def load(cls, path: AnyPath) -> Tokenizer:
        """Read a tokenizer's files; nothing is downloaded.

        The ids are those of the file's own runtime, also those that it adds around each text.

        >>> bpe_pipeline.load("my-tokenizer").encode("lower")
        [257, 258]

        Args:
            path: a run, a tokenizer's directory or file, or a name, such as gpt2 or OWNER/MODEL, in the cache of
                transformers or tiktoken.

        Returns:
            The tokenizer.

        Raises:
            InputError: a file is missing, damaged, or has a setting that is not reproduced exactly.
            StorageError: an object store cannot be read.
        """
        return cls.from_model(load_model(named(path)))

    from_file = from_pretrained = load

    @classmethod
    def from_tiktoken_file(
        cls, path: AnyPath, *, pattern: str, special_tokens: Mapping[str, int] | None = None
    ) -> Tokenizer:
        """Read a tiktoken rank file; the ids are those of `tiktoken.Encoding` with the same arguments.

        >>> loaded = Tokenizer.from_tiktoken_file("my-tokenizer/tokenizer.tiktoken", pattern="gpt2")
        >>> loaded.encode("lower")
        [257, 258]

        Args:
            path: the rank file, which holds neither pattern nor special tokens.
            pattern: a name, or the expression as tiktoken spells it.
            special_tokens: text -> id.

        Returns:
            The tokenizer.

        Raises:
            InputError: the file is missing or damaged, or one special token begins another.
            UsageError: tiktoken would read the pattern differently.
            PatternError: the pattern does not compile.
        """
        file, specials = named(path), {} if special_tokens is None else special_tokens
        return cls.from_model(model_of_ranks(file, read_ranks(file), pattern, specials))

    def save(self, directory: AnyPath) -> None:
        """Write tokenizer.json, tokenizer_config.json and special_tokens_map.json.

        >>> tokenizer.save("copy")
        >>> Tokenizer.load("copy").vocab == tokenizer.vocab
        True

        Args:
            directory: made if it is missing.

        Raises:
            ExportRefusedError: tokenizer.json cannot tell a special token from an ordinary one.
        """
        write_model(self.model, named(directory, "directory"))

    save_pretrained = save

    @property
    def vocabulary(self) -> Vocabulary:
        """Ids, bytes and merges."""
        return self.model.vocabulary

    @property
    def pattern(self) -> CompiledPattern:
        """What splits text into pre-tokens."""
        return self.model.pattern

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.vocabulary.size

    @property
    def n_vocab(self) -> int:
        """The largest id and one more: the rows that an embedding needs."""
        return self.vocabulary.max_id + 1

    @property
    def bos_token_id(self) -> int | None:
        """Id of the token that starts a text, or None."""
        return self.model.id_of(self.model.bos_token)

    @property
    def eos_token_id(self) -> int | None:
        """Id of the token that ends a text, or None."""
        return self.model.id_of(self.model.eos_token)

    eot_token = eos_token_id

    @property
    def pad_token_id(self) -> int | None:
        """Id of the token that fills a batch, or None."""
        return self.model.id_of(self.model.pad_token)

    @property
    def chat_template(self) -> str | None:
        """The chat template in Jinja, or None."""
        return self.model.chat_template.jinja if self.model.chat_template else None

    @cached_property
    def merges(self) -> list[tuple[bytes, bytes]]:
        """The merge list, in order of rank."""
        return self.vocabulary.merges()

    @property
    def special_tokens(self) -> dict[str, int]:
        """Text -> id, in the order in which they were named."""
        return self.vocabulary.special_tokens

    @cached_property
    def _known_bytes(self) -> frozenset[bytes]:
        return frozenset(self.vocab.values())

    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        tokenize: bool = True,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        **variables: Any,
    ) -> Any:
        """Render a dialog by the chat template, to a list of ids or to text.

        Special tokens in messages are recognised, as in transformers; `compat.ChatFormat` takes them as text.

        >>> options = {"special_tokens": ["<|im_start|>", "<|im_end|>"], "chat_template": "chatml"}
        >>> chatty = bpe_pipeline.train("corpus.txt", output="runs/chat", vocab_size=260, **options)
        >>> chatty.apply_chat_template([{"role": "user", "content": "low"}], tokenize=False)
        '<|im_start|>user\\nlow<|im_end|>\\n'

        Args:
            messages: in order, with "role", "content" and what else the template reads; members that are None are
                left out.
            tokenize: whether to return ids.
            add_generation_prompt: whether the start of the assistant's answer follows.
            continue_final_message: whether the last message has no end of turn; or the name of the member to continue.
            variables: of the template, such as `tools`; `chat_template` is another template, by name or as text.

        Returns:
            Ids or text.

        Raises:
            UsageError: there is no template, it refuses the messages, or jinja2 is not installed.
        """
        wanted = arguments.flag("add_generation_prompt", add_generation_prompt)
        if not isinstance(continue_final_message, bool | str):
            raise unfit("continue_final_message", "True, False or the name of a member", continue_final_message)
        if continue_final_message and wanted:
            raise UsageError("continue_final_message continues the last message: leave out add_generation_prompt")
        require_variables(variables)
        if continue_final_message:
            field = continue_final_message if isinstance(continue_final_message, str) else "content"
            text = render_continued(self.model, messages, field, **variables)
        else:
            text = render(self.model, messages, add_generation_prompt=wanted, **variables)
        return self.encode(text, add_special_tokens=False) if arguments.flag("tokenize", tokenize) else text


load = Tokenizer.load
"""`Tokenizer.load`, as a function."""
