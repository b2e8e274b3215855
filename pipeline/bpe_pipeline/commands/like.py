"""What `--like` takes from a tokenizer: how it cuts text."""

from dataclasses import asdict
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.pattern.presets import NAME
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats.files import load_model
from bpe_pipeline.tokenizer.model import Model


def require_extendable(model: Model) -> None:
    """Raise `UsageError` if counts of plain text would not show the pre-tokens that the tokenizer cuts."""
    if model.preparation.space_in_front:
        raise UsageError(
            "the tokenizer puts a space in front of text before it splits it, so counts of the text itself are of "
            "other pre-tokens: it cannot be extended; take it out of its tokenizer.json if the texts need it not"
        )


def options_like(base: Location, *, new: bool = False) -> dict[str, Any]:
    """Return the options that count a corpus as this tokenizer cuts it: its special tokens are separators.

    new: for a vocabulary of its own, with the same roles, and without added tokens that are white space.
    """
    model = load_model(base)
    require_extendable(model)
    expression, rules = model.pattern.expression, model.preparation.rules
    if new:
        rules = {text: rule for text, rule in rules.items() if rule.special or not text.isspace()}
    roles = {f"{role}_token": text for role, text in asdict(model.roles).items() if role != "separator"}
    return {
        "pattern": model.pattern.name or (f"(?:{expression})" if NAME.fullmatch(expression) else expression),
        "normalize": "nfc" if model.preparation.nfc else "none",
        "special_tokens": tuple(model.separating),
        "added_tokens": rules or None,
        **{role: text for role, text in roles.items() if new and text in model.vocabulary.special_tokens},
    }
