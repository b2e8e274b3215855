"""Validation of a corpus with too few documents to choose among: the end of its text, cut where a line ends."""

import gzip
import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import command
import pytest
from encoded import EOT, TOKENIZER
from hypothesis import given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.base.errors import InputError

pytest.importorskip("numpy")
LINES = [f"line {number} of a text\n" for number in range(100)]
ORDERS: list[dict[str, Any]] = [{}, {"shuffle": True}, {"documents": "offsets"}, {"add_bos": True}]


def encoded(home: Path, texts: list[str], tokenizer: bpe_pipeline.Tokenizer = TOKENIZER, **options: Any) -> Any:
    """Encode texts, each of a file, with validation; returns what shards.json says."""
    (home / "corpus").mkdir()
    for number, text in enumerate(texts):
        (home / "corpus" / f"{number:02d}.txt").write_text(text, newline="")
    bpe_pipeline.encode(home / "corpus", tokenizer, home / "out", workers=1, **options)
    return json.loads((home / "out" / "shards.json").read_text())


def sides(output: Path, tokenizer: bpe_pipeline.Tokenizer = TOKENIZER) -> tuple[str, str]:
    """Return the text of training and of validation."""
    train, validation = (bpe_pipeline.open_shards(path) for path in (output, output / "validation"))
    return tokenizer.decode([*train]), tokenizer.decode([*validation])


@pytest.mark.parametrize("options", ORDERS, ids=str)
@pytest.mark.parametrize("chunk_size", [300, 1 << 20])
def test_one_text_is_cut_where_a_line_ends(options: dict[str, Any], chunk_size: int, tmp_path: Path) -> None:
    model = bpe_pipeline.Tokenizer.from_merges([(b"a", b"b")], [EOT, "<s>"]).model
    tokenizer = bpe_pipeline.Tokenizer.from_model(replace(model, roles=replace(model.roles, bos="<s>")))
    encoded(tmp_path, ["".join(LINES)], tokenizer, val_fraction=0.1, chunk_size=chunk_size, **options)
    begin, end = "<s>" * ("add_bos" in options), EOT * ("documents" not in options)
    parts = [f"{begin}{''.join(lines)}{end}" for lines in (LINES[:91], LINES[91:])]
    assert list(sides(tmp_path / "out", tokenizer)) == parts


PARTS = st.sampled_from([EOT, "\n", "a", " text", "日本", "\r\n"])
TEXTS = st.lists(st.lists(PARTS, min_size=1, max_size=9).map("".join), min_size=1, max_size=3)


@settings(max_examples=15, deadline=None)
@given(TEXTS, st.sampled_from([0.01, 0.3, 0.9]), st.sampled_from([1, 1000]))
def test_few_texts_are_cut_once(tmp_path_factory: Any, texts: list[str], share: float, chunk_size: int) -> None:
    """Where a line starts in the last share of all text, or else before it, or between documents, or anywhere."""
    home, whole = tmp_path_factory.mktemp("few"), "".join(texts)
    with suppress(InputError):  # one line, or nothing but separators on a side
        described = encoded(home, texts, val_fraction=share, shard_format="bin", chunk_size=chunk_size)
        path, byte = described["held_out_from"]
        before = b"".join(text.encode() for text in texts[: int(Path(path).stem)])
        before += texts[int(Path(path).stem)].encode()[:byte]
        borders = ["".join(texts[:number]) for number in range(1, len(texts))]
        is_one_line = len(texts) == 1 and "\n" not in whole[:-1] and EOT not in whole.removesuffix(EOT)
        assert is_one_line or before.decode() in borders or re.search(rf"(\n|{re.escape(EOT)})\Z", before.decode())
        size = len(whole.encode())
        late = [at for at in (line.end() for line in re.finditer(rb"\n", whole.encode())) if size * (1 - share) <= at]
        assert not late or len(before) <= late[0]
        train, validation = (text.replace(EOT, "") for text in sides(home / "out"))
        assert (train, validation) == (
            before.decode().replace(EOT, ""),
            whole.removeprefix(before.decode()).replace(EOT, ""),
        )


def test_twenty_documents_are_chosen_among_and_nineteen_are_not(tmp_path: Path) -> None:
    for count in (19, 20):
        home = tmp_path / str(count)
        home.mkdir()
        texts = [f"{number} words" for number in range(count)]
        described = encoded(home, [f"{EOT}\n".join(texts[:-1]), texts[-1]], val_fraction=0.3)
        assert ("held_out_from" in described) == (count == 19)
        assert sides(home / "out")[1].startswith("13 words") == (count == 19), sides(home / "out")


def test_the_summary_says_where_validation_starts(tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("".join(LINES))
    TOKENIZER.save(tmp_path / "tokenizer")
    words = ["encode", tmp_path / "input.txt", "--tokenizer", tmp_path / "tokenizer", "--val-fraction", "10%"]
    words += ["--single", "--shard-format", "bin", "--output", tmp_path / "out"]
    done = command.succeeded(command.run(*words))
    said = " ".join(done.stdout.split())
    assert f"from byte {len(''.join(LINES[:91])):,} of {tmp_path / 'input.txt'} on" in said
    assert "with more, whole ones are held out, which changes the split once" in said
    assert all((tmp_path / "out" / name).stat().st_size > 100 for name in ("train.bin", "val.bin"))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("one.txt.gz", {}, r"leaves nothing for .* of the 1 document of this corpus: give .* --split-at"),
        ("a.txt", {"sequence_length": 1000}, r"leaves nothing for validation of rows of 1,000 tokens: .*shorter rows"),
        ("a.txt", {"sequence_length": 1000, "shuffle": True}, r"leaves nothing for validation of rows of 1,000 tokens"),
        ("letter.txt", {}, r"leaves nothing for .* of the 1 document of this corpus: give .* --split-at"),
    ],
)
def test_a_side_without_anything_is_an_error(name: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    text = ("é" if name == "letter.txt" else "".join(LINES)).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    with pytest.raises(InputError, match=message):
        bpe_pipeline.encode(tmp_path / name, TOKENIZER, tmp_path / "out", workers=1, val_fraction=0.1, **options)
