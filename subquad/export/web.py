"""Export to a single HTML page that runs in a browser and contains everything it needs: weights,
code, tokenizer and self-test. Causal linear-attention runs generate, with the step engine compiled
to WebAssembly; classifiers classify (``classifier_page``)."""

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
from subquad.export.rendering import Page, PageFiles, write_page
from subquad.export.vocabulary import vocabulary
from subquad.generation import Head
from subquad.generation.packing import unsupported
from subquad.generation.pictures import head_of
from subquad.models import CausalModel
from subquad.run import Run
from subquad.tasks.outputs import ClassOutput, Generated, TextOutput

_WORKER = ("computing.js", "worker.js")


def web(run: Run, out: Path, precision: Precision = "f16", *, force: bool = False) -> Page:
    """Export ``run`` to an HTML page.

    Args:
        run: a classifier, or a ``language`` or ``pixels`` run with causal linear attention.
        out: the file to write.
        precision: "f16" or "f32", or "int8" for pages that generate.
        force: replace an existing file.

    Raises:
        UsageError: pages do not support this run; the message gives the reason.
        SubquadError: ``out`` exists.
    """
    if out.is_dir():
        raise SubquadError(f"{out} is a folder, but a page is a file: use {out.name}.html")
    refuse_existing(out, force)
    try:
        shown = run.task.page()
    except UsageError as error:
        raise UsageError(f"{run.path} cannot be exported to a page: {error}") from None
    if isinstance(shown, ClassOutput):
        return classifier_page.write(run, shown, out, precision)
    model = run.model
    if (reason := unsupported(model)) is not None:
        raise UsageError(
            f"{run.path} cannot be exported to a page, which uses the step engine: {reason}"
        )
    assert isinstance(model, CausalModel)
    try:
        engine = ENGINE.read_bytes()
    except OSError:
        raise SubquadError(f"{ENGINE} is missing: run `make wasm`") from None
    made = payload(model.cpu(), precision)
    about = _about(run, shown, made, precision, engine)
    kind = "text.js" if about["kind"] == "text" else "pictures.js"
    script = ("shared.js", "generating.js", kind)
    parts = PageFiles(template="generate.html.j2", worker=_WORKER, script=script)
    return write_page(out, parts, about, made.data, engine)


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
