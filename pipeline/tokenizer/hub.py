"""A tokenizer's files to the Hugging Face Hub, through the `huggingface_hub` package."""

import re
import tempfile
from pathlib import Path

from pipeline.base.errors import StorageError, unfit
from pipeline.tokenizer.conversions import installed
from pipeline.tokenizer.formats.huggingface import export_huggingface
from pipeline.tokenizer.model import Model

_REMEDY = "check the name, the connection and the token: `hf auth login` stores one, HF_TOKEN and token= name one"


def push(model: Model, repo_id: str, *, private: bool | None, token: str | None, commit_message: str) -> str:
    """Upload the files as one commit, into a repository that is made if it is missing; return the commit's address."""
    if not isinstance(repo_id, str) or not re.fullmatch(r"[\w.-]+/[\w.-]+", repo_id):
        raise unfit("repo_id", "the name of a repository, OWNER/NAME", repo_id)
    hub = installed("huggingface_hub")
    with tempfile.TemporaryDirectory() as directory:
        export_huggingface(model, Path(directory))
        try:
            api = hub.HfApi(token=token)
            api.create_repo(repo_id, private=private, exist_ok=True)
            done = api.upload_folder(repo_id=repo_id, folder_path=directory, commit_message=commit_message)
        except Exception as reason:  # of the package, its HTTP client or the system
            said = " ".join(str(reason).split())
            raise StorageError(f"{repo_id} was not uploaded: {said or type(reason).__name__}; {_REMEDY}") from reason
    return str(done.commit_url)
