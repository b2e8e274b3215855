"""An explanation of a text's ids for people: as lines, and as a page."""

from pipeline.base.printable import printable_lines
from pipeline.guests.inspect.explanation import Apart, ExplainedPiece, Explanation, MergeStep
from pipeline.reports.page import Html, element, escaped, plain_page
from pipeline.reports.tokens import readable

_SECTIONS = 500  # of different pieces, on a page
_KINDS = {"special": "special token", "whole": "a token as a whole: looked up before any merge"}


def render(explanation: Explanation) -> str:
    """Return a block of lines for each piece: its tokens, its merges in order, and what stayed apart."""
    return (
        printable_lines(line for piece in explanation.pieces for line in _lines(piece)) or "no ids: the text is empty"
    )


def _lines(piece: ExplainedPiece) -> list[str]:
    width = max((len(_joined(merge)) for merge in piece.merges), default=0)
    merges = [f"    {_joined(merge):<{width}}  {_rank(merge)}" for merge in piece.merges]
    return [f"{_title(piece)}: {_outcome(piece)}", *merges, *(f"    {_why(apart)}" for apart in piece.apart)]


def _title(piece: ExplainedPiece) -> str:
    return readable(piece.piece)


def _outcome(piece: ExplainedPiece) -> str:
    if piece.kind in _KINDS:
        return f"id {piece.ids[0]}, {_KINDS[piece.kind]}"
    tokens = ", ".join(f"{readable(token)} {id_}" for token, id_ in zip(piece.tokens, piece.ids, strict=True))
    return f"{'ids' if len(piece.ids) > 1 else 'id'} {tokens}"


def _joined(merge: MergeStep) -> str:
    return f"{readable(merge.left)} + {readable(merge.right)}"


def _rank(merge: MergeStep) -> str:
    return f"rank {merge.rank:,}" + ("" if merge.count is None else f", {merge.count:,} times in training")


def _why(apart: Apart) -> str:
    """Say why two neighbours did not merge."""
    left, right = readable(apart.left), readable(apart.right)
    made = "" if apart.token is None else f"; token {apart.token} has their bytes, but is made of other parts"
    lost = "".join(
        f"; {readable(one.left)} + {readable(one.right)} (rank {one.rank:,}) was possible until rank {one.taken_by:,} "
        "took a part of it"
        for one in apart.lost
    )
    return f"{left} | {right}: no merge joins them{made}{lost}"


def page(explanation: Explanation, tokenizer: str) -> str:
    """Return a page: the tokens in colours, and a section for each different piece, up to a number."""
    tokens = [token for piece in explanation.pieces for token in piece.tokens]
    spans = (
        element("span", readable(token), class_=f"t{number % 4}", title=f"id {id_}")
        for number, (token, id_) in enumerate(zip(tokens, explanation.ids, strict=True))
    )
    whole = element(
        "section",
        element("h2", f"{len(explanation.ids):,} tokens in {len(explanation.pieces):,} pieces"),
        element("p", *spans, class_="cut", dir="auto"),
        element("p", "Each colour is a token, ␣ a space. Tokens of different pieces never merge.", class_="quiet"),
    )
    different = list({piece.piece: piece for piece in explanation.pieces}.values())
    sections = [*map(_section, different[:_SECTIONS])]
    if len(different) > _SECTIONS:
        rest = f"The first {_SECTIONS:,} of {len(different):,} different pieces are explained here; --json has all."
        sections.append(element("p", rest, class_="quiet"))
    return plain_page(f"Why these tokens: {tokenizer}", whole, *sections)


def _section(piece: ExplainedPiece) -> Html:
    steps = (element("li", element("code", _joined(merge)), f" – {_rank(merge)}") for merge in piece.merges)
    merges = element("ol", *steps) if piece.merges else ""
    apart = (element("p", _why(one), class_="quiet") for one in piece.apart)
    title = element("h2", element("code", _title(piece)))
    return element("section", title, element("p", escaped(_outcome(piece))), merges, *apart)
