"""A tokenizer's files to the Hugging Face Hub, through the `huggingface_hub` package."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pipeline.base.errors import StorageError, UsageError, unfit
from pipeline.storage import Location, existing
from pipeline.tokenizer.conversions import installed
from pipeline.tokenizer.formats.huggingface import export_huggingface
from pipeline.tokenizer.model import Model

CARD = "README.md"
_REMEDY = "check the name, the connection and the token, which `hf auth login` stores or HF_TOKEN names"


def push(
    model: Model,
    repo_id: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    commit_message: str = "Upload the tokenizer",
    more: Mapping[str, bytes] | None = None,
) -> str:
    """Upload the files, and `more`, as one commit to a repository, which is made if missing; return its address."""
    require_login("repo_id", repo_id, token)
    hub = installed("huggingface_hub")
    with tempfile.TemporaryDirectory() as directory:
        export_huggingface(model, Path(directory))
        for name, data in (more or {}).items():
            (Path(directory) / name).write_bytes(data)
        try:
            api = hub.HfApi(token=token)
            api.create_repo(repo_id, private=private, exist_ok=True)
            done = api.upload_folder(repo_id=repo_id, folder_path=directory, commit_message=commit_message)
        except Exception as reason:  # of the package, its HTTP client or the system
            said = " ".join(str(reason).split())
            raise StorageError(f"{repo_id} was not uploaded: {said or type(reason).__name__}; {_REMEDY}") from reason
    return str(done.commit_url)


def require_login(name: str, repo_id: str, token: str | None = None) -> None:
    """Raise UsageError if the value of `name` is no repository, without the package, and if no one is logged in."""
    if not isinstance(repo_id, str) or not re.fullmatch(r"[\w.-]+/[\w.-]+", repo_id):
        raise unfit(name, "the name of a repository, OWNER/NAME", repo_id)
    if token is None and installed("huggingface_hub").get_token() is None:
        raise UsageError(f"{repo_id} needs an access token: run `hf auth login` once, or set HF_TOKEN")


def card_in(home: Location) -> dict[str, bytes]:
    """Return the model card of a tokenizer directory by its name; a README.md without metadata is none."""
    path = home / CARD
    data = path.read_bytes() if any(existing([path])) else b""
    return {CARD: data} if data.startswith(b"---") else {}
