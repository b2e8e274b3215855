"""Documents that encoding leaves out or cuts: those that counting leaves out and cuts."""

import contextlib
import re
from pathlib import Path

import encoded
import published
import pytest
from encoded import expected, write_lines
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from selecting import selected

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, RunDirectoryError
from bpe_pipeline.corpus.documents import DocumentJudge

END, MARK = "END", "MARK"  # in a text: the separator of a tokenizer, and another token of it
PARTS = [END, END, MARK, "ab", " er", "é", "日本", "\n", "x1 y2 z3"]
TEXTS = st.lists(st.lists(st.sampled_from(PARTS), max_size=40).map("".join), min_size=1, max_size=4)
MADE = ["ours", "ours", ("qwen2", "plain"), ("roberta", "plain")]


def write(home: Path, texts: list[str], kind: str) -> Path:
    if kind == "jsonl":
        return write_lines(home / "a.jsonl", texts).parent
    for number, text in enumerate(texts):
        (home / f"{number}.txt").write_text(text, newline="")
    return home


@pytest.mark.filterwarnings("ignore:.* without a byte", "ignore:.*special tokens", "ignore:.* is the separator and")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=TEXTS.filter(any),
    kind=st.sampled_from(["txt", "jsonl"]),
    made=st.sampled_from(MADE),
    judge=st.builds(
        DocumentJudge,
        sample=st.sampled_from([None, 0.1, 0.5]),
        seed=st.integers(0, 2),
        max_document_chars=st.sampled_from([None, 2, 9]),
    ),
    cut=st.fixed_dictionaries({"chunk_size": st.integers(1, 90), "workers": st.integers(1, 3)}),
)
def test_any_text_in_any_chunks(tokenizer, tmp_path_factory, texts, kind, made, judge, cut) -> None:
    names = (encoded.EOT, encoded.IM) if made == "ours" else (published.EOT, published.BOS)
    ours = tokenizer if made == "ours" else published.pair(*made)[1]
    if made != "ours":  # END * 2 is a token too, and not here
        texts = [re.sub(f"({END})+", END, text) for text in texts]
    texts = [text.replace(END, names[0]).replace(MARK, names[1]) for text in texts]
    home, options = write(tmp_path_factory.mktemp("any"), texts, kind), {**vars(judge), **cut, "separator": names[0]}
    parts = [selected([text.encode()], judge, [names[0].encode()], [names[1].encode()]) for text in texts]
    assume(made == "ours" or not any(names[0] * 2 in part.text.decode(errors="replace") for part in parts))
    wanted = expected(ours, [part.text for part in parts if part.text], names[0])
    with contextlib.nullcontext() if wanted else pytest.raises(InputError, match=r"sample is empty|holds no text"):
        assert bpe_pipeline.encode(home, ours, **options).ids.tolist() == wanted


def test_what_is_counted_is_what_is_encoded(tmp_path: Path) -> None:
    documents = [f"{number} low lower" + " lowest" * (number % 50) for number in range(400)]
    home, options = write(tmp_path, ["<|endoftext|>".join(documents)], "txt"), {"sample": 0.3, "seed": 4}
    tokenizer = bpe_pipeline.train(home / "0.txt", output=tmp_path / "run", vocab_size=300, **options)
    found = selected([one.encode() for one in documents], DocumentJudge(**options), [])
    shards = {}
    for name, more in {
        "sample": options,
        "shuffled": options | {"shuffle": True},
        "cut": options | {"max_document_chars": 12, "chunk_size": 900},
    }.items():
        output = tmp_path / "shards" / name
        corpus = bpe_pipeline.encode(home / "0.txt", tmp_path / "run", output, **more)
        decoded = b"".join(bpe_pipeline.decode(output, tokenizer)).decode().split("<|endoftext|>")
        shards[name] = corpus, sorted(decoded[:-1])
    taken = sorted(document.decode() for document, _ in found.documents)
    assert shards["sample"][1] == shards["shuffled"][1] == taken
    assert shards["cut"][1] == sorted(text[:12] for text in taken)
    assert vars(shards["sample"][0].not_taken) == found.not_taken()
    assert shards["cut"][0].not_taken.cut_documents == sum(len(text) > 12 for text in taken)
    with pytest.raises(RunDirectoryError, match=r"with --sample 0.3, not 0.4"):
        bpe_pipeline.encode(home / "0.txt", tmp_path / "run", tmp_path / "shards" / "sample", sample=0.4, seed=4)


def test_an_empty_sample_says_so_with_numbers(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some text")
    with pytest.raises(InputError, match=r"the sample is empty: 1 document not in the sample \(9 B, 9 characters\)"):
        bpe_pipeline.encode(tmp_path / "a.txt", saved, tmp_path / "shards", sample=0.001)
