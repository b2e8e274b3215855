"""Superwords for a tokenizer that exists, compared with Hugging Face's trainer and with their definition."""

import json
from collections import Counter
from pathlib import Path

import peers
import published
import pytest
import tokenizers
import transformers
from amount import FULL
from command import refused, run, succeeded
from reference import GPT2_BYTES, train_reference

import bpe_pipeline
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.merges.vocabulary import token_to_text
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.presets import superword_presets
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

COARSE = superword_presets()["superbpe"].expression
LLAMA = bpe_pipeline.Tokenizer.from_merges([], pattern="llama3")
pytestmark = pytest.mark.filterwarnings("ignore:--superword-pattern would cut", "ignore:tokenizers 1.0")
EOT, USER = "<|endoftext|>", "<|user|>"


def _published(home: Path, seed: int, merges: int) -> Path:
    """A tokenizer.json that Hugging Face's trainer made: special tokens first, one that comes later, and settings."""
    LLAMA.save(home)
    base = tokenizers.Tokenizer.from_file(str(home / "tokenizer.json"))
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    how = {"initial_alphabet": alphabet, "show_progress": False, "special_tokens": [EOT]}
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=257 + merges, **how)
    base.train_from_iterator([peers.generated_text(seed, 300)], trainer)
    base.add_special_tokens([USER])
    base.save(str(home / "tokenizer.json"))
    config = json.loads((home / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "Qwen2Tokenizer", "model_max_length": 77}
    (home / "tokenizer_config.json").write_text(json.dumps(config))
    return home


def _documents(seed: int) -> list[str]:
    phrases = ["of the end of the day", "note: it is on the way", "in 2024 there were 1,250 of them ... and so on"]
    return [f"{peers.generated_text(seed + one, 40)} {phrase} {phrase}" for one, phrase in enumerate(phrases)]


def _added(base: Tokenizer, extended: Tokenizer) -> list[tuple[str, str]]:
    assert extended.merges[: len(base.merges)] == base.merges
    return [(token_to_text(a), token_to_text(b)) for a, b in extended.merges[len(base.merges) :]]


@pytest.mark.parametrize("seed", range(100 if FULL else 2))
def test_they_are_those_of_hugging_faces_trainer_after_the_merges_of_the_file(seed: int, tmp_path: Path) -> None:
    base, documents = _published(tmp_path / "base", seed, 20 + seed % 60), _documents(seed)
    (tmp_path / "a.txt").write_text(EOT.join(documents[:2]), newline="")
    (tmp_path / "b.txt").write_text(documents[2], newline="")
    counted = bpe_pipeline.count([tmp_path / "a.txt", tmp_path / "b.txt"], like=base, output=tmp_path / "run").directory
    words = {"superword_pattern": "superbpe", "superword_words": "none", "superword_colon": True}
    done = bpe_pipeline.extend(base, counted, add=60, **words, output=tmp_path / "extended")
    theirs = tokenizers.Tokenizer.from_file(str(base / "tokenizer.json"))
    expected = peers.resumed_merges(theirs, documents, COARSE, 60, min_frequency=2)
    assert _added(bpe_pipeline.load(base), done.tokenizer) == expected
    assert any(b" " in one.token.strip(b" ") for one in done.plan)
    assert [one.id for one in done.plan] == [*range(theirs.get_vocab_size(), theirs.get_vocab_size() + len(done.plan))]


def test_they_hold_at_most_four_words_and_no_colon_as_their_definition_says(tmp_path: Path) -> None:
    merges = bpe_pipeline.train_from_counts({"of": 9, " the": 9, " end": 5}, vocab_size=262, special_tokens=[]).merges
    bpe_pipeline.Tokenizer.from_merges(merges, pattern="llama3").save(tmp_path / "base")
    (tmp_path / "a.txt").write_text("of the end of the end: of a day at the end of it: " * 9)
    run_ = bpe_pipeline.count(tmp_path / "a.txt", like=tmp_path / "base", output=tmp_path / "run").directory
    done = bpe_pipeline.extend(tmp_path / "base", run_, add=16, superword_pattern="superbpe", output=tmp_path / "made")
    tokens = [bytes([byte]) for byte in GPT2_BYTES]
    numbers = {token: number for number, token in enumerate([*tokens, *(a + b for a, b in merges)])}
    known = [(numbers[a], numbers[b], 0) for a, b in merges]
    pre_tokens = Counter(
        pre_token.encode() for pre_token in compile_pattern(COARSE).cut((tmp_path / "a.txt").read_text())
    )
    limits = {"max_words": 4, "no_colon": True, "min_frequency": 2}
    expected = train_reference(pre_tokens, len(known) + 16, known=known, **limits)
    names = [*numbers, *(one.token for one in done.plan)]
    found = [(names.index(a), names.index(b)) for a, b in done.tokenizer.merges]
    assert found == [pair[:2] for pair in expected]
    assert expected != train_reference(pre_tokens, len(known) + 16, known=known, min_frequency=2)
    assert not any(b": " in one.token for one in done.plan)


@pytest.fixture(scope="module")
def made(base: Path, counted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("made") / "superwords"
    bpe_pipeline.extend(base, counted, add=30, superword_pattern="superbpe", output=output)
    return output


def test_runtimes_encode_alike_and_the_file_keeps_its_ids_and_settings(tmp_path: Path) -> None:
    base = _published(tmp_path / "base", 3, 90)
    (tmp_path / "a.txt").write_text(f" {EOT}".join(_documents(5)) + USER, newline="")
    counted = bpe_pipeline.count(tmp_path / "a.txt", like=base, output=tmp_path / "run").directory
    ours = bpe_pipeline.extend(base, counted, add=50, superword_pattern="superbpe", output=tmp_path / "made").tokenizer
    old, theirs = bpe_pipeline.load(base), tokenizers.Tokenizer.from_file(str(tmp_path / "made/tokenizer.json"))
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path / "made")
    for text in (*_documents(6), (tmp_path / "a.txt").read_text(), "", "  a  b: \n\n1234567 --- "):
        assert ours.encode(text) == theirs.encode(text).ids == fast.encode(text)
        assert ours.decode(ours.encode(text)) == text
    assert {id_: ours.vocab[id_] for id_ in old.vocab} == old.vocab
    assert ours.special_tokens == old.special_tokens
    assert fast.model_max_length == 77


@pytest.mark.parametrize("shape", ["gpt2", "falcon", "llama3", "qwen2", "deepseek"])
def test_files_in_published_shapes_are_cut_by_the_new_pattern_only(shape: str, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    published.made(shape, published.MIXED).save(str(tmp_path / "base/tokenizer.json"))
    text = " ".join([*published.PARTS, *_documents(8)])
    (tmp_path / "a.txt").write_text(f"{text}{published.EOT}{text}", newline="")
    counted = bpe_pipeline.count(tmp_path / "a.txt", like=tmp_path / "base", output=tmp_path / "run").directory
    given = {"add": 150, "superword_pattern": "superbpe", "superword_words": "none"}
    done = bpe_pipeline.extend(tmp_path / "base", counted, **given, output=tmp_path / "made")
    ours, marks = done.tokenizer, {*done.tokenizer.special_tokens.values()}  # are in no pre-token
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "made/tokenizer.json"))
    assert any(b" " in token.strip(b" ") for token in ours.vocab.values())
    assert done.after == 2 * sum(id_ not in marks for id_ in theirs.encode(text, add_special_tokens=False).ids)
    for probe in [*published.HARD, text]:
        assert ours.encode(probe) == theirs.encode(probe).ids


def test_a_second_count_in_parts_is_the_same_and_is_counted_once(base: Path, counted: Path, made: Path, tmp_path: Path):
    words = ["extend", base, tmp_path / "run", "--add", 30, "--superword-pattern", "superbpe"]
    other = counted.parent / "other.txt"
    succeeded(run("count", other, "--like", base, "--chunk-size", 4000, "--output", tmp_path / "run"))
    for part in ("2/2", "1/2"):
        succeeded(run(*words, "--part", part))
    events = succeeded(run(*words, "--output", tmp_path / "made", "--log-json")).stdout.splitlines()
    counting = [event for event in map(json.loads, events) if event.get("stage") == "counting superwords"]
    assert not any(event["event"] == "stage_started" for event in counting)
    assert (tmp_path / "made/tokenizer.json").read_bytes() == (made / "tokenizer.json").read_bytes()


def test_it_is_verified_and_another_second_count_is_found(base: Path, counted: Path, tmp_path: Path) -> None:
    succeeded(run("count", counted.parent / "other.txt", "--like", base, "--output", tmp_path / "run"))
    given = {"add": 9, "superword_pattern": "superbpe", "output": tmp_path / "made"}
    bpe_pipeline.extend(base, tmp_path / "run", **given)
    assert bpe_pipeline.verify(tmp_path / "made")["extend"].startswith("9 merges added")
    words = ["extend", base, tmp_path / "run", "--add", 9, "--superword-pattern", "superbpe", "--output"]
    assert "--superword-words 4, not 3" in refused(run(*words, tmp_path / "made", "--superword-words", 3), 1)
    bpe_pipeline.extend(base, tmp_path / "run", **given | {"superword_pattern": "superbpe-digits", "overwrite": True})
    bpe_pipeline.extend(base, tmp_path / "run", **given | {"output": tmp_path / "other"})
    assert "other counts" in refused(run("verify", tmp_path / "made"), 1)


def test_what_means_nothing_is_refused(base: Path, counted: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--superword-words means nothing"):
        bpe_pipeline.extend(base, counted, add=9, superword_words=3, output=tmp_path / "made")
    assert "give --superword-pattern" in refused(run("extend", base, counted, "--add", 9, "--part", "1/2"), 2)
    assert "extend --superword-pattern" in refused(run("merge", counted, "--superwords-from", base), 2)
    counts = bpe_pipeline.import_counts({"of": 3}, pattern="llama3", output=tmp_path / "run")
    with pytest.raises(UsageError, match="superwords need the texts"):
        bpe_pipeline.extend(base, counts, add=9, superword_pattern="superbpe", output=tmp_path / "made")
