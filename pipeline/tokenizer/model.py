"""What a tokenizer is, apart from the machinery that runs it: the value that files are written from and read into."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pipeline import _core
from pipeline.base.errors import UsageError
from pipeline.merges.vocabulary import Vocabulary, text_to_token
from pipeline.pattern import CompiledPattern

# Names that only this project's files use.
PATTERN_KEY = "bpe_pipeline_pattern"  # in tokenizer_config.json: a pattern without a name, as the user wrote it
REGEX_STAGE = "BpePipelineRegex"  # in tokenizer.json: a pre-tokenizer for a pattern that only the `regex` package runs


@dataclass(frozen=True)
class SpecialRule:
    """How a special token is recognised in text, as the tokenizers library has it.

    left_space, right_space: white space before or after it belongs to it. single_word: not beside a letter, digit or
    underscore. normalized: looked for after all others, in text that was normalized. control: marks structure rather
    than text ("special": true in the file).
    """

    left_space: bool = False
    right_space: bool = False
    single_word: bool = False
    normalized: bool = False
    control: bool = True


PLAIN_RULE = SpecialRule()
CACHE_BYTES = 256 << 20  # for pieces whose ids are known


def could_be_whole_piece(text: str, rule: SpecialRule) -> bool:
    """Whether a piece, written in the byte alphabet, may have the name of this special token.

    Where whole pieces are looked up in a file that names both, such a piece would be taken for the special token.
    """
    try:
        return text_to_token(text) != text.encode() or rule.single_word
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True)
class Preparation:
    """What is done to text before it is cut; the default is nothing.

    nfc: each stretch between special tokens is put into NFC. space_in_front: each such stretch that does not begin
    with a space gets one. rules: those of the special tokens that are not recognised plainly.
    """

    nfc: bool = False
    space_in_front: bool = False
    rules: Mapping[str, SpecialRule] = field(default_factory=dict)

    @cached_property
    def changes_ids(self) -> bool:
        """Whether text does not simply go to the encoder as it stands."""
        return (
            self.nfc
            or self.space_in_front
            or any(
                rule.left_space or rule.right_space or rule.single_word or rule.normalized
                for rule in self.rules.values()
            )
        )


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template in Jinja, and the special tokens that begin a dialog and end a message (None: not said)."""

    jinja: str
    bos_token: str | None = None
    eos_token: str | None = None
    required: tuple[str, ...] = ()  # special tokens that it writes


@dataclass(frozen=True)
class Model:
    """A vocabulary and the pattern that cuts text for it.

    pad_token: one of the special tokens, or None. whole_pieces: a piece that is itself a token is that token before
    any merge is tried (tiktoken's way; Hugging Face calls it `ignore_merges`); a trained vocabulary needs it not.
    trained: the merges are as they were learned, so that no token is unreachable. preparation: what another trainer's
    file does to text first. post_processor: the JSON of that file's post-processor, kept for exports; ids here are
    those without special tokens added around the text.
    """

    vocabulary: Vocabulary
    pattern: CompiledPattern
    pad_token: str | None = None
    whole_pieces: bool = False
    trained: bool = False
    preparation: Preparation = Preparation()
    post_processor: str | None = None
    chat_template: ChatTemplate | None = None

    def __post_init__(self) -> None:
        special_tokens = self.vocabulary.special_tokens
        if self.pad_token is not None and self.pad_token not in special_tokens:
            raise UsageError(f"the pad token {self.pad_token!r} is not one of the special tokens: name it among them")
        required = self.chat_template.required if self.chat_template else ()
        missing = [text for text in required if text not in special_tokens]
        if missing:
            raise UsageError(
                f"the chat template needs {', '.join(missing)}, which this vocabulary lacks: name them among the "
                "special tokens, or choose another template"
            )

    @property
    def bos_token(self) -> str | None:
        """The token that begins a dialog, where a chat template says so."""
        return self.chat_template.bos_token if self.chat_template else None

    @property
    def eos_token(self) -> str | None:
        """The token that ends a document or message: the chat template's, or the first special but the pad token."""
        if self.chat_template and self.chat_template.eos_token:
            return self.chat_template.eos_token
        return next((text for text in self.vocabulary.special_tokens if text != self.pad_token), None)

    def encoder(self, *, cache_bytes: int = CACHE_BYTES, threads: int = 0) -> _core.Encoder:
        """Build the native encoder; about 0.1 s for 256,000 tokens.

        cache_bytes: for pieces, of all threads together. threads: how many have caches; 0: as many as there are cores.
        """
        vocabulary = self.vocabulary
        return _core.Encoder(
            self.pattern.automaton,
            vocabulary.tokens,
            vocabulary.left,
            vocabulary.right,
            vocabulary.result,
            whole_pieces=self.whole_pieces,
            cache_bytes=cache_bytes,
            threads=threads,
        )

    def unreachable_tokens(self) -> list[int]:
        """Ids of the tokens that the merges alone do not make of their own bytes.

        A trained list has none, for each token was made of just these bytes, and what stands beside them is never
        joined across their ends before. So whole-piece lookup and merging by the rank of the resulting bytes, as in
        tiktoken, then change nothing. Telling takes a second for every few megabytes that the tokens have together.
        """
        if self.trained:
            return []
        return self.encoder().unreachable(self.vocabulary.tokens)
