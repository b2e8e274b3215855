"""A backtracking matcher over syntax trees that is short enough to be seen right: the judge where `regex` errs."""

from collections.abc import Iterator

from bpe_pipeline.pattern.classes import CharSet, category_of
from bpe_pipeline.pattern.parse import Ahead, Alternation, Atomic, Look, Node, Repeat, Sequence


def ways(node: Node, text: str, at: int) -> Iterator[int]:
    """Where a match of the node that begins at `at` can end, the preferred way first."""
    match node:
        case CharSet():
            if at < len(text) and node.contains(ord(text[at]), category_of(ord(text[at]))):
                yield at + 1
        case Look(chars, end):
            code = ord(text[at]) if at < len(text) else None
            if end if code is None else chars.contains(code, category_of(code)):
                yield at
        case Ahead(body, negative):
            if (next(ways(body, text, at), None) is None) == negative:
                yield at
        case Sequence(()):
            yield at
        case Sequence((first, *rest)):
            for middle in ways(first, text, at):
                yield from ways(Sequence(tuple(rest)), text, middle)
        case Alternation(branches):
            for branch in branches:
                yield from ways(branch, text, at)
        case Atomic(body):
            yield from list(ways(body, text, at))[:1]
        case Repeat():
            yield from repeated(node, text, at, 0)


def repeated(node: Repeat, text: str, at: int, count: int) -> Iterator[int]:
    """The ways of a repetition of which `count` rounds are done."""
    if node.lazy and count >= node.least:
        yield at
    if node.most is None or count < node.most:
        for middle in ways(node.body, text, at):
            yield from repeated(node, text, middle, count + 1)
    if not node.lazy and count >= node.least:
        yield at


def pre_tokens(tree: Node, text: str) -> list[str]:
    """The pre-tokens of a document: matches, and each stretch between them."""
    result, at, open_from = [], 0, 0
    while at < len(text):
        end = next(ways(tree, text, at), None)
        if end is None:
            at += 1
            continue
        result += [text[open_from:at]] * (open_from < at) + [text[at:end]]
        at = open_from = end
    return result + [text[open_from:]] * (open_from < at)
