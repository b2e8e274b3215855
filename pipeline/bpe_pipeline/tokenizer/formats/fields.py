"""Read and write the files of a tokenizer. Those that are read are untrusted.

Each failure to read is one InputError that names the file, the location in it and the reason.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from bpe_pipeline.base.errors import ExportRefusedError, InputError, OtherKindError
from bpe_pipeline.storage import MODEL_BYTES, Location, read_bounded
from bpe_pipeline.storage.atomic import make_directory, write_whole

T = TypeVar("T")
# Names of files of the formats that are imported when they are used, and of the model card next to them.
RANKS_NAME, SNIPPET_NAME, GGUF_NAME = "tokenizer.tiktoken", "tiktoken_encoding.py", "tokenizer.gguf"
CARD = "README.md"

_NAMES = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


class Field:
    """A value inside a JSON document and the path to it (`model.vocab`)."""

    def __init__(self, value: Any, file: Location, path: str = "") -> None:
        self.value, self.file, self.path = value, file, path

    def refuse(self, reason: str, kind: type[InputError] = InputError) -> NoReturn:
        """Raise an error for this field."""
        raise kind(f"{self.file}: {self.path or 'the document'} {reason}")

    def read(self, kind: type[T]) -> T:
        """Return the value, which must be of this JSON type."""
        if not isinstance(self.value, kind) or (isinstance(self.value, bool) and kind is not bool):
            self.refuse(f"must be {_NAMES[kind]}, not {shortened(self.value)}")
        return self.value

    def member(self, name: str) -> "Field":
        """Step into an object; a missing member reads as null."""
        return Field(self.read(dict).get(name), self.file, f"{self.path}.{name}" if self.path else name)

    def elements(self) -> "list[Field]":
        """Step into a list."""
        return [Field(value, self.file, f"{self.path}[{index}]") for index, value in enumerate(self.read(list))]

    def expect(self, *accepted: object) -> None:
        """Refuse any value but these: another one would change ids in a way that is not reproduced."""
        if not any(self.value is value or (self.value, type(self.value)) == (value, type(value)) for value in accepted):
            wanted = " or ".join(json.dumps(value) for value in accepted)
            self.refuse(f"is {shortened(self.value)}, but only {wanted} is reproduced exactly", OtherKindError)

    def flag(self, name: str) -> bool:
        """Whether an optional member is true; refuse anything but true, false and null."""
        member = self.member(name)
        member.expect(None, False, True)
        return member.value is True


def token_field(config: Field, name: str) -> Field:
    """Step into the text of a token, which is named by its text or by an object that holds it."""
    field = config.member(name)
    return field.member("content") if isinstance(field.value, dict) else field


def steps_of(stage: Field, name: str) -> list[Field]:
    """Return the steps of a stage of a tokenizer.json in order: those of a Sequence, which holds them in `name`."""
    if stage.value is None:
        return []
    if stage.member("type").value != "Sequence":
        return [stage]
    return [step for one in stage.member(name).elements() for step in steps_of(one, name)]


def shortened(value: object) -> str:
    """Write a value for a message, in at most 80 characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(value))
    return text if len(text) <= 80 else text[:77] + "..."


def read_bytes(file: Location, kind: str = "a file of a tokenizer") -> bytes:
    """Return a file's content; InputError for a file that cannot be read or is larger than a tokenizer may be."""
    try:
        return read_bounded(file, MODEL_BYTES)
    except FileNotFoundError:
        raise InputError(f"{file} does not exist: give {kind}") from None
    except OSError as reason:
        raise InputError(f"{file} cannot be read: {reason.strerror or reason}; give {kind}") from reason
    except ValueError as reason:
        raise InputError(f"{file} cannot be used: {reason}") from reason


def read_text(file: Location) -> str:
    """Return a file's text; InputError also for a file that is not UTF-8."""
    try:
        return read_bytes(file).decode()
    except UnicodeDecodeError as reason:
        raise InputError(f"{file} is not UTF-8 (byte {reason.start})") from reason


def read_json(file: Location) -> Field:
    """Parse a file; InputError also for a file that is not JSON."""
    text = read_text(file)
    try:
        document = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(document, ensure_ascii=False).encode()  # fails for half a pair of surrogates
        return Field(document, file)
    except (ValueError, RecursionError) as reason:
        raise InputError(f"{file} is not valid JSON: {reason}") from reason


def refuse_export(reasons: Iterable[str]) -> None:
    """Raise `ExportRefusedError` for the first of the reasons not to write a file, if there is one."""
    for reason in reasons:
        raise ExportRefusedError(reason)


def write_files(directory: Location, contents: Mapping[str, str | bytes]) -> list[Location]:
    """Write files by name, each whole or not at all, in this order; return their paths."""
    make_directory(directory)
    for name, content in contents.items():
        if "/" in name:
            make_directory((directory / name).parent)
        write_whole(directory / name, content)
    return [directory / name for name in contents]
