"""HTML from plain values: every text is escaped, unless it is `Html`, which only this module makes."""

import html
from collections.abc import Iterable, Sequence


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(*values: object) -> Html:
    """Concatenate values as text in HTML, also for use in attributes; `Html` is kept as it is."""
    return Html("".join(value if isinstance(value, Html) else html.escape(str(value)) for value in values))


def element(tag: str, *children: object, **attributes: object) -> Html:
    """Make an element; `class_` is the attribute `class`, `aria_label` is `aria-label`.

    >>> element("b", "a < b", class_="x")
    '<b class="x">a &lt; b</b>'
    """
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{written}>{escaped(*children)}</{tag}>")


def table(headers: Sequence[object], rows: Iterable[Sequence[object]], label: str, class_: object = "facts") -> Html:
    """Make a table that scrolls if it is wider than the page; the first cell of a row names the row.

    label: what screen readers announce. class_: of a table without headers.
    """
    head = element("thead", element("tr", *(element("th", header, scope="col") for header in headers)))
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in cells))
        for first, *cells in rows
    ]
    content = element("table", head, *body) if headers else element("table", *body, class_=class_)
    return element("div", content, class_="wide", tabindex=0, role="region", aria_label=label)
