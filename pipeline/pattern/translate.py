"""Write a compiled pattern for the engines of other runtimes, so that they cut exactly as we do.

`tokenizers` runs Oniguruma, `tiktoken` runs fancy-regex. Both differ from `regex` in ways that would change pieces
silently, so nothing is passed on unchanged unless tests hold that it means the same there:
- possessive counts: Oniguruma reads `x{1,3}+` as a repeated `x{1,3}`; written as an atomic group, `(?>x{1,3})`;
- lazy exact counts: Oniguruma reads `x{2}?` as an optional `x{2}`; written without the question mark;
- `$`: before a final line feed too, or at each line's end, by engine; written `\\z`;
- `(?i:...)`: Oniguruma also folds one character to several; written as sets;
- `\\w`: Oniguruma lacks the two joiners; written with them;
- text that nothing matches: tiktoken would drop it; a last branch takes it.
"""

from array import array

from pipeline.base.errors import ExportRefusedError
from pipeline.pattern.classes import CharSet, Item
from pipeline.pattern.compiled import CompiledPattern
from pipeline.pattern.tree import Alternation, Atomic, Chars, Look, Node, Repeat, Sequence

# Named patterns that an engine reads as we do, passed on in their well-known form.
VERBATIM_FOR_TOKENIZERS = ("gpt2", "llama3", "o200k", "qwen2")
VERBATIM_FOR_TIKTOKEN = ("gpt2", "cl100k", "llama3", "o200k", "qwen2")
ANYTHING = r"[\s\S]"
SPELLED = {9: r"\t", 10: r"\n", 12: r"\f", 13: r"\r"}
PLAIN_CHARACTERS = " '\"%,/:;<=>@_`!"  # besides letters and digits, in a class and outside


def for_tokenizers(compiled: CompiledPattern) -> str:
    """Return the pattern for `tokenizers.pre_tokenizers.Split(Regex(..), "isolated")`, or raise ExportRefusedError."""
    if compiled.name in VERBATIM_FOR_TOKENIZERS:
        return compiled.expression
    return _Writer(joiners=r"\x{200C}\x{200D}").node(_tree(compiled, "tokenizers"), 0)


def for_tiktoken(compiled: CompiledPattern) -> str:
    """Return the pattern for `tiktoken.Encoding(pat_str=...)`, or raise ExportRefusedError."""
    if compiled.name in VERBATIM_FOR_TIKTOKEN:
        return compiled.expression
    written = _Writer(joiners="").node(_tree(compiled, "tiktoken"), 0)
    if leaves_text(compiled):
        return f"{written}|(?:(?!{written}){ANYTHING})+"
    return written


def leaves_text(compiled: CompiledPattern) -> bool:
    """Return whether some text has characters that no match covers."""
    tables = compiled.tables
    if tables is None:
        return True
    plain = array("H", tables.plain)
    rows = [plain[start : start + tables.classes] for start in range(0, len(plain), tables.classes)]
    unmatched = {entry for entry in rows[1][:-1] if not entry & 1}  # an attempt starts with a character
    waiting = list(unmatched)  # what entries before an attempt's first match lead to
    while waiting:
        after = {entry for entry in rows[waiting.pop() >> 1] if not entry & 1} - unmatched
        unmatched |= after
        waiting += after
    return 0 in unmatched


def _tree(compiled: CompiledPattern, runtime: str) -> Node:
    if compiled.tree is None:
        raise ExportRefusedError(
            f"no file for {runtime}: the pattern runs on the regex package, because of {compiled.refusal}; "
            f"how {runtime} would read it is not known. Use a pattern of the supported subset"
        )
    return compiled.tree


class _Writer:
    """Writes trees so that both engines read them alike; `joiners` is what their `[\\w]` lacks."""

    def __init__(self, joiners: str) -> None:
        self.joiners = joiners

    def node(self, node: Node, tightness: int) -> str:
        """Return the text of a node; `tightness`: 0 on its own, 1 in a sequence, 2 with a quantifier."""
        text, loosest = self.text(node)
        return f"(?:{text})" if tightness > loosest else text

    def text(self, node: Node) -> tuple[str, int]:
        """Return the text of a node, and the most `tightness` at which it needs no group."""
        match node:
            case Chars(chars):
                return self.chars(chars), 2
            case Look(chars, end):
                if not chars.items and not chars.negated:
                    return (r"\z" if end else r"(?![\s\S])(?=[\s\S])"), 2
                return (f"(?!{self.chars(chars.complement())})" if end else f"(?={self.chars(chars)})"), 2
            case Sequence(parts):
                return "".join(self.node(part, 1) for part in parts), 1
            case Alternation(branches):
                return "|".join(self.node(branch, 0) for branch in branches), 0
            case Atomic(body):
                return f"(?>{self.node(body, 0)})", 2
            case Repeat(body, least, most, mode):
                lazy = "?" if mode == "lazy" and least != most else ""
                text = self.node(body, 2) + _counts(least, most) + lazy
                return (f"(?>{text})", 2) if mode == "possessive" else (text, 1)

    def chars(self, chars: CharSet) -> str:
        """Return a set as a class; single characters without one where that is the same."""
        if not chars.items:
            return ANYTHING if chars.negated else r"[^\s\S]"
        if len(chars.items) == 1 and isinstance(item := chars.items[0], Item):
            single = item.single()
            if single is not None and not chars.negated:
                return _character(single)
            if item.name and item.name != "Word":
                return self.item(Item((), item.name, item.negated != chars.negated))
        return f"[{'^' if chars.negated else ''}{''.join(map(self.item, chars.items))}]"

    def item(self, item: Item | CharSet) -> str:
        """Return an item as it is written inside a class."""
        if isinstance(item, CharSet):
            nested = item.items and (len(item.items) > 1 or item.negated)
            return self.chars(item) if nested else "".join(map(self.item, item.items))
        if item.name == "Word":
            return rf"[^\w{self.joiners}]" if item.negated else rf"\w{self.joiners}"
        if item.name == "White_Space":
            return r"\S" if item.negated else r"\s"
        if item.name:
            return rf"\{'P' if item.negated else 'p'}{{{item.name}}}"
        ends = (dict.fromkeys(run) for run in item.ranges)  # one character or two
        return "".join("-".join(map(_character, end)) for end in ends)


def _counts(least: int, most: int | None) -> str:
    if least == most:
        return f"{{{least}}}"
    upper = "" if most is None else most
    return {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most), f"{{{least},{upper}}}")


def _character(code: int) -> str:
    """Return one character as it is written inside or outside a class."""
    if code in SPELLED:
        return SPELLED[code]
    if chr(code).isascii() and chr(code).isprintable():
        return chr(code) if chr(code).isalnum() or chr(code) in PLAIN_CHARACTERS else f"\\{chr(code)}"
    return rf"\x{{{code:04X}}}"
