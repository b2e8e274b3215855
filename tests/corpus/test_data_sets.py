"""Directories that `datasets` and Spark write: their data are read, and what is about the data is left out."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import refused, run, succeeded

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.listing import find_files


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def save_to_disk(home: str, texts: list[str], shards: int = 2) -> None:
    """Write what `datasets.Dataset.save_to_disk` writes, and the cache that `map` leaves there."""
    directory = Path(home)
    directory.mkdir(parents=True)
    names = [f"data-{number:05}-of-{shards:05}.arrow" for number in range(shards)]
    for number, name in enumerate([*names, "cache-1f2e.arrow"]):
        table = pa.table({"text": texts[number::shards]})
        with pa.ipc.new_stream(directory / name, table.schema) as sink:
            sink.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "f", "_split": "train"}
    (directory / "state.json").write_text(json.dumps(state, indent=2))
    (directory / "dataset_info.json").write_text(json.dumps({"features": {"text": {"dtype": "string"}}}, indent=2))


def names(*inputs: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return [str(Path(file.path).relative_to(Path.cwd())) for file in find_files(inputs, exclude=exclude).files]


TEXTS = ["the map", "of the old", "house", "and the river"]
DATA = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]


@pytest.mark.parametrize("given", ["saved", "saved/*", "saved/*.arrow", "**"])
def test_a_saved_data_set_is_its_data_files(given: str) -> None:
    save_to_disk("saved", TEXTS)
    assert names(given) == [f"saved/{name}" for name in DATA]
    assert names(given, exclude=(DATA[0],)) == [f"saved/{DATA[1]}"]


def test_a_file_that_is_named_alone_is_read() -> None:
    save_to_disk("saved", TEXTS)
    for name in ("saved/cache-1f2e.arrow", "saved/state.json"):
        assert names(name) == [name]
    every = [f"saved/{path.name}" for path in Path("saved").iterdir()]
    assert sorted(names(*every)) == [f"saved/{name}" for name in DATA]  # a shell writes a glob out


def test_a_saved_data_set_counts_and_encodes_as_its_texts_in_json_lines() -> None:
    save_to_disk("saved", TEXTS)
    ordered = [*TEXTS[::2], *TEXTS[1::2]]
    Path("a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in ordered))
    for name in ("saved", "a.jsonl"):
        succeeded(run("train", name, "-o", f"run-{name}", "--vocab-size", 262, "--fail-on-loss"))
    models = [Path(f"run-{name}", "tokenizer", "tokenizer.json").read_bytes() for name in ("saved", "a.jsonl")]
    assert models[0] == models[1]
    for name in ("saved", "a.jsonl"):
        single = ("-o", f"ids-{name}", "--single", "--shard-format", "bin", "--tokenizer", "run-saved/tokenizer")
        succeeded(run("encode", name, *single, "--fail-on-loss"))
    assert Path("ids-saved/train.bin").read_bytes() == Path("ids-a.jsonl/train.bin").read_bytes()


def test_a_set_of_data_sets_is_all_of_them_and_says_so() -> None:
    save_to_disk("all/train", TEXTS, 2)
    save_to_disk("all/test", TEXTS, 1)
    Path("all/dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    done = succeeded(run("count", "all", "-o", "run", "--fail-on-loss"))
    assert "8 documents" in done.stdout
    note = f"{Path.cwd()}/all is a set of data sets, all of which are read: test, train; name one for it alone"
    assert done.stderr.count(note) == 1
    assert names("all/train") == [f"all/train/{name}" for name in DATA]


def test_a_data_set_in_the_cache_of_hugging_face_is_its_arrow_files() -> None:
    save_to_disk("cache", TEXTS)
    Path("cache/state.json").unlink()
    assert names("cache") == [f"cache/{name}" for name in DATA]


def test_a_data_set_without_one_of_its_files_is_an_error() -> None:
    save_to_disk("saved", TEXTS)
    Path("saved", DATA[1]).unlink()
    with pytest.raises(InputError, match=rf"saved lacks {DATA[1]}, which state\.json lists"):
        names("saved")
    Path("saved/state.json").write_text("[]")
    with pytest.raises(InputError, match=r"state\.json does not list the files of a data set"):
        names("saved")


def test_a_data_set_that_is_a_selection_of_its_rows_is_an_error() -> None:
    save_to_disk("saved", TEXTS)
    state = json.loads(Path("saved/state.json").read_text())
    for indices, is_selection in ((None, False), ([], False), ([{"filename": "indices.arrow"}], True)):
        Path("saved/state.json").write_text(json.dumps(state | {"_indices_data_files": indices}))
        if is_selection:
            with pytest.raises(InputError, match=r"saved is a selection of the rows.*flatten_indices"):
                names("saved")
        else:
            assert names("saved") == [f"saved/{name}" for name in DATA]


SPARK = ["_SUCCESS", "_metadata", "_common_metadata", "_committed_123", "_started_123", "._x"]


@pytest.mark.parametrize("given", ["spark", "spark/*"])
def test_files_that_spark_writes_about_data_are_left_out_and_said_once(given: str) -> None:
    Path("spark").mkdir()
    Path("spark/part-0.jsonl").write_text('{"text": "a b"}\n')
    Path("spark/_own.txt").write_text("of the user")
    for name in SPARK:
        Path("spark", name).write_text("" if name == "_SUCCESS" else "PAR1")
    done = succeeded(run("count", given, "-o", "run", "--fail-on-loss"))
    assert "2 files" in done.stdout
    [said] = [line for line in done.stderr.splitlines() if "left out" in line]
    assert "spark/_SUCCESS" in said
    assert names("spark/_own.txt") == ["spark/_own.txt"]
    Path("spark/_SUCCESS").write_text("named, so read")
    assert names("spark/_SUCCESS") == ["spark/_SUCCESS"]


def test_links_to_nothing_are_named_and_counted_as_lost() -> None:
    Path("d/deep").mkdir(parents=True)
    Path("d/a.txt").write_text("text")
    for link in ("d/b.txt", "d/deep/c.txt"):
        Path(link).symlink_to("nowhere")
    Path("d/deep/round.txt").symlink_to("round.txt")
    for number, given in enumerate(("d", "d/**", "{d,d/deep}/*.txt")):
        done = succeeded(run("count", given, "-o", f"run{number}"))
        missing = 2 if "*" in given else 3  # a glob does not match a link to itself
        assert f"warning: {missing} links to files that are missing: " in done.stderr
        assert f"{Path.cwd()}/d/b.txt" in done.stderr
        assert f"{missing} files without text" in done.stdout
        assert "d/b.txt" in refused(run("count", given, "-o", "strict", "--overwrite", "--fail-on-loss"), 1)
    succeeded(run("count", "d", "-o", "less", "--fail-on-loss", "--exclude", "b.txt", "--exclude", "deep"))
    with pytest.raises(InputError, match=r"none of its 2 files has a byte"):
        find_files(["d/deep"])
    with pytest.raises(InputError, match=r"b\.txt is a link that leads to no file"):
        find_files(["d/b*"])


def test_a_link_whose_file_comes_back_is_counted_by_the_same_command() -> None:
    Path("d").mkdir()
    Path("d/a.txt").write_text("text")
    Path("d/b.txt").symlink_to("c.bin")
    succeeded(run("count", "d", "-o", "run"))
    Path("d/c.bin").write_text("more text")
    assert "2 files" in succeeded(run("count", "d", "-o", "run", "--exclude", "c.bin")).stdout


def parquet(name: str, *texts: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": list(texts)}), name)


@pytest.mark.parametrize("given", ["table", "table/*.parquet", "table/**", "table/**/*.parquet", "."])
@pytest.mark.parametrize("part", ["part", "day=1/hour=2/part"])
def test_a_delta_table_is_refused_with_how_to_read_it(given: str, part: str) -> None:
    for number in range(2):
        parquet(f"table/{part}-{number}.parquet", "old or new")
    Path("table/_delta_log").mkdir()
    Path("table/_delta_log/0.json").write_text('{"add": {"path": "part-0.parquet"}}\n')
    if "=" in part and given == "table/*.parquet":
        return
    with pytest.raises(
        InputError, match=r"table is a Delta table, .*_delta_log/.*deltalake\.DeltaTable\(\".*table\"\)"
    ):
        names(given)
    listed = [f"table/{part}-{number}.parquet" for number in (0, 1)]
    assert names(*listed) == listed  # the user has read the log


HUB = ["data/train.parquet", "data/test.parquet"]


@pytest.mark.parametrize("given", [".", "**", "*"])
def test_card_and_licence_of_a_repository_are_left_out_and_named(given: str) -> None:
    for name in HUB:
        parquet(name, "a row")
    for name in ("README.md", "LICENSE", "data/LICENSE.txt", ".gitattributes", "dataset_infos.json"):
        Path(name).write_text("---\nlicense: mit\n---\n# Card\n")
    done = succeeded(run("count", given, "-o", "run", "--fail-on-loss"))
    assert "2 files, " in done.stdout
    [said] = [line for line in done.stderr.splitlines() if "left out" in line]
    assert "about a repository of data: " in said
    assert "README.md" in said
    assert names("README.md", *HUB) == ["README.md", *HUB]  # what is named is read


def test_a_card_with_metadata_says_that_texts_are_data() -> None:
    for name in ("repository/a.txt", "code/a.txt"):
        Path(name).parent.mkdir()
        Path(name).write_text("text")
        Path(name).with_name("LICENSE").write_text("as it is")
    Path("repository/README.md").write_text("---\nlicense: mit\n---\n")
    Path("code/README.md").write_text("# Code\n")
    assert names(".") == ["code/LICENSE", "code/README.md", "code/a.txt", "repository/a.txt"]


def test_a_cache_of_the_hub_is_its_snapshots() -> None:
    revision = "f" * 40
    home = Path("datasets--a--b")
    for name in ("refs", "blobs", f"snapshots/{revision}"):
        (home / name).mkdir(parents=True)
    (home / "refs/main").write_text(revision)
    for name in ("a.txt", "b.txt"):
        (home / "blobs" / name[0]).write_text(name)
        (home / "snapshots" / revision / name).symlink_to(f"../../blobs/{name[0]}")
    assert names(str(home)) == [f"{home}/snapshots/{revision}/{name}" for name in ("a.txt", "b.txt")]
