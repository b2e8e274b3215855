"""Uploads to a server that answers as the Hugging Face Hub does, on loopback."""

import base64
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command import refused, run

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import StorageError, UsageError
from bpe_pipeline.reports.model_card import MARK

TOKEN, COMMIT = "hf_of_this_test", f"/commit/{'1' * 40}"
TOKENIZER = Tokenizer.from_merges([(b"l", b"o"), (b"lo", b"w")], ["<|endoftext|>"])


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
        return self.answer(200, {"commitUrl": f"{home}{COMMIT}", "commitOid": "1" * 40, "hookOutput": ""})

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
def home(tmp_path: Path) -> Path:
    """A directory of TOKENIZER's files."""
    TOKENIZER.save(tmp_path / "home")
    return tmp_path / "home"


def export(home: Path, *options: object, to: str = "owner/name") -> CompletedProcess[str]:
    return run("export", home, "--export", "hf", "--overwrite", "--push-to-hub", to, *options)


def test_uploaded_files_are_the_tokenizer(hub: type[Hub], home: Path) -> None:
    address = TOKENIZER.push_to_hub("owner/name", private=True, token=TOKEN)
    assert address.endswith(f"/owner/name{COMMIT}")
    assert hub.created[0].get("private") is True or hub.created[0].get("visibility") == "private"
    assert hub.files == {path.name: path.read_bytes() for path in home.iterdir()}


def test_export_uploads_the_files_and_the_card(hub: type[Hub], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card, pad = home / "README.md", ("--pad-token", "<|endoftext|>")
    card.write_text("---\nlibrary_name: transformers\n---\n")
    assert "hf auth login" in refused(export(home, *pad), 2)
    assert not hub.created
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert export(home, *pad).stdout.splitlines()[-1].endswith(f"/owner/name{COMMIT}")
    assert hub.files == {path.name: path.read_bytes() for path in home.iterdir()}
    assert json.loads(hub.files["tokenizer_config.json"])["pad_token"] == "<|endoftext|>"
    card.write_text(f"---\nlibrary_name: transformers\n---\n{MARK}")
    for options, listed in ((pad, True), (("--pad-token", "<pad>"), False)):  # the special tokens that the card knows
        hub.files.clear()
        assert export(home, *options, "--output", home.parent / "to").returncode == 0
        assert ("README.md" in hub.files) is listed
    hub.files.clear()
    card.write_text("# A project\n")  # no model card
    assert export(home).returncode == 0
    assert "tokenizer.json" in hub.files
    assert "README.md" not in hub.files


def test_missing_package_and_wrong_names_are_refused_before_anything_is_written(home, monkeypatch):
    to = ("--output", home.parent / "to")
    named = "--push-to-hub: expected the name of a repository, OWNER/NAME, not 'name'"
    assert named in refused(export(home, *to, to="name"), 2)
    for wrong in ("name", "a/b/c", "", " /x", 5):
        with pytest.raises(UsageError, match="OWNER/NAME"):
            TOKENIZER.push_to_hub(wrong)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install huggingface_hub" in refused(export(home, *to), 2)
    assert not to[1].exists()
    with pytest.raises(UsageError, match="pip install huggingface_hub"):
        TOKENIZER.push_to_hub("owner/name")


@pytest.mark.usefixtures("hub")
def test_refused_token_and_absent_server_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = {"hf_wrong": "401.*hf auth login", TOKEN: "check the name, the connection and the token"}
    for token, reason in refusals.items():
        with pytest.raises(StorageError, match=f"owner/name was not uploaded: .*{reason}") as refusal:
            TOKENIZER.push_to_hub("owner/name", token=token)
        assert "\n" not in str(refusal.value)
        assert token not in str(refusal.value)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
