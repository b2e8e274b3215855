"""A wrong type for any argument of any public function is one line that names the argument, never a bare TypeError."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline import ChatFormat, ChatMLFormat, GPT2Tokenizer, Llama3Tokenizer, Tokenizer
from pipeline.base.errors import PipelineError
from pipeline.tokenizer.chat_templates import CHAT_TEMPLATES
from pipeline.tokenizer.formats.save import EXPORTS, default_formats

MERGES = [(b"l", b"o"), (b"lo", b"w"), (b"e", b"r")]
CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WRONG: dict[str, tuple[Any, ...]] = {  # of each argument, by its name; values that a person might type
    "add_generation_prompt": ("yes", 1),
    "add_special_tokens": ("no", 0),
    "allowed_special": (5, "<|endoftext|>", b"all", [5], [["x"]]),
    "batch": (5, "12", [5], [["x"]], [[1.5]], None, [[9999]]),
    "blocks": (5, None, [5], [["x"]]),
    "add": (-1, "x", None, 1.5, []),
    "base": (5, None, "", b"x", ["x"], "missing", "a\0b"),
    "bos": (),
    "conversations": (5, None, "x", [5], ["x"], [{"messages": 5}]),
    "columns": (5, "x", [], {"prompt": 5}),
    "counts": (5, None, b"x", {"a": "b"}, {5: 5}, {"a": 0}, [5], {"x"}, []),
    "dialog": (5, None, "x", [5], ["x"], [{}], [{"role": 5, "content": "x"}], {"role": "user"}),
    "directory": (5, None, "", b"x", ["x"], "a\0b"),
    "disallowed_special": (5, "<|endoftext|>", [5], [["x"]], ["\ud800"]),
    "documents": (5, None, "text", b"text", {"text": "x"}, [5], 1.5),
    "dtype": ("uint8", "float32", "nonsense", 5, [], object()),
    "eos": (),
    "enable_thinking": ("yes", 5, []),
    "errors": ("nonsense", 5, None, []),
    "alpha": (0, -1, "x", True, float("inf")),
    "dev": (5, "x", [], {}, {"one": 5}, {"other": "run"}),
    "global_merges": (-1, "x", 1.5, True),
    "languages": (5, None, "x", [], {}, {"one": 5}, {5: "run"}, {"one": "missing"}),
    "ratio": (5, "x", [], {}, {"one": 0}, {"one": "x"}, {"other": 1}),
    "window": (-1, "x", 1.5, True),
    "default_system": (5, [], b"x"),
    "files": (5, [5], [], {"a": 1}),
    "first_id": (-1, 1, "x", 1.5, []),
    "formatting": (5, None, "x", []),
    "id": ("x", None, 1.5, [1]),
    "ids": (5, "12", None, ["x"], [1.5], [None], [[1]], 1.5, [9999], [-1], {"a": 1}, b"\xff\xff"),
    "inputs": (5, b"x", [5], [None], {"a": 1}, {"x"}, [], "", "missing.txt"),
    "keep": (0, -1, "x", 1.5, []),
    "keep_ids": ("yes", 1, None),
    "mask_history": ("yes", 1, None),
    "memory_limit": ("x", -1, [], 1.5),
    "merges": (5, None, "ab", [5], [("a", "b")], [(b"a",)], [(b"a", b"b", b"c")], [(5, 6)], [([], [])], {b"a": 1}),
    "message": (5, None, "x", [], {}, {"role": "user"}, {"role": 5, "content": "x"}, {"role": "user", "content": 5}),
    "messages": (5, None, "x", [5], ["x"], [{}], {"role": "user", "content": "x"}),
    "model": (5, None, "x", {}),
    "min_count": (-1, "x", 1.5, []),
    "num_threads": (0, -1, "x", 1.5, []),
    "output": (5, b"x", "", [], "a\0b"),
    "pad_token": (5, [], "", "\ud800", b"x"),
    "path": (5, None, "", b"x", ["x"], "missing", "a\0b"),
    "pattern": (5, [], b"x", "(", {}),
    "pre_tokenizer": (5, None, "x"),
    "progress": ("yes", 1, None),
    "protect": (5, b"x", [5], [""], "missing"),
    "return_type": ("x", 5, None, []),
    "row": (5, None, "x", [], {}, {"instruction": 5}),
    "run": (5, None, "", b"x", ["x"], "missing", "a\0b"),
    "runs": (5, None, "", b"x", [5], [None], [], "missing"),
    "sequence_length": (0, -1, "x", None, 1.5, []),
    "skip_special_tokens": ("yes", 1, None),
    "special_ids": ("x", 5, None, []),
    "special_tokens": (5, [5], [""], ["a", "a"], {"a": "b"}, ["\ud800"], b"x", 1.5),
    "tags": (5, "x", []),
    "template": (5, None, "", "x", []),
    "text": (5, None, ["x"], {"x": 1}, 1.5),
    "texts": (5, None, "x", b"x", [5], [None], [["x"]], 1.5),
    "tokenize": ("yes", 1, None),
    "tokenizer": (5, None, "", b"x", "missing", [], {}),
    "token": (5, None, b"x", []),
    "trainer": (5, None, "x"),
    "vocab": (5, None, "x", [1], {b"a": 1}, {"a": 1}, {1: "a"}, {}, {0: b""}, {"0": b"a"}),
    "vocabulary": (5, None, "", b"x", {}, {0: b"a"}, [], "missing"),
    "weights": (5, "x", ["x"], [None], [1, 2, 3], [-1], {"a": 1}),
    "whole_pieces": (),
}


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Any, dict[str, Any]]]]:
    """Every public function and method, each with good arguments."""
    home = tmp_path_factory.mktemp("misuse")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        tokenizer = Tokenizer.from_merges(MERGES, CHATML)
        for write in [EXPORTS[name] for name in default_formats()]:
            write(tokenizer.model, Path("tokenizer"))
        Path("corpus.txt").write_text("low lower<|endoftext|>low")
        run = pipeline.import_counts({"low": 5, "lower": 2}, output="run")
        pipeline.encode_corpus("corpus.txt", tokenizer, "shards", workers=1)
        ranks = [f"{line}\n" for line in Path("tokenizer/tokenizer.tiktoken").read_text().splitlines()]
        Path("ranks").write_text("".join(ranks))
        llama, chatml = Llama3Tokenizer("ranks"), ChatMLFormat(tokenizer)
        message = {"role": "user", "content": "low"}
        row = {"instruction": "low", "input": "", "output": "er"}
        special = {"allowed_special": set(), "disallowed_special": ()}
        good: dict[str, tuple[Any, dict[str, Any]]] = {
            "train": (pipeline.train, {"inputs": "corpus.txt", "output": "new", "progress": False}),
            "train_from_iterator": (pipeline.train_from_iterator, {"documents": ["low"], "progress": False}),
            "train_from_counts": (pipeline.train_from_counts, {"counts": {"low": 1}, "progress": False}),
            "train_like": (pipeline.train_like, {"trainer": None, "pre_tokenizer": None, "files": None, "texts": None}),
            "import_counts": (pipeline.import_counts, {"counts": {"low": 1}, "output": "new"}),
            "merge_run": (pipeline.merge_run, {"run": run, "progress": False}),
            "train_parity": (
                pipeline.train_parity,
                {
                    "languages": {"one": run},
                    "dev": None,
                    "ratio": None,
                    "window": 0,
                    "alpha": 2.0,
                    "global_merges": 0,
                    "output": "new",
                },
            ),
            "combine_runs": (pipeline.combine_runs, {"runs": [run], "weights": [2], "output": "new"}),
            "export_counts": (pipeline.export_counts, {"run": run, "path": "counts.tsv", "memory_limit": None}),
            "info": (pipeline.info, {"path": run}),
            "verify_run": (pipeline.verify_run, {"run": run}),
            "encode_files": (pipeline.encode_files, {"inputs": "corpus.txt", "tokenizer": tokenizer}),
            "encode_corpus": (
                pipeline.encode_corpus,
                {"inputs": "corpus.txt", "tokenizer": tokenizer, "output": "new", "progress": False},
            ),
            "decode_shards": (
                lambda path, tokenizer: list(pipeline.decode_shards(path, tokenizer)),
                {"path": "shards", "tokenizer": tokenizer},
            ),
            "open_shards": (pipeline.open_shards, {"path": "shards", "weights": None}),
            "extend": (
                pipeline.extend,
                {"base": "tokenizer", "run": run, "add": 1, "first_id": None, "output": "new", "progress": False},
            ),
            "prune": (
                pipeline.prune,
                {"base": "tokenizer", "run": run, "keep": 257, "protect": (), "keep_ids": False, "output": "new"},
            ),
            "align_chat": (pipeline.align_chat, {"row": row, "formatting": "alpaca", "columns": None, "tags": None}),
            "encode_chat": (
                lambda **given: list(pipeline.encode_chat(**given)),
                {
                    "conversations": [pipeline.align_chat(row)],
                    "tokenizer": tokenizer,
                    "template": "chatml",
                    "sequence_length": 100,
                    "mask_history": False,
                    "default_system": None,
                    "enable_thinking": True,
                },
            ),
            "load": (pipeline.load, {"path": "tokenizer"}),
            "Tokenizer": (
                Tokenizer,
                {"vocabulary": tokenizer.vocabulary, "pattern": "gpt2", "pad_token": None},
            ),
            "from_model": (Tokenizer.from_model, {"model": tokenizer.model}),
            "from_merges": (
                Tokenizer.from_merges,
                {"merges": MERGES, "special_tokens": (), "pattern": "gpt2", "special_ids": "last", "pad_token": None},
            ),
            "from_vocab": (
                Tokenizer.from_vocab,
                {"vocab": tokenizer.vocab, "merges": MERGES, "special_tokens": CHATML, "pattern": "gpt2"},
            ),
            "from_tiktoken_file": (
                Tokenizer.from_tiktoken_file,
                {"path": "ranks", "pattern": "gpt2", "special_tokens": {}},
            ),
            "save": (tokenizer.save, {"directory": "saved"}),
            "get_vocab": (tokenizer.get_vocab, {}),
            "token_to_id": (tokenizer.token_to_id, {"token": "low"}),
            "id_to_token": (tokenizer.id_to_token, {"id": 257}),
            "contains": (lambda text: text in tokenizer, {"text": "low"}),
            "encode": (tokenizer.encode, {"text": "low", "add_special_tokens": True, **special}),
            "encode_ordinary": (tokenizer.encode_ordinary, {"text": "low"}),
            "encode_batch": (tokenizer.encode_batch, {"texts": ["low"], "num_threads": 1, **special}),
            "encode_ordinary_batch": (tokenizer.encode_ordinary_batch, {"texts": ["low"], "num_threads": 1}),
            "encode_iterable": (
                lambda blocks, **options: list(tokenizer.encode_iterable(blocks, **options)),
                {"blocks": ["low"], **special},
            ),
            "encode_to_numpy": (tokenizer.encode_to_numpy, {"text": "low", "dtype": None, **special}),
            "explain": (tokenizer.explain, {"text": "low"}),
            "count_tokens": (tokenizer.count_tokens, {"text": "low", **special}),
            "decode_bytes": (tokenizer.decode_bytes, {"ids": [1]}),
            "decode": (tokenizer.decode, {"ids": [1], "errors": "replace", "skip_special_tokens": False}),
            "decode_batch": (tokenizer.decode_batch, {"batch": [[1]], "errors": "replace"}),
            "decode_stream": (lambda ids: list(tokenizer.decode_stream(ids)), {"ids": [1]}),
            "push": (lambda **given: tokenizer.stream_decoder().push(*given.values()), {"id": 1}),
            "token_byte_offsets": (tokenizer.token_byte_offsets, {"ids": [1]}),
            "apply_chat_template": (
                _chatty(tokenizer).apply_chat_template,
                {"messages": [message], "tokenize": True, "add_generation_prompt": False},
            ),
            "Tokenizer.encode_files": (tokenizer.encode_files, {"inputs": "corpus.txt"}),
            "Tokenizer.encode_corpus": (tokenizer.encode_corpus, {"inputs": "corpus.txt", "output": "new"}),
            "ChatFormat": (ChatFormat, {"tokenizer": llama}),
            "ChatMLFormat": (ChatMLFormat, {"tokenizer": tokenizer}),
            "Llama3Tokenizer": (Llama3Tokenizer, {"path": "ranks"}),
            "Llama3Tokenizer.encode": (
                lambda text, **options: llama.encode(text, bos=False, eos=False, **options),
                {"text": "low", **special},
            ),
            "Llama3Tokenizer.decode": (llama.decode, {"ids": [1]}),
            "GPT2Tokenizer": (GPT2Tokenizer, {"directory": "tokenizer", "special_tokens": None}),
        }
        gpt2 = GPT2Tokenizer("tokenizer")
        good |= {
            "GPT2Tokenizer.encode": (gpt2.encode, {"text": "low", "return_type": "list"}),
            "GPT2Tokenizer.encode_batch": (gpt2.encode_batch, {"texts": ["low"], "num_threads": 1}),
            "GPT2Tokenizer.tokenize": (gpt2.tokenize, {"text": "low"}),
            "GPT2Tokenizer.decode": (gpt2.decode, {"ids": [1]}),
        }
        for name, chat in (("llama", ChatFormat(llama)), ("ml", chatml), ("any", ChatFormat(_chatty(tokenizer)))):
            good |= {
                f"{name}.encode_message": (chat.encode_message, {"message": message}),
                f"{name}.encode_dialog_prompt": (chat.encode_dialog_prompt, {"dialog": [message]}),
                f"{name}.decode_message": (chat.decode_message, {"ids": chat.encode_message(message)}),
            }
        yield good


def _chatty(tokenizer: Tokenizer) -> Tokenizer:
    return Tokenizer.from_model(replace(tokenizer.model, chat_template=CHAT_TEMPLATES["chatml"]))


def _bare(call: Callable[..., Any], arguments: dict[str, Any]) -> str | None:
    """Return what is wrong with the answer to a call with a wrong argument."""
    try:
        result = call(**arguments)
    except PipelineError as error:
        text = str(error)
        return None if text and "\n" not in text else f"message of several lines: {text[:80]!r}"
    except Exception as error:  # which is the defect
        return f"{type(error).__name__}: {str(error)[:80]}"
    return f"accepted: {str(result)[:60]}"


ACCEPTED = {("export_counts", "path", "missing")}  # a new file


def test_wrong_types_are_errors_of_the_family(subjects: dict[str, tuple[Any, dict[str, Any]]]) -> None:
    calls, wrong = 0, []
    for name, (call, good) in subjects.items():
        for argument in good:
            for value in WRONG[argument]:
                if value is None and good[argument] is None:  # the default
                    continue
                if (name, argument, str(value)) in ACCEPTED:
                    continue
                calls += 1
                if found := _bare(call, good | {argument: value}):
                    wrong.append(f"{name}({argument}={value!r}): {found}")
    assert not wrong, "\n" + "\n".join(wrong)
    assert calls > 400


def test_every_public_function_and_method_is_misused(subjects: dict[str, tuple[Any, dict[str, Any]]]) -> None:
    named = {name.rpartition(".")[2] for name in subjects}
    public = set(pipeline._HOMES) - {"PipelineError"}
    without_arguments = {"stream_decoder", "to_tiktoken", "to_tokenizers", "to_transformers", "encode_header"}
    same = {"from_file", "from_pretrained", "save_pretrained", "load"}
    with_a_server = {"push_to_hub"}  # tests/tokenizer/test_hub.py
    for kind in (Tokenizer, GPT2Tokenizer, Llama3Tokenizer, ChatFormat, ChatMLFormat):
        public |= {
            name
            for name, member in inspect.getmembers(kind, lambda one: inspect.isfunction(one) or inspect.ismethod(one))
            if name[0] != "_"
        }
    assert public - named - without_arguments - same - with_a_server == set()
