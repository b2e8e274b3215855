"""Compare exported files, id by id, in the libraries that they are for.

The texts are edge cases and a sample of the corpus, or of files that the caller names.
"""

import json
import runpy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.events import Listener, Notice, warn_of
from bpe_pipeline.corpus.listing import find_sample
from bpe_pipeline.corpus.sampling import choose, read_chosen
from bpe_pipeline.pattern.translate import not_in_tokenizers_1
from bpe_pipeline.run import manifest
from bpe_pipeline.storage import MODEL_BYTES, Location, names_in, read_bounded
from bpe_pipeline.tokenizer.conversions import of_whole_texts
from bpe_pipeline.tokenizer.export import Check
from bpe_pipeline.tokenizer.formats.fields import GGUF_NAME, SNIPPET_NAME
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

Encode = Callable[[str], list[int]]
Load = Callable[[Path, Tokenizer], Encode]
CONFIGURED = "vocab.json, merges.txt"  # as transformers reads them by the configuration next to them

_SAMPLE_BYTES = 1 << 20
HARD_TEXTS = (
    "", " ", "\n", "\x00\x00\x01", "x\n  ", "x\n  \n y  \t z   ", "a\r\n\r\nb\r\n", "DON'T I'ſ 'LLama we'Re don't",
    "123４５６ 1 2 12345678 Ⅻ ½", "a\u0085b\u200bc\ufeffd\u180ee\u00a0f\u3000g\u2028h\x1ci",
    "नमस्ते e\u0301 é ö 각 한국어", "👩\u200d👩\u200d👧\u200d👦 \U0010ffff \ufffd",
    "привет, мир! Ελλάδα שלום مرحبا 你好，世界 こんにちは", "the" * 300 + " " * 300 + "a" * 300,
    "def f(x):\n\treturn {x: [1, 2.5e-3]} # ok\n", "<|not special|> <|", "\\x41 \"quoted\" 'single' `code`",
)  # fmt: skip


def texts_to_check(run: manifest.Run | None, samples: Sequence[Location]) -> list[str]:
    """Return samples of files, or without any of the corpus of a run."""
    texts: list[str] = []
    for sample in samples:
        chosen = choose(find_sample([str(sample)], "--sample"), _SAMPLE_BYTES // len(samples))
        texts += [drawn.text for drawn in read_chosen(chosen, "text", skip_changed=False)]
    if run and not samples:
        chosen = choose(run.manifest.plan.files, _SAMPLE_BYTES)
        texts = [drawn.text for drawn in read_chosen(chosen, str(run.manifest.counting["text_field"]))]
    return texts


@contextmanager
def local_files(directory: Location) -> Iterator[Path]:
    """Yield a local directory, or a local copy of the files of one in a store: other libraries read local files."""
    with tempfile.TemporaryDirectory() as copied:
        local = directory if isinstance(directory, Path) else Path(copied)
        for name in names_in(directory) if local != directory else ():
            if (directory / name).is_file():
                (local / name).write_bytes(read_bounded(directory / name, MODEL_BYTES))
        yield local


def check_exports(
    tokenizer: Tokenizer,
    directory: Path,
    formats: Sequence[str],
    texts: Sequence[str],
    listener: Listener = warn_of,
) -> list[Check]:
    """Compare the files of these formats in a directory, in each library that reads them, on texts and edge cases."""
    specials = list(tokenizer.special_tokens)
    around = [f"a {text} b{text}{text}\n\n{text[:-1]} {text}" for text in specials[:8]] + ["".join(specials[:64])]
    around += ["".join(f"a {text} b{text}" for text in specials[at : at + 64]) for at in range(8, len(specials), 64)]
    all_texts = [*HARD_TEXTS, *around, *texts]
    if tokenizer.model.lossy:  # whose texts may be refused, there as here
        all_texts = [text for text in all_texts if _encodes(tokenizer, text)]
    ids = {
        started: [tokenizer.encode(text, add_special_tokens=started) for text in all_texts] for started in (True, False)
    }

    def check(name: str, library: str, load: Load) -> Check:
        try:
            version = metadata.version(library)
        except metadata.PackageNotFoundError:
            return Check(name, library, "not checked", f"{library} is not installed")
        library = f"{library} {version}"
        why = "it reads tokenizer.json only" if name == "gpt2" else not_in_tokenizers_1(tokenizer.pattern)
        if library.startswith("tokenizers 1.") and why:
            return Check(name, library, "not checked", why)
        starts = name in ("hf", CONFIGURED)  # elsewhere the caller adds what starts a text
        listener(Notice("info", f"checking {library} ..."))
        try:
            difference = _first_difference(load(directory, tokenizer), all_texts, ids[starts])
        except Exception as error:  # whatever the library raises is what its users would meet
            if "trust_remote_code" in str(error):
                why = "it would run code that comes with the tokenizer (auto_map), which is not run here"
                return Check(name, library, "not checked", why)
            difference = f"it failed with {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        same = f"the same ids on {len(all_texts):,} texts of {sum(map(len, all_texts)):,} characters"
        return Check(name, library, "different" if difference else "same", difference or same)

    return [check(name, library, load) for name in formats for library, load in _LOADERS[name].items()]


def _encodes(tokenizer: Tokenizer, text: str) -> bool:
    with suppress(InputError):
        return tokenizer.encode(text) is not None
    return False


def _first_difference(encode: Encode, texts: Sequence[str], expected: Sequence[list[int]]) -> str | None:
    for text, ids in zip(texts, expected, strict=True):
        theirs = list(encode(text))
        if theirs != ids:
            at = next(index for index, (their_id, id_) in enumerate(zip_longest(theirs, ids)) if their_id != id_)
            shown = repr(text if len(text) <= 60 else text[:57] + "...")
            return f"other ids for {shown}, from id number {at}: {theirs[at : at + 5]} instead of {ids[at : at + 5]}"
    return None


def _tokenizers_of_json(directory: Path, _: Tokenizer) -> Encode:
    from tokenizers import Tokenizer as Theirs

    theirs = of_whole_texts(Theirs.from_file(str(directory / "tokenizer.json")))
    return lambda text: theirs.encode(text).ids


def _transformers_of_directory(directory: Path, _: Tokenizer) -> Encode:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(str(directory), local_files_only=True, trust_remote_code=False)
    return lambda text: list(theirs.encode(text))


def replaced_by_transformers(directory: Path) -> str:
    """Say what the class of transformers that a directory's settings name does in another way than tokenizer.json."""
    from tokenizers import Tokenizer as Theirs
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(str(directory), local_files_only=True, trust_remote_code=False)
    file = Theirs.from_file(str(directory / "tokenizer.json"))
    states = [json.loads(tokenizer.to_str()) for tokenizer in (loaded.backend_tokenizer, file)]
    parts = [
        name.replace("_", "-") for name in ("normalizer", "pre_tokenizer") if states[0].get(name) != states[1].get(name)
    ]
    if states[0]["model"].get("unk_token") != states[1]["model"].get("unk_token"):
        parts.append("unknown token")
    if not parts:
        return ""
    forms = ["NFC" if '"NFC"' in json.dumps(state["normalizer"]) else "no form" for state in states]
    why = f", which puts text into {forms[0]} where the file says {forms[1]}" if forms[0] != forms[1] else ""
    return f"its class {type(loaded).__name__} has a {' and a '.join(parts)} of its own in place of the file's{why}"


def _tokenizers_of_gpt2(directory: Path, tokenizer: Tokenizer) -> Encode:
    from tokenizers import AddedToken, models, pre_tokenizers
    from tokenizers import Tokenizer as Theirs

    theirs = Theirs(models.BPE.from_file(str(directory / "vocab.json"), str(directory / "merges.txt")))
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in tokenizer.special_tokens])
    return lambda text: list(theirs.encode(text).ids)


def _tiktoken_of_ranks(directory: Path, _: Tokenizer) -> Encode:
    theirs = runpy.run_path(str(directory / SNIPPET_NAME))["encoding"]
    return lambda text: list(theirs.encode(text, allowed_special="all"))


def _llama_cpp_of_gguf(directory: Path, _: Tokenizer) -> Encode:
    from llama_cpp import Llama, llama_log_set

    llama_log_set(_no_log(), None)
    theirs = Llama(str(directory / GGUF_NAME), vocab_only=True, verbose=False)
    return lambda text: list(theirs.tokenize(text.encode(), add_bos=False, special=True))


@cache  # the library keeps it for as long as it is loaded
def _no_log() -> Any:
    from llama_cpp import llama_log_callback

    return llama_log_callback(lambda *_: None)


_LOADERS: dict[str, dict[str, Load]] = {
    "hf": {"tokenizers": _tokenizers_of_json, "transformers": _transformers_of_directory},
    "gpt2": {"tokenizers": _tokenizers_of_gpt2},
    CONFIGURED: {"transformers": _transformers_of_directory},
    "tiktoken": {"tiktoken": _tiktoken_of_ranks},
    "gguf": {"llama-cpp-python": _llama_cpp_of_gguf},
}
