"""A template compared with the tokenizer's own, so that a wrong name is noticed."""

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.extensions.chat.encoder import with_template
from bpe_pipeline.tokenizer.chat_templates import render
from bpe_pipeline.tokenizer.model import ChatTemplate, Model
from bpe_pipeline.tokenizer.named_templates import OWN

_PROBE = [{"role": role, "content": role.title()} for role in ("user", "assistant")]


def difference(name: str, template: ChatTemplate, model: Model) -> str:
    """Return how a template writes a short dialog otherwise than the tokenizer's own, or nothing."""
    if model.chat_template in (None, template):
        return ""
    texts = []
    for model_with in (with_template(model, template), model):
        try:
            texts.append(render(model_with, _PROBE, add_generation_prompt=False))
        except UsageError:  # a template may want other dialogs
            return ""
    if texts[0] == texts[1]:
        return ""
    ours, own = texts
    return f"template {name} writes {ours!r}, and the tokenizer's own writes {own!r}: --template {OWN} takes its own"
