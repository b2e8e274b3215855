"""Where the `regex` package and our tables see different characters.

The package follows newer Unicode versions than the tables do (and than the runtimes that read our exports), and it
folds U+0130 together with `i`. A pattern that runs on `regex` therefore may cut such characters otherwise than an
exported tokenizer would: a run names those of its corpus.
"""

from functools import cache

from pipeline.pattern._unicode import CATEGORIES
from pipeline.pattern.classes import CODE_POINTS, category_runs


@cache
def differing_characters() -> frozenset[str]:
    """All characters whose general category or case folding the installed `regex` sees differently.

    White_Space and `\\w` differ nowhere else. Takes about a quarter of a second, once a process.
    """
    import regex

    differing = {dotted for dotted in "\u0130\u0131" if regex.match(f"(?i:{dotted})", "i")}
    starts, categories = category_runs()
    members: list[list[str]] = [[] for _ in CATEGORIES]
    for start, stop, category in zip(starts, [*starts[1:], CODE_POINTS], categories, strict=True):
        members[category].extend(map(chr, range(start, stop)))
    for name, characters in zip(CATEGORIES, members, strict=True):
        if name != "Cs":  # surrogates stand in no text
            differing.update(regex.findall(rf"\P{{{name}}}", "".join(characters)))
    return frozenset(differing)
