"""What the files of a tokenizer's directory say of each other: vocabularies, settings, and a model's config.json."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.units import format_count
from bpe_pipeline.extensions.inspect.diff import difference
from bpe_pipeline.extensions.inspect.findings import FINE, WRONG, command, finding
from bpe_pipeline.reports.result import Advice
from bpe_pipeline.storage import Location, names_in
from bpe_pipeline.tokenizer.formats.fields import read_json
from bpe_pipeline.tokenizer.formats.huggingface import EDITABLE
from bpe_pipeline.tokenizer.formats.rank_lists import read_ranks
from bpe_pipeline.tokenizer.formats.read_gpt2 import load_gpt2
from bpe_pipeline.tokenizer.formats.read_huggingface import check_edited
from bpe_pipeline.tokenizer.model import Model


def agreement(model: Model, home: Location) -> Iterator[Advice]:
    """Compare the directory's other files with the one that was loaded."""
    names = set(names_in(home))
    again = f"{command('export', home)} --overwrite writes all formats again, from tokenizer.json"
    agree = [name for name in ("tokenizer.json",) if name in names]
    readers: dict[str, Callable[[], str]] = {}
    if {"vocab.json", "merges.txt", "tokenizer.json"} <= names:
        readers["vocab.json, merges.txt"] = partial(_of_gpt2, model, home)
    for name in sorted(one for one in names if one.endswith(".tiktoken")):
        readers[name] = partial(_of_ranks, model, home / name)
    for name in sorted(one for one in names if one.endswith(".gguf")) if find_spec("gguf") else ():
        readers[name] = partial(_of_gguf, model, home / name)
    for name, compare in readers.items():
        try:
            other = compare()
        except InputError as reason:
            other = str(reason)
        if other:
            yield finding(WRONG, f"{name} and tokenizer.json disagree: {other}", again, file=name)
        else:
            agree.append(name)
    same = f"{', '.join(agree)} say the same" if agree[1:] else f"{(agree or ['what was loaded'])[0]} is whole"
    yield finding(FINE, same)


def _of_gpt2(model: Model, home: Location) -> str:
    """Say how vocab.json and merges.txt differ; special tokens may be missing there, or ordinary."""
    differences = difference(model, load_gpt2(home / "vocab.json", home / "merges.txt"))
    special = {(text.encode(),) for text in model.vocabulary.special_tokens}
    only = [key for one in differences.tokens.only for key in one if key not in special]
    if not (only or differences.tokens.moved or differences.merges.anything):
        return ""
    merges = sum(map(len, differences.merges.only)) + len(differences.merges.moved)
    moved = f"{len(differences.tokens.moved):,} have another id"
    return f"{len(only):,} tokens are only in one, {moved}, {format_count(merges, 'merges')} differ"


def _of_ranks(model: Model, file: Location) -> str:
    ranks, tokens = read_ranks(file), model.vocabulary.tokens
    other = [id_ for id_ in ranks | tokens if ranks.get(id_) != tokens.get(id_)]
    return f"{len(other):,} ids are not the same token, the first {other[0]}" if other else ""


def _of_gguf(model: Model, file: Location) -> str:
    """Say how the tokens and merges of a GGUF file differ; it may have more tokens at its end, as padding."""
    vocabulary = model.vocabulary
    try:
        reader = import_module("gguf").GGUFReader(file)
        listed, merges = (reader.get_field(f"tokenizer.ggml.{name}").contents() for name in ("tokens", "merges"))
    except (OSError, ValueError, AttributeError) as reason:  # no such field: None
        return f"it holds no byte-level BPE tokenizer ({reason})"
    texts = vocabulary.texts | {id_: text for text, id_ in vocabulary.special_tokens.items()}
    other = [id_ for id_, text in texts.items() if id_ >= len(listed) or listed[id_] != text]
    if other:
        return f"{len(other):,} ids are not the same token, the first {other[0]}"
    pairs = zip(vocabulary.left, vocabulary.right, strict=True)
    same = merges == [f"{vocabulary.texts[left]} {vocabulary.texts[right]}" for left, right in pairs]
    return "" if same else "its merges are other ones"


def settings(model: Model, home: Location) -> Iterator[Advice]:
    """Check that settings name tokens and ids that exist, and that the model's config.json fits."""
    for name in EDITABLE:
        try:
            if (home / name).exists():
                check_edited(home / name, model.vocabulary)
        except InputError as reason:
            yield finding(WRONG, str(reason), "name a special token of the tokenizer, or add the one named")
    config = home / "config.json"
    if not config.exists():
        return
    try:
        document, rows = read_json(config), model.vocabulary.max_id + 1
        size = document.member("vocab_size").value
    except InputError as reason:
        yield finding(WRONG, str(reason), "write it again with the model")
        return
    if isinstance(size, int) and size < rows:
        message = f"{config}: vocab_size is {size:,}, but the tokenizer has ids up to {rows - 1:,}"
        remedy = f"resize the model's embeddings to {rows:,} rows"
        yield finding(WRONG, message, remedy, vocab_size=size, rows=rows)
    for role, text in (("bos", model.bos_token), ("eos", model.eos_token), ("pad", model.pad_token)):
        value = document.member(f"{role}_token_id").value
        ids = value if isinstance(value, list) else [value]
        if text is not None and value is not None and model.vocabulary.special_tokens[text] not in ids:
            own = model.vocabulary.special_tokens[text]
            message = f"{config}: {role}_token_id is {value}, but the {role} token {text!r} has id {own}"
            remedy = f"set {role}_token_id to {own}, or name the token of that id"
            yield finding(WRONG, message, remedy, **{f"{role}_token_id": value}, token=text, id=own)
