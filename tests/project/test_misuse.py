"""A wrong type for any argument of any public function is one line that names the argument, never a bare TypeError."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bpe_pipeline
from bpe_pipeline import Tokenizer, compat
from bpe_pipeline.base.errors import PipelineError
from bpe_pipeline.compat import ChatFormat, ChatMLFormat, GPT2Tokenizer, Llama3Tokenizer
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS, default_formats
from bpe_pipeline.tokenizer.named_templates import named_template

MERGES = [(b"l", b"o"), (b"lo", b"w"), (b"e", b"r")]
CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
KINDS: tuple[tuple[str, tuple[Any, ...]], ...] = (  # names of arguments, and values that a person might type
    ("add_generation_prompt add_special_tokens mask_history", ("yes", 0, 1, None)),
    ("check progress skip_special_tokens tokenize train_on_prompt", ("yes", 0, 1, None)),
    ("keep_ids", ("yes", 0, 1)),
    ("continue_final_message", (5, None, [], 1.5, b"x", "nonsense")),
    ("overwrite whole_characters", ("yes", 0, 1)),
    ("bos eos whole_pre_tokens", ()),
    ("errors formatting return_type special_ids special_tokens_in_messages", ("nonsense", 5, None, [])),
    ("add min_count", (-1, "x", None, 1.5, [])),
    ("min_frequency", (-1, "x", 1.5, [])),
    ("added_special_tokens", (5, [5], [""], {"a"}, {"a": "b"}, ["\ud800"], b"x", 1.5)),
    ("id", ("x", None, 1.5, [1])),
    ("global_merges window", (-1, "x", None, 1.5, True)),
    ("keep num_threads sequence_length", (0, -1, "x", 1.5, [])),
    ("first_id", (-1, 1, "x", 1.5, [])),
    ("alpha", (0, -1, "x", True, float("inf"))),
    ("stop_at_saving", (0, 2, 5, "x", [], b"x")),
    ("memory_limit", ("x", -1, [], 1.5)),
    ("dtype", ("uint8", "float32", "nonsense", 5, [], object())),
    ("base first path second", (5, None, "", b"x", ["x"], "missing", "a\0b")),
    ("run shards", (5, "", b"x", ["x"], "missing", "a\0b")),
    ("directory", (5, None, "", b"x", ["x"], "a\0b")),
    ("output figures", (5, b"x", "", [], "a\0b")),
    ("like", (5, b"x", "", [], "missing", "a\0b")),
    ("inputs", (5, b"x", [5], [None], {"a": 1}, {"x"}, [], "", "missing.txt")),
    ("exclude", (5, b"x", "", [5])),
    ("runs", (5, None, "", b"x", [5], [None], [], "missing")),
    ("files", (5, [5], [], {"a": 1})),
    ("candidates compare held_out samples", (5, b"x", [5], "missing", [])),
    ("name", (5, b"x", [])),
    ("tokens", ("x", 0, 5)),
    ("languages", (5, None, "x", [], {}, {"one": 5}, {5: "run"}, {"one": "missing"})),
    ("dev", (5, "x", [], {}, {"one": 5}, {"other": "run"})),
    ("ratio", (5, "x", [], {}, {"one": 0}, {"one": "x"}, {"other": 1})),
    ("weights", (5, "x", ["x"], [None], [1, 2, 3], [-1], {"a": 1})),
    ("temperature temperatures", (0.5, "x", [None], b"2", {"a": 1})),
    ("shares", (5, "x", [5], {"one": 0}, {"one": "x"}, {"other": "10%"})),
    ("text", (5, None, ["x"], {"x": 1}, 1.5)),
    ("texts", (5, "x", b"x", [5], [None], [["x"]], 1.5)),
    ("blocks", (5, None, [5], [["x"]])),
    ("documents", (5, None, "text", b"text", {"text": "x"}, [5], 1.5)),
    ("counts", (5, None, b"x", {"a": "b"}, {5: 5}, {"a": 0}, [5], {"x"}, [])),
    ("ids", (5, "12", None, ["x"], [1.5], [None], [[1]], 1.5, [9999], [-1], {"a": 1}, b"\xff\xff")),
    ("batch", (5, "12", [5], [["x"]], [[1.5]], None, [[9999]])),
    ("token", (5, None, b"x", [])),
    ("pad_token", (5, [], "", "\ud800", b"x")),
    ("special_tokens", (5, [5], [""], ["a", "a"], {"a": "b"}, ["\ud800"], b"x", 1.5)),
    ("allowed_special", (5, "<|endoftext|>", b"all", [5], [["x"]])),
    ("disallowed_special", (5, "<|endoftext|>", [5], [["x"]], ["\ud800"])),
    ("protect", (5, b"x", [5], [""], "missing")),
    ("pattern", (5, [], b"x", "(", {})),
    ("merges", (5, None, "ab", [5], [("a", "b")], [(b"a",)], [(b"a", b"b", b"c")], [(5, 6)], [([], [])], {b"a": 1})),
    ("vocab", (5, None, "x", [1], {b"a": 1}, {"a": 1}, {1: "a"}, {}, {0: b""}, {"0": b"a"})),
    ("vocabulary", (5, None, "", b"x", {}, {0: b"a"}, [], "missing")),
    ("model", (5, None, "x", {})),
    ("tokenizer", (5, None, "", b"x", "missing", [], {})),
    ("pre_tokenizer trainer", (5, None, "x")),
    ("rows", (5, None, "x", [5], ["x"])),
    ("messages", (5, None, "x", [5], ["x"], [{}], {"role": "user", "content": "x"})),
    ("dialog", (5, None, "x", [5], ["x"], [{}], [{"role": 5, "content": "x"}], {"role": "user"})),
    ("message", (5, None, "x", [], {}, {"role": "user"}, {"role": 5, "content": "x"}, {"role": "user", "content": 5})),
    ("row", (5, None, "x", [], {}, {"instruction": 5})),
    ("columns", (5, "x", [], {"prompt": 5})),
    ("tags", (5, "x", [])),
    ("template", (5, None, "", "x", [])),
    ("template_kwargs", (5, [], b"x", "x", "[1]", {"messages": []})),
)
WRONG = {name: values for names, values in KINDS for name in names.split()}
MESSAGE = {"role": "user", "content": "low"}
ROW = {"instruction": "low", "input": "", "output": "er"}
GOOD: dict[str, Any] = {  # of each argument whose default is not what is tried
    "add": 1,
    "add_special_tokens": True,
    "base": "tokenizer",
    "batch": [[1]],
    "blocks": ["low"],
    "bos": False,
    "counts": {"low": 1},
    "dialog": [MESSAGE],
    "directory": "saved",
    "documents": ["low"],
    "eos": False,
    "id": 1,
    "ids": [1],
    "inputs": "corpus.txt",
    "keep": 260,
    "languages": {"one": "run"},
    "merges": MERGES,
    "message": MESSAGE,
    "messages": [MESSAGE],
    "num_threads": 1,
    "output": "new",
    "path": "tokenizer",
    "pattern": "gpt2",
    "pre_tokenizer": None,
    "row": ROW,
    "rows": [ROW],
    "run": "run",
    "runs": ["run"],
    "sequence_length": 100,
    "shards": "shards",
    "template": "chatml",
    "text": "low",
    "texts": ["low"],
    "token": "low",
    "trainer": None,
    "first": "tokenizer",
    "second": "tokenizer",
}
OF_ONE: dict[str, dict[str, Any]] = {  # where a function takes something else under the same name
    **{name: {"output": "new"} for name in ("train", "count", "parity", "combine")},
    **{name: {"output": "new"} for name in ("extend", "prune", "sweep", "export")},
    "open_shards": {"path": "shards"},
    "from_tiktoken_file": {"path": "ranks", "special_tokens": {}},
    "info": {"path": "run"},
    "doctor": {"counts": None},
    "report": {"run": "trained"},
    "from_vocab": {"special_tokens": CHATML},
    "Llama3Tokenizer": {"path": "ranks"},
    "GPT2Tokenizer": {"directory": "tokenizer"},
}
OTHER = {"encode_header"}  # reads only the role
Subject = tuple[str, Callable[..., Any], dict[str, Any]]  # its name, and good arguments


def _subject(call: Callable[..., Any], owner: str = "", **objects: Any) -> Subject:
    parameters = inspect.signature(call).parameters.values()
    defaults = {
        each.name: GOOD.get(each.name, each.default) for each in parameters if each.kind is not each.VAR_KEYWORD
    }
    objects = {name: value for name, value in objects.items() if name in defaults}
    return f"{owner}{call.__name__}", call, defaults | OF_ONE.get(call.__name__, {}) | objects


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Subject]]:
    """Every public function, class and method, each with good arguments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("misuse"))
        tokenizer = Tokenizer.from_merges(MERGES, CHATML)
        for write in [FORMATS[name].write for name in default_formats()]:
            write(tokenizer.model, Path("tokenizer"))
        Path("corpus.txt").write_text("low lower<|endoftext|>low")
        bpe_pipeline.combine({"low": 5, "lower": 2}, output="run")
        bpe_pipeline.merge(bpe_pipeline.combine({"low": 5, "lower": 2}, output="trained"), vocab_size=258)
        bpe_pipeline.encode("corpus.txt", tokenizer, "shards", workers=1)
        Path("ranks").write_text(Path("tokenizer/tokenizer.tiktoken").read_text().rstrip("\n") + "\n")
        chatty = Tokenizer.from_model(replace(tokenizer.model, chat_template=named_template("chatml")))
        llama = Llama3Tokenizer("ranks")
        same = {name: getattr(tokenizer, name) for name in ("vocabulary", "vocab", "model")} | {"tokenizer": chatty}
        things = [getattr(bpe_pipeline, name) for name in bpe_pipeline.__all__ if name != "__version__"]
        things = [one for one in things if not (inspect.isclass(one) and issubclass(one, Exception))]
        things += [getattr(compat, name) for name in compat.__all__]
        subjects = [_subject(thing, **same) for thing in things]
        chats = (ChatFormat(llama), ChatMLFormat(tokenizer), ChatFormat(chatty))
        for thing in (chatty, llama, GPT2Tokenizer("tokenizer"), *chats):
            if isinstance(thing, (ChatFormat, ChatMLFormat)):
                same["ids"] = thing.encode_message(MESSAGE)
            methods = [method for name, method in inspect.getmembers(thing, inspect.ismethod) if name[0] != "_"]
            owner = f"{type(thing).__name__}."
            subjects += [_subject(method, owner, **same) for method in methods if method.__name__ not in OTHER]
        stream = (
            "StreamDecoder.push",
            lambda **arguments: tokenizer.stream_decoder().push(*arguments.values()),
            {"id": 1},
        )
        yield [*subjects, stream, ("in", lambda text: text in tokenizer, {"text": "low"})]


def _bare(call: Callable[..., Any], arguments: dict[str, Any]) -> str | None:
    """Return what is wrong with the answer to a call with a wrong argument."""
    try:
        result = call(**arguments)
        result = list(result) if isinstance(result, Iterator) else result
    except PipelineError as error:
        text = str(error)
        return None if text and "\n" not in text else f"message of several lines: {text[:80]!r}"
    except Exception as error:  # which is the defect
        return f"{type(error).__name__}: {str(error)[:80]}"
    return f"accepted: {str(result)[:60]}"


OPTIONS = {  # None is their default
    "encode_chat": "mask_history special_tokens_in_messages template_kwargs train_on_prompt",
    "parity": "global_merges window",
}
ACCEPTED = {(name, option, "None") for name, options in OPTIONS.items() for option in options.split()}


def test_wrong_types_are_errors_of_the_family(subjects: list[Subject]) -> None:
    calls, wrong = 0, []
    for name, call, good in subjects:
        for argument in good:
            for value in WRONG[argument]:
                if value is None and good[argument] is None:  # the default
                    continue
                if (name, argument, str(value)) in ACCEPTED:
                    continue
                calls += 1
                if defect := _bare(call, good | {argument: value}):
                    wrong.append(f"{name}({argument}={value!r}): {defect}")
    assert not wrong, "\n" + "\n".join(wrong)
    assert calls > 400
