"""The post-processor of a tokenizer.json, read: the special tokens that it puts around a text."""

import itertools
from collections.abc import Mapping

from bpe_pipeline.tokenizer.formats.fields import Field, shortened
from bpe_pipeline.tokenizer.formats.tokenizer_json import Around

_POST_PROCESSORS = ("ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing", "Sequence")


def read_around(field: Field, special_tokens: Mapping[str, int]) -> Around:
    """Return the special tokens that a post-processor adds around a text; refuse one that does something else."""
    kind = field.member("type") if field.value is not None else Field("ByteLevel", field.file)
    kind.expect(*_POST_PROCESSORS)
    if kind.value == "ByteLevel":  # moves offsets
        return (), ()
    if kind.value == "Sequence":
        adding = [
            around for step in field.member("processors").elements() if any(around := read_around(step, special_tokens))
        ]
        if len(adding) > 1:  # a template takes what an earlier one added for texts of their own
            field.refuse("has several steps that add tokens, but only one such step is reproduced exactly")
        return adding[0] if adding else ((), ())
    texts = {id_: text for text, id_ in special_tokens.items()}

    def named(ids: Field) -> list[str]:
        unknown = [id_ for id_ in ids.read(list) if not isinstance(id_, int) or id_ not in texts]
        if unknown:
            ids.refuse(f"adds the id {shortened(unknown[0])} to texts, which no special token has")
        return [texts[id_] for id_ in ids.value]

    if kind.value != "TemplateProcessing":
        ends = (field.member(name) for name in ("cls", "sep"))
        first, last = (tuple(named(Field(end.read(list)[1:], end.file, end.path))) for end in ends)
        return first, last
    parts = field.member("single").elements()
    text = [at for at, part in enumerate(parts) if part.member("Sequence").value is not None]
    if len(text) != 1 or parts[text[0]].member("Sequence").member("id").value != "A":
        field.member("single").refuse("does not hold the text once, as only is reproduced exactly")
    tokens = field.member("special_tokens")
    for name in () if tokens.value is None else tokens.read(dict):
        named(tokens.member(name).member("ids"))
    added = [
        named(tokens.member(part.member("SpecialToken").member("id").read(str)).member("ids"))
        for part in parts[: text[0]] + parts[text[0] + 1 :]
    ]
    front, behind = (tuple(itertools.chain(*ids)) for ids in (added[: text[0]], added[text[0] :]))
    return front, behind
