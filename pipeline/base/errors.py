"""Every error the package raises on purpose: one family, each message naming the thing, the place and the remedy.

The command prints the message as one line and exits with `exit_code`; Python callers catch `PipelineError` or a
member of it. Anything else that escapes is a defect of ours.
"""


class PipelineError(Exception):
    """Something went wrong that the message explains in one line."""

    exit_code = 1


class UsageError(PipelineError):
    """An option, argument or configuration file that cannot mean anything (exit code 2)."""

    exit_code = 2


class PatternError(UsageError):
    """A pre-tokenization pattern that does not compile; the message points at the place in it."""


class PatternTimeoutError(PipelineError):
    """A pattern that takes too long on a document; tells the document by its beginning."""


class InputError(PipelineError):
    """A corpus or a tokenizer file that cannot be read as asked."""


class InvalidTextError(InputError):
    """Invalid UTF-8 in the corpus under `errors="strict"`; names file and byte offset. path: the file's, if any."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message, path)
        self.path = path

    def __str__(self) -> str:
        return str(self.args[0])


class RunDirectoryError(PipelineError):
    """A run directory that holds another run, is damaged, or cannot be written."""


class StorageError(PipelineError):
    """A store of objects, or the system, that did not answer or refused; nothing is said about what lies there."""


class TrainingError(PipelineError):
    """Training cannot do what was asked (vocabulary too small, counts too large, nothing to learn from)."""


class SpecialTokenError(PipelineError, ValueError):
    """A text contains a special token that the call did not allow."""


class ExportRefusedError(PipelineError):
    """A tokenizer file that its runtime would read differently from us, so it is not written."""


class WorkerError(PipelineError):
    """A task kept failing in worker processes; names the task and the last reason."""
