"""Export to ONNX: a classifier as one graph, a causal model as a prefill graph and a step graph with
named states. The folder also contains torch's outputs for inputs of other sizes than the graphs were
traced with; an export that does not reproduce them is discarded.

| file | inputs | outputs |
|---|---|---|
| ``model.onnx`` | ``tokens`` int64 [batch, length], ``mask`` bool [batch, length] | ``logits`` |
| ``prefill.onnx`` | both, ``position`` int64 [batch], ``layers.0.s``, … | ``logits``, ``next_position``, ``next_layers.0.s``, … |
| ``step.onnx`` | ``tokens`` int64 [batch], ``position``, ``layers.0.s``, … | the same |

| ``start.safetensors`` | | the initial states, for one row |

A mask is True at real tokens; prefill expects padding on the left. A text begins at position zero
with the states in ``start.safetensors`` and the start token given in ``about.json``.
"""  # noqa: E501

import json
import logging
import os
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from subquad.errors import SubquadError, UsageError
from subquad.export import answers, operator
from subquad.export.folder import ABOUT, START, compare, refuse_existing, sha256
from subquad.export.graphs import Classes, Prefill, Step, empty_states, state_names
from subquad.mixers import Mixer
from subquad.models import CausalModel, Classifier
from subquad.run import Run
from subquad.storage import TEMPORARY, remove, write_atomically

OPSET = 18


@dataclass(frozen=True)
class Files:
    """The result of an export."""

    out: Path
    opset: int
    files: list[str]
    worst: float
    """The largest relative difference from torch in the self-test."""


def onnx(run: Run, out: Path, *, by_operator: bool = False, force: bool = False) -> Files:
    """Export ``run`` to a folder of ONNX files, together with its tokenizer, labels and self-test.

    Args:
        run: a classifier, or a causal run whose states have a fixed size.
        out: the folder to create.
        by_operator: express causal linear attention by ONNX's operator ``LinearAttention``, which
            needs opset 27, instead of matrix products, which work in any runtime with opset 18.
        force: replace an earlier export.

    Raises:
        UsageError: the extra ``onnx`` is missing or too old, or the run cannot be exported.
        SubquadError: the folder exists, or the exported graphs do not compute what torch does.
    """
    missing = [n for n in ("onnx", "onnxscript", "onnxruntime") if find_spec(n) is None]
    if missing:
        raise UsageError(f"not installed: {', '.join(missing)}: pip install 'subquad[onnx]'")
    refuse_existing(out, force)
    if out.is_file():
        raise SubquadError(f"{out} is a file; ONNX files go into a folder: use another name")
    old = out.with_name(f"{TEMPORARY}{os.getpid()}-old-{out.name}")
    if by_operator:
        _check_operator(run)
    opset = operator.OPSET if by_operator else OPSET
    worst = 0.0
    files: list[str] = []

    def write(folder: Path) -> None:
        nonlocal worst
        folder.mkdir()
        with torch.no_grad():
            _graphs(run, folder, opset)
        worst = compare(folder)
        run.task.save(folder)
        made = sorted(path.name for path in folder.iterdir())
        digests = {name: sha256(folder / name) for name in made}
        about = _about(run, opset) | {"worst_difference": worst, "sha256": digests}
        (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        files.extend(sorted([*made, ABOUT]))
        if out.exists():
            out.rename(old)

    write_atomically(out, write)
    remove(old)
    return Files(out, opset, files, worst)


def _check_operator(run: Run) -> None:
    operator.known()
    mixers = (m for m in run.model.modules() if isinstance(m, Mixer))
    if not any(m.onnx_operator == operator.NAME for m in mixers):
        raise UsageError(
            f"{run.path} has no layer that can use ONNX's operator {operator.NAME}: omit it"
        )


def _about(run: Run, opset: int) -> dict[str, Any]:
    found = {"task": run.config.task, "opset": opset, "longest": run.config.data.length}
    found |= run.task.about(run.model)
    return found | ({"start": getattr(run.task, "start", None)} if run.task.causal else {})


def _graphs(run: Run, folder: Path, opset: int) -> None:
    model = run.model
    names: list[str] = []
    if isinstance(model, Classifier):
        longest = run.config.data.length
        _classes(model.cpu(), run.task.types, longest, folder / "model.onnx")
    elif isinstance(model, CausalModel):
        names = state_names(model)
        learned = model.embedding.kind == "learned"
        longest = model.embedding.length - answers.STEPS if learned else max(answers.LENGTHS)
        _causal(model.cpu(), names, folder, opset)
    else:
        raise UsageError(
            f"{run.path} cannot be exported to ONNX, which supports classifiers and causal models, "
            f"not {type(model).__name__}"
        )
    if isinstance(model, CausalModel):
        save_file(dict(zip(names, empty_states(model, 1), strict=True)), folder / START)
    answers.save(model, run.task.types, names, longest, folder / answers.FILE)


def _classes(model: Classifier, types: answers.Types, longest: int, path: Path) -> None:
    tokens, mask = answers.rows_of(answers.known_tokens(model), 2, min(5, longest))
    both = {0: "batch", 1: "length"}
    names = (["tokens", "mask"], ["logits"])
    _export(Classes(model, types), (tokens, mask), (both, both), names, path, OPSET)


def _causal(model: CausalModel, names: list[str], folder: Path, opset: int) -> None:
    tokens, mask = answers.rows_of(model.outputs, 2, 5)
    position = torch.tensor([1, 2])
    read = model.scan(tokens[:, :2])[1]
    states = [t for layer in read.layers for t in layer.tensors().values()]
    whole, rows = {0: "batch", 1: "length"}, {0: "batch"}
    many = [rows for _ in states]
    wanted = ["logits", "next_position", *(f"next_{name}" for name in names)]
    if opset == operator.OPSET:
        prefill, step = Prefill(model, "operator"), Step(model, "operator")
    else:
        prefill, step = Prefill(model), Step(model)
    given = ["tokens", "mask", "position", *names]
    example: tuple[Any, ...] = (tokens, mask, position, states)
    axes: tuple[Any, ...] = (whole, whole, rows, many)
    _export(prefill, example, axes, (given, wanted), folder / "prefill.onnx", opset)
    given.remove("mask")
    example, axes = (tokens[:, 0], position, states), (rows, rows, many)
    _export(step, example, axes, (given, wanted), folder / "step.onnx", opset)


def _export(
    graph: nn.Module,
    example: tuple[Any, ...],
    dynamic: tuple[Any, ...],
    names: tuple[list[str], list[str]],
    path: Path,
    opset: int,
) -> None:
    logs = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [log.level for log in logs]
    for log in logs:  # they only log exporter internals
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about torch internals
            program = torch.onnx.export(
                graph.eval(),
                example,
                dynamic_shapes=_named(dynamic),
                input_names=names[0],
                output_names=names[1],
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise UsageError(f"torch cannot export {path.name}: {_reason(error)}") from error
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
    assert program is not None
    if opset == operator.OPSET:
        path.write_bytes(operator.standard(program.model_proto).SerializeToString())
    else:
        program.save(path)


def _reason(error: BaseException) -> str:
    """The root cause of an exporter error, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _named(dynamic: Any) -> Any:
    """Replace the names of axes by torch dimensions, one for each name."""
    axes = {name: torch.export.Dim(name, min=1) for name in ("batch", "length")}

    def convert(part: Any) -> Any:
        if isinstance(part, dict):
            return {axis: axes[name] for axis, name in part.items()}
        return type(part)(convert(p) for p in part)

    return convert(dynamic)
