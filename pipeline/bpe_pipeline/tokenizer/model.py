"""What a tokenizer is, apart from the machinery that runs it: the value that files are written from and read into."""

from array import array
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.merges.vocabulary import Vocabulary, text_to_token
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.pattern.token_rules import Preparation, TokenRule
from bpe_pipeline.run.ids import WELL_KNOWN, Roles

CACHE_BYTES = 256 << 20  # for pre-tokens whose ids are known
NAMED = "model_specific_special_tokens"  # as transformers 5 saves the special tokens of a model's own names
_TOKENS = ("unk_token", "sep_token", "cls_token", "mask_token")
REFUSED = 2**32 - 1  # in place of the id of an unknown token: the encoder raises RuntimeError


def bytes_of_letters(text: str) -> list[bytes]:
    """Return what a text is as a token in the byte alphabet; nothing if it is not written in it."""
    try:
        return [text_to_token(text)]
    except UnicodeEncodeError:
        return []


def could_be_whole_pre_token(text: str, rule: TokenRule) -> bool:
    """Whether a file that looks whole pre-tokens up could take a pre-token, in the byte alphabet, for this special
    token."""
    return any(token != text.encode() or rule.single_word for token in bytes_of_letters(text))


@contextmanager
def refused_texts(remedy: str = "") -> Iterator[None]:
    """Raise what the encoder refuses in the block, such as a byte without a token, as `InputError`."""
    try:
        yield
    except RuntimeError as reason:
        raise InputError(f"the text cannot be encoded: {reason}{remedy}") from None


@dataclass(frozen=True)
class Unknown:
    """What text gets for bytes that no token stands for: nothing, or the special token `text`, as `unk_token` says.

    fused: one for each run of such bytes in a pre-token. A token that is not special is refused with the text.
    """

    text: str | None = None
    fused: bool = False


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template in Jinja. The well-known special tokens in its text say what it needs and what ends a turn."""

    jinja: str
    named: Mapping[str, str] = field(default_factory=dict)  # the tokenizer's other templates

    def chosen_by(self, variables: Mapping[str, Any]) -> str:
        """Return the template that transformers takes: `chat_template` by name or as text; with tools tool_use."""
        chosen = variables.get("chat_template")
        if chosen is None:
            return self.jinja if variables.get("tools") is None else self.named.get("tool_use", self.jinja)
        return str({**self.named, "default": self.jinja}.get(chosen, chosen))

    def writes(self, *kinds: str) -> list[str]:
        """Return the well-known special tokens of these kinds that the template writes."""
        return [text for kind in kinds for text in WELL_KNOWN[kind] if text in self.jinja]

    def start_among(self, special_tokens: Container[str]) -> str | None:
        """Return the special token that the template starts a dialog with, if it does."""
        return next((text for text in self.writes("bos") if text in special_tokens), None)

    def missing(self, special_tokens: Container[str]) -> list[str]:
        """Return the marks of a dialog that the template writes and that are not among the special tokens."""
        marks = self.writes("bos", "turn", "turn end")
        return [text for text in sorted(marks, key=self.jinja.index) if text not in special_tokens]


@dataclass(frozen=True)
class Model:
    """A vocabulary, the pattern that cuts text for it, and everything else that exports say."""

    vocabulary: Vocabulary
    pattern: CompiledPattern
    roles: Roles = Roles()  # of the special tokens
    whole_pre_tokens: bool = (
        False  # a pre-token that is a token is that token before any merge; elsewhere `ignore_merges`
    )
    trained: bool = field(default=False, compare=False)  # merges as they were learned: every token is reachable
    preparation: Preparation = Preparation()  # what another trainer's file does to text first
    front: tuple[str, ...] = ()  # special tokens that encoding puts in front of a text
    behind: tuple[str, ...] = ()  # and behind it
    post_processor: str | None = None  # the JSON of another trainer's file that says so, with texts in place of ids
    chat_template: ChatTemplate | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)  # others of its tokenizer_config.json
    kept: Mapping[str, Any] = field(default_factory=dict, compare=False)  # of its tokenizer.json: what changes no id
    generation: bytes = field(default=b"", compare=False)  # its generation_config.json
    unknown: Unknown = Unknown()
    also_ending: tuple[str, ...] = ()  # texts besides the separator that ended documents where its corpus was counted

    def __post_init__(self) -> None:
        for role, text in asdict(self.roles).items():
            if text is not None and text not in list(self.vocabulary.special_tokens):
                raise UsageError(f"the {role} token {text!r} is not one of the special tokens: name it among them")

    @classmethod
    def cut_by(
        cls,
        pattern: CompiledPattern,
        vocabulary: Vocabulary,
        roles: Roles,
        rules: Mapping[str, TokenRule],
        *,
        trained: bool = False,
    ) -> "Model":
        """Return the model of a vocabulary that was learned from what counting cut. rules: of its added tokens."""
        plain, preparation = replace(pattern, nfc=False), Preparation(nfc=pattern.nfc, rules=rules)
        return cls(vocabulary, plain, roles, trained=trained, preparation=preparation)

    @cached_property
    def is_prepared(self) -> bool:
        """Whether text is prepared before it is cut: then its ids are not those that the core makes of it alone."""
        return self.preparation.changes_ids(self.vocabulary.special_tokens)

    @property
    def separating(self) -> list[str]:
        """The added tokens that separate documents: those that are special."""
        return self.preparation.separating(self.vocabulary.special_tokens)

    @property
    def counting_pattern(self) -> CompiledPattern:
        """The pattern with what counting does to text before it cuts."""
        return replace(self.pattern, nfc=self.preparation.nfc)

    @property
    def without_nfc(self) -> "Model":
        """The model for a runtime that cannot normalize text: ids of text that is in NFC are the same."""
        return replace(self, preparation=replace(self.preparation, nfc=False))

    @property
    def bos_token(self) -> str | None:
        """The token that starts a text, or where none is named a dialog of the chat template."""
        template, special_tokens = self.chat_template, self.vocabulary.special_tokens
        return self.roles.bos or (template.start_among(special_tokens) if template else None)

    @property
    def eos_token(self) -> str | None:
        """The token that ends a text: the separator, if no other is named."""
        return self.roles.eos or self.separator

    @property
    def pad_token(self) -> str | None:
        """The token that fills rows."""
        return self.roles.pad

    @property
    def separator(self) -> str | None:
        """The token that separates documents: that of the training corpus, if it is known, or the end of text."""
        roles = self.roles
        return roles.separator or roles.eos or roles.separator_among(self.separating)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of the tokens that are no text but mark its structure."""
        return frozenset(map(self.vocabulary.special_tokens.__getitem__, self.separating))

    @cached_property
    def template_tokens(self) -> dict[str, str]:
        """The special tokens that a chat template may name, such as unk_token, by their names."""
        settings, roles = self.settings, self.roles
        named = {name: token for name, token in settings.items() if name.endswith("_token")}
        more = settings.get("extra_special_tokens")
        if not isinstance(more, Mapping) and named.keys() <= {*_TOKENS}:  # as transformers 5 reads them
            more = settings.get(NAMED)
        named |= more if isinstance(more, Mapping) else {}
        texts = {name: text_of(token) for name, token in named.items()}
        texts |= {"bos_token": self.bos_token, "eos_token": roles.eos or roles.separator, "pad_token": self.pad_token}
        return {name: text for name, text in texts.items() if isinstance(text, str)}

    def id_of(self, special_token: str | None) -> int | None:
        """Return the id of a special token, or None for none."""
        return None if special_token is None else self.vocabulary.special_tokens[special_token]

    def adding_bos(self, wanted: bool = True) -> "Model":
        """Return the model that also puts its bos token in front of each text, if that is wanted."""
        if not wanted or self.bos_token in self.front:
            return self
        if self.bos_token is None:
            raise UsageError("add_bos needs a special token that starts a text: name it as the bos_token (--bos-token)")
        return replace(self, front=(self.bos_token, *self.front), post_processor=None)

    @property
    def lossy(self) -> str:
        """What happens to text with bytes that no token stands for, for a message; empty if there are none."""
        if not (lost := self.vocabulary.lost_bytes):
            return ""
        text = self.unknown.text
        becomes = "is left out" if text is None else f"becomes {text!r}"
        becomes = "is refused" if text is not None and text not in self.vocabulary.special_tokens else becomes
        count = "the byte" if len(lost) == 1 else f"{len(lost):,} bytes, the first"
        return f"no token stands for {count} 0x{lost[0]:02X}: what text has of them {becomes}, as in tokenizers"

    def encoder(self, *, cache_bytes: int = CACHE_BYTES, threads: int = 0) -> _core.Encoder:
        """Build the native encoder.

        `threads` share `cache_bytes` of known pre-tokens; 0: as many as there are cores.
        """
        automaton, parts, unknown = self.pattern.automaton, self.vocabulary, self.unknown
        merges = (parts.left, parts.right, parts.result)
        id_ = None if unknown.text is None else parts.special_tokens.get(unknown.text, REFUSED)
        lost = (parts.lost_bytes, id_, unknown.fused)
        return _core.Encoder(
            automaton, parts.encoded_tokens, *merges, self.whole_pre_tokens, cache_bytes, threads, *lost
        )

    def pre_token_encoder(self) -> _core.Encoder:
        """Build a native encoder of pre-tokens that are cut already, each of them once: with next to no cache."""
        return self.encoder(cache_bytes=1 << 20, threads=1)

    def uses(self, partitions: Iterable[Any]) -> "array[int]":
        """Return how often each token occurs in the pre-tokens of a counter, by id; their sum is the number of
        tokens."""
        uses, encoder = array("Q", bytes(8 * (self.vocabulary.max_id + 1))), self.pre_token_encoder()
        with refused_texts():
            for columns in partitions:
                encoder.add_uses(columns, uses)
        return uses

    def unreachable_tokens(self) -> list[int]:
        """Return the ids of the tokens that the merges alone do not make of their own bytes; a trained list has none.

        Without any, looking whole pre-tokens up, or merging by the rank of the resulting bytes as tiktoken does, is
        alike.
        """
        tokens = self.vocabulary.tokens
        reached = tokens if self.trained else self.pre_token_encoder().last_merges(tokens)
        return [id_ for id_, token in tokens.items() if len(token) > 1 and id_ not in reached]


def text_of(token: Any) -> Any:
    """Return the text of a token that is named by its text or by an object that holds it."""
    return token.get("content") if isinstance(token, Mapping) else token
