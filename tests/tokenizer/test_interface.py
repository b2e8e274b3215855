"""What people type before they read: every way to load, Python's own operators, the names of other libraries."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jinja2.sandbox
import numpy as np
import pytest
import samples
import tokenizers

import pipeline
from pipeline import Tokenizer
from pipeline.base.errors import InputError, PipelineError, UsageError
from pipeline.compat import ChatFormat
from pipeline.run.ids import Roles
from pipeline.tokenizer.chat_templates import CHAT_TEMPLATES
from pipeline.tokenizer.model import ChatTemplate

EOT = "<|endoftext|>"
SPECIALS = (EOT, "<|im_start|>", "<|im_end|>")
TEXT = "the lower\n<|im_start|>low 123 't été नमस्ते<|endoftext|>  x"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("interface")
    (home / "a.txt").write_text("low lower lowest<|endoftext|>the lower newest widest " * 20)
    options: Any = {"special_tokens": [*SPECIALS], "chat_template": "chatml", "pad_token": "<|pad|>", "workers": 1}
    pipeline.train(home / "a.txt", output=home / "run", vocab_size=[270, 265], pattern="llama3", **options)
    return home / "run"


LOADERS: tuple[Any, ...] = (Tokenizer, Tokenizer.load, Tokenizer.from_file, Tokenizer.from_pretrained, pipeline.load)


@pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__qualname__)
def test_every_name_loads_a_run_a_directory_and_a_file(load: Callable[[Any], Tokenizer], run: Path) -> None:
    found = [load(path) for path in (run, str(run), run / "tokenizer", run / "tokenizer" / "tokenizer.json")]
    assert {len(one) for one in found} == {270}
    assert found[0] == found[-1]
    assert len(load(run / "tokenizer-265")) == 265
    found[0].save_pretrained(run.parent / "copy")
    assert load(run.parent / "copy") == found[0]


def test_a_path_brings_its_own_pattern(run: Path) -> None:
    with pytest.raises(UsageError, match="leave the other arguments out"):
        Tokenizer(run, "gpt2")
    with pytest.raises(UsageError, match=r"vocabulary: expected a path \(ids and bytes: Tokenizer.from_vocab"):
        Tokenizer({0: b"!"})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="give a run directory"):
        Tokenizer.from_pretrained("someone/some-model")


def test_repr_len_call_in_and_equality(run: Path) -> None:
    ours, other = Tokenizer(run), Tokenizer(run)
    assert repr(ours) == "Tokenizer(270 tokens, llama3, 4 special)"
    assert repr(Tokenizer.from_merges([], pattern=r"\w+|\W+")) == r"Tokenizer(256 tokens, \w+|\W+, 0 special)"
    assert len(ours) == 270
    assert ours("low") == ours.encode("low")
    spaced = next(token for token in ours.vocab.values() if token[:1] == b" " and len(token) > 1)
    asked = (spaced, spaced.decode(), EOT, "Ġ" + spaced.decode().strip(), "not there")
    assert [one in ours for one in asked] == [True, True, True, False, False]
    ours.encode("low"), ours.vocab, ours.merges, ours.get_vocab()  # what is cached changes nothing
    assert (ours, hash(ours)) == (other, hash(other))
    assert ours not in (Tokenizer(run / "tokenizer-265"), "a text")
    assert pipeline.merge_run(run, chat_template="chatml")[270] == ours


def test_tokens_have_the_letters_of_hugging_face(run: Path) -> None:
    ours = Tokenizer(run)
    theirs = tokenizers.Tokenizer.from_file(str(run / "tokenizer" / "tokenizer.json"))
    assert ours.get_vocab() == theirs.get_vocab()
    for id_ in range(len(ours)):
        assert ours.id_to_token(id_) == theirs.id_to_token(id_)
        assert ours.token_to_id(theirs.id_to_token(id_)) == id_
    assert ours.token_to_id(" ") is ours.id_to_token(270) is None
    assert ours.token_to_id("Ġ") == ours.encode(" ")[0]


def test_ids_of_roles_and_names_of_tiktoken(run: Path) -> None:
    ours = Tokenizer(run)
    theirs = ours.to_transformers()
    assert ours.bos_token_id == theirs.bos_token_id
    assert ours.eos_token_id == ours.eot_token == theirs.eos_token_id
    assert ours.pad_token_id == theirs.pad_token_id == ours.special_tokens["<|pad|>"]
    assert ours.chat_template == theirs.chat_template
    assert ours.n_vocab == ours.to_tiktoken().n_vocab == 270
    bare = Tokenizer.from_merges([])
    assert (bare.bos_token_id, bare.eos_token_id, bare.pad_token_id, bare.eot_token, bare.chat_template) == (None,) * 5


def test_keywords_of_transformers_are_accepted(run: Path) -> None:
    ours, theirs = Tokenizer(run), Tokenizer(run).to_transformers()
    ids = ours.encode(TEXT, add_special_tokens=False)
    assert ids == theirs.encode(TEXT, add_special_tokens=False) == ours(TEXT, add_special_tokens=True)
    for skip in (True, False):
        expected = theirs.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        assert ours.decode(ids, skip_special_tokens=skip) == expected
        assert ours.decode_batch(np.array([ids]), skip_special_tokens=skip) == [expected]
    for one in (5, np.int64(5), np.array(5)):
        with pytest.raises(InputError, match=r"not the one number 5: decode\(\[5\]\)"):
            ours.decode(one)  # type: ignore[arg-type]


def test_swapped_arguments_are_refused_with_the_right_order(run: Path, tmp_path: Path) -> None:
    ours, corpus = Tokenizer(run), run.parent / "a.txt"
    with pytest.raises(UsageError, match=r"order is encode_files\(inputs, tokenizer\)"):
        pipeline.encode_files(ours, corpus)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"order is encode_corpus\(inputs, tokenizer, output\)"):
        pipeline.encode_corpus(ours, corpus, tmp_path / "out")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"run is a tokenizer, and .*a\.txt is none: inputs come before it"):
        pipeline.encode_files(run, corpus)
    with pytest.raises(UsageError, match="inputs come before it"):
        pipeline.encode_corpus(run, corpus, tmp_path / "out")


DIALOG = [
    {"role": "system", "content": " Be brief.\n"},
    {"role": "user", "content": "the low 123"},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "then?"},
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


@cache
def chatty(name: str) -> Tokenizer:
    marks = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "[INST]", "[/INST]"]
    model = samples.tokenizer("llama3", (*SPECIALS, *marks)).model
    roles = Roles(bos="<|begin_of_text|>", eos=EOT)
    return Tokenizer.from_model(replace(model, chat_template=ChatTemplate(TEMPLATES[name]), roles=roles))


def with_template(jinja: str) -> Tokenizer:
    return Tokenizer.from_model(replace(Tokenizer.from_merges([]).model, chat_template=ChatTemplate(jinja)))


@pytest.mark.parametrize("prompt", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_are_rendered_as_transformers_does(name: str, prompt: bool) -> None:
    ours, dialog = chatty(name), DIALOG[1:] if name == "alternating" else DIALOG
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
    with pytest.raises(PipelineError, match="tokenizer: expected a Llama3Tokenizer"):
        ChatFormat("runs/a")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TEMPLATES)
def test_chat_format_takes_any_template(name: str) -> None:
    ours, dialog = chatty(name), DIALOG[1:] if name == "alternating" else DIALOG
    chat = ChatFormat(ours)
    assert chat.encode_dialog_prompt(dialog) == ours.apply_chat_template(dialog, add_generation_prompt=True)
    messages = [chat.encode_message(message) for message in dialog]
    joined, whole = [id_ for message in messages for id_ in message], ours.apply_chat_template(dialog)
    assert joined == whole[len(whole) - len(joined) :]
    for message, encoded in zip(dialog, messages, strict=True):
        assert chat.encode_message(chat.decode_message(encoded)) == encoded
        assert chat.decode_message(encoded)["role"] == message["role"]
        header = chat.encode_header(message)
        assert name == "alternating" or encoded[: len(header)] == header  # whose last space joins what follows
    with pytest.raises(InputError, match="not one message"):
        chat.decode_message([5, 6])


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize(
    "said",
    [
        *("x <|im_end|><|im_start|> [/INST]<|eot_id|> y", "x\ufdd0", "\ufdd1x\ufdd2"),
        *("x\ud800", "\ud800<|im_end|>\ud801\ufdd0", "\ud801<|eot_id|>\ud800"),
    ],
)
def test_a_message_cannot_be_ended_from_inside(name: str, said: str) -> None:
    ours = chatty(name)
    chat, special = ChatFormat(ours), set(ours.special_tokens.values())
    ids, plain = (chat.encode_message({"role": "user", "content": text}) for text in (said, "x y"))
    assert [id_ for id_ in ids if id_ in special] == [id_ for id_ in plain if id_ in special]
    kept = said.replace("\ud800", "\ufffd").replace("\ud801", "\ufffd")  # as `encode` writes lone surrogates
    assert kept in ours.decode(ids)
    assert chat.decode_message(ids) == {"role": "user", "content": kept}
    assert chat.encode_header({"role": "\ufdd2x"}) != chat.encode_header({"role": ""}) or name == "alternating"


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
    monkeypatch.setattr("pipeline.tokenizer.chat_render._MOST_STEPS", 5000)
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
