"""Llama 3's tokenizer and the chat formats, against tiktoken over the same file and against transformers' templates."""

import base64
import functools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import samples
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import Tensor
from transformers import AutoTokenizer

from pipeline import Tokenizer
from pipeline.base.errors import InputError, UsageError
from pipeline.compat import ChatFormat, ChatMLFormat, Llama3Tokenizer
from pipeline.compat.llama3 import RUN_CHARACTERS, SPECIAL_TOKENS, WINDOW_CHARACTERS, stretches
from pipeline.merges.vocabulary import Vocabulary
from pipeline.pattern.compiler import compile_pattern
from pipeline.pattern.presets import PRESETS
from pipeline.tokenizer.chat_templates import CHAT_TEMPLATES
from pipeline.tokenizer.formats.save import FORMATS
from pipeline.tokenizer.model import Model

DIALOG = [
    {"role": "system", "content": " Be brief.\n"},
    {"role": "user", "content": "the\n\nlow 123 't été\u3000"},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "\x1c\n then?"},
]


@functools.cache
def model(template: str) -> Model:
    specials = SPECIAL_TOKENS if template == "llama3" else ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    vocabulary = Vocabulary.from_merges(samples.trained("llama3"), specials)
    return Model(vocabulary, compile_pattern("llama3"), trained=True, chat_template=CHAT_TEMPLATES[template])


@functools.cache
def tokenizer() -> Llama3Tokenizer:
    with tempfile.TemporaryDirectory() as directory:
        FORMATS["tiktoken"].write(model("llama3"), Path(directory))
        return Llama3Tokenizer(f"{directory}/tokenizer.tiktoken")


@functools.cache
def peer() -> tiktoken.Encoding:
    ranks = {token: id_ for id_, token in model("llama3").vocabulary.tokens.items()}
    specials = {text: len(ranks) + index for index, text in enumerate(SPECIAL_TOKENS)}
    return tiktoken.Encoding("x", pat_str=PRESETS["llama3"], mergeable_ranks=ranks, special_tokens=specials)


def test_special_tokens_and_their_ids() -> None:
    ours = tokenizer()
    assert (len(SPECIAL_TOKENS), len(set(SPECIAL_TOKENS)), ours.n_words) == (256, 256, 416 + 256)
    listed = [*SPECIAL_TOKENS[:11], SPECIAL_TOKENS[-1]]
    assert listed == [
        "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
        "<|reserved_special_token_2|>", "<|reserved_special_token_3|>", "<|start_header_id|>", "<|end_header_id|>",
        "<|reserved_special_token_4|>", "<|eot_id|>", "<|reserved_special_token_5|>", "<|reserved_special_token_250|>",
    ]  # fmt: skip
    assert (ours.bos_id, ours.eos_id, ours.pad_id, ours.stop_tokens) == (416, 417, -1, {417, 425})
    assert (WINDOW_CHARACTERS, RUN_CHARACTERS) == (400_000, 25_000)


def naive_stretches(text: str, limit: int) -> Iterator[str]:
    """The rule, a character at a time."""
    done = length = 0
    for at, character in enumerate(text):
        same = at > 0 and character.isspace() == text[at - 1].isspace()
        length = length + 1 if same else 1
        if length > limit:
            yield text[done:at]
            done, length = at, 1
    yield text[done:]


@settings(max_examples=300, deadline=None)
@given(st.text("ab \n\x1c\x85\u200b\u3000", max_size=60), st.integers(1, 5), st.integers(1, 70))
def test_stretches_follow_the_rule(text: str, limit: int, window: int) -> None:
    windows = [text[start : start + window] for start in range(0, len(text), window)]
    expected = [stretch for part in windows for stretch in naive_stretches(part, limit)]
    assert list(stretches(text, window_characters=window, run_characters=limit)) == expected


def expected(text: str, **options: Any) -> list[int]:
    windows = [text[start : start + 400_000] for start in range(0, len(text), 400_000)]
    parts = [part for window in windows for part in naive_stretches(window, 25_000)]
    return [id_ for part in parts for id_ in peer().encode(part, **options)]


def test_ids_are_those_of_tiktoken() -> None:
    ours = tokenizer()
    large = ["a" * 60_000, " " * 25_001 + "the " * 150_000]
    for text in [*samples.HARD_TEXTS, *samples.all_planes(5, 60), "x<|eot_id|>y", *large]:
        plain = expected(text, disallowed_special=())
        assert ours.encode(text, bos=False, eos=False) == plain
        assert ours.encode(text, bos=True, eos=True) == [ours.bos_id, *plain, ours.eos_id]
        assert ours.encode(text, bos=False, eos=False, allowed_special="all") == expected(text, allowed_special="all")
        assert ours.decode(plain) == text


def test_bos_and_eos_are_required_and_special_tokens_selectable() -> None:
    ours = tokenizer()
    with pytest.raises(TypeError):
        ours.encode("a")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"<\|eot_id\|>.*allowed_special"):
        ours.encode("a<|eot_id|>", bos=False, eos=False, disallowed_special="all")
    one = {"<|eot_id|>"}
    assert ours.encode("<|eot_id|>", bos=False, eos=False, allowed_special=one, disallowed_special="all") == [425]
    assert ours.decode([416, 425]) == "<|begin_of_text|><|eot_id|>"


def test_rank_files(tmp_path: Path) -> None:
    """Whole pieces come before merging; a file that is missing or damaged is refused."""
    with pytest.raises(InputError, match=r"none\.model does not exist"):
        Llama3Tokenizer(tmp_path / "none.model")
    (tmp_path / "x").write_bytes(b"\x80 0\n")
    with pytest.raises(InputError, match="line 1"):
        Llama3Tokenizer(tmp_path / "x")
    tokens = [*(bytes([byte]) for byte in range(256)), b"low"]
    lines = [b"%b %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens)]
    (tmp_path / "x").write_bytes(b"".join(lines))
    assert Llama3Tokenizer(tmp_path / "x").encode("low lows", bos=False, eos=False) == [256, *b" lows"]


@functools.cache
def chat_format(template: str) -> Any:
    return ChatFormat(tokenizer()) if template == "llama3" else ChatMLFormat(Tokenizer.from_model(model(template)))


def test_messages_and_headers_are_written_as_llama_3_does() -> None:
    chat = chat_format("llama3")
    text = "<|start_header_id|>user<|end_header_id|>\n\nlow 1<|eot_id|>"
    message = {"role": "user", "content": " low 1\n"}
    assert chat.encode_message(message) == tokenizer().encode(text, bos=False, eos=False, allowed_special="all")
    assert chat.encode_header(message) == chat.encode_message({"role": "user", "content": ""})[:-1]
    long = "the words <|eot_id|>" * 21_000  # of more than one window, which does not start at the blank line
    plain = tokenizer().encode(long, bos=False, eos=False)
    role = {"role": "\n\n a<|end_header_id|>\n\n"}
    ids = chat.encode_message(role | {"content": long})
    assert ids == [*chat.encode_header(role), *plain, 425]
    assert chat.decode_message(ids) == role | {"content": long}
    with pytest.raises(UsageError, match="lacks the text 'content'"):
        chat.encode_message({"role": "user"})
    with pytest.raises(UsageError, match=r"lacks <\|im_start\|>"):
        ChatMLFormat(Tokenizer.from_merges([]))


@pytest.mark.parametrize("template", ["llama3", "chatml"])
def test_messages_are_decoded_as_they_were_encoded(template: str) -> None:
    chat = chat_format(template)
    headers = {"role": "a\n\n<|eot_id|>", "content": "x<|end_header_id|>\n\n<|eot_id|>y"}
    marked = headers if template == "llama3" else {"role": "user", "content": "a<|im_end|>\nb\n"}
    for one in [*DIALOG, marked]:
        ids = chat.encode_message(one)
        kept = one["content"].strip() if template == "llama3" else one["content"]
        assert chat.decode_message(ids) == chat.decode_message(Tensor(ids)) == {**one, "content": kept}
    ids = chat.encode_message(DIALOG[1])
    header_end = chat.tokenizer.special_tokens.get("<|end_header_id|>") if template == "llama3" else ids[0]
    unclosed = [id_ for id_ in ids if id_ != header_end]
    for broken in ([], ids[1:], ids[:-1], [*ids, *ids], [ids[0], *ids[-1:]], ids[:1] + ids[-2:], unclosed):
        with pytest.raises(InputError, match="not one message"):
            chat.decode_message(broken)


@pytest.mark.parametrize("template", ["llama3", "chatml"])
def test_chat_templates_in_transformers_have_our_ids(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FORMATS["hf"].write(model(template), tmp_path)
    ours, chat = Tokenizer.load(tmp_path), chat_format(template)
    assert ours.model.chat_template == CHAT_TEMPLATES[template]
    ours.save(tmp_path / "again")
    for path in (tmp_path / "again").iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()
    [end] = CHAT_TEMPLATES[template].writes("turn end")
    text = f"I'm low, é日本 {end} "
    answers = [{"role": "assistant", "content": said} for said in (" lower\n", "low")]
    for theirs in (ours.to_transformers(), AutoTokenizer.from_pretrained(tmp_path)):
        for dialog in (DIALOG, DIALOG[1:2], DIALOG[:3]):
            found = theirs.apply_chat_template(dialog, add_generation_prompt=True, return_dict=False)
            assert found == chat.encode_dialog_prompt(dialog)
        assert (theirs.eos_token, theirs.pad_token) == (ours.model.eos_token, ours.model.pad_token)
        assert theirs.encode(text, add_special_tokens=False) == ours.encode(text)
        dialog = [*DIALOG[:2], answers[0], DIALOG[1], answers[1]]
        masked = theirs.apply_chat_template(dialog, return_dict=True, return_assistant_tokens_mask=True)
        said = [id_ for id_, inside in zip(masked["input_ids"], masked["assistant_masks"], strict=True) if inside]
        assert theirs.decode(said) == ("lower" if template == "llama3" else " lower\n") + end + "low" + end
    theirs.save_pretrained(tmp_path / "saved")  # the template is a file of its own there
    assert Tokenizer.load(tmp_path / "saved").model.chat_template == CHAT_TEMPLATES[template]
    assert (ours.to_transformers().name_or_path, len(theirs)) == ("", ours.vocab_size)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match="pip install transformers"):
        ours.to_transformers()
