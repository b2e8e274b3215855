"""A corpus that `encode` writes in any form while something goes wrong, and what must be there in the end."""

import gzip
import json
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import peers
from chat_cases import small_tokenizer
from encoded import EOT, TOKENIZER
from faults import Faults
from killing import ended, kill, start

from bpe_pipeline import Tokenizer

_FORMATS = ("npy", "bin", "parquet", "arrow", "megatron", "mds", "single npy", "single bin", "single parquet", "chat")
_ROWS = ("--sequence-length 64", "--sequence-length 64 --pack best-fit", "--sequence-length 64 --pack none")
_CHOSEN = "--documents offsets --sample 60% --max-document-chars 700"
_ORDERS = ("--val-fraction 0.3", "--shuffle --seed 2", "--shuffle", "--shuffle --val-fraction 0.2")
_CHAT = ("--pack neat", "--pack none", "--pack none --val-fraction 0.3")
_SHARD_SIZES = (9_000, 150_000, 100_000_000)
_OF_A_RUN = (".lock", "log.txt", "encoding.json")  # their content differs


@dataclass(frozen=True)
class Case:
    """Options. tokenizer: the directory of one, `chat` for `encode-chat`."""

    options: str
    tokenizer: str = "native"

    def __str__(self) -> str:
        return f"{self.tokenizer} {self.options}"


def choices(number: int) -> list[Case]:
    """Return cases of each format, of single files and chat data, the rest at random; in the corpus's order first."""
    choose, cases = random.Random(number), []
    for at in range(number):
        format_, size = _FORMATS[at % len(_FORMATS)], f"--shard-size {choose.choice(_SHARD_SIZES)}"
        rows = choose.choice(["", _CHOSEN, "--documents offsets", *_ROWS])
        order = choose.choice([*[""] * len(_ORDERS), *_ORDERS])
        tokenizer = choose.choice(["native", "native", "native", "regex"])
        if format_ == "chat":
            chat = f"--template chatml --sequence-length 64 --shard-format {choose.choice(['arrow', 'parquet'])}"
            cases.append(Case(f"{chat} {size} {choose.choice(_CHAT)}", "chat"))
        elif format_.startswith("single "):
            cases.append(Case(f"--single --shard-format {format_[7:]} {rows} {order}".strip(), tokenizer))
        else:
            options = f"--shard-format {format_} {size} {rows} {order}".strip()
            cases.append(Case(options, tokenizer))
    choose.shuffle(cases)
    return sorted(cases, key=lambda case: any(word in str(case) for word in ("--shuffle", "--val", "chat")))


def write_corpus(home: Path) -> Path:
    """Write tokenizers, chat data, and 1.3 MB of plain text, which is cut into chunks, records and compressed text."""
    choose, texts = random.Random(1), [peers.generated_text(seed, 300 + 30 * seed) for seed in range(40)]
    (corpus := home / "corpus").mkdir()
    (corpus / "a.txt").write_text(EOT.join(choose.choice(["", *texts]) for _ in range(90)), newline="")
    (corpus / "b.jsonl").write_text("\n".join(json.dumps({"text": choose.choice(texts)}) for _ in range(40)))
    (corpus / "c.txt.gz").write_bytes(gzip.compress(EOT.join(texts[:9]).encode(), mtime=0))
    (corpus / "d.txt").write_text(texts[0])
    words = texts[-1].split(" ")
    rows = [
        {"instruction": " ".join(choose.sample(words, at % 40)), "output": choose.choice(words)} for at in range(2000)
    ]
    (home / "chat.jsonl").write_text("\n".join(map(json.dumps, rows)))
    TOKENIZER.save(home / "native")
    small_tokenizer().save(home / "chat")
    Tokenizer.from_merges([(b"t", b"h")], [EOT], pattern=r"(?<=x)y| ?\w+|\s+|[^\w\s]+").save(home / "regex")
    return home


@dataclass
class Encoding:
    """An encoding of what `write_corpus` wrote. whole: what a run that nothing stops leaves, by name.

    changes: of files in that run; duration_s: from the first change to the end.
    """

    corpus: Path
    case: Case
    library: Path
    home: Path

    def __post_init__(self) -> None:
        self._numbers = count()
        output, faults = self.fresh(), self.faults()
        process = self.start(output, 2, **faults.environment(output))
        begun = _wait_for_changes(process, faults)
        assert ended(process) == 0
        self.duration_s, self.changes, self.whole = time.monotonic() - begun, faults.changes, self.written(output)
        shutil.rmtree(output)

    def fresh(self) -> Path:
        """Return a directory that does not exist, for an output."""
        return self.home / f"output-{next(self._numbers)}"

    def faults(self) -> Faults:
        """Return faults to come."""
        return Faults(self.library, self.home / f"faults-{next(self._numbers)}")

    def words(self, output: Path, workers: int) -> list[str]:
        """Return the command."""
        chat, tokenizer = self.case.tokenizer == "chat", self.corpus / self.case.tokenizer
        inputs: list[object] = [self.corpus / "chat.jsonl"] if chat else sorted((self.corpus / "corpus").iterdir())
        words = ["encode-chat" if chat else "encode", *inputs, "--tokenizer", tokenizer, *self.case.options.split()]
        words += ["--output", output, "--chunk-size", "40KiB", "--workers", workers, "--quiet"]
        return [sys.executable, "-P", "-m", "bpe_pipeline", *map(str, words)]

    def start(self, output: Path, workers: int, **environment: str) -> "subprocess.Popen[bytes]":
        """Start the command as the head of a process group."""
        return start(self.words(output, workers), **environment)

    def run(self, output: Path, workers: int, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        return _result(self.start(output, workers, **environment))

    def written(self, output: Path) -> dict[str, bytes]:
        """Return the names in a directory, with the content of files where it is that of every run."""
        return {
            str(path.relative_to(output)): b"" if path.is_dir() or path.name in _OF_A_RUN else path.read_bytes()
            for path in sorted(output.rglob("*"))
        }

    def require_finished(self, output: Path) -> None:
        """Require what a run that nothing stops leaves, and nothing else; then remove it."""
        written = self.written(output)
        assert written.keys() == self.whole.keys()
        assert [name for name, data in written.items() if data != self.whole[name]] == []
        shutil.rmtree(output)

    def require_whole(self, output: Path) -> None:
        """Require, where a run was stopped, that what has its last name is complete."""
        for name, data in self.written(output).items():
            assert data == self.whole.get(name, data), name

    def interrupted(
        self, choose: random.Random, output: Path, *, logged: bool = False
    ) -> tuple[subprocess.CompletedProcess[str], Faults]:
        """Run the command and kill it at a change or at some moment, with any number of workers.

        Returns how it ended, and what changed files, for `fail_power` if it is logged.
        """
        faults, at_change = self.faults(), choose.random() < 0.5
        at = choose.randint(1, self.changes) if at_change else 0
        process = self.start(output, choose.randint(1, 3), **faults.environment(output, at, logged=logged))
        if not at_change:
            _wait_for_changes(process, faults)
            time.sleep(choose.uniform(0, self.duration_s))
            kill(process.pid, "all")
        return _result(process), faults


def _wait_for_changes(process: "subprocess.Popen[bytes]", faults: Faults) -> float:
    """Wait until a command changes a file, or ends; return when that was."""
    while not faults.changes and process.poll() is None:
        time.sleep(0.001)
    return time.monotonic()


def _result(process: "subprocess.Popen[bytes]") -> subprocess.CompletedProcess[str]:
    _, stderr = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, "", stderr.decode())
