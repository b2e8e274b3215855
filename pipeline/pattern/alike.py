"""Whether an expression from somebody else's file means the same in every engine: in tokenizers', tiktoken's and here.

Our parser takes a small language. Nearly all of it means the same in Oniguruma (tokenizers), fancy-regex (tiktoken)
and `regex`; `first_difference` looks for the rest and names the first place, so that a file is accepted or refused but
never read approximately. The differences themselves are those that `translate` writes around.
"""

import re

_CASELESS = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?i:[sdmt]|ll|ve|re)")  # no engine folds these to several characters
_TOKEN = re.compile(
    r"\\[pP]\{\^?(?P<property>[^}]*)\}|\\x\{[0-9A-Fa-f]{1,8}\}|\\x(?P<byte>[0-9A-Fa-f]{2})|\\u[0-9A-Fa-f]{4}"
    r"|\\(?P<escape>.)|(?P<counts>\{[^}]*\})(?P<mode>[+?]?)|\(\?(?P<group>[:=!>]|.)|.",
    re.DOTALL,
)
_CLASS_TOKEN = re.compile(
    r"\\[pP]\{\^?(?P<property>[^}]*)\}|\\x\{[0-9A-Fa-f]{1,8}\}|\\x(?P<byte>[0-9A-Fa-f]{2})|\\u[0-9A-Fa-f]{4}"
    r"|\\(?P<escape>.)|.",
    re.DOTALL,
)
_PROPERTY = re.compile(r"[CLMNPSZ][a-z]?")
_SAME_ESCAPES = frozenset("tnrfvdDsS")


def first_difference(expression: str) -> str | None:
    """Why engines may read the expression differently, with the place; None where they read it alike."""
    at = 0
    while at < len(expression):
        caseless = next((known for known in _CASELESS if expression.startswith(known, at)), None)
        if caseless:
            at += len(caseless)
            continue
        if expression[at] == "[":
            stop = _class_end(expression, at)
            reason = _difference_in_class(expression[at:stop])
        else:
            found = _TOKEN.match(expression, at)
            assert found is not None, "the last branch takes anything"
            stop = found.end()
            reason = _difference(found)
        if reason is not None:
            return f"{reason} at character {at}"
        at = stop
    return None


def _difference(found: re.Match[str]) -> str | None:
    if found["counts"] is not None:
        bounds = re.fullmatch(r"\{(\d+)(,(\d*))?\}", found["counts"])
        if bounds is None:
            return "a counted quantifier that is not {n}, {n,} or {n,m}"
        if found["mode"] == "+":
            return "a possessive counted quantifier"
        return "a lazy exact count" if found["mode"] and bounds[2] is None else None
    if found["group"] is not None:
        return None if found["group"] in ":=!>" else "a group with flags or a name"
    if found[0] == "$":
        return "the anchor $"
    return _difference_of_escape(found)


def _difference_of_escape(found: re.Match[str]) -> str | None:
    if found["property"] is not None and not _PROPERTY.fullmatch(found["property"]):
        return f"the property {found['property']}"
    if found["byte"] is not None and int(found["byte"], 16) >= 0x80:
        return "an escaped byte beyond ASCII"
    letter = found["escape"]
    if letter is not None and letter not in _SAME_ESCAPES and (letter.isalnum() or not letter.isascii()):
        return f"the escape \\{letter}"
    return None


def _class_end(expression: str, start: int) -> int:
    """The position after the class that begins at `start`; that of the end where it is not closed."""
    at = start + 1 + expression.startswith("^", start + 1)
    while at < len(expression) and expression[at] != "]":
        at += 2 if expression[at] == "\\" else 1
    return min(at + 1, len(expression))


def _difference_in_class(text: str) -> str | None:
    body = text[1:-1].removeprefix("^")
    if not body:
        return "an empty class"
    items = list(_CLASS_TOKEN.finditer(body))
    for index, found in enumerate(items):
        if found[0] == "[" or (found[0] in "&-~|" and index > 0 and items[index - 1][0] == found[0]):
            return "a set inside a class"
        reason = _difference_of_escape(found)
        if reason is not None:
            return reason
        if found[0] == "-" and 0 < index < len(items) - 1:
            before, after = items[index - 1], items[index + 1]
            if not (_is_single(before) and _is_single(after)) or (index > 1 and items[index - 2][0] == "-"):
                return "a '-' inside a class"
    return None


def _is_single(found: re.Match[str]) -> bool:
    return found["property"] is None and (found["escape"] or "") not in ("d", "D", "s", "S")
