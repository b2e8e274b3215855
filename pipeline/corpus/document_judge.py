"""What is decided of a whole document: whether it is counted, whatever its pieces are.

An option of that kind is a field of `DocumentJudge`, here and in the core (`native/count/counting.hpp`). The value is
passed whole from the options to what cuts, reads and counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class DocumentJudge:
    """The options that decide of a document whether it is counted. errors: the policy for invalid UTF-8."""

    errors: str = "replace"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "DocumentJudge":
        """Return the judge that options, by their names, describe."""
        return cls(**{field.name: options[field.name] for field in fields(cls)})

    @property
    def drops_documents(self) -> bool:
        """Whether a document may be dropped when its end is reached: so text is cut between documents alone."""
        return self.errors == "skip"
