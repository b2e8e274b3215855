"""Write a compiled pattern for the engines of other runtimes, so that they cut exactly as we do.

`tokenizers` runs Oniguruma, `tiktoken` runs fancy-regex. Both differ from `regex` in ways that would change pre-tokens
silently, so nothing is passed on unchanged unless tests hold that it means the same there:
- possessive counts: Oniguruma reads `x{1,3}+` as a repeated `x{1,3}`; written as an atomic group, `(?>x{1,3})`;
- lazy exact counts: Oniguruma reads `x{2}?` as an optional `x{2}`; written without the question mark;
- a look-ahead as a branch: Oniguruma refuses `(?:a|(?=b))?`; written as an atomic group, `(?:a|(?>(?=b)))?`;
- `$`: before a final line feed too, or at each line's end, by engine; written `\\z`;
- a negated class with one in it that has ASCII at most: Oniguruma leaves the rest out; that one is written as runs;
- `(?i:...)`: Oniguruma also folds one character to several; written as sets;
- `\\w`: Oniguruma lacks the two joiners; written with them;
- text that nothing matches: tiktoken would drop it; a last branch takes it.
"""

from array import array

from bpe_pipeline.base.errors import ExportRefusedError
from bpe_pipeline.pattern.classes import CODE_POINTS, CharSet, Run, partition
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.pattern.parse import Ahead, Alternation, Atomic, Look, Node, Repeat, Sequence, parse
from bpe_pipeline.pattern.presets import PRESETS

VERSION_1 = "(?V1)"  # of `regex`: what the others always do with `&&`
ANYTHING = r"[\s\S]"
SPELLED = {"\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r"}
PLAIN_CHARACTERS = " '\"%,/:;<=>@_`!"  # besides letters and digits, in a class and outside


def is_read_alike(compiled: CompiledPattern, runtime: str) -> bool:
    """Return whether a runtime reads the pattern as we do, so that it gets it in its well-known form."""
    return compiled.preset is not None and runtime in compiled.preset.read_alike_by


def for_tokenizers(compiled: CompiledPattern) -> str:
    """Return the pattern for `tokenizers.pre_tokenizers.Split(Regex(..), "isolated")`, or raise ExportRefusedError."""
    if is_read_alike(compiled, "tokenizers"):
        return compiled.expression.removeprefix(VERSION_1)
    return _Writer(joiners=r"\x{200C}\x{200D}").node(_tree(compiled, "tokenizers"))


def not_in_tokenizers_1(compiled: CompiledPattern) -> str | None:
    """Return a note if tokenizer.json is written and tokenizers 1.0 cannot run the pattern in it, otherwise None."""
    if compiled.tables is None and not is_read_alike(compiled, "tokenizers"):
        return None
    if compiled.preset and compiled.preset.run_by_tokenizers_1:
        return None
    both = [preset.name for preset in PRESETS.values() if preset.run_by_tokenizers_1]
    named = f"the pattern {compiled.name}" if compiled.name else "a pattern of your own"
    return (
        f"tokenizers 1.0 has no engine for {named} and fails when it encodes with this tokenizer.json; tokenizers "
        f"below 1.0 run it. The patterns for both are {', '.join(both)}"
    )


def for_tiktoken(compiled: CompiledPattern) -> str:
    """Return the pattern for `tiktoken.Encoding(pat_str=...)`, or raise ExportRefusedError."""
    if is_read_alike(compiled, "tiktoken"):
        return compiled.expression.removeprefix(VERSION_1)
    written = _Writer(joiners="").node(_tree(compiled, "tiktoken"))
    return f"{written}|(?:(?!{written}){ANYTHING})+" if leaves_text(compiled) else written


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
    if compiled.tables is None:
        raise ExportRefusedError(
            f"no file for {runtime}: the pattern has no automaton, because of {compiled.refusal}; "
            f"how {runtime} would read it is not known. Use a pattern of the supported subset"
        )
    return parse(compiled.expression)


class _Writer:
    """Writes trees so that both engines read them alike; `joiners` is what their `[\\w]` lacks."""

    def __init__(self, joiners: str) -> None:
        self.joiners = joiners

    def node(self, node: Node, tightness: int = 0) -> str:
        """Return the text of a node; `tightness`: 0 on its own, 1 in a sequence, 2 with a quantifier."""
        match node:
            case CharSet():
                return self.chars(node)
            case Look(CharSet((), False), end):
                return r"\z" if end else r"(?![\s\S])(?=[\s\S])"
            case Look(chars, end):
                return f"(?!{self.chars(chars.complement())})" if end else f"(?={self.chars(chars)})"
            case Ahead(body, negative):
                return f"(?{'!' if negative else '='}{self.node(body)})"
            case Atomic(body):
                return f"(?>{self.node(body)})"
            case Sequence(parts):
                text, loosest = "".join(self.node(part, 1) for part in parts), 1
            case Alternation(branches):
                written = (Atomic(branch, 0) if isinstance(branch, Look | Ahead) else branch for branch in branches)
                text, loosest = "|".join(map(self.node, written)), 0
            case Repeat(body, least, most, lazy):
                counts = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
                counts = {"{0,}": "*", "{1,}": "+", "{0,1}": "?"}.get(counts, counts)
                text, loosest = self.node(body, 2) + counts + "?" * (lazy and least != most), 1
        return f"(?:{text})" if tightness > loosest else text

    def chars(self, chars: CharSet) -> str:
        """Return a set as a class; without one where that is the same."""
        if not chars.parts:
            return ANYTHING if chars.negated else r"[^\s\S]"
        if (single := chars.single()) is not None:
            return _character(single)
        match chars.parts:
            case ["White_Space"]:
                return r"\S" if chars.negated else r"\s"
            case [str(name)] if name != "Word":
                return rf"\{'P' if chars.negated else 'p'}{{{name}}}"
        if not (inside := "".join(map(self.part, chars.parts))):
            return self.chars(CharSet(negated=chars.negated))
        return f"[{'^' if chars.negated else ''}{inside}]"

    def part(self, part: Run | str | CharSet) -> str:
        """Return a part of a set as it is written inside a class."""
        if part == "Word":
            return rf"\w{self.joiners}"
        if isinstance(part, tuple):
            return "-".join(map(_character, dict.fromkeys(part)))  # one character or two
        if isinstance(part, CharSet) and (runs := _ascii_runs(part)) is not None:
            return "".join(map(self.part, runs))
        return self.chars(CharSet((part,)) if isinstance(part, str) else part)


def _ascii_runs(chars: CharSet) -> list[Run] | None:
    """Return the runs of a set that has no character beyond ASCII, otherwise None."""
    classes = partition([chars])
    ends = [start - 1 for start in classes.starts[1:]] + [CODE_POINTS - 1]
    member = [classes.masks[0] >> number & 1 for number in classes.ids]
    runs = [run for run, inside in zip(zip(classes.starts, ends, strict=True), member, strict=True) if inside]
    return runs if not runs or runs[-1][1] < 0x80 else None


def _character(code: int) -> str:
    """Return one character as it is written inside or outside a class."""
    character = chr(code)
    if character in SPELLED:
        return SPELLED[character]
    if character.isascii() and character.isprintable():
        return character if character.isalnum() or character in PLAIN_CHARACTERS else f"\\{character}"
    return rf"\x{{{code:04X}}}"
