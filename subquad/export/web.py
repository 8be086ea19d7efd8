"""One HTML page that generates in a browser, from a causal linear-attention run: weights, the step
engine as WebAssembly, tokenizer and self-test, all in it. Nothing is fetched."""

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import subquad
from subquad.checkpoint import write_text
from subquad.errors import SubquadError, UsageError
from subquad.export.building import ENGINE
from subquad.export.payload import Payload, Precision, payload
from subquad.export.reference import reference
from subquad.export.vocabulary import vocabulary
from subquad.generation import Head
from subquad.generation.packing import unsupported
from subquad.generation.pictures import head_of
from subquad.models import CausalModel
from subquad.run import Run
from subquad.tasks.language import Language
from subquad.tasks.pixels import Pixels


@dataclass(frozen=True)
class Page:
    """What was written."""

    out: Path
    nbytes: int
    parameters: int


def web(run: Run, out: Path, precision: Precision = "f16") -> Page:
    """Write ``run`` as one page.

    Raises:
        UsageError: the page's engine does not implement this run; the reason is given.
    """
    model = run.model
    reason = "it classifies; --to onnx exports it" if not run.task.causal else unsupported(model)
    if reason is not None:
        raise UsageError(f"{run.path} cannot become a page, which runs the step engine: {reason}")
    assert isinstance(model, CausalModel)
    try:
        engine = ENGINE.read_bytes()
    except OSError:
        raise SubquadError(f"{ENGINE} is missing: `make wasm` builds it") from None
    made = payload(model.cpu(), precision)
    about = _about(run, made, precision, engine)
    write_text(out, _page(about, made.data, engine))
    parameters = sum(p.numel() for p in model.parameters())
    return Page(out, out.stat().st_size, parameters)


def _about(run: Run, made: Payload, precision: str, engine: bytes) -> dict[str, Any]:
    task = run.task
    head, what = Head(), dict[str, Any]()
    if isinstance(task, Language):
        what = {"kind": "text", "vocabulary": vocabulary(task.tokenizer)}
    elif isinstance(task, Pixels):
        head = head_of(task)
        what = {"kind": "pictures", "shape": task.images.shape, "levels": task.images.levels}
        if len(task.images.shape) == 3 and task.images.shape[2] != 3:
            found = "×".join(map(str, task.images.shape))
            raise UsageError(f"a page draws grey and red-green-blue pictures; these are {found}")
    else:
        raise UsageError(f"{run.path}: no page is made for the task {run.config.task}")
    assert isinstance(task, Language | Pixels)
    learned = made.model.embedding.kind == "learned"
    length = made.model.embedding.length if learned else None
    with torch.inference_mode():
        test = reference(made.model, task.start, head, length)
    return what | {
        "name": run.path.resolve().name,
        "made_by": f"subquad {subquad.__version__}",
        "mixer": ", ".join(dict.fromkeys(run.config.model.layer_mixers())),
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "precision": precision,
        "spec": made.spec[:-1],
        "eps": made.spec[-1],
        "halves": made.halves,
        "start": task.start,
        "limit": length,
        "mixture": head.mixture,
        "mixture_levels": head.levels,
        "weights_sha256": hashlib.sha256(made.data).hexdigest(),
        "engine_sha256": hashlib.sha256(engine).hexdigest(),
        "test": test,
    }


def _page(about: dict[str, Any], weights: bytes, engine: bytes) -> str:
    script = _piece("shared.js") + _piece("text.js" if about["kind"] == "text" else "pictures.js")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            about=about,
            about_json=_json(about),
            weights=Markup(base64.b64encode(weights).decode()),
            engine=Markup(base64.b64encode(engine).decode()),
            worker=_piece("worker.js"),
            script=script,
            style=_piece("page.css"),
            script_hash=_source_hash(script),
            style_hash=_source_hash(_piece("page.css")),
        )
        + "\n"
    )


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


@cache
def _piece(name: str) -> Markup:
    return Markup(files("subquad.export").joinpath("page", name).read_text("utf-8"))


def _json(about: dict[str, Any]) -> Markup:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(about, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _source_hash(source: str) -> str:
    """What the page's security policy allows: this script, and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
