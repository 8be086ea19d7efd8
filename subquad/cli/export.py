"""``subquad export``."""

from pathlib import Path
from typing import Any

import click

from subquad.cli.console import json_flag, result, say
from subquad.errors import SubquadError, UsageError


@click.command()
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option(
    "--to", type=click.Choice(["web", "onnx"]), help="Export format: an HTML page, or ONNX."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Output: the page (.html), or the ONNX folder."
)
@click.option(
    "--weights",
    type=click.Choice(["f16", "f32", "int8"]),
    help="Precision of the weights in an HTML page.  [default: f16]",
)
@click.option(
    "--linear-attention",
    type=click.Choice(["graph", "operator"]),
    help="ONNX only: export causal linear attention as basic operators (graph, opset 18), or as "
    "the LinearAttention operator (opset 27).  [default: graph]",
)
@click.option(
    "--check",
    "checked",
    type=click.Path(path_type=Path),
    help="Instead of exporting, run the self-test of this page (in Node.js and Chromium, if "
    "installed) or of this ONNX folder (in onnxruntime).",
)
@click.option("--force", is_flag=True, help="Overwrite an existing page or ONNX folder.")
@json_flag
def command(
    run: Path | None,
    to: str | None,
    out: Path | None,
    weights: str | None,
    linear_attention: str | None,
    checked: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Export RUN as a single HTML page that runs in any browser, or as ONNX.

    A page can generate, given a causal run with linear attention (`language` with the bytes or
    chars tokenizer, or `pixels`), or classify texts, given a `classify` run with fnet, fastformer,
    linear, convolution or none, and any tokenizer trained by subquad.

    Existing files are overwritten only with --force.
    """
    if checked is not None:
        if force or any(a is not None for a in (run, to, out, weights, linear_attention)):
            raise UsageError("--check takes a page or an ONNX folder, and nothing else but --json")
        _check(checked, as_json)
        return
    if run is None or to is None or out is None:
        raise UsageError("give RUN, --to and --out; or --check with a page or an ONNX folder")
    if to == "onnx" and weights is not None:
        raise UsageError("--weights applies to pages only; ONNX files hold f32")
    if to == "web" and linear_attention is not None:
        raise UsageError("--linear-attention applies to --to onnx only")
    from subquad.run import load

    if to == "onnx":
        document = _onnx(load(run), out, linear_attention == "operator", force)
    else:
        document = _web(load(run), out, weights or "f16", force)
    result(document, as_json=as_json, text=str(out))


def _web(run: Any, out: Path, weights: Any, force: bool) -> dict[str, Any]:
    from subquad.export.web import web

    page = web(run, out, weights, force=force)
    say(f"{page.nbytes:,} bytes, {page.parameters:,} parameters in {weights}; open it in a browser")
    return {"out": str(out), "bytes": page.nbytes, "parameters": page.parameters}


def _onnx(run: Any, out: Path, by_operator: bool, force: bool) -> dict[str, Any]:
    from subquad.export.onnx import onnx

    made = onnx(run, out, by_operator=by_operator, force=force)
    say(f"opset {made.opset}: {', '.join(made.files)}")
    return {"out": str(out), "opset": made.opset, "files": made.files}


def _check(page: Path, as_json: bool) -> None:
    from subquad.export.check import check

    found = check(page)
    lines = [
        f"{where}: passed, outputs differ by at most {outcome['worst']:.1e}"
        if outcome["passed"]
        else f"{where}: FAILED: {outcome.get('error') or outcome}"
        for where, outcome in found.items()
    ]
    result(found, as_json=as_json, text="\n".join(lines))
    if not all(outcome["passed"] for outcome in found.values()):
        why = f": {found['onnxruntime']['error']}" if page.is_dir() else ""
        raise SubquadError(f"{page} failed its self-test{why}")
