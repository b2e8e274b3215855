"""A tokenizer as an object of another library, or on its Hub, with the same ids; ExportRefusedError for others."""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import StorageError, UsageError, unfit
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.chat_templates import installed
from bpe_pipeline.tokenizer.formats import huggingface
from bpe_pipeline.tokenizer.formats.fields import CARD
from bpe_pipeline.tokenizer.formats.tiktoken_ranks import encoding_arguments
from bpe_pipeline.tokenizer.model import Model

_REMEDY = "check the name, the connection and the token, which `hf auth login` stores or HF_TOKEN names"


def of_whole_texts(theirs: Any) -> Any:
    """Return a `tokenizers.Tokenizer` without the truncation and padding of its file, as transformers has it."""
    if hasattr(theirs, "no_truncation"):
        theirs.no_truncation()
        theirs.no_padding()
    else:  # from version 1.0 on
        theirs.truncation = theirs.padding = None
    return theirs


@contextmanager
def _exported(model: Model) -> Iterator[Path]:
    """Write the files of transformers into a directory, which is removed at the end."""
    with tempfile.TemporaryDirectory() as directory:
        huggingface.export(model, Path(directory))
        yield Path(directory)


def _loaded_as(cls: Any, model: Model) -> Any:
    """Return the tokenizer of a class of transformers."""
    with _exported(model) as directory:
        loaded = cls.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    loaded.name_or_path = loaded.init_kwargs["name_or_path"] = ""  # rather than a directory that is gone
    return loaded


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
    with _exported(model) as directory:
        for name, data in (more or {}).items():
            (directory / name).write_bytes(data)
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
    data = path.read_bytes() if (path := home / CARD).exists() else b""
    return {CARD: data} if data.startswith(b"---") else {}


class Conversions:
    """The tokenizer's methods that make objects of other libraries."""

    model: Model

    def to_tiktoken(self) -> Any:
        """Return the tokenizer as an object of tiktoken, with the same ids.

        >>> tokenizer.to_tiktoken().encode("lower")
        [257, 258]

        Returns:
            A `tiktoken.Encoding`.

        Raises:
            UsageError: tiktoken is not installed.
            ExportRefusedError: the library would produce other ids.
        """
        tiktoken = installed("tiktoken")
        ranks = {token: id_ for id_, token in self.model.vocabulary.tokens.items()}
        return tiktoken.Encoding(mergeable_ranks=ranks, **encoding_arguments(self.model))

    def to_tokenizers(self) -> Any:
        """Return the tokenizer as an object of tokenizers, with the same ids.

        >>> tokenizer.to_tokenizers().encode("lower").ids
        [257, 258]

        Returns:
            A `tokenizers.Tokenizer`.

        Raises:
            UsageError: tokenizers is not installed.
            ExportRefusedError: the library would produce other ids.
        """
        tokenizers = installed("tokenizers")
        with _exported(self.model) as directory:
            converted = tokenizers.Tokenizer.from_file(f"{directory}/tokenizer.json")
        return of_whole_texts(converted)

    def to_transformers(self) -> Any:
        """Return the tokenizer as an object of transformers, with the same ids, pad token and chat template.

        >>> tokenizer.to_transformers()("lower").input_ids
        [257, 258]

        Returns:
            A `transformers.PreTrainedTokenizerFast`.

        Raises:
            UsageError: transformers is not installed.
            ExportRefusedError: the library would produce other ids.
        """
        return _loaded_as(installed("transformers").PreTrainedTokenizerFast, self.model)

    def as_transformers(self) -> Any:
        """Return an object of transformers that encodes in native threads, for training code; results are the same.

        Texts and lists of them are encoded natively, also with padding, truncation, masks, offsets and added tokens.
        transformers does the rest: pairs, words, overflowing tokens, decoding, saving.

        >>> tokenizer.as_transformers()(["lower", "low"]).input_ids
        [[257, 258], [257]]

        Returns:
            A `transformers.PreTrainedTokenizerFast`.

        Raises:
            UsageError: transformers is not installed.
            ExportRefusedError: the library would produce other ids.
        """
        installed("transformers")
        from bpe_pipeline.tokenizer.for_transformers import NativeTokenizer

        return _loaded_as(NativeTokenizer, self.model).attach(self.model)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Upload the tokenizer",
    ) -> str:
        """Upload the files of `save` to the Hugging Face Hub as one commit; other files there stay.

        >>> tokenizer.push_to_hub("no repository")
        Traceback (most recent call last):
        bpe_pipeline.base.errors.UsageError: repo_id: expected the name of a repository, OWNER/NAME, not 'no repository'

        Args:
            repo_id: OWNER/NAME of a repository of models; made if it is missing.
            private: whether a new repository is private; None: as its owner's settings say.
            token: an access token; None: that of HF_TOKEN or `hf auth login`.
            commit_message: the title of the commit.

        Returns:
            The commit's address.

        Raises:
            UsageError: `huggingface_hub` is not installed, no one is logged in, or the name is not OWNER/NAME.
            ExportRefusedError: the library would produce other ids.
            StorageError: the Hub refused the upload or cannot be reached.
        """
        return push(self.model, repo_id, private=private, token=token, commit_message=commit_message)
