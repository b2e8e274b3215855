"""Runs on a Ray cluster of several nodes write the same bytes, also when workers, nodes or the coordinator are lost."""

import gc
import json
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import worker_tasks
from chat_cases import small_tokenizer
from command import refused, run_here, run_process, succeeded
from encoded import everything
from object_store import Store
from ray_cluster import ADDRESS, NODES, add_node, cluster_of, kill_newest, lose, processes_of, workers_of
from samples import all_planes

import bpe_pipeline
from bpe_pipeline.base.errors import UsageError, WorkerError
from bpe_pipeline.commands.preload import TRAINING
from bpe_pipeline.executors import Need
from bpe_pipeline.executors.ray import RayExecutor

pytest.importorskip("ray")
on_a_cluster = pytest.mark.cluster


def ray_at(address: str) -> list[str]:
    return ["--ray", address]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = random.Random(5)
    texts = all_planes(seed=6, texts=400)
    lines = [" ".join(words.choices(texts, k=4)) + words.choice(["\n", "<|endoftext|>"]) for _ in range(3000)]
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def expected(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The tokenizer trained on this machine."""
    output = tmp_path_factory.mktemp("local") / "run"
    bpe_pipeline.train(corpus, output=output, vocab_size=1000)
    return (output / "tokenizer" / "tokenizer.json").read_bytes()


@on_a_cluster
def test_workers_have_the_environment_of_the_setup(address: str) -> None:
    """Ray starts workers ahead that have imported Arrow: they still use the pool that returns memory."""
    with RayExecutor(address, None, TRAINING) as executor:
        assert {pool for _, pool in executor.run(worker_tasks.pool_of_arrow, [1, 2, 3])} == {"system"}


@on_a_cluster
def test_log_records_of_workers_reach_the_coordinator(on_ray: RayExecutor, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="bpe_pipeline"):
        list(on_ray.run(worker_tasks.log_lines, [range(3), range(3, 5)]))
        deadline = time.monotonic() + 10
        while len(caplog.records) < 5 and time.monotonic() < deadline:
            list(on_ray.run(worker_tasks.square, [1]))  # the mailbox is read while tasks run
    lines = sorted(record.getMessage().split(" of ")[0] for record in caplog.records if "line" in record.getMessage())
    assert lines == [f"line {number}" for number in range(5)]


@on_a_cluster
def test_task_too_large_for_every_node_waits_with_a_notice(on_ray: RayExecutor, caplog, monkeypatch) -> None:
    monkeypatch.setattr(on_ray, "on_notice", give_up := Mock(side_effect=KeyboardInterrupt))
    with caplog.at_level("WARNING", logger="bpe_pipeline"), pytest.raises(KeyboardInterrupt):
        list(on_ray.run(worker_tasks.square, [1], need=Need(memory_bytes=1 << 50)))
    assert give_up.call_args.args[0] in caplog.text
    assert "no node of the cluster has 1 core and 1,125,899,906,842,624 bytes" in caplog.text


@on_a_cluster
def test_cluster_trains_the_same_tokenizer(cluster: Any, corpus: Path, expected: bytes, tmp_path, monkeypatch) -> None:
    output = tmp_path / "run"
    source = tmp_path / "bpe_pipeline" / "__init__.py"  # as in the project's own directory, which has no built core
    source.parent.mkdir()
    source.write_text("raise ImportError('the source instead of the installed package')")
    monkeypatch.chdir(tmp_path)
    words = [*ray_at(cluster.address), "--chunk-size", "20000", "--vocab-size", "1000"]
    result = succeeded(run_process("train", corpus, "--output", output, *words))
    assert (output / "tokenizer" / "tokenizer.json").read_bytes() == expected
    assert len(list((output / "counts").iterdir())) > 20
    assert not list((output / "counts").glob("share-*"))
    assert f"{NODES} nodes had work" in result.stdout
    assert "(workers of a node together)" in result.stdout
    shown = run_process("env", *words[:2]).stdout
    assert shown.count("1 core, 4,294,967,296 bytes of memory for tasks") == NODES


@on_a_cluster
@pytest.mark.parametrize("loss", ["task", "node"])
def test_lost_merging_is_done_again(cluster: Any, corpus: Path, expected, tmp_path, loss: str) -> None:
    for attempt in range(6):  # what is lost after merging on a fast machine is lost sooner the next time
        output = tmp_path / f"run-{attempt}"
        _lose_while_merging(cluster, corpus, output, loss, random.Random(loss).random() / 4 / (1 << attempt))
        assert (output / "tokenizer" / "tokenizer.json").read_bytes() == expected
        if "trying again" in (output / "log.txt").read_text() or loss == "node":  # it may have been on another one
            return
    pytest.fail("no loss was noticed")


def _lose_while_merging(cluster: Any, corpus: Path, output: Path, loss: str, delay_s: float) -> None:
    """Train, and lose something a delay after all counters are combined."""
    words = ["train", str(corpus), "--output", str(output), "--chunk-size", "20000", "--vocab-size", "1000"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "bpe_pipeline", *words, *ray_at(cluster.address)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (output / "counter.parquet").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(delay_s)
    if loss == "node":
        lose(cluster, workers_of(cluster)[-1])
        add_node(cluster)
    else:
        while not processes_of("work") and process.poll() is None:
            time.sleep(0.002)
        kill_newest("work")
    _, error = process.communicate(timeout=300)
    assert process.returncode == 0, error


@on_a_cluster
def test_cluster_encodes_the_same_shards(address: str, corpus: Path, expected: bytes, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # the nodes have another current directory
    (tmp_path / "tokenizer.json").write_bytes(expected)
    encode = ["encode", corpus, "--tokenizer", "tokenizer.json", "--shard-size", "100000"]
    succeeded(run_process(*encode, "--output", "here"))
    result = succeeded(run_process(*encode, "--output", "there", "--chunk-size", "100000", *ray_at(address)))
    assert everything(tmp_path / "there") == everything(tmp_path / "here")
    assert "had work" in result.stdout
    tokenizer = bpe_pipeline.Tokenizer.load("tokenizer.json")
    (tmp_path / "tokenizer.json").unlink()  # nodes receive it from the coordinator
    asked = {"shard_format": "parquet", "shard_size": 50_000}
    bpe_pipeline.encode(corpus, tokenizer, "a", **asked)
    bpe_pipeline.encode(corpus, tokenizer, "b", ray=address, **asked)
    assert everything(tmp_path / "a") == everything(tmp_path / "b")


@on_a_cluster
def test_cluster_encodes_the_same_rows_of_chat_data(address: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_tokenizer().save("tokenizer")
    rows = [{"instruction": f"low {number} " * (number % 9), "output": "lower"} for number in range(500)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    described = {"a": {"file_name": "rows.jsonl", "columns": {"prompt": "instruction", "response": "output"}}}
    Path("dataset_info.json").write_text(json.dumps(described))
    encode = ["encode-chat", "--dataset-info", "dataset_info.json", "--dataset", "a", "--template", "chatml"]
    encode += ["--tokenizer", "tokenizer", "--pack", "neat", "--sequence-length", "64", "--shard-size", "5000"]
    encode += ["--chunk-size", "4000"]
    succeeded(run_process(*encode, "--output", "here"))
    result = succeeded(run_process(*encode, "--output", "there", *ray_at(address)))
    assert everything(tmp_path / "there") == everything(tmp_path / "here")
    assert "had work" in result.stdout


@on_a_cluster
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that Ray leaves open
def test_client_of_ray_trains_the_same_tokenizer(corpus: Path, expected: bytes, tmp_path: Path) -> None:
    """`ray://` as an option and in the environment: Ray's client has other settings than a direct connection."""
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        port = free.getsockname()[1]
    # The client's server looks for modules in its current directory, here the source without its core; and its forks
    # next to gRPC's threads fail one time in three.
    with cluster_of(1, client_port=port, PYTHONSAFEPATH="1", GRPC_ENABLE_FORK_SUPPORT="0"):
        address = f"ray://{ADDRESS}:{port}"
        words = ["train", corpus, "--chunk-size", "100000", "--vocab-size", "1000"]
        succeeded(run_process(*words, "--output", tmp_path / "a", "--ray", address))
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("RAY_ADDRESS", address)
            succeeded(run_process(*words, "--output", tmp_path / "b", "--ray"))
    for name in ("a", "b"):
        assert (tmp_path / name / "tokenizer" / "tokenizer.json").read_bytes() == expected
    gc.collect()


def test_missing_cluster_is_one_line_with_the_remedy(corpus: Path) -> None:
    error = refused(run_process("train", corpus, *ray_at(f"{ADDRESS}:1")), 2)
    assert f"no Ray cluster at {ADDRESS}:1" in error
    assert "ray start --head" in error


def no_cluster_at(address: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"^no Ray cluster at {address}.*{reason}"), RayExecutor(address, None):
        pass


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_address_that_does_not_answer_is_one_line(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpe_pipeline.executors.ray._ANSWER_S", 1.0)
    with socket.create_server((ADDRESS, 0)) as silent:
        started = time.monotonic()
        no_cluster_at(f"{scheme}{ADDRESS}:{silent.getsockname()[1]}", "does not answer.*ray start --head")
        assert time.monotonic() - started < 20


def test_address_where_something_else_answers_is_one_line() -> None:
    def answer() -> None:
        with other.accept()[0] as connection:
            connection.sendall(b"SSH-2.0-OpenSSH\r\n")
            connection.recv(100)

    with socket.create_server((ADDRESS, 0)) as other, ThreadPoolExecutor(1) as threads:
        threads.submit(answer)
        no_cluster_at(f"{ADDRESS}:{other.getsockname()[1]}", "is not Ray")


def test_loopback_is_searched_where_ray_searches_it_and_failures_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray replaces 127.0.0.1 by another address of this machine, where nothing may listen."""
    monkeypatch.setattr("ray.util.get_node_ip_address", lambda: ADDRESS)
    with socket.create_server(("127.0.0.1", 0)) as ours:
        reason = rf"{ADDRESS}, where Ray looks for 127\.0\.0\.1, cannot be reached"
        no_cluster_at(f"127.0.0.1:{ours.getsockname()[1]}", reason)
    text = "Initialization failure from server:\nTraceback\nRuntimeError: Starting it failed."
    monkeypatch.setattr("ray.init", Mock(side_effect=ConnectionAbortedError(text)))
    with pytest.raises(UsageError, match=r"at this machine .*: Starting it failed\.\); run the same command"):
        RayExecutor("auto", None).__enter__()


def test_missing_ray_is_one_line_with_the_remedy(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    error = refused(run_here("train", "--ray", corpus), 2)
    assert error == "bpe-pipeline: error: running on Ray needs its package: pip install 'bpe-pipeline[ray]'"


@on_a_cluster
def test_object_store_replaces_a_shared_directory(cluster: Any, store: Store, corpus: Path, expected, tmp_path) -> None:
    ray = ray_at(cluster.address)
    text = store.put("corpus/text.txt", corpus.read_bytes())
    train = ["train", text, "--output", store.uri("run"), "--chunk-size", "20000", "--vocab-size", "1000", *ray]
    succeeded(run_process(*train))
    assert store.get("run/tokenizer/tokenizer.json") == expected
    tokenizer = store.uri("run/tokenizer")
    encode = ["encode", "--tokenizer", tokenizer, "--shard-size", "100000"]
    succeeded(run_process(*encode, corpus, "--output", tmp_path / "here"))
    succeeded(run_process(*encode, text, "--output", store.uri("shards"), "--chunk-size", "100000", *ray))
    shards = {path.name: path.read_bytes() for path in (tmp_path / "here").glob("shard-*")}
    assert len(shards) > 3
    assert {name: store.get(f"shards/{name}") for name in shards} == shards
    assert [name for name in store.listing() if "/." in name or "share-" in name or "parts" in name] == []


@on_a_cluster
def test_failing_chunk_is_named_and_the_run_resumes(
    address: str, corpus: Path, expected, tmp_path, monkeypatch
) -> None:
    output = tmp_path / "run"
    words = {"ray": address, "chunk_size": 20_000, "vocab_size": 1000}
    with monkeypatch.context() as patch:
        patch.setattr("bpe_pipeline.counts.count.count_chunk", worker_tasks.count_but_die_at_chunk_7)
        with pytest.raises(WorkerError, match=r"^chunk 7 \(.*text\.txt, bytes .*failed 3 times.*same command again"):
            bpe_pipeline.train(corpus, output=output, **words)
    kept = {path: path.stat().st_mtime_ns for path in (output / "counts").iterdir()}
    assert kept
    bpe_pipeline.train(corpus, output=output, **words)
    assert (output / "tokenizer" / "tokenizer.json").read_bytes() == expected
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@on_a_cluster
def test_run_survives_loss_of_nodes_workers_and_coordinator(cluster: Any, corpus: Path, expected, tmp_path) -> None:
    output, printed = tmp_path / "run", tmp_path / "printed"
    words = ["train", corpus, "--output", output, "--chunk-size", "5000", "--vocab-size", "1000"]
    words += ray_at(cluster.address)
    for node in workers_of(cluster):
        lose(cluster, node)
    for loss in ("all", "worker", "coordinator", "node"):
        before = _counters(output)
        with printed.open("wb") as stream:
            command = [sys.executable, "-P", "-m", "bpe_pipeline", *map(str, words)]
            process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
        if loss == "all":
            while "waiting for one that joins" not in printed.read_text() and process.poll() is None:
                time.sleep(0.01)
            for _ in range(NODES):
                add_node(cluster)
        while _counters(output) < before + 20 and process.poll() is None:
            time.sleep(0.01)
        if loss == "node":
            lose(cluster, workers_of(cluster)[-1])
            add_node(cluster)
        elif loss == "worker":
            kill_newest("work")
        elif loss == "coordinator":
            process.kill()
        status = process.wait(timeout=120)
        assert status == (-signal.SIGKILL if loss == "coordinator" else 0), printed.read_text()
        if loss != "coordinator":
            assert (output / "tokenizer" / "tokenizer.json").read_bytes() == expected
            assert "raylet" not in printed.read_text().lower()
            assert ("whose process failed" in printed.read_text()) == (loss == "worker") or loss == "node"
            assert list(output.rglob(".*.part*")) == []
            shutil.rmtree(output)


def _counters(output: Path) -> int:
    return len(list((output / "counts").glob("[0-9]*.parquet")))


def test_warnings_of_native_code_while_connecting_go_to_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Ray writes them to the file descriptor, before the error."""

    def init(**_: object) -> None:
        os.write(2, b"[W gcs_client.cc:210] Failed to get cluster ID\n")
        raise ConnectionError("Failed to connect to Ray cluster")

    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    caplog.set_level(logging.INFO, "bpe_pipeline")
    with pytest.raises(UsageError, match="no Ray cluster at"), RayExecutor("auto", None):
        pass
    assert capfd.readouterr().err == ""
    assert "Ray: [W gcs_client.cc:210] Failed to get cluster ID" in caplog.text
