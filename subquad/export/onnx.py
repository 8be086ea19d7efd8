"""ONNX files: a classifier as one graph; a causal model as a prefill graph and a step graph, whose
states have names. Each is compared with torch at other sizes than it was made with, or not kept.

| file | inputs | outputs |
|---|---|---|
| ``model.onnx`` | ``tokens`` int64 [batch, length], ``mask`` bool, the same | ``logits`` |
| ``prefill.onnx`` | both, ``position`` int64 [batch], ``layers.0.s``, … | ``logits``, ``next_position``, ``next_layers.0.s``, … |
| ``step.onnx`` | ``tokens`` int64 [batch], ``position``, ``layers.0.s``, … | the same |

A mask is True at real tokens; prefill wants padding on the left. Positions and states are zero at
the beginning; a text begins with the start token that ``about.json`` names.
"""  # noqa: E501

import json
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from subquad.checkpoint import write_atomically
from subquad.errors import SubquadError, UsageError
from subquad.export.graphs import Classes, Prefill, Step, empty_states, state_names
from subquad.models import CausalModel, Classifier
from subquad.run import Run

OPSET = 18
#: Largest difference from torch, relative to the largest output where that is above 1.
TOLERANCE = 1e-4
#: What a graph is tried with: none of them is its example's.
ROWS, LENGTHS = (1, 3), (1, 17, 300)


@dataclass(frozen=True)
class Files:
    """What was written."""

    out: Path
    opset: int
    files: list[str]
    worst: float
    """The largest relative difference from torch that was met."""


def onnx(run: Run, out: Path) -> Files:
    """Write ``run`` as a folder of ONNX files, its tokenizer and labels beside them.

    Raises:
        UsageError: the extra ``onnx`` is not installed, or the run cannot become a graph.
        SubquadError: the folder exists, or what came out does not compute what torch does.
    """
    missing = [n for n in ("onnx", "onnxscript", "onnxruntime") if find_spec(n) is None]
    if missing:
        raise UsageError(f"{', '.join(missing)} is missing: pip install 'subquad[onnx]'")
    if out.exists():
        raise SubquadError(f"{out} exists: name a new folder")
    worst = 0.0
    files: list[str] = []

    def write(folder: Path) -> None:
        nonlocal worst
        folder.mkdir()
        with torch.no_grad():
            worst = max(_graphs(run, folder))
        run.task.save(folder)
        about = json.dumps(_about(run) | {"worst_difference": worst}, indent=2)
        (folder / "about.json").write_text(about + "\n", encoding="utf-8")
        files.extend(sorted(path.name for path in folder.iterdir()))

    write_atomically(out, write)
    return Files(out, OPSET, files, worst)


def _about(run: Run) -> dict[str, Any]:
    data = run.config.data
    found = {"task": run.config.task, "opset": OPSET, "longest": data.length}
    return found | ({"start": getattr(run.task, "start", None)} if run.task.causal else {})


def _graphs(run: Run, folder: Path) -> list[float]:
    model = run.model
    if isinstance(model, Classifier):
        return [_classes(run, model.cpu(), folder / "model.onnx")]
    if not isinstance(model, CausalModel):
        raise UsageError(f"{run.path}: no graph is made of a {type(model).__name__}")
    return _causal(model.cpu(), folder)


def _classes(run: Run, model: Classifier, path: Path) -> float:
    graph, limit = Classes(model), run.config.data.length
    known = model.encoder.embedding.tokens.num_embeddings - (model.cls is not None)
    tokens, mask = _rows(known, 2, min(5, limit))
    both = {0: "batch", 1: "length"}
    _export(graph, (tokens, mask), (both, both), ["tokens", "mask"], ["logits"], path)
    session, worst = _session(path), 0.0
    for rows in ROWS:
        for length in sorted({min(n, limit) for n in LENGTHS}):
            tokens, mask = _rows(known, rows, length)
            ours = session.run(None, {"tokens": tokens.numpy(), "mask": mask.numpy()})
            worst = max(worst, _difference(ours, [model(tokens, mask)], path))
    return worst


def _causal(model: CausalModel, folder: Path) -> list[float]:
    names = state_names(model)
    learned = model.embedding.kind == "learned"
    limit = model.embedding.length - 2 if learned else max(LENGTHS)
    tokens, mask = _rows(model.outputs, 2, 5)
    position = torch.tensor([1, 2])
    states = [torch.rand_like(s) for s in empty_states(model, 2)]
    whole, rows = {0: "batch", 1: "length"}, {0: "batch"}
    many = [rows for _ in states]
    wanted = ["logits", "next_position", *(f"next_{name}" for name in names)]
    prefill, step = folder / "prefill.onnx", folder / "step.onnx"
    given = ["tokens", "mask", "position", *names]
    axes = (whole, whole, rows, many)
    _export(Prefill(model), (tokens, mask, position, states), axes, given, wanted, prefill)
    given = ["tokens", "position", *names]
    _export(Step(model), (tokens[:, 0], position, states), (rows, rows, many), given, wanted, step)
    return [
        _follow(model, names, count, max(1, min(length, limit)), prefill, step)
        for count in ROWS
        for length in LENGTHS
    ]


def _follow(
    model: CausalModel, names: list[str], rows: int, length: int, prefill: Path, step: Path
) -> float:
    """A prefill with padding on the left, then two steps, against one pass of torch."""
    tokens, mask = _rows(model.outputs, rows, length)
    mask = mask.flip(1)
    mask[:, -1] = True
    position, states = torch.zeros(rows, dtype=torch.long), empty_states(model, rows)
    feed = {"tokens": tokens, "mask": mask, "position": position}
    feed |= dict(zip(names, states, strict=True))
    found = _session(prefill).run(None, {name: t.numpy() for name, t in feed.items()})
    logits, state = model.scan(tokens, None, mask)
    worst = _difference(found[:2], [logits[:, -1], state.position], prefill)
    session = _session(step)
    for _ in range(2):
        token = logits[:, -1, : model.outputs].argmax(-1)
        rest = dict(zip(["position", *names], found[1:], strict=True))
        found = session.run(None, {"tokens": token.numpy(), **rest})
        logits, state = model.scan(token.unsqueeze(1), state)
        flat = [t for layer in state.layers for t in layer.tensors().values()]
        expected = [logits[:, -1], state.position, *flat]
        worst = max(worst, _difference(found, expected, step))
    return worst


def _rows(tokens: int, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Ids that are not their positions, and lengths that differ."""
    ids = (torch.arange(rows * length) * 7 + 3).reshape(rows, length) % tokens
    real = torch.tensor([length - i * (length // 3) for i in range(rows)])
    return ids, torch.arange(length) < real.unsqueeze(1)


def _export(
    graph: nn.Module,
    example: tuple[Any, ...],
    dynamic: tuple[Any, ...],
    inputs: list[str],
    outputs: list[str],
    path: Path,
) -> None:
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about torch's own insides
        program = torch.onnx.export(
            graph.eval(),
            example,
            dynamic_shapes=_named(dynamic),
            input_names=inputs,
            output_names=outputs,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    log.setLevel(level)
    assert program is not None
    program.save(path)


def _named(dynamic: Any) -> Any:
    """Names of axes as torch's dimensions, one for each name."""
    axes = {name: torch.export.Dim(name, min=1) for name in ("batch", "length")}

    def convert(part: Any) -> Any:
        if isinstance(part, dict):
            return {axis: axes[name] for axis, name in part.items()}
        return type(part)(convert(p) for p in part)

    return convert(dynamic)


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _difference(ours: Sequence[Any], theirs: Sequence[Tensor], path: Path) -> float:
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        off = (torch.from_numpy(a).double() - b.double()).abs().max()
        worst = max(worst, float(off / max(1.0, float(b.abs().max()))))
        if not off.isfinite() or worst > TOLERANCE:
            raise SubquadError(
                f"{path.name} differs from torch by {worst:.1e}, more than {TOLERANCE:.0e}"
            )
    return worst
