"""Chat templates and formats of dialogs, against transformers; Llama 3's tokenizer, against tiktoken."""

import base64
import functools
import pickle
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2.sandbox
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
from pipeline.pattern.presets import PRESETS
from pipeline.run.ids import Roles
from pipeline.tokenizer.chat_templates import CHAT_TEMPLATES
from pipeline.tokenizer.formats.export_formats import FORMATS
from pipeline.tokenizer.model import ChatTemplate

EOT = "<|endoftext|>"
DIALOG = [
    {"role": "system", "content": " Be brief.\n"},
    {"role": "user", "content": "the\n\nlow 123 't été\u3000"},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "\x1c\n then?"},
]
TEMPLATES = {  # of models that are widely used: bos, a default system prompt, marks of the assistant, exceptions, tools
    "llama3": CHAT_TEMPLATES["llama3"].jinja,
    "chatml": CHAT_TEMPLATES["chatml"].jinja,
    "default": (
        "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}"
        "{%- for m in messages %}\n  {%- if m.role == 'tool' %}{{ raise_exception('no tools') }}{%- endif %}\n"
        "{{- '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
        "<|im_end|>{% endgeneration %}{% else %}{{ m.content | trim }}<|im_end|>{% endif %}{{ '\n' }}{% endfor %}"
        "{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    "alternating": (
        "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}{% if m['role'] == 'user' %}"
        "{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}{{ m['content'] + eos_token }}{% endif %}{% endfor %}"
    ),
}


FORMATS_OF_DIALOGS = [*TEMPLATES, "Llama 3's tokenizer", "ChatML"]  # those of templates, and those without one
TRIMMING = TEMPLATES["llama3"].replace("['content'] +", "['content'] | trim +")  # as Meta's code does


@functools.cache
def chatty(name: str) -> Tokenizer:
    """A tokenizer with the template of a format."""
    jinja = {**TEMPLATES, "Llama 3's tokenizer": TRIMMING, "ChatML": TEMPLATES["chatml"]}[name]
    special = (*SPECIAL_TOKENS, EOT, "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]")
    model = samples.tokenizer("llama3", special).model
    roles = Roles(bos="<|begin_of_text|>", eos=EOT)
    return Tokenizer.from_model(replace(model, chat_template=ChatTemplate(jinja), roles=roles))


@functools.cache
def llama() -> Llama3Tokenizer:
    with tempfile.TemporaryDirectory() as directory:
        FORMATS["tiktoken"].write(samples.tokenizer("llama3", SPECIAL_TOKENS).model, Path(directory))
        return Llama3Tokenizer(f"{directory}/tokenizer.tiktoken")


def chat_format(name: str) -> ChatFormat:
    if name == "ChatML":
        return ChatMLFormat(chatty(name))
    return ChatFormat(llama() if name not in TEMPLATES else chatty(name))


def dialog_of(name: str) -> list[dict[str, str]]:
    return DIALOG[1:] if name == "alternating" else DIALOG


def with_template(jinja: str) -> Tokenizer:
    return Tokenizer.from_model(replace(Tokenizer.from_merges([]).model, chat_template=ChatTemplate(jinja)))


@pytest.mark.parametrize("prompt", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_are_rendered_as_transformers_does(name: str, prompt: bool) -> None:
    ours, dialog = chatty(name), dialog_of(name)
    theirs = ours.to_transformers()
    tools = [{"type": "function", "é": 1}] if name == "default" else None
    options: Any = {"add_generation_prompt": prompt, "tools": tools}
    for messages in (dialog, dialog[:2], [{"role": "user", "content": "a <|im_end|> b"}]):
        text = theirs.apply_chat_template(messages, tokenize=False, **options)
        assert ours.apply_chat_template(messages, tokenize=False, **options) == text
        ids = theirs.apply_chat_template(messages, return_dict=False, **options)
        assert ours.apply_chat_template(messages, **options) == ids


def test_a_template_that_refuses_or_is_missing_says_why() -> None:
    with pytest.raises(UsageError, match="does not take these messages: roles must alternate"):
        chatty("alternating").apply_chat_template(DIALOG)
    for ask in (lambda ours: ours.apply_chat_template(DIALOG), ChatFormat):
        with pytest.raises(UsageError, match="has no chat template"):
            ask(Tokenizer.from_merges([]))


@pytest.mark.parametrize("name", FORMATS_OF_DIALOGS)
def test_formats_have_the_ids_of_templates_and_read_their_messages(name: str) -> None:
    chat, ours, dialog = chat_format(name), chatty(name), dialog_of(name)
    assert chat.encode_dialog_prompt(dialog) == ours.apply_chat_template(dialog, add_generation_prompt=True)
    messages = [chat.encode_message(message) for message in dialog]
    joined, whole = [id_ for message in messages for id_ in message], ours.apply_chat_template(dialog)
    assert joined == whole[len(whole) - len(joined) :]
    for message, encoded in zip(dialog, messages, strict=True):
        found = chat.decode_message(encoded)
        assert chat.encode_message(found) == encoded
        assert found == chat.decode_message(Tensor(encoded))
        assert (found["role"], found["content"].strip()) == (message["role"], message["content"].strip())
        header = chat.encode_header(message)
        assert name == "alternating" or encoded[: len(header)] == header  # whose last space joins what follows
    ids = messages[1]
    for broken in ([], [5, 6], ids[1:], ids[:-1], [*ids, *ids], [ids[0], *ids[-1:]], ids[:1] + ids[-2:]):
        with pytest.raises(InputError, match="not one message"):
            chat.decode_message(broken)
    assert pickle.loads(pickle.dumps(chat)).encode_message(dialog[0]) == messages[0]


def test_messages_and_headers_are_written_as_llama_3_does() -> None:
    chat = chat_format("Llama 3's tokenizer")
    text = "<|start_header_id|>user<|end_header_id|>\n\nlow 1<|eot_id|>"
    message = {"role": "user", "content": " low 1\n"}
    assert chat.encode_message(message) == llama().encode(text, bos=False, eos=False, allowed_special="all")
    assert chat.encode_header(message) == chat.encode_message({"role": "user", "content": ""})[:-1]
    long = "the words <|eot_id|>" * 21_000  # of more than one window, which does not start at the blank line
    plain = llama().encode(long, bos=False, eos=False)
    role = {"role": "\n\n a<|end_header_id|>\n\n"}
    ids = chat.encode_message(role | {"content": long})
    assert ids == [*chat.encode_header(role), *plain, llama().special_tokens["<|eot_id|>"]]
    assert chat.decode_message(ids) == role | {"content": long}
    with pytest.raises(UsageError, match="lacks the text 'content'"):
        chat.encode_message({"role": "user"})
    with pytest.raises(UsageError, match=r"lacks <\|im_start\|>"):
        ChatMLFormat(Tokenizer.from_merges([]))


@pytest.mark.parametrize("name", FORMATS_OF_DIALOGS)
@pytest.mark.parametrize(
    "said",
    [
        *("x <|im_end|><|im_start|> [/INST]<|eot_id|> y", "x\ufdd0", "\ufdd1x\ufdd2"),
        *("x\ud800", "\ud800<|im_end|>\ud801\ufdd0", "\ud801<|eot_id|>\ud800"),
    ],
)
def test_a_message_cannot_be_ended_from_inside(name: str, said: str) -> None:
    chat = chat_format(name)
    ours, special = chat.tokenizer, set(chat.tokenizer.special_tokens.values())
    ids, plain = (chat.encode_message({"role": "user", "content": text}) for text in (said, "x y"))
    assert [id_ for id_ in ids if id_ in special] == [id_ for id_ in plain if id_ in special]
    kept = said.replace("\ud800", "\ufffd").replace("\ud801", "\ufffd")  # as `encode` writes lone surrogates
    assert kept in ours.decode(ids)
    assert chat.decode_message(ids) == {"role": "user", "content": kept}
    assert chat.encode_header({"role": "\ufdd2x"}) != chat.encode_header({"role": ""}) or name == "alternating"


@pytest.mark.parametrize("template", ["llama3", "chatml"])
def test_chat_templates_in_transformers_have_our_ids(template, tmp_path, monkeypatch):
    FORMATS["hf"].write(replace(chatty(template).model, roles=Roles()), tmp_path)
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
        assert theirs.decode(said) == f" lower\n{end}low{end}"
    theirs.save_pretrained(tmp_path / "saved")  # the template is a file of its own there
    assert Tokenizer.load(tmp_path / "saved").model.chat_template == CHAT_TEMPLATES[template]
    assert (ours.to_transformers().name_or_path, len(theirs)) == ("", ours.vocab_size)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match="pip install transformers"):
        ours.to_transformers()


FAILING = {  # what a downloaded template may do, and what the one error says
    "{{ 1 // 0 }}": "ZeroDivisionError: integer",
    "{{ 2.0 ** 5000 }}": "OverflowError: ",
    "{{ 'x' * 10 ** 12 }}": "OverflowError: a result of \\* is too large",
    "{{ 10 ** (10 ** 10) }}": "OverflowError: a result of \\*\\* is too large",
    "{% macro a(x) %}{{ a(x) }}{% endmacro %}{{ a(1) }}": "RecursionError: ",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}": "takes more than 5,000 steps",
    "{% macro a(n) %}{% if n %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(60) }}": "more than 5,000",
    "{{ messages[9].content.x }}": "has no element 9",
    "{{ " + "(" * 5000 + ")" * 5000 + " }}": "RecursionError: |MemoryError: ",
    "{% if %}": "Expected an expression",
}


@pytest.mark.parametrize("jinja", FAILING)
def test_a_template_that_fails_is_one_error(jinja: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.tokenizer.chat_templates._MOST_STEPS", 5000)
    with pytest.raises(UsageError, match=f"does not take these messages: .*({FAILING[jinja]})"):
        with_template(jinja).apply_chat_template(DIALOG)


def test_counting_loops_changes_no_template() -> None:
    jinja = (
        "{% for a in messages if a.role != 'tool' %}{{ loop.index }}/{{ loop.length }}{{ loop.last }}"
        "{{ loop.revindex }}"
        "{% else %}none{% endfor %}{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}"
        "{% for x in missing %}{% else %}none{% endfor %}{% for x in [[1, [2]]] recursive %}"
        "{{ loop(x) if x is iterable else x }}{% endfor %}"
    )
    expected = jinja2.sandbox.ImmutableSandboxedEnvironment().from_string(jinja).render(messages=DIALOG)
    assert with_template(jinja).apply_chat_template(DIALOG, tokenize=False) == expected


@functools.cache
def peer() -> tiktoken.Encoding:
    ranks = {token: id_ for id_, token in llama().tokenizer.vocabulary.tokens.items()}
    specials = {text: len(ranks) + index for index, text in enumerate(SPECIAL_TOKENS)}
    return tiktoken.Encoding("x", pat_str=PRESETS["llama3"].expression, mergeable_ranks=ranks, special_tokens=specials)


def test_special_tokens_and_their_ids() -> None:
    ours = llama()
    assert (len(SPECIAL_TOKENS), len(set(SPECIAL_TOKENS)), ours.n_words) == (256, 256, 416 + 256)
    listed = [*SPECIAL_TOKENS[:11], SPECIAL_TOKENS[-1]]
    assert listed == [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>",
        "<|reserved_special_token_2|>",
        "<|reserved_special_token_3|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|reserved_special_token_4|>",
        "<|eot_id|>",
        "<|reserved_special_token_5|>",
        "<|reserved_special_token_250|>",
    ]
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
    ours = llama()
    large = ["a" * 60_000, " " * 25_001 + "the " * 150_000]
    for text in [*samples.HARD_TEXTS, *samples.all_planes(5, 60), "x<|eot_id|>y", *large]:
        plain = expected(text, disallowed_special=())
        assert ours.encode(text, bos=False, eos=False) == plain
        assert ours.encode(text, bos=True, eos=True) == [ours.bos_id, *plain, ours.eos_id]
        assert ours.encode(text, bos=False, eos=False, allowed_special="all") == expected(text, allowed_special="all")
        assert ours.decode(plain) == text


def test_bos_and_eos_are_required_and_special_tokens_selectable() -> None:
    ours = llama()
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
