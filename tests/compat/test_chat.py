"""Chat templates and formats of dialogs, against transformers."""

import functools
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2.sandbox
import pytest
import samples
from chat_cases import llama
from samples import Tensor

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.compat import ChatFormat, ChatMLFormat
from bpe_pipeline.compat.llama3 import SPECIAL_TOKENS
from bpe_pipeline.run.ids import Roles
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS
from bpe_pipeline.tokenizer.model import ChatTemplate
from bpe_pipeline.tokenizer.named_templates import named_template

EOT = "<|endoftext|>"
DIALOG = [
    {"role": "system", "content": " Be brief.\n"},
    {"role": "user", "content": "the\n\nlow 123 't été\u3000"},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "\x1c\n then?"},
]
TEMPLATES = {  # of models that are widely used: bos, a default system prompt, marks of the assistant, exceptions, tools
    "llama3": named_template("llama3").jinja,
    "chatml": named_template("chatml").jinja,
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
TRIMMING = (  # as Meta's code does
    "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ '\n\n' }}"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{{ '\n\n' }}{% endif %}"
)


@functools.cache
def chatty(name: str) -> Tokenizer:
    """A tokenizer with the template of a format."""
    jinja = {**TEMPLATES, "Llama 3's tokenizer": TRIMMING, "ChatML": TEMPLATES["chatml"]}[name]
    special = (*SPECIAL_TOKENS, EOT, "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]")
    model = samples.tokenizer("llama3", special).model
    roles = Roles(bos="<|begin_of_text|>", eos=EOT)
    return Tokenizer.from_model(replace(model, chat_template=ChatTemplate(jinja), roles=roles))


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
def test_a_dialog_prompt_has_the_ids_of_the_template(name: str) -> None:
    dialog = dialog_of(name)
    expected = chatty(name).apply_chat_template(dialog, add_generation_prompt=True)
    assert chat_format(name).encode_dialog_prompt(dialog) == expected


@pytest.mark.parametrize("name", FORMATS_OF_DIALOGS)
def test_messages_end_to_end_are_the_dialog(name: str) -> None:
    dialog = dialog_of(name)
    joined = [id_ for message in dialog for id_ in chat_format(name).encode_message(message)]
    whole = chatty(name).apply_chat_template(dialog)
    assert joined == whole[len(whole) - len(joined) :]  # behind what starts a dialog


@pytest.mark.parametrize("name", FORMATS_OF_DIALOGS)
def test_a_message_is_decoded_from_its_ids(name: str) -> None:
    chat = chat_format(name)
    for message in dialog_of(name):
        ids = chat.encode_message(message)
        decoded = chat.decode_message(ids)
        assert (decoded["role"], decoded["content"].strip()) == (message["role"], message["content"].strip())
        assert decoded == chat.decode_message(Tensor(ids))
        assert chat.encode_message(decoded) == ids


@pytest.mark.parametrize("name", sorted({*FORMATS_OF_DIALOGS} - {"alternating"}))  # whose header joins what follows
def test_a_message_starts_with_its_header(name: str) -> None:
    chat = chat_format(name)
    for message in DIALOG:
        header = chat.encode_header(message)
        assert chat.encode_message(message)[: len(header)] == header


@pytest.mark.parametrize("name", FORMATS_OF_DIALOGS)
def test_ids_that_are_not_one_message_are_refused(name: str) -> None:
    chat = chat_format(name)
    ids = chat.encode_message(dialog_of(name)[1])
    for broken in ([], [5, 6], ids[1:], ids[:-1], [*ids, *ids], [ids[0], *ids[-1:]], ids[:1] + ids[-2:]):
        with pytest.raises(InputError, match="not one message"):
            chat.decode_message(broken)


@pytest.mark.parametrize("name", FORMATS_OF_DIALOGS)
def test_a_format_can_be_pickled(name: str) -> None:
    chat, message = chat_format(name), dialog_of(name)[0]
    assert pickle.loads(pickle.dumps(chat)).encode_message(message) == chat.encode_message(message)


def test_messages_and_headers_are_written_as_llama_3_does() -> None:
    chat = chat_format("Llama 3's tokenizer")
    text = "<|start_header_id|>user<|end_header_id|>\n\nlow 1<|eot_id|>"
    message = {"role": "user", "content": " low 1\n"}
    assert chat.encode_message(message) == llama().encode(text, bos=False, eos=False, allowed_special="all")
    assert chat.encode_header(message) == chat.encode_message({"role": "user", "content": ""})[:-1]


def test_a_message_of_several_windows_is_encoded_as_its_text_alone() -> None:
    chat = chat_format("Llama 3's tokenizer")
    long = "the words <|eot_id|>" * 21_000  # of more than one window, which does not start at the blank line
    plain = llama().encode(long, bos=False, eos=False)
    role = {"role": "\n\n a<|end_header_id|>\n\n"}
    ids = chat.encode_message(role | {"content": long})
    assert ids == [*chat.encode_header(role), *plain, llama().special_tokens["<|eot_id|>"]]
    assert chat.decode_message(ids) == role | {"content": long}


def test_a_missing_content_or_mark_is_named() -> None:
    with pytest.raises(UsageError, match="lacks the text 'content'"):
        chat_format("Llama 3's tokenizer").encode_message({"role": "user"})
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


@pytest.fixture(params=["llama3", "chatml"])
def template(request: pytest.FixtureRequest) -> str:
    """The name of a template that a tokenizer is exported with."""
    return str(request.param)


@pytest.fixture
def exported(template: str, tmp_path: Path) -> Tokenizer:
    """A tokenizer with a template and no roles, written for transformers and read again."""
    FORMATS["hf"].write(replace(chatty(template).model, roles=Roles()), tmp_path)
    return Tokenizer.load(tmp_path)


def test_an_exported_template_is_read_and_saved_unchanged(template: str, exported: Tokenizer, tmp_path: Path) -> None:
    assert exported.model.chat_template == named_template(template)
    exported.save(tmp_path / "again")
    for path in (tmp_path / "again").iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_a_tokenizer_in_transformers_has_all_ids_and_no_name(exported: Tokenizer) -> None:
    theirs = exported.to_transformers()
    assert (theirs.name_or_path, len(theirs)) == ("", exported.vocab_size)


def test_transformers_is_named_where_it_is_missing(exported: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match="pip install transformers"):
        exported.to_transformers()


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
    monkeypatch.setattr("bpe_pipeline.tokenizer.jinja_environment._MOST_STEPS", 5000)
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
