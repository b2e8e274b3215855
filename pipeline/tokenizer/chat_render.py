"""Render a chat template (Jinja) as transformers does: the same environment, the same names."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from pipeline.base.errors import UsageError, unfit
from pipeline.tokenizer.conversions import installed
from pipeline.tokenizer.model import Model

Message = Mapping[str, Any]


def render(model: Model, messages: Sequence[Message], *, add_generation_prompt: bool, **variables: Any) -> str:
    """Return the text of a dialog by the model's chat template; `UsageError` if it has none, or refuses the dialog."""
    if model.chat_template is None:
        raise UsageError(
            "the tokenizer has no chat template: train, merge or export with chat_template='chatml' (or 'llama3')"
        )
    if isinstance(messages, str | bytes | Mapping) or not all(isinstance(one, Mapping) for one in _iterable(messages)):
        raise unfit("messages", "a list of messages such as {'role': 'user', 'content': 'Hello'}", messages)
    tokens = {"bos_token": model.bos_token, "eos_token": model.eos_token, "pad_token": model.pad_token}
    names = {"tools": None, "documents": None} | {name: text for name, text in tokens.items() if text is not None}
    jinja2 = installed("jinja2")
    try:
        template = _compiled(model.chat_template.jinja)
        text = template.render(
            **(names | variables), messages=list(messages), add_generation_prompt=add_generation_prompt
        )
    except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as reason:  # of any template
        raise UsageError(f"the chat template does not take these messages: {reason}") from None
    return str(text)


def _iterable(messages: Any) -> Any:
    return messages if isinstance(messages, Sequence) else [None]


@cache
def _compiled(jinja: str) -> Any:
    from jinja2 import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks what the assistant wrote; the text is the same without it."""

        tags = {"generation"}  # noqa: RUF012 - as its class has it

        def parse(self, parser: Any) -> Any:
            """Parse the block as if its marks were not there."""
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, **how: Any) -> str:
        return json.dumps(value, **({"ensure_ascii": False} | how))

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    return environment.from_string(jinja)
