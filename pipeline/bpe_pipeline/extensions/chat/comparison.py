"""A template compared with the tokenizer's own on the first conversations, so that a wrong name is noticed."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from bpe_pipeline.corpus.skipped_or_altered import Tally
from bpe_pipeline.extensions.chat.answers import common_length
from bpe_pipeline.extensions.chat.encoder import ChatEncoder
from bpe_pipeline.extensions.chat.kinds import REFUSED, SPECIAL_TOKENS
from bpe_pipeline.extensions.chat.options import ChatOptions
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.named_templates import OWN, Template, template_named

_COMPARED = 20  # conversations without special tokens in them
_LONG = 1 << 20  # characters of one that is not compared: it would take gigabytes
_WHOLE = 1 << 30  # ids: no conversation is cut
_BEFORE, _AFTER = 24, 40  # characters that are shown around a difference


class Comparison:
    """Compares until a conversation differs. Nothing is compared where the tokenizer, or jinja2, is missing."""

    def __init__(self, template: Template, model: Model, options: ChatOptions) -> None:
        comparable = template.name != OWN and model.chat_template is not None and find_spec("jinja2") is not None
        self.left = _COMPARED if comparable else 0
        if comparable:
            whole = replace(options, sequence_length=_WHOLE, mask_history=False, special_tokens_in_messages="text")
            native, self._bytes_of = model.pre_token_encoder(), model.vocabulary.to_dict()
            templates = (template, template_named(OWN, model))
            self._encoders = [(each.name, ChatEncoder(each, model, whole, native)) for each in templates]

    def difference(self, conversation: Mapping[str, Any], where: str) -> str:
        """Return how the templates differ, or nothing; also where no conversation is compared any more."""
        if not self.left:
            return ""
        contents = (message.get("content") for message in conversation["messages"])
        if sum(len(content) for content in contents if isinstance(content, str)) > _LONG:
            return ""
        texts = {}
        for name, encoder in self._encoders:
            tally, row = Tally(), None
            with encoder.noting(tally, where):
                row = encoder.encode(conversation)
            if SPECIAL_TOKENS["text"] in tally.kinds or (row is None and (name != OWN or REFUSED not in tally.kinds)):
                return ""
            if row is None:
                self.left = 0
                refused = tally.kinds[REFUSED]["examples"][0]
                return f"the tokenizer's own chat template does not take what {self._encoders[0][0]} does: {refused}"
            ids = memoryview(row[0]).cast("I")
            texts[name] = b"".join(map(self._bytes_of.__getitem__, ids)).decode(errors="replace")
        self.left -= 1
        (name, ours), (_, theirs) = texts.items()
        if ours == theirs:
            return ""
        self.left = 0
        start, stop = max((at := common_length(ours, theirs)) - _BEFORE, 0), at + _AFTER
        shown = (f"{'...' * bool(start)}{text[start:stop]}{'...' * (len(text) > stop)}" for text in (ours, theirs))
        return (
            "template {} writes {!r}, and the tokenizer's own writes {!r} ({}): --template {} takes its own"
        ).format(name, *shown, where, OWN)
