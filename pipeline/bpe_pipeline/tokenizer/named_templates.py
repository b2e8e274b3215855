"""Chat templates by name, for the rows of chat data and for exported files: the files `templates/NAME.jinja`.

They mark answers with `{% generation %}`. Any other file is a template, too, and `tokenizer` is the tokenizer's own.
"""

import difflib
from functools import cache
from pathlib import Path

from bpe_pipeline.base.errors import UsageError, unfit
from bpe_pipeline.run.ids import marks_in
from bpe_pipeline.storage import named
from bpe_pipeline.tokenizer.chat_templates import text_of_probes
from bpe_pipeline.tokenizer.formats.fields import read_text
from bpe_pipeline.tokenizer.model import ChatTemplate, Model

NAMES = ("llama3", "chatml", "qwen", "qwen3", "gemma", "mistral", "deepseek3", "default", "alpaca", "empty")
OWN = "tokenizer"  # the name of the tokenizer's own template


@cache
def named_template(name: str) -> ChatTemplate:
    """Return the template of one of the `NAMES`."""
    return ChatTemplate((Path(__file__).parent / "templates" / f"{name}.jinja").read_text(encoding="utf-8"))


def chat_template_named(name: str, model: Model) -> ChatTemplate:
    """Return a template by its name, or that of a file; `UsageError` for one that does not fit the vocabulary."""
    if not isinstance(name, str):
        raise unfit("template", "the name of a template, or a file", name)
    if name == OWN:
        if model.chat_template is None:
            raise UsageError(f"template {OWN}: the tokenizer has no chat template; name one, such as chatml")
        return model.chat_template
    is_file = "/" in name or "." in name
    if not is_file and name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(NAMES)}, {OWN}"
        raise UsageError(f"template {name!r} is neither known nor a file such as own.jinja: {hint}")
    template = ChatTemplate(read_text(named(name))) if is_file else named_template(name)
    special = model.vocabulary.special_tokens
    try:
        text = (template.jinja if is_file else "") + text_of_probes(template.jinja, model)
    except UsageError as error:
        raise UsageError(f"the chat template {name}: {error}; fix it, or choose another") from None
    marks = dict.fromkeys([*ChatTemplate(text).missing(special), *marks_in(text)])
    if missing := [mark for mark in marks if mark not in special]:
        raise UsageError(
            f"the chat template {name} needs {', '.join(missing)}, which this vocabulary lacks: add "
            f"{' '.join(f'--special-token {mark!r}' for mark in missing)}, or choose another template"
        )
    return template
