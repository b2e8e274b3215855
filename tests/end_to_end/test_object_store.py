"""Corpus and run directory in a real S3 server: the same bytes as from local files, also after failures."""

import json
import os
import pickle
import platform
import random
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import boto3
import killing
import peers
import pytest
from amount import FULL
from command import refused, run, run_process, succeeded
from object_store import CREDENTIALS, Store

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, RunDirectoryError
from bpe_pipeline.compat import GPT2Tokenizer
from bpe_pipeline.corpus.listing import find_files
from bpe_pipeline.run.directory import RUN, Directory
from bpe_pipeline.storage import scratch

NAMES = ("a.txt", "b b.txt", "é/c.txt")
TEXTS = {f"corpus/{name}": peers.generated_text(seed, 2000) for seed, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same corpus on disk, and the run trained from it, `run`."""
    directory = tmp_path_factory.mktemp("local")
    for name, text in TEXTS.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, newline="")
    bpe_pipeline.train(directory / "corpus", output=directory / "run", vocab_size=500)
    bpe_pipeline.train(directory / "corpus", output=directory / "run", vocab_size=300)
    return directory


@pytest.fixture
def corpus(store: Store) -> str:
    for name, text in TEXTS.items():
        store.put(name, text)
    return store.uri("corpus")


def found(*inputs: str) -> list[str]:
    listing = find_files(inputs)
    assert listing.empty == ()
    return [file.path.partition("?")[0].split("/", 3)[3] for file in listing.files]


def test_a_prefix_is_what_is_below_it_and_markers_are_no_files(store: Store, tmp_path: Path) -> None:
    store.put("text", "an object of the name of a prefix")
    for key in ("text/a.txt", "marked/b.txt", "deep/marked/c.txt"):
        store.put(key, "a text")
    for key in ("marked", "deep/marked", "deep/marked_$folder$", "deep_$folder$"):
        store.put(key, "")
    assert found(store.uri("text/")) == found(store.uri("text/*")) == ["text/a.txt"]
    assert found(store.uri("text")) == ["text"]  # the object alone
    for number, (name, size) in enumerate({"text": 33, "text/": 6}.items()):
        done = succeeded(run("count", store.uri(name), "-o", tmp_path / str(number)))
        assert f"1 file, {size} B" in done.stdout
    assert found(store.uri("marked")) == found(store.uri("marked/")) == ["marked/b.txt"]
    for pattern in ("deep", "deep/", "deep/**", "deep/*", "{deep,deep/*}/"):
        assert found(store.uri(pattern)) == ["deep/marked/c.txt"]
    assert found(store.uri("*ar*")) == ["marked/b.txt"]
    with pytest.raises(InputError, match=r"marked/b\.txt\S* does not exist, or has no objects"):
        find_files([store.uri("marked/b.txt/")])


def test_keys_that_arrow_cannot_open_are_named(store: Store) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{store.address}",
        region_name="us-east-1",
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )
    client.put_object(Bucket=store.bucket, Key="dd//a.txt", Body=b"text")
    store.put("dd/b.txt", "text")
    for pattern in ("dd", "dd/", "dd/**", "*"):
        with pytest.raises(InputError, match=r"an empty part \(dd//a\.txt\), .*copy them to keys without //"):
            find_files([store.uri(pattern)])
    assert found(store.uri("dd/*.txt")) == ["dd/b.txt"]


def test_store_and_disk_have_the_same_files(store: Store, corpus: str, local: Path) -> None:
    output = store.uri("runs/a")
    tokenizer = bpe_pipeline.train(corpus, output=output, vocab_size=500, workers=2, chunk_size="16KiB")
    expected = {path.name: path.read_bytes() for path in (local / "run/tokenizer").iterdir()}
    assert {name: store.get(f"runs/a/tokenizer/{name}") for name in expected} == expected
    counted = {key: store.remote(key).stat() for key in store.listing("runs/a/counts/")}
    assert len(counted) > 1
    assert not [key for key in store.listing() if "/." in key]
    of_it = f"bpe-pipeline-*.{scratch.process_namespace()}-{os.getpid()}.partial"
    assert list(Path(tempfile.gettempdir()).glob(of_it)) == []

    listed = json.loads(store.get("runs/a/run.json"))["files"]
    assert [file["path"] for file in listed] == [str(store.remote(name)) for name in TEXTS]
    summary = json.loads(store.get("runs/a/report.json"))
    assert (summary["directory"], summary["tokenizer_directory"]) == (output, store.uri("runs/a/tokenizer"))

    bpe_pipeline.train(output=output, vocab_size=300)  # resumes with the corpus of the run
    assert store.get("runs/a/tokenizer-300/tokenizer.json") == (local / "run/tokenizer-300/tokenizer.json").read_bytes()
    assert {key: store.remote(key).stat() for key in counted} == counted
    assert store.get("runs/a/log.txt").count(b"Options(") == 2

    assert bpe_pipeline.Tokenizer.load(store.uri("runs/a/tokenizer")).merges == tokenizer.merges
    tokenizer.save(store.uri("saved"))
    assert store.get("saved/tokenizer.json") == store.get("runs/a/tokenizer/tokenizer.json")


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 24 if FULL else 6])
def test_killed_run_is_resumed(store: Store, tmp_path: Path, kills: int) -> None:
    """Killed first when a counter is there, then at any moment, each run up to three times."""
    text = peers.generated_text(3, 20_000) * (20 if kills == 1 else 4)
    (tmp_path / "big.txt").write_text(text, newline="")
    bpe_pipeline.train(tmp_path / "big.txt", output=tmp_path / "run", vocab_size=700)
    store.put("big.txt", text)
    (scratched := tmp_path / "scratch").mkdir()
    environment = {"TMPDIR": str(scratched)}  # other runs may use this machine
    moments, killed, whole_s = random.Random(5), 0, 0.0
    options = ["--vocab-size", "700", "--quiet", "--workers", "1", "--chunk-size", f"{len(text) // 9}"]
    for number in range(-(-kills // 3)):
        arguments = ["train", store.uri("big.txt"), "--output", store.uri(f"r{number}"), *options]
        for _ in range(min(kills, 3)):
            process = killing.start([sys.executable, "-P", "-m", "bpe_pipeline", *arguments], **environment)
            deadline = time.monotonic() + moments.uniform(0.1, 1.0) * whole_s
            while process.poll() is None and (
                time.monotonic() < deadline if whole_s else not store.listing("r0/counts/")
            ):
                time.sleep(0.02)
            killing.kill(process.pid, "all")
            killed += killing.ended(process) < 0
        before = {key: store.remote(key).stat() for key in store.listing(f"r{number}/counts/")}
        assert number or store.listing("r0/.locked-by")
        started = time.monotonic()
        succeeded(run_process(*arguments, env=environment))  # a dead process's lock does not block it
        whole_s = whole_s or time.monotonic() - started
        assert {key: store.remote(key).stat() for key in before} == before
        right = (tmp_path / "run/tokenizer/tokenizer.json").read_bytes()
        assert store.get(f"r{number}/tokenizer/tokenizer.json") == right
        assert not [key for key in store.listing() if "/." in key]
        assert not list(scratched.iterdir())
    assert killed > kills / 3 - 1


def test_second_run_in_a_directory_is_refused(store: Store, corpus: str) -> None:
    directory = Directory(store.remote("r"), RUN)
    with directory.locked():
        line = refused(run("train", corpus, "--output", directory, "--vocab-size", 300), 1)
        assert f"another process is working on {directory} ({platform.node()}, process {os.getpid()}, since" in line
        remove = f"aws s3 rm s3://{store.bucket}/r/.locked-by --endpoint-url http://{store.address}"
        assert line.endswith(f"If it is dead: {remove}")
        owner = json.loads(store.get("r/.locked-by"))
    assert not store.listing("r/")
    store.put("r/.locked-by", json.dumps(owner | {"started": 5.0}))  # a process of the past had this id
    with directory.locked():
        directory.require_lock()
        store.put("r/.locked-by", json.dumps(owner | {"host": "elsewhere", "place": "elsewhere"}))
        with pytest.raises(RunDirectoryError, match="was removed while this process worked"):
            directory.require_lock()
    with pytest.raises(RunDirectoryError, match="another process is working on"), directory.locked():
        pass
    assert store.listing("r/") == ["r/.locked-by"]


@pytest.mark.slow
def test_parts_share_a_directory_of_a_store(store: Store, corpus: str, tmp_path: Path) -> None:
    """A part is refused while another command works alone."""
    words = ["count", corpus, "--chunk-size", "1KB", "--workers", 1, "--quiet", "--output"]
    directory = Directory(store.remote("p"), RUN)
    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(lambda part: run_process(*words, directory, "--part", part), ["0/3", "1/3", "1/3"]))
    assert [part.returncode for part in parts] == [0, 0, 0], parts
    assert [key for key in store.listing("p/") if "/.lock" in key] == []
    assert [key for key in store.listing("p/") if "/log-" in key] == ["p/log-0-of-3.txt", "p/log-1-of-3.txt"]
    with directory.locked():
        assert "another process is" in refused(run(*words, directory, "--part", "2/3"), 1)
    succeeded(run(*words, directory))
    assert not store.listing("p/log-")
    succeeded(run(*words, tmp_path / "one"))
    assert store.get("p/counter.parquet") == (tmp_path / "one" / "counter.parquet").read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_overwrite_removes_only_files_of_the_run_and_changed_objects_are_noticed(store: Store, corpus: str) -> None:
    output = store.uri("r")
    bpe_pipeline.train(corpus, output=output, vocab_size=300)
    bpe_pipeline.train(output=output, vocab_size=290)
    assert "r/tokenizer-290/tokenizer.json" in store.listing()
    store.put("r/tokenizer-9/mine.txt", "x")
    store.put("r/notes.txt", "keep")
    with pytest.raises(RunDirectoryError, match=r"--pattern 'gpt2', not 'llama3'"):
        bpe_pipeline.train(corpus, output=output, vocab_size=300, pattern="llama3")
    bpe_pipeline.train(corpus, output=output, vocab_size=320, pattern="llama3", overwrite=True)
    assert store.get("r/notes.txt") == b"keep"
    assert store.get("r/tokenizer-9/mine.txt") == b"x"
    assert store.listing("r/tokenizer-290/") == []
    assert len(json.loads(store.get("r/tokenizer/tokenizer.json"))["model"]["vocab"]) == 320

    [counter] = store.listing("r/counts/")
    store.put(counter, b"PAR1")
    store.remote("r/counter.parquet").remove()
    bpe_pipeline.train(corpus, output=output, vocab_size=320, pattern="llama3")
    assert len(store.get(counter)) > 4
    store.put("corpus/a.txt", TEXTS["corpus/a.txt"].upper())
    with pytest.raises(RunDirectoryError, match=r"corpus/a\.txt\S+ changed since"):
        bpe_pipeline.train(corpus, output=output, vocab_size=320, pattern="llama3")


def test_unreadable_or_unwritable_location_is_one_line(store: Store, tmp_path: Path) -> None:
    text, here = store.put("a.txt", "some text"), tmp_path / "r"
    for inputs, output, named in (
        (f"s3://nobucket/corpus?{store.query}", here, "the bucket of s3://nobucket does not exist"),
        (store.uri("nothing"), here, "does not exist, or has no objects"),
        (store.uri("*.json"), here, "no object matches"),
        (text, f"s3://nobucket/r?{store.query}", "NO_SUCH_BUCKET"),
        (f"{text}&regoin=x", here, "'regoin'"),
    ):
        with pytest.raises((InputError, RunDirectoryError), match=named) as caught:
            bpe_pipeline.train(inputs, output=output)
        assert not re.search("\n|Request ID", str(caught.value))


@pytest.mark.slow
def test_errors_of_credentials_and_network_have_a_remedy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = "s3://b/run?scheme=http&endpoint_override=127.0.0.1:9&region=us-east-1"
    line = refused(run("merge", gone), 1)
    assert "check the network and the URI's endpoint_override, and run the same command again" in line
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    uri = store.uri("r").replace("s3://", "s3://key:secret@")
    assert "AWS_ACCESS_KEY_ID" in refused(run("merge", uri), 2)
    assert pickle.loads(pickle.dumps(store.remote("a/b"))) == store.remote("a") / "b"
    assert CREDENTIALS["AWS_ACCESS_KEY_ID"] not in store.uri("r")


@pytest.mark.slow
def test_exports_in_a_store_are_checked_and_loaded(store: Store, corpus: str) -> None:
    output = store.uri("runs/checked")
    bpe_pipeline.train(corpus, output=output, vocab_size=400, special_tokens=["<s>"])
    checked = succeeded(run("export", output, "--check", "--export", "gpt2,tiktoken", "--sample", corpus))
    assert checked.stdout.count("the same ids") == 2
    ours = bpe_pipeline.Tokenizer.load(store.uri("runs/checked/tokenizer"))
    text = "the low <s> é" * 3
    gpt2 = GPT2Tokenizer(store.uri("runs/checked/tokenizer"), special_tokens=["<s>"])
    file, how = store.uri("runs/checked/tokenizer/tokenizer.tiktoken"), {"special_tokens": ours.special_tokens}
    ranks = bpe_pipeline.Tokenizer.from_tiktoken_file(file, pattern="gpt2", **how)
    assert gpt2.encode(text) == ranks.encode(text) == ours.encode(text)


def test_shards_in_a_store(store: Store, corpus: str, local: Path, tmp_path: Path) -> None:
    tokenizer = bpe_pipeline.Tokenizer.load(local / "run" / "tokenizer")
    options = {"chunk_size": "16KiB", "shard_size": 9000, "documents": "offsets", "workers": 2}
    bpe_pipeline.encode(local / "corpus", tokenizer, tmp_path / "shards", **options)
    output = store.uri("shards")
    bpe_pipeline.encode(corpus, tokenizer, output, **options)
    shards = {path.name: path.read_bytes() for path in (tmp_path / "shards").glob("shard-*")}
    assert {key[len("shards/") :]: store.get(key) for key in store.listing("shards/shard-")} == shards
    assert not [key for key in store.listing() if "/parts/" in key]
    texts = [list(bpe_pipeline.decode(source, tokenizer)) for source in (output, tmp_path / "shards")]
    assert b"".join(texts[0]) == b"".join(texts[1])
    bpe_pipeline.encode(corpus, tokenizer, output, **options)
    with pytest.raises(InputError, match="one of shards"):
        bpe_pipeline.encode(output, tokenizer, tmp_path / "other")


@pytest.mark.slow
def test_single_file_in_a_store_is_that_on_disk_and_leaves_nothing_else(
    store: Store, corpus: str, local: Path, tmp_path: Path
) -> None:
    tokenizer = bpe_pipeline.Tokenizer.load(local / "run" / "tokenizer")
    encode = partial(bpe_pipeline.encode, corpus, tokenizer, single=True, shard_format="bin")
    for output in (tmp_path / "files", store.uri("files")):
        encode(output, shuffle=True, val_fraction=0.5, documents="offsets")
        encode(output, chunk_size="16KiB", workers=2, overwrite=True)
    names = ["encoding.json", "log.txt", "shards.json", "train.bin"]
    assert sorted(path.name for path in (tmp_path / "files").iterdir() if path.name != ".lock") == names
    assert sorted(key for key in store.listing("files/") if ".lock" not in key) == [f"files/{name}" for name in names]
    assert store.get("files/train.bin") == (tmp_path / "files" / "train.bin").read_bytes()
