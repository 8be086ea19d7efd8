"""A page of results: its headline, conclusions, tables, figures, and how they were measured."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from subquad.lab.drawing.pages import environment, machine_facts, style


@dataclass(frozen=True)
class Table:
    """Rows of formatted cells; the first cell of each row is its heading."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure: an SVG made by ``lab.drawing.svg.to_svg``, or PNG bytes with an alt text."""

    caption: str
    svg: str = ""
    png: bytes = b""
    alt: str = ""

    @property
    def markup(self) -> Markup:
        """The HTML element."""
        if self.svg:
            return Markup(self.svg)
        data = base64.b64encode(self.png).decode()
        return Markup('<img class="sheet" src="data:image/png;base64,{}" alt="{}">').format(
            data, self.alt
        )


def page(
    document: dict[str, Any],
    tables: Sequence[Table],
    pictures: Sequence[Picture],
    how: Sequence[str],
    *,
    kicker: str,
    how_title: str = "How this was measured",
) -> str:
    """One self-contained HTML file.

    Args:
        document: what ``results.json`` holds: ``headline``, ``conclusions``, ``settings``,
            ``command`` and ``machine`` are shown.
        tables: in order.
        pictures: side by side, below the tables.
        how: sentences on the measurement.
        kicker: a line above the headline.
        how_title: heading of ``how``.
    """
    return (
        environment()
        .get_template("document.html.j2")
        .render(
            css=style(),
            d=document,
            settings=json.dumps(document["settings"], indent=2, ensure_ascii=False),
            tables=tables,
            pictures=pictures,
            how=how,
            kicker=kicker,
            how_title=how_title,
            facts=machine_facts(document["machine"]),
        )
    )
