"""A page put together from its pieces: one file, whose security policy allows no other script."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from subquad.storage import write_text


@dataclass(frozen=True)
class Page:
    """What was written."""

    out: Path
    nbytes: int
    parameters: int


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """What a kind of page is made of: names of files in ``page/``."""

    template: str
    worker: Sequence[str]
    """Scripts that compute, one after the other."""
    script: Sequence[str]
    """Scripts that a person meets."""


def write_page(
    out: Path, pieces: Pieces, about: dict[str, Any], weights: bytes, engine: bytes | None = None
) -> Page:
    """Write ``about``, ``weights`` and, for pages that have one, the WebAssembly ``engine``."""
    script, style = _joined(pieces.script), _joined(["page.css"])
    text = (
        _environment()
        .get_template(pieces.template)
        .render(
            about=about,
            about_json=_json(about),
            weights=Markup(base64.b64encode(weights).decode()),
            engine=None if engine is None else Markup(base64.b64encode(engine).decode()),
            worker=_joined(pieces.worker),
            script=script,
            style=style,
            script_hash=_source_hash(script),
            style_hash=_source_hash(style),
        )
    )
    write_text(out, text + "\n")
    return Page(out, out.stat().st_size, about["parameters"])


@cache
def _environment() -> Environment:
    """Everything that a person could have typed is escaped."""
    return Environment(
        loader=PackageLoader("subquad.export", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _joined(names: Sequence[str]) -> Markup:
    folder = files("subquad.export").joinpath("page")
    return Markup("".join(folder.joinpath(name).read_text("utf-8") for name in names))


def _json(about: dict[str, Any]) -> Markup:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(about, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _source_hash(source: str) -> str:
    """What the page's security policy allows: this script, and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
