"""What a command removes with --overwrite: what its manifest lists, never a file of the corpus, whatever links there
are."""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import files_in
from encoded import TOKENIZER

import bpe_pipeline
from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import fingerprint

pytestmark = pytest.mark.filterwarnings("ignore:.* also holds")
SHARD = "shard-00000.parquet"
TEXT = "low lower lowest new newer newest " * 40
train = partial(bpe_pipeline.train, vocab_size=262, workers=1)
encode = partial(bpe_pipeline.encode, workers=1)


def _texts(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for index in range(2):
        (directory / f"{index}.txt").write_text(TEXT + str(index))
    return directory


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("trained")
    train(_texts(home / "texts"), output=home / "run")
    return home


@pytest.fixture
def tokenizer(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path, dirs_exist_ok=True) / "run" / "tokenizer"


_contents = partial(files_in, but=())


def _put(directory: Path, *names: str) -> dict[str, bytes]:
    """Write somebody's files of these names; returns what they hold."""
    for name, data in (theirs := {name: f"somebody's {name}".encode() for name in names}).items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    return theirs


@pytest.mark.parametrize("links", ["none", "output", "input", "file"])
@pytest.mark.parametrize(
    "name",
    [SHARD, "merges.parquet", "counts/a.txt", "tokenizer-300/a.txt", "parts/a.txt", "parts/000000.ids/a.txt"],
)
def test_no_command_removes_its_corpus(tmp_path: Path, tokenizer: Path, links: str, name: str) -> None:
    """The only file of the corpus has the name that a shard or a part would have."""
    corpus = tmp_path / "corpus"
    file, link = corpus / name, tmp_path / "links" / (Path(name).name if links == "file" else "corpus")
    _put(corpus, name)
    if file.suffix == ".parquet":
        pq.write_table(pa.table({"text": ["low lower lowest"]}), file)
    link.parent.mkdir()
    link.symlink_to(file if links == "file" else corpus)
    inputs, output = {"none": (corpus, corpus), "output": (corpus, link)}.get(links, (link, corpus))
    before = _contents(corpus), sorted(corpus.rglob("*"))
    command = partial(train, inputs, output=output)
    if name == SHARD or name.startswith("parts"):
        command = partial(encode, inputs, tokenizer, output, shard_format="parquet")
    with pytest.raises(RunDirectoryError, match="part of the corpus"):
        command(overwrite=True)
    assert (_contents(corpus), sorted(corpus.rglob("*"))) == before


def _combine(home: Path, output: Path, *, overwrite: bool) -> None:
    runs = [bpe_pipeline.combine({name: 3}, output=home / name) for name in ("one", "two")]
    bpe_pipeline.combine(runs, output=output, overwrite=overwrite)


WORK: dict[str, Callable[..., object]] = {
    "train": lambda home, output, **asked: train(_texts(home / "texts"), output=output, **asked),
    "count": lambda home, output, **asked: bpe_pipeline.count(
        _texts(home / "texts"), output=output, workers=1, **asked
    ),
    "import": lambda _, output, **asked: bpe_pipeline.combine({"low": 3, "lower": 2}, output=output, **asked),
    "combine": _combine,
    "iterate": lambda _, output, **asked: bpe_pipeline.train_from_iterator(
        [TEXT], output=output, vocab_size=262, **asked
    ),
    "encode": lambda home, output, **asked: encode(_texts(home / "texts"), TOKENIZER, output, **asked),
}
COMMANDS = list(WORK)


def work(command: str, home: Path, output: Path, *, overwrite: bool = True) -> None:
    """Run one of the commands, with its corpus and what else it needs below `home`."""
    WORK[command](home, output, overwrite=overwrite)


@pytest.mark.parametrize("written", ["before", "after", "behind a link"])
@pytest.mark.parametrize("command", COMMANDS)
def test_overwrite_keeps_files_that_no_manifest_lists(tmp_path: Path, command: str, written: str) -> None:
    home = output = tmp_path / "out"
    if written != "before":
        work(command, tmp_path, home)
    theirs = _put(
        home,
        "notes.txt",
        "counts/notes.txt",
        "counts/000007.parquet",
        "parts/notes.txt",
        "tokenizer/mine.json",
        "tokenizer-9/tokenizer.json",
        "tokenizer-8000/notes",
        "tokenizer-x/a.txt",
        "shard-99999.npy",
        "deep/run.json",
    )
    if written == "behind a link":
        output = tmp_path / "link"
        output.symlink_to(home)
    for _ in range(2):
        work(command, tmp_path, output)
        assert theirs.items() <= _contents(home).items()
    assert output.is_symlink() == (output != home)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("train", "counts"),
        ("count", "counts"),
        ("import", "counts"),
        ("combine", "counts"),
        ("train", "tokenizer"),
        ("iterate", "tokenizer"),
        ("encode", "parts"),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_links_in_the_output_lead_to_nothing_that_is_removed(tmp_path: Path, command, name, inside) -> None:
    """Whether such a command is refused or works elsewhere, everything behind the link stays as it was."""
    output = tmp_path / "out"
    work(command, tmp_path, output)
    elsewhere = output / "mine" if inside else tmp_path / "elsewhere"
    if (output / name).exists():
        shutil.move(output / name, elsewhere)
    _put(elsewhere, "000000.parquet", "000000.ids", ".000000.parquet.1.partial", "tokenizer.json", "notes.txt")
    (output / name).symlink_to(elsewhere)
    before = _contents(elsewhere)
    try:
        work(command, tmp_path, output)
    except RunDirectoryError as error:
        assert "is a link to a directory elsewhere" in str(error)  # noqa: PT017 - it may also succeed
    assert _contents(elsewhere) == before


_RESUMED: list[tuple[str, str, dict[str, object]]] = [
    ("counts", "000000-*.parquet", {}),
    ("parts", "000000-*.ids", {"shuffle": True}),
    ("train", "data-00000-of-00001.arrow", {"shard_format": "arrow", "val_fraction": 0.5}),
]


@pytest.mark.parametrize(("name", "file", "options"), _RESUMED)
def test_resumed_run_replaces_no_file_behind_a_link(
    tmp_path: Path, tokenizer: Path, name: str, file: str, options
) -> None:
    """Its own files there are used: they may have been moved to another disk."""
    output, elsewhere, texts = tmp_path / "out", tmp_path / "elsewhere", _texts(tmp_path / "texts")
    if name == "counts":
        command = partial(bpe_pipeline.count, texts, output=output, workers=1, chunk_size=500)
    else:
        command = partial(encode, texts, tokenizer, output, **options)
    next_step = {
        "counts": "bpe_pipeline.counts.count.combine_chunks",
        "train": "bpe_pipeline.shards.encode.named_shards",
    }.get(name, "bpe_pipeline.shards.encode.Road")
    if name == "parts":
        command(part="1/1")
    with patch(next_step, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        command()
    (shutil.move if (output / name).exists() else lambda _, to: to.mkdir())(output / name, elsewhere)
    (output / name).symlink_to(elsewhere)
    file = next((path.name for path in elsewhere.glob(file)), file)
    _put(elsewhere, file)
    before = _contents(elsewhere)
    keyed = file.endswith((".parquet", ".ids"))  # what has such a name is the run's
    message = "is (missing or )?damaged.*remove" if keyed else "was not written by this run.*is a link"
    with pytest.raises(RunDirectoryError, match=f"{file} {message}"):
        command()
    assert _contents(elsewhere) == before
    (elsewhere / file).unlink()
    command()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("make", "name"), [(os.symlink, "texts/0.txt"), (os.link, "texts/0.txt"), (os.symlink, "new")])
def test_links_to_single_files_are_removed_not_followed(tmp_path: Path, command, make, name) -> None:
    """Of the log in a new directory, and of every file of a finished one."""
    output, file = tmp_path / "out", tmp_path / name
    before = _contents(_texts(tmp_path / "texts"))
    output.mkdir()
    make(file, output / "log.txt")
    for links in (True, False):
        work(command, tmp_path, output)
        assert _contents(tmp_path / "texts") == before
        assert file.exists() == (name != "new")
        assert not (output / "log.txt").is_symlink()
        for path in [path for path in output.rglob("*") if path.is_file() and links]:
            if path.name not in ("run.json", "encoding.json") and (make is os.link or not path.name.startswith(".")):
                path.unlink()
                make(file, path)


@pytest.mark.parametrize("overwrite", [True, False])
def test_corpus_behind_a_link_in_the_output_is_refused(tmp_path: Path, tokenizer: Path, overwrite: bool) -> None:
    """A counter or a part would replace the corpus file of its name."""
    corpus, output = tmp_path / "corpus", tmp_path / "out"
    before = _put(corpus, "000000.txt", "000000.ids")
    output.mkdir()
    for name in ("counts", "parts"):
        (output / name).symlink_to(corpus)
    for command in (partial(train, corpus, output=output), partial(encode, corpus, tokenizer, output)):
        with pytest.raises(RunDirectoryError, match="part of the corpus"):
            command(overwrite=overwrite)
        assert _contents(corpus) == before


def test_linked_tokenizer_of_another_run_is_not_replaced(tmp_path: Path) -> None:
    for name in ("one", "two"):
        train(_texts(tmp_path / name / "texts"), output=tmp_path / name)
    before = _contents(tmp_path / "two")
    (tmp_path / "one" / "tokenizer-261").symlink_to(tmp_path / "two" / "tokenizer")
    with pytest.raises(RunDirectoryError, match="tokenizer-261 is a link to a directory elsewhere"):
        bpe_pipeline.merge(tmp_path / "one", vocab_size=261)
    assert _contents(tmp_path / "two") == before
    (tmp_path / "one" / "tokenizer-261").unlink()
    bpe_pipeline.merge(tmp_path / "one", vocab_size=261)


def test_output_inside_the_corpus_never_becomes_corpus(tmp_path: Path, tokenizer: Path) -> None:
    corpus = _texts(tmp_path / "corpus")
    before = _contents(corpus)

    def make() -> int | None:
        train(corpus, output=corpus / "run")
        return encode(corpus, tokenizer, corpus / "shards", shard_format="parquet").files

    assert [make(), make()] == [2, 2]
    made = _contents(corpus)
    assert len(manifest.require(corpus / "run").manifest.plan.files) == 2
    for name in ("run/merges.parquet", "shards/shards.json", f"shards/{SHARD}"):
        (corpus / name).unlink()
    assert make() == 2
    for name in (*before, "run/merges.parquet", "run/counter.parquet", f"shards/{SHARD}", "shards/shards.json"):
        assert (corpus / name).read_bytes() == made[name]
    train(corpus, output=corpus / "run", vocab_size=261, overwrite=True)
    encode(corpus, tokenizer, corpus / "shards", overwrite=True)
    assert not (corpus / "shards" / SHARD).exists()
    assert before.items() <= _contents(corpus).items()


def test_outputs_whose_manifest_is_lost_do_not_become_corpus(tmp_path: Path, tokenizer: Path) -> None:
    corpus = _texts(tmp_path / "corpus")
    run, shards = corpus / "run", corpus / "shards"
    train(corpus, output=run)
    (run / "run.json").unlink()
    before = _contents(corpus)
    del before["run/.lock"]
    for overwrite in (False, True):
        with pytest.raises(RunDirectoryError, match="part of the corpus"):
            train(corpus, output=run, overwrite=overwrite)
    encode(corpus / "0.txt", tokenizer, shards)
    (shards / "encoding.json").unlink()
    with pytest.raises(RunDirectoryError, match="part of the corpus"):
        encode([corpus / "0.txt", shards], tokenizer, shards, overwrite=True)
    assert before.items() <= _contents(corpus).items()


@pytest.mark.parametrize("name", ["inner", "tokenizer", "tokenizer-8000", "counts", "tokenizer-300/inner"])
def test_overwrite_keeps_a_run_inside_the_run(tmp_path: Path, name: str) -> None:
    outer = tmp_path / "outer"
    train(_texts(tmp_path / "texts"), output=outer / name, vocab_size=261)
    before = _contents(outer / name)
    for _ in range(2):
        work("train", tmp_path, outer)
    assert before.items() <= _contents(outer / name).items()
    bpe_pipeline.verify(outer / name)


@pytest.mark.parametrize(
    ("command", "damage"),
    [
        *((one, "{") for one in COMMANDS),
        ("count", '{"format_version": 0}'),
        ("count", "[]"),
        ("encode", ""),
    ],
)
def test_overwrite_of_a_damaged_manifest_keeps_what_it_does_not_replace(tmp_path: Path, command, damage) -> None:
    output = tmp_path / "out"
    work(command, tmp_path, output)
    whole = set(_contents(output))
    (output / ("encoding.json" if command == "encode" else "run.json")).write_text(damage)
    theirs = _put(output, "tokenizer-9/tokenizer.json", "shard-00077.npy")
    work(command, tmp_path, output)
    after = _contents(output)
    assert set(after) == whole | set(theirs)
    assert theirs.items() <= after.items()


@pytest.mark.parametrize("name", ["../corpus/0.txt", "/etc/passwd", "tokenizer/../../corpus/0.txt", "corpus.txt", ""])
def test_manifest_cannot_list_files_that_no_command_writes(tmp_path: Path, tokenizer: Path, name: str) -> None:
    """Somebody else's run.json may say anything; its digest is no secret."""
    corpus, run, shards = _texts(tmp_path / "corpus"), tmp_path / "run", tmp_path / "shards"
    encode(corpus, tokenizer, shards)
    theirs = {home: _put(home, "corpus.txt") for home in (run, shards)}
    for path, key in ((run / "run.json", "tokenizers"), (shards / "encoding.json", "shards")):
        document = json.loads(path.read_text()) | {key: [name]}
        document["digest"] = fingerprint({one: value for one, value in document.items() if one != "digest"})
        path.write_text(json.dumps(document))
    for command in (partial(bpe_pipeline.verify, run), partial(encode, corpus, tokenizer, shards)):
        with pytest.raises(RunDirectoryError, match="is damaged"):
            command()
    before = _contents(corpus)
    train(corpus, output=run, overwrite=True)
    assert _contents(corpus) == before
    assert all(files.items() <= _contents(home).items() for home, files in theirs.items())


@pytest.mark.parametrize("format_", ["npy", "arrow"])
def test_other_files_next_to_shards_are_named(tmp_path: Path, tokenizer: Path, format_: str) -> None:
    """A loader that takes `*.npy`, or the whole directory, would train on them."""
    texts, output = _texts(tmp_path / "texts"), tmp_path / "out"
    command = partial(encode, texts, tokenizer, output, shard_format=format_, val_fraction=0.5)
    command()
    inside, *_ = names = [f"validation/shard-00007.{format_}", "a.txt", "notes/b.txt", "shard-00009.npy", ".hidden"]
    _put(output, *names)
    for overwrite in (False, True):
        with pytest.warns(UserWarning, match=r"also holds a.txt, notes, shard-00009.npy and 1 more, which") as warned:
            command(overwrite=overwrite)
        assert len(warned) == 1
    shutil.rmtree(output / "notes")
    with pytest.warns(UserWarning, match=f"also holds a.txt, shard-00009.npy, {inside}, which"):
        command()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["log.txt", "tokenizer-7/a.txt", "counts/a.txt", "report.html/a"])
def test_foreign_files_with_reserved_names_are_refused_without_overwrite(tmp_path: Path, command, name) -> None:
    if command == "encode":
        name = {"log.txt": name, "tokenizer-7/a.txt": "parts/a.txt"}.get(name, "shard-00000.bin")
    theirs = _put(tmp_path / "out", name)
    with pytest.raises(RunDirectoryError, match="may be somebody else's"):
        work(command, tmp_path, tmp_path / "out", overwrite=False)
    assert _contents(tmp_path / "out") == theirs
