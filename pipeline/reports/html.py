"""HTML of what results show. Every text is escaped, unless it is `Html`, which only this module makes."""

import html
from typing import Any

from pipeline.base.printable import printable
from pipeline.reports.parts import Items, Note, Part, Rows, Table


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(*values: object) -> Html:
    """Concatenate values as text in HTML, also for use in attributes; `Html` is kept as it is."""
    return Html("".join(value if isinstance(value, Html) else html.escape(printable(value)) for value in values))


def element(tag: str, *children: object, **attributes: object) -> Html:
    """Make an element; `class_` is the attribute `class`, `aria_label` is `aria-label`.

    >>> element("b", "a < b", class_="x")
    '<b class="x">a &lt; b</b>'
    """
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{written}>{escaped(*children)}</{tag}>")


def html_of(*parts: Part) -> Html:
    """Return what a result shows; a table scrolls if it is wider than the page, and one without rows is left out."""
    return escaped(*(_HTML[type(part)](part) for part in parts))


def _rows(part: Rows) -> Html:
    rows = (element("tr", element("th", name, scope="row"), element("td", text)) for name, text in part.texts())
    return _framed(part.title, element("table", *rows, class_="facts")) if part.rows else escaped()


def _table(part: Table) -> Html:
    """Make a table; a mark is a colour, and a word for who cannot see it."""
    marks = part.marks()
    rows = [
        element("tr", element("th", first, scope="row"), *(
            element("td", text, *(element("span", f" {mark}") for mark in [marks[at]]), class_=marks[at])
            if (at := (row, column)) in marks else element("td", text)
            for column, text in enumerate(cells, 1)
        ))
        for row, (first, *cells) in enumerate(part.texts())
    ]  # fmt: skip
    head = element("thead", element("tr", *(element("th", header, scope="col") for header in part.headers)))
    return _framed(part.title, element("table", head, *rows), part.note) if rows else escaped()


def _framed(title: str, content: Html, note: str = "") -> Html:
    """Let a table scroll if it is wider than the page."""
    framed = element("div", content, class_="wide", tabindex=0, role="region", aria_label=title)
    return escaped(element("h3", title), quiet(note), framed)


def _items(part: Items) -> Html:
    items = (
        element("li", element("code", text), *((element("span", more, class_="quiet"),) if more else ()))
        for text, more in part.items
    )
    tokens = element("ul", *items, class_="tokens") if part.items else ""
    return escaped(element("h3", part.title), quiet(part.note), tokens)


def _note(part: Note) -> Html:
    return element("p", part.text, class_="warn" if part.warning else "quiet")


_HTML: dict[type, Any] = {Rows: _rows, Note: _note, Table: _table, Items: _items}


def quiet(text: str) -> Html:
    """Return a paragraph that stands back; nothing for no text."""
    return element("p", text, class_="quiet") if text else escaped()
