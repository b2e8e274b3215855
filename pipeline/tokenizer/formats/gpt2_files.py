"""GPT-2 style files: vocab.json (token text -> id) and merges.txt (one `left right` a line), read and written.

Neither says which tokens are special, or how text is cut. A configuration next to them names the class of transformers
that reads them, and its tokens; a class that is not known here is refused. Without one, text is cut with GPT-2's
pattern, and special are the tokens that the caller or special_tokens_map.json names, or else those that are no byte and
that no merge makes. Files are written for GPT-2's pattern alone.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.base.errors import ExportRefusedError, InputError
from pipeline.merges.vocabulary import text_to_token
from pipeline.pattern.compiler import compile_pattern
from pipeline.pattern.translate import for_tokenizers
from pipeline.storage import Location
from pipeline.tokenizer.formats import byte_alphabet
from pipeline.tokenizer.formats.added_tokens import read_rule
from pipeline.tokenizer.formats.fields import Field, read_json, read_text, shortened, write_files
from pipeline.tokenizer.formats.huggingface import model_of, processor_of
from pipeline.tokenizer.model import PLAIN_RULE, Model, Preparation, SpecialRule

_HEADER = "#version"
_END = "<|endoftext|>"
_CLASSES: dict[str, dict[str, Any]] = {  # of transformers, with the tokens that they name where no file does
    "GPT2Tokenizer": {"unk_token": _END, "bos_token": _END, "eos_token": _END},
    "Qwen2Tokenizer": {"unk_token": _END, "eos_token": _END, "pad_token": _END},
}
_CLASSES_OF_MODELS = {"gpt2": "GPT2Tokenizer", "qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer"}
_NAMED = [f"{role}_token" for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]
_NAMED += ["additional_special_tokens", "extra_special_tokens"]


def load_gpt2(vocab_file: Location, merges_file: Location, special_tokens: Sequence[str] | None = None) -> Model:
    """Load both files; InputError for a damaged one, and for other files next to them that say more."""
    vocab = read_json(vocab_file)
    text = read_text(merges_file)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    numbers = [number for number, line in enumerate(lines) if not line.startswith(_HEADER)]
    pairs = [lines[number].split(" ") for number in numbers]
    merges = byte_alphabet.read_merges(pairs, merges_file, lambda index: f"line {numbers[index] + 1}")
    rules: dict[str, SpecialRule] = {}
    if special_tokens is None and (found := _class_of(vocab_file)) is not None:
        return _as_its_class(*found, vocab, pairs)
    if special_tokens is None:
        _refuse_added_tokens(vocab_file.parent)
        map_file = vocab_file.with_name("special_tokens_map.json")
        if map_file.exists():
            rules = _special_rules(map_file)
            special_tokens = list(rules)
        else:
            special_tokens = _neither_byte_nor_merged(vocab.read(dict), merges)
    for text in special_tokens:
        if text not in vocab.read(dict):
            raise InputError(f"{vocab_file} lacks the special token {text!r}: name one that it has")
    ids = {text: vocab.member(text).read(int) for text in special_tokens}
    specials = dict(sorted(ids.items(), key=lambda item: item[1]))
    vocabulary = byte_alphabet.vocabulary_of(vocab_file, byte_alphabet.read_tokens(vocab, specials), merges, specials)
    unlike = {text: rule for text, rule in rules.items() if rule != PLAIN_RULE}
    return Model(vocabulary, compile_pattern("gpt2"), preparation=Preparation(rules=unlike))


def _class_of(vocab_file: Location) -> tuple[str, Field] | None:
    """Return the class of transformers that reads the files, if a configuration says it, and tokenizer_config.json."""
    files = [vocab_file.with_name(name) for name in ("tokenizer_config.json", "config.json")]
    config, of_model = (read_json(file) if file.exists() else Field({}, file) for file in files)
    named = (config.member("tokenizer_class"), of_model.member("tokenizer_class"), of_model.member("model_type"))
    field = next((one for one in named if one.value is not None), None)
    name = None if field is None else field.read(str).removesuffix("Fast")
    name = _CLASSES_OF_MODELS.get(str(name), name)
    unread = [one.member("auto_map") for one in (config, of_model)]
    unread += [config.member("added_tokens_decoder")] if name is None else []
    reason = next((one for one in unread if one.value is not None), None if name in (None, *_CLASSES) else field)
    if reason is not None and not vocab_file.with_name("tokenizer.json").exists():
        reason.refuse(
            f"is {shortened(reason.value)}, but vocab.json and merges.txt alone are read only of the tokenizer_class "
            f"{' or '.join(_CLASSES)}: save the tokenizer with tokenizer.json (transformers does) and load that"
        )
    return None if name is None or reason is not None else (name, config)


def _as_its_class(name: str, config: Field, vocab: Field, pairs: list[list[str]]) -> Model:
    """Return what a class of transformers makes of the files."""
    settings = _CLASSES[name] | config.read(dict)
    config = Field(settings, config.file)
    directory, decoder = vocab.file.parent, config.member("added_tokens_decoder")
    entries: dict[str, dict[str, Any]] = {}
    if decoder.value is not None:
        for id_ in sorted(decoder.read(dict), key=lambda text: (len(text), text)):
            entry = decoder.member(id_).read(dict)
            if not id_.isdecimal():
                decoder.member(id_).refuse("is not a token id")
            entries[decoder.member(id_).member("content").read(str)] = {"special": False} | entry | {"id": int(id_)}
    else:
        _refuse_added_tokens(directory)
        map_file = directory / "special_tokens_map.json"
        settings |= read_json(map_file).read(dict) if map_file.exists() else {}
    listed = vocab.read(dict)
    for role in _NAMED:
        value = settings.get(role)
        for one in value if isinstance(value, list) else [value]:
            token = one if isinstance(one, dict) else {"content": one}
            text = token.get("content")
            if isinstance(text, str) and text not in entries:
                following = len(listed) + sum(other not in listed for other in entries)
                entries[text] = token | {"special": True, "id": listed.get(text, following)}
    special_tokens = {text: entry["id"] for text, entry in entries.items()}
    around = [
        (settings[role],) if config.flag(f"add_{role}") and settings.get(role) in special_tokens else ()
        for role in ("bos_token", "eos_token")
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": config.flag("add_prefix_space")}
    pattern = {"Regex": for_tokenizers(compile_pattern("qwen2"))}
    split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    cut = {"type": "Sequence", "pretokenizers": [split, byte_level | {"use_regex": False}]}
    document = {
        "version": "1.0",
        "added_tokens": list(entries.values()),
        "normalizer": {"type": "NFC"} if name == "Qwen2Tokenizer" else None,
        "pre_tokenizer": cut if name == "Qwen2Tokenizer" else byte_level,
        "post_processor": processor_of((around[0], around[1]), special_tokens),
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": listed, "merges": pairs},
    }
    return model_of(Field(document, vocab.file), config)


def _refuse_added_tokens(directory: Location) -> None:
    added = directory / "added_tokens.json"
    if added.exists() and read_json(added).read(dict):
        raise InputError(
            f"{added} adds tokens, and does not say how they are recognised: save the tokenizer with "
            "tokenizer.json (transformers does) and load that"
        )


def _neither_byte_nor_merged(texts: Iterable[str], merges: byte_alphabet.Merges) -> list[str]:
    made = {left + right for left, right in merges}
    found = []
    for text in texts:
        try:
            token = text_to_token(text)
        except UnicodeEncodeError:
            token = b""
        if len(token) != 1 and token not in made:
            found.append(text)
    return found


def _special_rules(file: Location) -> dict[str, SpecialRule]:
    """Return the special tokens that special_tokens_map.json names, with their rules."""
    document = read_json(file)
    rules: dict[str, SpecialRule] = {}
    for name in document.read(dict):
        entry = document.member(name)
        for one in entry.elements() if isinstance(entry.value, list) else [entry]:
            plain = isinstance(one.value, str)
            text = one.read(str) if plain else one.member("content").read(str)
            rule = PLAIN_RULE if plain else read_rule(one)
            if rules.setdefault(text, rule) != rule:
                one.refuse(f"names {text!r} with other rules than before")
    return rules


def export_gpt2(model: Model, directory: Location) -> list[Location]:
    """Write vocab.json and merges.txt; ExportRefusedError where their readers would produce other ids."""
    if model.pattern.name != "gpt2":
        raise ExportRefusedError(
            f"GPT-2 style files are not written for the pattern {model.pattern.shown!r}: "
            "their readers cut text with GPT-2's own. Use the hf export, or train with the pattern gpt2"
        )
    byte_alphabet.refuse_preparation(model, "GPT-2 style files")
    if model.whole_pieces:
        raise ExportRefusedError(
            "GPT-2 style files cannot say that whole pieces are looked up before merging, as this tokenizer needs. "
            "Use the hf export"
        )
    vocabulary = model.vocabulary
    if vocabulary.tokens.keys() & vocabulary.special_tokens.values():
        raise ExportRefusedError(
            "GPT-2 style files cannot say that a token is both ordinary and special, as this tokenizer needs. Use the "
            "hf export"
        )
    texts = byte_alphabet.vocabulary_texts(vocabulary, "GPT-2 style files")
    pairs = byte_alphabet.joined(
        map(texts.__getitem__, vocabulary.left), map(texts.__getitem__, vocabulary.right), between=" ", after="\n"
    )
    if f"\n{_HEADER}" in f"\n{pairs}":
        raise ExportRefusedError(f"a merge of a token that begins with '{_HEADER}' looks like the header of merges.txt")
    ids = byte_alphabet.joined(byte_alphabet.quoted(texts).values(), map(str, texts), between=":", after=",")
    merges = "\n".join([f"{_HEADER}: 0.2", *([pairs] if pairs else []), ""])
    return write_files(directory, {"vocab.json": f"{{{ids}}}", "merges.txt": merges})
