"""One HTML page that runs in a browser: weights, code, tokenizer and self-test, all in it. Nothing
is fetched. A causal linear-attention run generates, by the step engine as WebAssembly; a classifier
answers (``classifier_page``)."""

import hashlib
from pathlib import Path
from typing import Any

import torch

import subquad
from subquad.errors import SubquadError, UsageError
from subquad.export import classifier_page
from subquad.export.building import ENGINE
from subquad.export.folder import refuse_existing
from subquad.export.payload import Payload, Precision, payload
from subquad.export.reference import reference
from subquad.export.rendering import Page, Pieces, write_page
from subquad.export.vocabulary import vocabulary
from subquad.generation import Head
from subquad.generation.packing import unsupported
from subquad.generation.pictures import head_of
from subquad.models import CausalModel
from subquad.run import Run
from subquad.tasks.outputs import ClassOutput, Generated, TextOutput

_WORKER = ("computing.js", "worker.js")


def web(run: Run, out: Path, precision: Precision = "f16", *, force: bool = False) -> Page:
    """Write ``run`` as one page; ``force`` replaces a file that is there.

    Raises:
        UsageError: the page does not implement this run; the reason is given.
        SubquadError: ``out`` exists.
    """
    if out.is_dir():
        raise SubquadError(f"{out} is a folder; a page is one file: name it {out.name}.html")
    refuse_existing(out, force)
    try:
        shown = run.task.page()
    except UsageError as error:
        raise UsageError(f"{run.path} cannot become a page: {error}") from None
    if isinstance(shown, ClassOutput):
        return classifier_page.write(run, shown, out, precision)
    model = run.model
    if (reason := unsupported(model)) is not None:
        raise UsageError(f"{run.path} cannot become a page, which runs the step engine: {reason}")
    assert isinstance(model, CausalModel)
    try:
        engine = ENGINE.read_bytes()
    except OSError:
        raise SubquadError(f"{ENGINE} is missing: `make wasm` builds it") from None
    made = payload(model.cpu(), precision)
    about = _about(run, shown, made, precision, engine)
    kind = "text.js" if about["kind"] == "text" else "pictures.js"
    script = ("shared.js", "generating.js", kind)
    pieces = Pieces(template="generate.html.j2", worker=_WORKER, script=script)
    return write_page(out, pieces, about, made.data, engine)


def _about(
    run: Run, shown: Generated, made: Payload, precision: str, engine: bytes
) -> dict[str, Any]:
    head, what = Head(), dict[str, Any]()
    if isinstance(shown, TextOutput):
        what = {"kind": "text", "vocabulary": vocabulary(shown.tokenizer)}
    else:
        head = head_of(shown)
        what = {"kind": "pictures", "shape": shown.shape, "levels": shown.levels}
    learned = made.model.embedding.kind == "learned"
    length = made.model.embedding.length if learned else None
    with torch.inference_mode():
        test = reference(made.model, shown.start, head, length)
    return what | {
        "name": run.path.resolve().name,
        "made_by": f"subquad {subquad.__version__}",
        "mixer": ", ".join(dict.fromkeys(run.config.model.layer_mixers())),
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "precision": precision,
        "spec": made.spec[:-1],
        "eps": made.spec[-1],
        "halves": made.halves,
        "start": shown.start,
        "limit": length,
        "mixture": head.mixture,
        "mixture_levels": head.levels,
        "weights_sha256": hashlib.sha256(made.data).hexdigest(),
        "engine_sha256": hashlib.sha256(engine).hexdigest(),
        "test": test,
    }
