"""GPT-2 style files: vocab.json (token text -> id) and merges.txt (one `left right` a line), read and written.

Neither says which tokens are special: the caller or special_tokens_map.json does, or else they are those that are no
byte and that no merge makes. Readers always cut text with GPT-2's pattern: files are for that pattern alone.
"""

from collections.abc import Iterable, Sequence

from pipeline.base.errors import ExportRefusedError, InputError
from pipeline.merges.vocabulary import text_to_token
from pipeline.pattern import compile_pattern
from pipeline.storage import Location
from pipeline.tokenizer.formats import byte_alphabet
from pipeline.tokenizer.formats.added_tokens import read_rule
from pipeline.tokenizer.formats.fields import read_json, read_text, write_files
from pipeline.tokenizer.model import PLAIN_RULE, Model, Preparation, SpecialRule

_HEADER = "#version"


def load_gpt2(vocab_file: Location, merges_file: Location, special_tokens: Sequence[str] | None = None) -> Model:
    """Load both files; InputError for a damaged one, and for other files next to them that say more."""
    vocab = read_json(vocab_file)
    text = read_text(merges_file)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    numbers = [number for number, line in enumerate(lines) if not line.startswith(_HEADER)]
    pairs = [lines[number].split(" ") for number in numbers]
    merges = byte_alphabet.read_merges(pairs, merges_file, lambda index: f"line {numbers[index] + 1}")
    rules: dict[str, SpecialRule] = {}
    if special_tokens is None:
        added = vocab_file.with_name("added_tokens.json")
        if added.exists() and read_json(added).read(dict):
            raise InputError(
                f"{added} adds tokens, and does not say how they are recognised: save the tokenizer with "
                "tokenizer.json (transformers does) and load that"
            )
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
