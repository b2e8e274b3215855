"""Every error that the package raises on purpose: one family, each message with the thing, location and remedy.

Any other exception that escapes is a defect of the package.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from bpe_pipeline.base.printable import printable, without_secrets


class PipelineError(Exception):
    """A failure that the message explains in one line."""

    exit_code = 1

    def __str__(self) -> str:
        return printable(super().__str__())


class UsageError(PipelineError):
    """An option, argument or configuration file is invalid (exit code 2)."""

    exit_code = 2


class PatternError(UsageError):
    """A pre-tokenization pattern does not compile; the message points at the position in it."""


class PatternTimeoutError(PipelineError):
    """A pattern takes too long, or too much memory, on a document; the message quotes the start of the document."""


class InputError(PipelineError):
    """A corpus or tokenizer file cannot be read as requested."""


class InvalidTextError(InputError):
    """A file of the corpus is not text, or has invalid UTF-8 under `errors="strict"`; names file and byte offset."""


class RunDirectoryError(PipelineError):
    """A run directory holds another run, is damaged, or cannot be written."""


class OtherKindError(InputError, RunDirectoryError):
    """What is named is there, but of a kind or format that the call does not take: it is not known to be wrong."""


class StorageError(PipelineError):
    """An object store or the system did not answer or refused; what is stored there may still be intact."""


class TrainingError(PipelineError):
    """Training cannot do what was requested (vocabulary too small, counts too large, nothing to learn from)."""


class SpecialTokenError(PipelineError, ValueError):
    """A text contains a special token that the call does not allow."""


class ExportRefusedError(PipelineError):
    """A tokenizer file is not written because its runtime would tokenize differently from this package."""


class WorkerError(PipelineError):
    """A task kept failing in worker processes; the message names the task and the last reason."""


def refuse_if(*checks: tuple[object, str]) -> None:
    """Raise `UsageError` with the message of the first condition that holds."""
    for condition, message in checks:
        if condition:
            raise UsageError(message)


def unfit(name: str, expected: str, value: object) -> UsageError:
    """Return the error for an argument or option with another value than is expected."""
    return UsageError(f"{name}: expected {expected}, not {shown(value)}")


def shown(value: object) -> str:
    """Return a value for a message, in one line of at most 80 characters."""
    try:
        text = repr(value)
    except Exception:  # of any object; a number of thousands of digits, or deep nesting
        text = f"such {type(value).__name__}"
    text = without_secrets(" ".join(text.split())[:4096])  # fast for a text of megabytes, too
    return text if len(text) <= 80 else text[:77] + "..."


@contextmanager
def os_error_as(kind: type[PipelineError], what: str, remedy: str) -> Iterator[None]:
    """Turn an OSError of the block into an error of this kind: `WHAT: REASON; REMEDY`."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}; {remedy}") from None
