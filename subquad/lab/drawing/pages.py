"""What all report pages share: the template engine, the style sheet, facts about the machine."""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@cache
def environment() -> Environment:
    """The template engine for ``drawing/templates``; all variables are escaped by default."""
    return Environment(
        loader=PackageLoader("subquad.lab.drawing", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def style() -> Markup:
    """The style sheet, for inclusion in a page."""
    return Markup(files("subquad.lab.drawing").joinpath("templates/report.css").read_text("utf-8"))


def machine_facts(m: dict[str, Any]) -> list[tuple[str, str]]:
    """``instruments.machine.facts`` as (name, text) pairs."""
    return [
        ("processor", f"{m['processor']}, {m['cores']} cores, threads used: {m['threads']}"),
        *([("accelerator", m["accelerator"])] if m["accelerator"] else []),
        (
            "software",
            f"subquad {m['subquad']}, torch {m['torch']}, Python {m['python']}, {m['system']}",
        ),
        ("commit", m["commit"] or "not a git checkout"),
        ("arithmetic", m["precision"]),
        ("date", m["date"]),
    ]
