"""Assembles a page into a single file, whose content security policy allows no other scripts."""

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
    """The page that was written."""

    out: Path
    nbytes: int
    parameters: int


@dataclass(frozen=True, kw_only=True)
class PageFiles:
    """The files in ``page/`` that a kind of page is made of."""

    template: str
    worker: Sequence[str]
    """Scripts of the worker, which computes; they are concatenated."""
    script: Sequence[str]
    """Scripts of the user interface; they are concatenated."""


def write_page(
    out: Path, parts: PageFiles, about: dict[str, Any], weights: bytes, engine: bytes | None = None
) -> Page:
    """Write a page that contains ``about`` (as JSON), ``weights`` and, optionally, the WebAssembly
    ``engine``."""
    script, style = _joined(parts.script), _joined(["page.css"])
    text = (
        _environment()
        .get_template(parts.template)
        .render(
            about=about,
            about_json=_json(about),
            weights=Markup(base64.b64encode(weights).decode()),
            engine=None if engine is None else Markup(base64.b64encode(engine).decode()),
            worker=_joined(parts.worker),
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
    """The template engine; all variables are escaped by default."""
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
    """JSON that cannot close the ``<script>`` element that contains it."""
    text = json.dumps(about, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _source_hash(source: str) -> str:
    """The hash by which the page's content security policy allows this source."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
