"""A compiled pattern written for the engines of other runtimes, so that they cut exactly as we do.

`tokenizers` runs Oniguruma, `tiktoken` runs fancy-regex. Both differ from `regex` in ways that would change
pieces silently, so nothing is passed on as it stands unless tests hold that it means the same there:
- possessive counts: Oniguruma reads `x{1,3}+` as a repeated `x{1,3}`; written as an atomic group,
  `(?>x{1,3})`;
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
from pipeline.pattern.parse import Alternation, Atomic, Chars, Look, Node, Repeat, Sequence

# Named patterns that an engine reads as we do, passed on in their well-known form.
VERBATIM_FOR_TOKENIZERS = ("gpt2", "llama3", "o200k", "qwen2")
VERBATIM_FOR_TIKTOKEN = ("gpt2", "cl100k", "llama3", "o200k", "qwen2")
ANYTHING = r"[\s\S]"
SPELLED = {9: r"\t", 10: r"\n", 12: r"\f", 13: r"\r"}


def for_tokenizers(compiled: CompiledPattern) -> str:
    """The pattern for `tokenizers.pre_tokenizers.Split(Regex(..), "isolated")`, or ExportRefusedError."""
    if compiled.name in VERBATIM_FOR_TOKENIZERS:
        return compiled.expression
    return _Writer(joiners=r"\x{200C}\x{200D}").node(_tree(compiled, "tokenizers"), 0)


def for_tiktoken(compiled: CompiledPattern) -> str:
    """The pattern for `tiktoken.Encoding(pat_str=...)`, or ExportRefusedError."""
    if compiled.name in VERBATIM_FOR_TIKTOKEN:
        return compiled.expression
    written = _Writer(joiners="").node(_tree(compiled, "tiktoken"), 0)
    if leaves_text(compiled):
        return f"{written}|(?:(?!{written}){ANYTHING})+"
    return written


def leaves_text(compiled: CompiledPattern) -> bool:
    """Whether some text has characters that no match covers."""
    tables = compiled.tables
    if tables is None:
        return True
    plain = array("H", tables.plain)
    rows = [plain[start : start + tables.classes] for start in range(0, len(plain), tables.classes)]
    unmatched = {entry for entry in rows[1][:-1] if not entry & 1}  # an attempt begins with a character
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
            f"what {runtime} would make of it is not known. Use a pattern of the supported subset"
        )
    return compiled.tree


class _Writer:
    """Writes trees in what both engines read alike; `joiners` is what their `[\\w]` lacks."""

    def __init__(self, joiners: str) -> None:
        self.joiners = joiners

    def node(self, node: Node, tightness: int) -> str:
        """The text of a node; `tightness`: 0 stands alone, 1 is in a sequence, 2 carries a quantifier."""
        match node:
            case Chars(chars):
                return self.chars(chars)
            case Look(chars, end):
                if not chars.items and not chars.negated:
                    return r"\z" if end else r"(?![\s\S])(?=[\s\S])"
                return f"(?!{self.chars(chars.complement())})" if end else f"(?={self.chars(chars)})"
            case Sequence(parts):
                text = "".join(self.node(part, 1) for part in parts)
                return f"(?:{text})" if tightness > 1 else text
            case Alternation(branches):
                text = "|".join(self.node(branch, 0) for branch in branches)
                return f"(?:{text})" if tightness > 0 else text
            case Atomic(body):
                return f"(?>{self.node(body, 0)})"
            case Repeat():
                return self.repeat(node, tightness)

    def repeat(self, node: Repeat, tightness: int) -> str:
        if node.most is None:
            counts = "*" if node.least == 0 else "+" if node.least == 1 else f"{{{node.least},}}"
        elif node.least == node.most:
            counts = f"{{{node.least}}}"
        else:
            counts = "?" if node.most == 1 else f"{{{node.least},{node.most}}}"
        lazy = "?" if node.mode == "lazy" and node.least != node.most else ""
        text = self.node(node.body, 2) + counts + lazy
        if node.mode == "possessive":
            return f"(?>{text})"
        return f"(?:{text})" if tightness > 1 else text

    def chars(self, chars: CharSet) -> str:
        """A set as a class; single characters outside of one where that is the same."""
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
        """An item as it stands inside of a class."""
        if isinstance(item, CharSet):
            return self.chars(item) if item.items and (len(item.items) > 1 or item.negated) else self.listed(item)
        if item.name == "Word":
            return rf"[^\w{self.joiners}]" if item.negated else rf"\w{self.joiners}"
        if item.name == "White_Space":
            return r"\S" if item.negated else r"\s"
        if item.name:
            return rf"\{'P' if item.negated else 'p'}{{{item.name}}}"
        ends = (dict.fromkeys(run) for run in item.ranges)  # one character or two
        return "".join("-".join(map(_character, end)) for end in ends)

    def listed(self, chars: CharSet) -> str:
        return "".join(map(self.item, chars.items))


def _character(code: int) -> str:
    """One character, inside or outside of a class."""
    if code in SPELLED:
        return SPELLED[code]
    if chr(code).isascii() and chr(code).isprintable():
        return chr(code) if chr(code).isalnum() or chr(code) in " '\"%,/:;<=>@_`!" else f"\\{chr(code)}"
    return rf"\x{{{code:04X}}}"
