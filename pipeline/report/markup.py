"""HTML from plain values: every text is escaped unless it is `Html` already, which only this module makes."""

import html
from collections.abc import Iterable, Sequence


class Html(str):
    """Text that is HTML, made by the functions here."""

    __slots__ = ()


def escaped(value: object) -> Html:
    """A value as text in HTML, also within an attribute; `Html` as it is."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def element(tag: str, *children: object, **attributes: object) -> Html:
    """An element; `class_` is the attribute `class`, `aria_label` is `aria-label`.

    >>> element("b", "a < b", class_="x")
    '<b class="x">a &lt; b</b>'
    """
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{written}>{joined(children)}</{tag}>")


def joined(children: Iterable[object]) -> Html:
    """Values one after the other."""
    return Html("".join(map(escaped, children)))


def table(headers: Sequence[object], rows: Iterable[Sequence[object]], told: str, **attributes: object) -> Html:
    """A table that scrolls within itself where it is wider than the page; the first cell of a row names the row.

    told: what it is, for those who do not see the title above it.
    """
    head = element("tr", *(element("th", header, scope="col") for header in headers))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ]
    parts = (element("thead", head) if headers else "", element("tbody", *body))
    attributes = attributes if headers else {"class_": "facts", **attributes}
    return element(
        "div", element("table", *parts, **attributes), class_="wide", tabindex=0, role="region", aria_label=told
    )


def folded(title: object, *children: object) -> Html:
    """What is shown when somebody asks for it."""
    return element("details", element("summary", title), *children)
