"""The size of Python code in tokens: no comments, docstrings or white space, so that longer lines make it no smaller.

An f-string is one token and those of its expressions, in every version of Python.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

_LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
_F_START, _F_END = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "FSTRING_END", -1)  # since Python 3.12
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_tokens(path: Path) -> int:
    """Return the number of tokens in a file of Python."""
    text = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = sum(
        isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None for node in nodes
    )
    inside = sum(_expression_tokens(node.value) for node in nodes if isinstance(node, ast.FormattedValue))
    return _outside_f_strings(text) + inside - docstrings


def _outside_f_strings(text: str) -> int:
    """Count tokens, an f-string being one."""
    count = depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == _F_START:
            count += depth == 0
            depth += 1
        elif token.type == _F_END:
            depth -= 1
        else:
            count += depth == 0 and token.type not in _LAYOUT
    return count


def _expression_tokens(expression: ast.expr) -> int:
    """Count the tokens of an expression in an f-string; a string in it is one."""
    return len(re.findall(r"\w+|[^\w\s]", re.sub(r"(['\"]).*?\1", "x", ast.unparse(expression))))
