"""What a wheel must do where it was installed: train in worker processes, write, load, encode and decode.

Run by `python -P tests/support/smoke.py` in an environment that has the package and nothing else, as `.ci/package` and
cibuildwheel do; it needs no other package and no network.
"""

import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import bpe_pipeline


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        text = "".join(f"low lower lowest {number} é日本\n" for number in range(2000))
        Path(home, "a.txt").write_text(text, encoding="utf-8")
        command = [Path(sys.executable).with_name("bpe-pipeline"), "train", "a.txt", "--output", "run"]
        options = ["--vocab-size", "400", "--workers", "2", "--chunk-size", "20000", "--quiet"]
        subprocess.run([*command, *options], cwd=home, check=True)
        subprocess.run([command[0], "verify", "run", "--quiet"], cwd=home, check=True)
        tokenizer = bpe_pipeline.Tokenizer.load(Path(home, "run", "tokenizer"))
        ids = tokenizer.encode(text)
        if tokenizer.decode(ids) != text or len(ids) > len(text) / 3:
            raise SystemExit("the tokenizer does not give the text back, or hardly shorter")
    names = {str(path) for path in metadata.files("bpe-pipeline") or ()}
    sources = ("pipeline/", "native/", "tests/", "benchmarks/")
    if not {"bpe_pipeline/py.typed", "bpe_pipeline/_core.pyi"} <= names or any(
        name.startswith(sources) for name in names
    ):
        raise SystemExit(f"the wheel does not hold what it should: {sorted(names)}")
    if metadata.version("bpe-pipeline") != bpe_pipeline.__version__:
        raise SystemExit(f"the wheel is of version {metadata.version('bpe-pipeline')}, not {bpe_pipeline.__version__}")
    sys.stdout.write(f"bpe-pipeline {bpe_pipeline.__version__}: trained, verified, encoded and decoded\n")


if __name__ == "__main__":
    main()
