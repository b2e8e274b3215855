"""`extend --replace-scripts`: tokens of scripts that are not wanted make room for new ones."""

import json
import random
import shutil
from pathlib import Path

import pytest
import regex
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline.base.errors import UsageError

tokenizers = pytest.importorskip("tokenizers")
RUSSIAN, GREEK = "Старый рыбак нашёл серебряный ключ. ", "Ο γέρος ψαράς βρήκε ένα κλειδί. "
CYRILLIC = regex.compile(r"\p{Cyrillic}")


def ids_of(tokenizer: bpe_pipeline.Tokenizer) -> dict[bytes, int]:
    return {token: id_ for id_, token in tokenizer.vocab.items()}


def is_cyrillic(token: bytes) -> bool:
    return CYRILLIC.search(token.decode(errors="ignore")) is not None


def text_of(seed: int, words: int) -> str:
    """Words of Latin letters."""
    choose = random.Random(seed)
    return " ".join("".join(choose.choices("etaoinshrdlu", k=choose.randint(1, 7))) for _ in range(words)) + "\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer whose last tokens are Cyrillic, with an added one behind them."""
    home = tmp_path_factory.mktemp("base")
    (home / "a.txt").write_text(text_of(1, 3000) + RUSSIAN * 30)
    bpe_pipeline.train(home / "a.txt", output=home / "run", vocab_size=700, pattern="llama3")
    return home / "run" / "tokenizer"


@pytest.fixture(scope="module")
def counted(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("counted")
    (home / "greek.txt").write_text(GREEK * 50 + text_of(7, 900))
    succeeded(run("count", home / "greek.txt", "--like", base, "--output", home / "run"))
    return home / "run"


def test_new_tokens_get_the_ids_of_removed_ones_and_no_other_id_moves(
    base: Path, counted: Path, tmp_path: Path
) -> None:
    old = bpe_pipeline.load(base)
    cyrillic = sorted(id_ for token, id_ in ids_of(old).items() if is_cyrillic(token))
    done = bpe_pipeline.extend(base, counted, replace_scripts="cyrillic", output=tmp_path / "new")
    new = done.tokenizer
    assert sorted(one.old_id for one in done.removed) == cyrillic
    assert [one.id for one in done.plan] == cyrillic[: len(done.plan)]
    assert len(done.plan) == len(cyrillic) > 20
    assert len(new) == len(old)
    assert not any(map(is_cyrillic, ids_of(new)))
    kept = {token: id_ for token, id_ in ids_of(old).items() if id_ not in cyrillic}
    assert ids_of(new).items() >= kept.items()
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "new" / "tokenizer.json"))
    for seed in range(60):
        text = text_of(seed, 40) + RUSSIAN * (seed % 3) + GREEK * (seed % 2)
        assert new.encode(text) == theirs.encode(text).ids
        assert new.decode(new.encode(text)) == text
    one = done.removed[-1]
    assert [ids_of(new)[bytes([byte])] for byte in one.token] == list(one.new_ids)
    assert "tokens removed" in succeeded(run("verify", tmp_path / "new")).stdout


def test_tokens_before_are_those_of_the_base_for_texts_in_a_removed_script_too(base: Path, tmp_path: Path) -> None:
    text = RUSSIAN * 40 + text_of(7, 900)
    for name, part in {"both": text, "a": RUSSIAN * 40, "b": text_of(7, 900)}.items():
        (tmp_path / f"{name}.txt").write_text(part)
    runs = {"both": ("both.txt",), "two": ("a.txt", "b.txt")}
    for name, files in runs.items():
        paths = [tmp_path / file for file in files]
        succeeded(run("count", *paths, "--like", base, "--output", tmp_path / name))
    old = bpe_pipeline.load(base)
    with pytest.warns(UserWarning, match="new tokens are as ones that were removed, with other ids"):
        done = bpe_pipeline.extend(base, tmp_path / "both", replace_scripts="Cyrillic", output=tmp_path / "new")
    assert done.before == len(old.encode(text)) < done.without_removed == done.savings[0].tokens + done.plan[0].count
    assert done.after == len(done.tokenizer.encode(text))
    assert done.savings[-1].saved == 1 - done.after / done.before
    reported = json.loads(succeeded(run("report", tmp_path / "new", "--json")).stdout)
    assert (reported["tokens_before"], reported["tokens_after"]) == (done.before, done.after)
    planned = run("extend", base, tmp_path / "two", "--replace-scripts", "Cyrillic", "--dry-run", "--json")
    plan = json.loads(succeeded(planned).stdout)
    assert plan["tokens_before"] == sum(before for before, *_ in plan["runs"].values())
    assert [before for before, *_ in plan["runs"].values()] == [
        len(old.encode(one)) for one in (RUSSIAN * 40, text_of(7, 900))
    ]


def test_merges_are_those_of_extending_a_pruned_tokenizer(base: Path, counted: Path, tmp_path: Path) -> None:
    old = ids_of(bpe_pipeline.load(base))
    done = bpe_pipeline.extend(base, counted, replace_scripts=["Cyrillic"], add=30, output=tmp_path / "new")
    gone = {one.token for one in done.removed}
    protect = [token for token in old if token not in {*gone, b"<|endoftext|>"}]
    bpe_pipeline.prune(base, counted, min_count=1 << 28, protect=protect, keep_ids=True, output=tmp_path / "pruned")
    last = max(old.values())
    again = bpe_pipeline.extend(tmp_path / "pruned", counted, add=30, first_id=last + 9, output=tmp_path / "again")
    assert [one.token for one in again.plan] == [one.token for one in done.plan]
    assert again.tokenizer.merges == done.tokenizer.merges


def test_more_new_tokens_than_removed_ones_get_ids_behind_all(base: Path, counted: Path, tmp_path: Path) -> None:
    old = bpe_pipeline.load(base)
    done = bpe_pipeline.extend(
        base, counted, replace_scripts="Cyrillic", add=90, added_special_tokens=["<|im_start|>"], output=tmp_path
    )
    freed, last = len(done.removed), max(old.vocab)
    assert done.special_tokens == {"<|im_start|>": last + 1}
    assert [one.id for one in done.plan[freed:]] == list(range(last + 2, last + 2 + 90 - freed))
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert theirs.encode("<|im_start|>" + GREEK).ids == done.tokenizer.encode("<|im_start|>" + GREEK)


def test_settings_lose_the_ids_that_mean_other_tokens_now(base: Path, counted: Path, tmp_path: Path) -> None:
    home = shutil.copytree(base, tmp_path / "base")
    id_ = next(id_ for token, id_ in ids_of(bpe_pipeline.load(home)).items() if is_cyrillic(token))
    (home / "generation_config.json").write_text(json.dumps({"suppress_tokens": [5, id_]}))
    with pytest.warns(UserWarning, match=f"ids of removed tokens any more: suppress_tokens without {id_}$"):
        bpe_pipeline.extend(home, counted, replace_scripts="Cyrillic", output=tmp_path / "new")
    assert json.loads((tmp_path / "new" / "generation_config.json").read_text()) == {"suppress_tokens": [5]}


def test_scripts_that_no_token_has_are_refused_with_those_that_there_are(
    base: Path, counted: Path, tmp_path: Path
) -> None:
    message = refused(run("extend", base, counted, "--replace-scripts", "Thai", "--output", tmp_path / "x"), 2)
    assert "no token has a letter of the script 'Thai'; those of the tokenizer, with their tokens: Latin " in message
    assert "Cyrillic " in message
    with pytest.raises(UsageError, match="expected names of scripts"):
        bpe_pipeline.extend(base, counted, replace_scripts="Thai,,", output=tmp_path / "x")
    assert not (tmp_path / "x").exists()
