"""Pages, help and messages say the usual words of the field, each for one thing; the glossary has the list."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
OTHERS = {  # words that once were ours -> what they mean to a reader, or what is said instead
    r"pieces?": "SentencePiece's word for a token: say pre-token",
    r"guests?": "say extension",
    r"rooms?": "say folder of the package, or budget of memory",
    r"last pairs?": "say last merge",
    r"normal forms?": "say Unicode normalization",
    r"hard (?:strings?|texts?)": "say edge cases",
    r"(?:conversations?|rows?|documents?) (?:is |are |were )?cut": "say truncated",
}
TERMS = re.compile(rf"\b(?:{'|'.join(OTHERS)})\b", re.IGNORECASE)
NOT_OURS = re.compile(r"SentencePiece[^.]*", re.IGNORECASE)  # a sentence about it


def _pages() -> Iterator[tuple[str, str]]:
    named = [HOME / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for path in (*named, *sorted((HOME / "docs" / "pages").rglob("*.md"))):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(HOME)}:{number}", line


def _sentences() -> Iterator[tuple[str, str]]:
    """Yield the texts of the package that have several words: help, messages, docstrings; and the core's messages."""
    for path in sorted((HOME / "pipeline").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield f"{path.relative_to(HOME)}:{node.lineno}", node.value
    for path in sorted((HOME / "pipeline" / "native").rglob("*.[ch]pp")):
        for text in re.findall(r'"((?:\\.|[^"\\\n])* (?:\\.|[^"\\\n])*)"', path.read_text(encoding="utf-8")):
            yield str(path.relative_to(HOME)), text


@pytest.mark.parametrize("texts", [_pages, _sentences])
def test_no_page_help_or_message_says_a_word_that_was_ours(texts: object) -> None:
    assert callable(texts)
    found = [f"{where}: {match[0]}" for where, text in texts() for match in TERMS.finditer(NOT_OURS.sub("", text))]
    assert not found, OTHERS
