"""A tokenizer with more special tokens, or with other roles: which ids they get, and what to say of them."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from bpe_pipeline.base.errors import RunDirectoryError, shown
from bpe_pipeline.run.ids import check_added, check_special_tokens, is_reserved
from bpe_pipeline.run.manifest import run_of
from bpe_pipeline.run.options import TokenizerOptions
from bpe_pipeline.storage import Location, same_location
from bpe_pipeline.tokenizer.formats.files import tokenizer_home
from bpe_pipeline.tokenizer.formats.settings_files import with_own_generation
from bpe_pipeline.tokenizer.model import Model


def with_roles(model: Model, options: TokenizerOptions, reserved: Collection[str]) -> Model:
    """Return the model with the special tokens and roles that the options name; new ones get reserved or the next ids.

    A role gets the next id: reserved tokens have rows in the model that nothing has trained.
    """
    model = with_added(model, options.added_special_tokens, reserved=reserved)
    named = {"bos": options.bos_token, "eos": options.eos_token, "pad": options.pad_token}
    requested = {role: text for role, text in named.items() if text is not None}
    roles = replace(model.roles, separator=model.separator, **requested)
    changed = replace(with_added(model, dict.fromkeys(requested.values())), roles=roles)
    if changed.bos_token and changed.bos_token != model.bos_token in model.front:  # the bos in front is the new one
        front = tuple(changed.bos_token if text == model.bos_token else text for text in model.front)
        changed = replace(changed, front=front, post_processor=None)
    return with_own_generation(model, changed.adding_bos(options.add_bos))


def reserved_in(model: Model, path: Location) -> list[str]:
    """Return the special tokens that have no meaning yet: by their names, or by what the run of this path reserved."""
    used = {*model.roles.named(), *model.front, *model.behind}
    texts = [text for text in model.vocabulary.special_tokens if text not in used]
    by_run: Collection[str] = ()
    with suppress(RunDirectoryError):  # a damaged run
        home = tokenizer_home(path)
        if (run := run_of(path)) is not None:
            folders = [name for name in run.manifest.special if same_location(run.directory / name, home)]
            by_run = [text for name in folders for text in run.manifest.options_of(name).special.reserved_among(texts)]
    return [text for text in texts if is_reserved(text) or text in by_run]


def with_added(
    model: Model, texts: Iterable[str], *, reserved: Collection[str] = (), first_id: int | None = None
) -> Model:
    """Return the model with more special tokens: each takes the place of a reserved one, if there is one, or the next
    id.

    first_id: the next id; default: one more than the largest.
    """
    known, rules = model.vocabulary.special_tokens, model.preparation.rules
    new = [text for text in texts if text not in known]
    check_special_tokens(new)
    check_added(new)
    names = dict(zip(sorted(reserved, key=known.__getitem__), new, strict=False))
    following = model.vocabulary.max_id + 1 if first_id is None else first_id
    rest = {text: id_ for id_, text in enumerate(new[len(names) :], following)}
    special = {names.get(text, text): id_ for text, id_ in known.items()} | rest
    preparation = replace(model.preparation, rules={names.get(text, text): rule for text, rule in rules.items()})
    return replace(model, vocabulary=replace(model.vocabulary, special_tokens=special), preparation=preparation)


def news_of(before: Model, after: Model) -> list[str]:
    """Say which ids the special tokens have that were added, and what they were."""
    old = {id_: text for text, id_ in before.vocabulary.special_tokens.items()}
    new = {text: id_ for text, id_ in after.vocabulary.special_tokens.items() if old.get(id_) != text}
    return [
        f"{shown(text)} is {id_}, "
        + (f"which was {shown(old[id_])}" if id_ in old else "a new id: the model needs a row for it")
        for text, id_ in new.items()
    ]
