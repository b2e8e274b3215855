"""What a command removes with --overwrite: what its manifest lists, never a file of the corpus, whatever links there
are."""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.base.errors import InputError, RunDirectoryError
from pipeline.base.events import warn_of
from pipeline.commands.count import run_count
from pipeline.run import manifest
from pipeline.run.directory import fingerprint
from pipeline.run.options import make_options
from pipeline.run.workers import executor_for

SHARD = "shard-00000.parquet"


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    text = tmp_path / "text.txt"
    text.write_text("low lower lowest " * 20)
    pipeline.train(text, output=tmp_path / "run", vocab_size=260, workers=1)
    return tmp_path / "run" / "tokenizer"


def _corpus(directory: Path, name: str) -> Path:
    """Write a corpus of one readable file, under the name that a shard or a part would have."""
    file = directory / name
    file.parent.mkdir(parents=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.table({"text": ["low lower lowest"]}), file)
    else:
        file.write_text("low lower lowest")
    return file


def _link_to_directory(tmp_path: Path, corpus: Path, _file: Path) -> tuple[Path, Path]:
    link = tmp_path / "link"
    link.symlink_to(corpus)
    return corpus, link


def _corpus_through_link(tmp_path: Path, corpus: Path, _file: Path) -> tuple[Path, Path]:
    link = tmp_path / "link"
    link.symlink_to(corpus)
    return link, corpus


def _link_to_file(tmp_path: Path, corpus: Path, file: Path) -> tuple[Path, Path]:
    link = tmp_path / "elsewhere" / file.name
    link.parent.mkdir()
    link.symlink_to(file)
    return link, corpus


def _itself(_tmp_path: Path, corpus: Path, _file: Path) -> tuple[Path, Path]:
    return corpus, corpus


@pytest.mark.parametrize("arrange", [_link_to_directory, _corpus_through_link, _link_to_file, _itself])
@pytest.mark.parametrize("name", [SHARD, *("merges.parquet", "counts/a.txt", "tokenizer-300/a.txt"),
                                  *("parts/a.txt", "parts/000000.ids/a.txt")])  # fmt: skip
def test_no_command_removes_its_corpus(tmp_path: Path, tokenizer: Path, arrange, name: str) -> None:
    corpus = tmp_path / "corpus"
    file = _corpus(corpus, name)
    kept = Path(shutil.copytree(corpus, tmp_path / "kept"))
    inputs, output = arrange(tmp_path, corpus, file)
    command = partial(pipeline.train, inputs, output=output, vocab_size=260)
    if name == SHARD or name.startswith("parts"):
        command = partial(pipeline.encode_corpus, inputs, tokenizer, output, shard_format="parquet")
    with pytest.raises(RunDirectoryError, match="part of the corpus"):
        command(overwrite=True, workers=1)
    assert sorted(path.relative_to(corpus) for path in corpus.rglob("*")) == sorted(
        path.relative_to(kept) for path in kept.rglob("*")
    )
    assert file.read_bytes() == (kept / name).read_bytes()


TEXT = "low lower lowest new newer newest " * 40


def _texts(directory: Path, count: int = 2) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        (directory / f"{index}.txt").write_text(TEXT + str(index))
    return directory


def _train(tmp_path: Path, output: Path, *, overwrite: bool = True) -> None:
    pipeline.train(_texts(tmp_path / "texts"), output=output, vocab_size=262, overwrite=overwrite, workers=1)


def _count(tmp_path: Path, output: Path, *, overwrite: bool = True) -> None:
    inputs = [str(_texts(tmp_path / "texts"))]
    options = make_options({"inputs": inputs, "output": output, "overwrite": overwrite, "workers": 1})
    with executor_for(options) as executor:
        run_count(options, executor, warn_of)


def _import(_tmp_path: Path, output: Path, *, overwrite: bool = True) -> None:
    pipeline.import_counts({"low": 3, "lower": 2}, output=output, overwrite=overwrite)


def _combine(tmp_path: Path, output: Path, *, overwrite: bool = True) -> None:
    for name in ("one", "two"):
        pipeline.import_counts({name: 3}, output=tmp_path / name)
    pipeline.combine_runs([tmp_path / "one", tmp_path / "two"], output=output, overwrite=overwrite)


def _iterate(_tmp_path: Path, output: Path, *, overwrite: bool = True) -> None:
    pipeline.train_from_iterator([TEXT], output=output, vocab_size=262, overwrite=overwrite)


def _encode(tmp_path: Path, output: Path, *, overwrite: bool = True) -> None:
    home = tmp_path / "made" / "tokenizer"
    if not home.exists():
        pipeline.train(_texts(tmp_path / "texts"), output=home.parent, vocab_size=262, workers=1)
    pipeline.encode_corpus(_texts(tmp_path / "texts"), home, output, overwrite=overwrite, workers=1)


COMMANDS = [_train, _count, _import, _combine, _iterate, _encode]
Command = Callable[..., None]


def _contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("command", COMMANDS)
def test_overwrite_keeps_files_that_no_manifest_lists(tmp_path: Path, command: Command, before: bool) -> None:
    output = tmp_path / "out"
    if not before:
        command(tmp_path, output)
    foreign = [
        *("notes.txt", "counts/notes.txt", "counts/000007.parquet", "parts/notes.txt", "stdin/notes.txt"),
        *("tokenizer/mine.json", "tokenizer-9/tokenizer.json", "tokenizer-8000/notes", "tokenizer-x/a.txt"),
        *(f"stdin/input-{'0' * 32}", "shard-99999.npy", "deep/run.json"),
    ]
    for name in foreign:
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(f"somebody's {name}")
    for _ in range(2):
        command(tmp_path, output)
        for name in foreign:
            assert (output / name).read_text() == f"somebody's {name}"


@pytest.mark.parametrize("command", COMMANDS)
def test_overwrite_through_a_link_to_the_output_removes_only_listed_files(tmp_path: Path, command: Command) -> None:
    output, link = tmp_path / "out", tmp_path / "link"
    command(tmp_path, output)
    (output / "mine.txt").write_text("mine")
    link.symlink_to(output)
    command(tmp_path, link)
    assert link.is_symlink()
    assert (output / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((command, "counts") for command in (_train, _count, _import, _combine)),
        *((command, "tokenizer") for command in (_train, _iterate)),
        *((command, "stdin") for command in (_train, _encode)),
        (_encode, "parts"),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_links_in_the_output_lead_to_nothing_that_is_removed(
    tmp_path: Path, command: Command, name: str, inside: bool
) -> None:
    """Whether such a command is refused or works elsewhere, everything behind the link stays as it was."""
    output = tmp_path / "out"
    command(tmp_path, output)
    elsewhere = output / "mine" if inside else tmp_path / "elsewhere"
    if (output / name).exists():
        shutil.move(output / name, elsewhere)
    for file in ("000000.parquet", "000000.ids", ".000000.parquet.1.partial", "tokenizer.json", "notes.txt"):
        elsewhere.mkdir(exist_ok=True)
        (elsewhere / file).write_text("somebody's")
    (output / name).symlink_to(elsewhere)
    before = _contents(elsewhere)
    try:
        command(tmp_path, output)
    except RunDirectoryError as error:
        assert "is a link to a directory elsewhere" in str(error)  # noqa: PT017 - it may also succeed
    assert _contents(elsewhere) == before


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("make", "name"), [(os.symlink, "texts/0.txt"), (os.link, "texts/0.txt"), (os.symlink, "new")])
def test_log_that_is_a_link_changes_or_makes_no_other_file(
    tmp_path: Path, command: Command, make: Callable[..., None], name: str
) -> None:
    output, file = tmp_path / "out", tmp_path / name
    before = _contents(_texts(tmp_path / "texts"))
    output.mkdir()
    make(file, output / "log.txt")
    command(tmp_path, output)
    assert _contents(tmp_path / "texts") == before
    assert file.exists() == (name != "new")
    assert not (output / "log.txt").is_symlink()


@pytest.mark.parametrize("command", [_train, _count, _encode])
@pytest.mark.parametrize("make", [os.link, os.symlink])
def test_links_to_single_corpus_files_are_removed_not_followed(
    tmp_path: Path, command: Command, make: Callable[..., None]
) -> None:
    output, corpus = tmp_path / "out", _texts(tmp_path / "texts")
    command(tmp_path, output)
    before = _contents(corpus)
    for path in [path for path in output.rglob("*") if path.is_file()]:
        if path.name not in ("run.json", "encoding.json") and (make is os.link or not path.name.startswith(".")):
            path.unlink()
            make(corpus / "0.txt", path)
    command(tmp_path, output)
    assert _contents(corpus) == before
    command(tmp_path, output)


@pytest.mark.parametrize("overwrite", [True, False])
def test_corpus_behind_a_link_in_the_output_is_refused(tmp_path: Path, tokenizer: Path, overwrite: bool) -> None:
    """A counter or a part would replace the corpus file of its name."""
    corpus, output = tmp_path / "corpus", tmp_path / "out"
    _corpus(corpus, "000000.parquet")
    (corpus / "000000.ids").write_text(TEXT)
    before = _contents(corpus)
    output.mkdir()
    for name in ("counts", "parts"):
        (output / name).symlink_to(corpus)
    with pytest.raises(RunDirectoryError, match="part of the corpus"):
        pipeline.train(corpus, output=output, vocab_size=260, overwrite=overwrite, workers=1)
    with pytest.raises(RunDirectoryError, match="part of the corpus"):
        pipeline.encode_corpus(corpus, tokenizer, output, overwrite=overwrite, workers=1)
    assert _contents(corpus) == before


def test_linked_tokenizer_of_another_run_is_not_replaced(tmp_path: Path) -> None:
    for name in ("one", "two"):
        pipeline.train(_texts(tmp_path / name / "texts"), output=tmp_path / name, vocab_size=262, workers=1)
    before = _contents(tmp_path / "two")
    (tmp_path / "one" / "tokenizer-261").symlink_to(tmp_path / "two" / "tokenizer")
    with pytest.raises(RunDirectoryError, match="tokenizer-261 is a link to a directory elsewhere"):
        pipeline.merge_run(tmp_path / "one", vocab_size=261)
    assert _contents(tmp_path / "two") == before
    (tmp_path / "one" / "tokenizer-261").unlink()
    pipeline.merge_run(tmp_path / "one", vocab_size=261)


def test_output_inside_the_corpus_never_becomes_corpus(tmp_path: Path, tokenizer: Path) -> None:
    corpus = _texts(tmp_path / "corpus")
    before = _contents(corpus)
    for _ in range(2):
        pipeline.train(corpus, output=corpus / "run", vocab_size=262, workers=1)
        pipeline.encode_corpus(corpus, tokenizer, corpus / "shards", shard_format="parquet", workers=1)
    made = _contents(corpus)
    assert len(manifest.require(corpus / "run").manifest.plan.files) == 2
    (corpus / "run" / "merges.parquet").unlink()
    (corpus / "shards" / "shards.json").unlink()
    (corpus / "shards" / SHARD).unlink()
    pipeline.train(corpus, output=corpus / "run", vocab_size=262, workers=1)
    encoded = pipeline.encode_corpus(corpus, tokenizer, corpus / "shards", shard_format="parquet", workers=1)
    assert encoded.files == 2
    for name in ("run/merges.parquet", "run/counter.parquet", f"shards/{SHARD}", "shards/shards.json"):
        assert (corpus / name).read_bytes() == made[name]
    for name in before:
        assert (corpus / name).read_bytes() == before[name]
    pipeline.train(corpus, output=corpus / "run", vocab_size=261, overwrite=True, workers=1)
    pipeline.encode_corpus(corpus, tokenizer, corpus / "shards", overwrite=True, workers=1)
    assert not (corpus / "shards" / SHARD).exists()
    assert before.items() <= _contents(corpus).items()


def test_outputs_whose_manifest_is_lost_do_not_become_corpus(tmp_path: Path, tokenizer: Path) -> None:
    corpus = _texts(tmp_path / "corpus")
    pipeline.train(corpus, output=corpus / "run", vocab_size=262, workers=1)
    (corpus / "run" / "run.json").unlink()
    before = _contents(corpus)
    del before["run/.lock"]
    for overwrite in (False, True):
        with pytest.raises(RunDirectoryError, match="part of the corpus"):
            pipeline.train(corpus, output=corpus / "run", vocab_size=262, overwrite=overwrite, workers=1)
    pipeline.encode_corpus(corpus / "0.txt", tokenizer, corpus / "shards", workers=1)
    (corpus / "shards" / "encoding.json").unlink()
    with pytest.raises(RunDirectoryError, match="part of the corpus"):
        pipeline.encode_corpus([corpus / "0.txt", corpus / "shards"], tokenizer, corpus / "shards", overwrite=True)
    assert before.items() <= _contents(corpus).items()


@pytest.mark.parametrize("name", ["inner", "tokenizer", "tokenizer-8000", "counts", "tokenizer-300/inner", "stdin"])
def test_overwrite_keeps_a_run_inside_the_run(tmp_path: Path, name: str) -> None:
    outer = tmp_path / "outer"
    pipeline.train(_texts(tmp_path / "texts"), output=outer / name, vocab_size=261, workers=1)
    before = _contents(outer / name)
    for _ in range(2):
        _train(tmp_path, outer)
    after = _contents(outer / name)
    assert {path: after[path] for path in before} == before
    pipeline.verify_run(outer / name)


@pytest.mark.parametrize(
    ("command", "damage"),
    [*((command, "{") for command in COMMANDS), (_count, '{"format_version": 0}'), (_count, "[]"), (_encode, "")],
)
def test_overwrite_of_a_damaged_manifest_keeps_what_it_does_not_replace(
    tmp_path: Path, command: Command, damage: str
) -> None:
    output = tmp_path / "out"
    command(tmp_path, output)
    whole = set(_contents(output))
    name = "encoding.json" if command is _encode else "run.json"
    (output / name).write_text(damage)
    (output / "tokenizer-9").mkdir()
    (output / "tokenizer-9" / "tokenizer.json").write_text("somebody's")
    (output / "shard-00077.npy").write_text("somebody's")
    command(tmp_path, output)
    assert set(_contents(output)) == whole | {"tokenizer-9/tokenizer.json", "shard-00077.npy"}
    assert (output / "tokenizer-9" / "tokenizer.json").read_text() == "somebody's"
    assert (output / "shard-00077.npy").read_text() == "somebody's"


@pytest.mark.parametrize("name", ["../corpus/0.txt", "/etc/passwd", "tokenizer/../../corpus/0.txt", "corpus.txt", ""])
def test_manifest_cannot_list_files_that_no_command_writes(tmp_path: Path, tokenizer: Path, name: str) -> None:
    """Somebody else's run.json may say anything; its digest is no secret."""
    corpus, run, shards = _texts(tmp_path / "corpus"), tmp_path / "run", tmp_path / "shards"
    pipeline.encode_corpus(corpus, tokenizer, shards, workers=1)
    for path, key in ((run / "run.json", "tokenizers"), (shards / "encoding.json", "shards")):
        (path.parent / "corpus.txt").write_text("mine")
        document = json.loads(path.read_text())
        document[key] = [name]
        document["digest"] = fingerprint({one: value for one, value in document.items() if one != "digest"})
        path.write_text(json.dumps(document))
    with pytest.raises(RunDirectoryError, match="is damaged"):
        pipeline.verify_run(run)
    with pytest.raises(RunDirectoryError, match="is damaged"):
        pipeline.encode_corpus(corpus, tokenizer, shards, workers=1)
    before = _contents(corpus)
    pipeline.train(corpus, output=run, vocab_size=262, overwrite=True, workers=1)
    assert _contents(corpus) == before
    assert (run / "corpus.txt").read_text() == (shards / "corpus.txt").read_text() == "mine"


def test_refused_text_is_deleted_only_if_it_is_our_copy(tmp_path: Path, tokenizer: Path) -> None:
    """A corpus may be in a directory `stdin` inside the output."""
    file = tmp_path / "out" / "stdin" / "a.txt"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"invalid \xff text")
    with pytest.raises(InputError, match=r"stdin/a\.txt"):
        pipeline.train(file.parent, output=tmp_path / "out", vocab_size=260, errors="strict", workers=1)
    assert file.read_bytes() == b"invalid \xff text"
    shutil.copytree(tmp_path / "out" / "stdin", tmp_path / "shards" / "stdin")
    copy = tmp_path / "shards" / "stdin" / "a.txt"
    with pytest.raises(InputError, match=r"stdin/a\.txt"):
        pipeline.encode_corpus(copy, tokenizer, tmp_path / "shards", errors="strict", workers=1)
    assert copy.exists()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["log.txt", "tokenizer-7/a.txt", "counts/a.txt", "report.html/a"])
def test_foreign_files_with_reserved_names_are_refused_without_overwrite(
    tmp_path: Path, command: Command, name: str
) -> None:
    if command is _encode:
        name = {"log.txt": name, "tokenizer-7/a.txt": "parts/a.txt"}.get(name, "shard-00000.bin")
    output = tmp_path / "out"
    (output / name).parent.mkdir(parents=True)
    (output / name).write_text("somebody's")
    with pytest.raises(RunDirectoryError, match="may be somebody else's"):
        command(tmp_path, output, overwrite=False)
    assert _contents(output) == {name: b"somebody's"}


def _as_first_release_wrote(path: Path) -> None:
    """Its manifests list no files of results."""
    document = json.loads(path.read_text())
    for name in ("digest", "tokenizers", "written", "shards"):
        document.pop(name, None)
    path.write_text(json.dumps(document | {"digest": fingerprint(document)}))


def test_run_of_the_first_release_resumes_and_is_merged_verified_and_replaced(tmp_path: Path) -> None:
    texts, output = _texts(tmp_path / "texts"), tmp_path / "out"

    def train(**options: object) -> None:
        pipeline.train(texts, output=output, workers=1, **options)

    train(vocab_size=[262, 260])
    _as_first_release_wrote(output / "run.json")
    before = {name: data for name, data in _contents(output).items() if not name.startswith(("report", "log"))}
    verified = pipeline.verify_run(output)
    assert verified["tokenizer"].startswith("262 tokens; as the merge list gives them")
    assert verified["tokenizer-260"].startswith("260 tokens; as the merge list gives them")
    (output / "merges.parquet").unlink()
    train(vocab_size=[262, 260])
    after = _contents(output)
    assert all(after[name] == data for name, data in before.items() if name != "run.json")
    _as_first_release_wrote(output / "run.json")
    pipeline.merge_run(output, vocab_size=261)
    assert set(pipeline.verify_run(output)) >= {"tokenizer", "tokenizer-260", "tokenizer-261"}
    _as_first_release_wrote(output / "run.json")
    options = make_options({"inputs": [str(texts)], "output": output, "overwrite": True, "workers": 1})
    with executor_for(options) as executor:
        run_count(options, executor, warn_of)
    assert not (output / "tokenizer").exists()
    assert not (output / "merges.parquet").exists()
    assert "tokenizer-260" in {path.name for path in output.iterdir()}, "no manifest lists it"


def test_shards_of_the_first_release_resume_and_are_replaced(tmp_path: Path, tokenizer: Path) -> None:
    corpus, output = _texts(tmp_path / "corpus"), tmp_path / "out"

    def encode(**options: object) -> None:
        pipeline.encode_corpus(corpus, tokenizer, output, workers=1, **options)

    encode(shard_size=100)
    before = _contents(output)
    shards = {name for name in before if name.startswith("shard-")}
    assert len(shards) > 2
    _as_first_release_wrote(output / "encoding.json")
    (output / "shards.json").unlink()
    encode(shard_size=100)
    del before["log.txt"]
    assert before.items() <= _contents(output).items()
    _as_first_release_wrote(output / "encoding.json")
    encode(shard_size=1_000_000, overwrite=True)
    assert {path.name for path in output.glob("shard-*")} == {"shard-00000.npy"}
