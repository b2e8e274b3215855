"""GGUF files: what they hold, by the gguf package's own reader; the ids that llama.cpp has for them; what is refused.

`BPE_PIPELINE_LLAMA_TEXTS` is the number of generated texts for each pattern (default 1,000; `.ci/full`: 100,000).
"""

import os
import random
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pytest
import samples
from command import refused, run

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import ExportRefusedError
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.pattern.presets import PRESETS, superword_presets
from bpe_pipeline.run.ids import Roles
from bpe_pipeline.tokenizer.check import check_exports
from bpe_pipeline.tokenizer.export import export_model, limits_of
from bpe_pipeline.tokenizer.formats import export_formats
from bpe_pipeline.tokenizer.formats import gguf as ours
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS, default_formats
from bpe_pipeline.tokenizer.model import ChatTemplate, Model

EOT, PAD = "<|endoftext|>", "<|pad|>"
TEXTS = int(os.environ.get("BPE_PIPELINE_LLAMA_TEXTS", "1000"))
BYTE_PAIRS = [(bytes([left]), bytes([right])) for left in range(256) for right in range(256)]
random.Random(1).shuffle(BYTE_PAIRS)  # merges in any order
MARKED = (
    "{% for m in messages %}\n  {%- if m.role == 'assistant' %}\n    {%- generation -%}\n  {{ m.content }} \n"
    "    {%- endgeneration %}\n  {% generation %}\n{{ m.role }}{%endgeneration%}\n{% endif %}\n{% endfor %}"
)


def fields(directory: Path) -> dict[str, Any]:
    """What the gguf package reads in the file."""
    gguf = pytest.importorskip("gguf", reason="the gguf package is not installed")
    reader = gguf.GGUFReader(directory / "tokenizer.gguf")
    assert reader.tensors == []
    return {name.removeprefix("tokenizer."): field.contents() for name, field in reader.fields.items()}


def exported(model: Model, directory: Path) -> dict[str, Any]:
    pytest.importorskip("gguf", reason="the gguf package is not installed")
    assert FORMATS["gguf"].write(model, directory) == [directory / "tokenizer.gguf"]
    return fields(directory)


def reads_llama(directory: Path) -> Any:
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    return llama_cpp.Llama(str(directory / "tokenizer.gguf"), vocab_only=True, verbose=False)


def test_without_the_normalizer_the_file_is_that_of_the_plain_tokenizer(tmp_path: Path) -> None:
    plain = samples.tokenizer("qwen2", (EOT,)).model
    normal = replace(plain, preparation=replace(plain.preparation, nfc=True))
    expected = exported(plain, tmp_path)
    with pytest.raises(ExportRefusedError, match=r"does not put text into NFC.*export --without-normalizer"):
        FORMATS["gguf"].write(normal, tmp_path)
    assert export_model(normal, tmp_path, ["gguf"], without_normalizer=True)[0] == [tmp_path / "tokenizer.gguf"]
    assert fields(tmp_path) == expected


@pytest.mark.parametrize(("pattern", "pre"), [("gpt2", "gpt-2"), ("llama3", "llama-bpe"), ("qwen2", "qwen2")])
def test_tokens_types_and_merges_are_in_the_file(pattern: str, pre: str, tmp_path: Path) -> None:
    model = replace(samples.tokenizer(pattern, (EOT, PAD)).model, roles=Roles(pad=PAD))
    found, vocabulary = exported(model, tmp_path), model.vocabulary
    assert (found["ggml.model"], found["ggml.pre"]) == ("gpt2", pre)
    special = vocabulary.special_tokens
    texts = {**vocabulary.texts, **{id_: text for text, id_ in special.items()}}
    assert found["ggml.tokens"] == [texts[id_] for id_ in range(len(texts))]
    assert found["ggml.token_type"] == [1] * len(vocabulary.tokens) + [3, 3]
    pairs = zip(vocabulary.left, vocabulary.right, strict=True)
    assert found["ggml.merges"] == [f"{texts[left]} {texts[right]}" for left, right in pairs]
    roles = [found[f"ggml.{role}_token_id"] for role in ("bos", "eos", "padding")]
    assert roles == [special[EOT], special[EOT], special[PAD]]
    assert found["ggml.add_bos_token"] is found["ggml.add_eos_token"] is False
    assert "chat_template" not in found


def test_chat_template_end_of_turn_and_added_bos(tmp_path: Path) -> None:
    template = ChatTemplate("{% generation %}x{% endgeneration %}<|im_end|>")
    model = samples.tokenizer(specials=(EOT, "<|bos|>", "<|im_end|>")).model
    found = exported(replace(model, chat_template=template, front=("<|bos|>",)), tmp_path)
    special = model.vocabulary.special_tokens
    assert found["chat_template"] == "{% if true %}x{% endif %}<|im_end|>"
    assert [found[f"ggml.{role}_token_id"] for role in ("bos", "eot")] == [special["<|bos|>"], special["<|im_end|>"]]
    assert found["ggml.add_bos_token"] is True
    ids = [special["<|bos|>"], *Tokenizer(model.vocabulary).encode("low")]
    assert reads_llama(tmp_path).tokenize(b"low", add_bos=True) == ids


def test_template_without_marks_renders_the_same() -> None:
    model = Tokenizer.from_merges([]).model
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    marked = Tokenizer.from_model(replace(model, chat_template=ChatTemplate(MARKED)))
    plain = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(ours.without_generation_marks(MARKED))
    assert plain.render(messages=messages) == marked.apply_chat_template(messages, tokenize=False)
    assert "add_generation_prompt" in ours.without_generation_marks("{% if add_generation_prompt %}{% endif %}")


def superwords(pairs: samples.Merges) -> Tokenizer:
    """Merges of pairs of bytes and of some words, cut by the paper's pattern."""
    words = [(b"a ", b"b"), (b"a b", b" a"), (b"12", b"3"), (b"e ", b"12")]
    return Tokenizer.from_merges(pairs + words, [EOT], pattern=superword_presets()["superbpe-digits"].expression)


def test_superwords_by_digits_are_written_if_asked_for(tmp_path: Path) -> None:
    model = superwords([(b"a", b" "), (b" ", b"a"), (b"1", b"2"), (b"e", b" ")]).model
    written, refused_ = export_model(model, tmp_path, None)
    assert (tmp_path / "tokenizer.gguf") not in written
    if "gguf" in default_formats():
        assert "a number of 30,000 digits crashes it; --export gguf writes" in refused_["gguf"]
    assert limits_of(model, ["hf"]) == []
    assert len(limits_of(model, ["gguf", "tiktoken"])) == 2
    assert exported(model, tmp_path)["ggml.pre"] == "superbpe"


def test_llama_reads_superwords_by_digits_as_we_do(tmp_path: Path) -> None:
    tokenizer = superwords(BYTE_PAIRS)
    exported(tokenizer.model, tmp_path)
    theirs, chance = reads_llama(tmp_path), random.Random(5)
    letters = ["0123456789 ab.,\n-e", "01 ½²Ⅻ12 aé日\t", "٣५ a-b"]
    texts = ["".join(chance.choices(letters[i % 3], k=chance.randrange(40))) for i in range(TEXTS)]
    for text in [*texts, "1" * 10_000, "a b " * 10_000]:
        if not re.search("[٣५]{2}", text):  # such digits are cut by three for us alone
            assert theirs.tokenize(text.encode(), add_bos=False) == tokenizer.encode_ordinary(text), text


def byte_pairs(pattern: str) -> Tokenizer:  # two pre-tokens where there should be one, or one for two, change ids
    return Tokenizer.from_merges(BYTE_PAIRS, [EOT, "<|im_end|>", "<|im|>"], pattern=pattern)


def known_to_both(text: str) -> str:
    """Leave characters out that are younger than llama.cpp's tables, and the one that folds to s only for us."""
    table = unicodedata if unicodedata.unidata_version < "16" else unicodedata.ucd_3_2_0
    return "".join(character for character in text if table.category(character) != "Cn" and character != "ſ")


@pytest.mark.parametrize("pattern", [name for name, preset in PRESETS.items() if preset.llama_cpp])
def test_llama_cpp_has_our_ids(pattern: str, tmp_path: Path) -> None:
    tokenizer = byte_pairs(pattern)
    exported(tokenizer.model, tmp_path)
    theirs = reads_llama(tmp_path)
    source = random.Random(7)
    for text in [*samples.HARD_TEXTS, *samples.all_planes(7, TEXTS)]:
        cut = source.randint(0, len(text))
        special = source.choice([EOT, "<|im_end|>", "<|im|>", "<|im", "<|im_end|><|im|>", ""])
        mixed = known_to_both(text[:cut] + special + text[cut:])
        assert theirs.tokenize(mixed.encode(), add_bos=False, special=True) == tokenizer.encode(mixed), mixed
        assert theirs.tokenize(mixed.encode(), add_bos=False, special=False) == tokenizer.encode_ordinary(mixed), mixed


def test_check_reads_the_file_with_llama_cpp(tmp_path: Path) -> None:
    tokenizer = byte_pairs("llama3")
    exported(tokenizer.model, tmp_path)
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    texts = [known_to_both(text) for text in samples.all_planes(3, 20)]
    [check] = check_exports(tokenizer, tmp_path, ["gguf"], texts)
    assert check.library.startswith("llama-cpp-python ")
    assert check.outcome == "same", check.detail
    other = Tokenizer.from_merges(samples.trained("llama3"), [EOT], pattern="llama3")
    assert check_exports(other, tmp_path, ["gguf"], ["the low"])[0].outcome == "different"


def test_ids_without_a_token_are_unused(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_tokens(samples.tokens_by_id() | {258: b"ab"}, [(b"a", b"b")], {EOT: 260})
    found = exported(Tokenizer(vocabulary).model, tmp_path)
    assert found["ggml.token_type"] == [*[1] * 256, 5, 5, 1, 5, 3]
    assert len(set(found["ggml.tokens"])) == 261
    assert reads_llama(tmp_path).tokenize(b"abc" + EOT.encode(), add_bos=False, special=True) == [258, 66, 260]


def test_without_the_package_other_formats_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ours, export_formats):
        monkeypatch.setattr(module, "find_spec", lambda _: None)
    assert default_formats() == ["hf", "gpt2", "tiktoken"]
    written, not_written = export_model(samples.tokenizer().model, tmp_path / "default", None)
    assert len(written) == 7
    assert not_written == {}
    with pytest.raises(ExportRefusedError, match=r"pip install 'bpe-pipeline\[gguf\]'"):
        export_model(samples.tokenizer().model, tmp_path / "named", ["gguf"])


def test_command_names_what_is_missing_before_it_trains(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("the low the")
    options = ["--output", tmp_path / "run", "--export", "gguf", "--pattern", "cl100k"]
    said = refused(run("train", tmp_path / "corpus.txt", *options), 1)
    assert ("bpe-pipeline[gguf]" if "gguf" not in default_formats() else "'cl100k'") in said
    assert not (tmp_path / "run" / "tokenizer").exists()


@pytest.mark.parametrize("more", [(), ("--superwords-from", "260", "--superword-pattern", "superbpe-digits")])
def test_train_writes_the_file_if_asked_for(tmp_path: Path, more: tuple[str, ...]) -> None:
    pytest.importorskip("gguf", reason="the gguf package is not installed")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat on the mat, and the cat sat on the hat. " * 20)
    asked = ["--vocab-size", "270", "--export", "hf,gguf", "--output", str(tmp_path / "run"), "--quiet"]
    run("train", str(corpus), *asked, *more)
    assert fields(tmp_path / "run/tokenizer")["ggml.merges"]
