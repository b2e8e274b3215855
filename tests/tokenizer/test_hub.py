"""Uploads to a server that answers as the Hugging Face Hub does, on loopback."""

import base64
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline import Tokenizer, cli
from pipeline.base.errors import StorageError, UsageError
from pipeline.report.model_card import MARK

TOKEN = "hf_of_this_test"


class Hub(BaseHTTPRequestHandler):
    """Takes a repository and a commit whose files are in it, for one token."""

    created: list[dict[str, object]]
    files: dict[str, bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        home = f"http://{self.headers['Host']}/owner/name"
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, {"error": "Invalid username or password."})
        if self.path == "/api/repos/create":
            self.created.append(json.loads(body))
            return self.answer(200, {"url": home, "name": "owner/name"})
        if self.path == "/api/models/owner/name/preupload/main":
            paths = [file["path"] for file in json.loads(body)["files"]]
            modes = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]
            return self.answer(200, {"files": modes})
        if self.path == "/api/validate-yaml":  # of a model card
            return self.answer(200, {"errors": [], "warnings": []})
        assert self.path == "/api/models/owner/name/commit/main"
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        return self.answer(200, {"commitUrl": f"{home}/commit/{'1' * 40}", "commitOid": "1" * 40, "hookOutput": ""})

    def do_GET(self) -> None:
        self.answer(404, {"error": "not found"})

    def answer(self, code: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Hub]]:
    pytest.importorskip("huggingface_hub")
    Hub.created, Hub.files = [], {}
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield Hub
        server.shutdown()
        thread.join()


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.from_merges([(b"l", b"o"), (b"lo", b"w")], ["<|endoftext|>"])


def test_uploaded_files_are_the_tokenizer(hub: type[Hub], tokenizer: Tokenizer, tmp_path: Path) -> None:
    address = tokenizer.push_to_hub("owner/name", private=True, token=TOKEN)
    assert address.endswith(f"/owner/name/commit/{'1' * 40}")
    assert hub.created[0].get("private") is True or hub.created[0].get("visibility") == "private"
    tokenizer.save(tmp_path)
    assert hub.files == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_export_uploads_the_files_and_the_card(
    hub: type[Hub],
    tokenizer: Tokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    tokenizer.save(tmp_path)
    (tmp_path / "README.md").write_text("---\nlibrary_name: transformers\n---\n")
    words = ["export", str(tmp_path), "--export", "hf", "--pad-token", "<|endoftext|>", "--push-to-hub", "owner/name"]
    assert cli.run(words) == 2
    assert "hf auth login" in capfd.readouterr().err
    assert not hub.created
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert cli.run(words) == 0
    assert capfd.readouterr().out.splitlines()[-1].endswith(f"/owner/name/commit/{'1' * 40}")
    assert hub.files == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert json.loads(hub.files["tokenizer_config.json"])["pad_token"] == "<|endoftext|>"
    (tmp_path / "README.md").write_text(f"---\nlibrary_name: transformers\n---\n{MARK}")
    for pad, card in (("<|endoftext|>", True), ("<pad>", False)):  # the card lists the special tokens that it knows
        hub.files.clear()
        assert cli.run([*words[:4], "--pad-token", pad, *words[6:], "--output", str(tmp_path / "to")]) == 0
        assert ("README.md" in hub.files) is card


def test_a_readme_that_is_no_model_card_stays_here(
    hub: type[Hub], tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer.save(tmp_path)
    (tmp_path / "README.md").write_text("# A project\n")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert cli.run(["export", str(tmp_path), "--export", "hf", "--push-to-hub", "owner/name"]) == 0
    assert "tokenizer.json" in hub.files
    assert "README.md" not in hub.files


def test_export_says_before_it_writes_that_nothing_can_be_uploaded(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tokenizer.save(tmp_path / "from")
    words = ["export", str(tmp_path / "from"), "--output", str(tmp_path / "to"), "--push-to-hub"]
    assert cli.run([*words, "name"]) == 2
    assert "--push-to-hub: expected the name of a repository, OWNER/NAME, not 'name'" in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert cli.run([*words, "owner/name"]) == 2
    error = capfd.readouterr().err
    assert "pip install huggingface_hub" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "to").exists()


@pytest.mark.usefixtures("hub")
def test_refused_token_is_one_line_with_the_remedy(tokenizer: Tokenizer) -> None:
    with pytest.raises(StorageError, match=r"owner/name was not uploaded: .*401.*hf auth login") as refused:
        tokenizer.push_to_hub("owner/name", token="hf_wrong")
    assert "\n" not in str(refused.value)
    assert "hf_wrong" not in str(refused.value)


@pytest.mark.usefixtures("hub")
def test_server_that_is_not_there_is_one_line(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(StorageError, match="check the name, the connection and the token") as refused:
        tokenizer.push_to_hub("owner/name", token=TOKEN)
    assert "\n" not in str(refused.value)


def test_missing_package_and_wrong_names_are_refused(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("name", "a/b/c", "", " /x", 5):
        with pytest.raises(UsageError, match=re.escape("OWNER/NAME")):
            tokenizer.push_to_hub(wrong)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match="pip install huggingface_hub"):
        tokenizer.push_to_hub("owner/name")
