"""``subquad export``."""

from pathlib import Path
from typing import Any

import click

from subquad.cli.console import json_flag, result, say
from subquad.errors import SubquadError, UsageError


@click.command()
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--to", type=click.Choice(["web", "onnx"]), help="What RUN becomes.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The page (.html), or the folder for ONNX."
)
@click.option(
    "--weights",
    type=click.Choice(["f16", "f32", "int8"]),
    help="Precision of a page's weights.  [default: f16]",
)
@click.option(
    "--linear-attention",
    type=click.Choice(["graph", "operator"]),
    help="ONNX: causal linear attention as products (opset 18), or as ONNX's own LinearAttention "
    "(opset 27).  [default: graph]",
)
@click.option(
    "--check",
    "checked",
    type=click.Path(path_type=Path),
    help="Instead: run the self-test of this page, in node and in Chromium where they are, or of "
    "this ONNX folder, in onnxruntime.",
)
@click.option("--force", is_flag=True, help="Replace a page, or an ONNX folder, that is there.")
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
    """Turn RUN into something to give away: one HTML page that runs in any browser, or ONNX.

    A page generates, from a causal run of linear attention (`language` with the bytes or chars
    tokenizer, or `pixels`), or it classifies texts: `classify` with fnet, fastformer, linear,
    convolution or none, and any tokenizer that is trained here.

    What is named by --out and exists is replaced with --force only.
    """
    if checked is not None:
        if force or any(a is not None for a in (run, to, out, weights, linear_attention)):
            raise UsageError("--check takes a page or an ONNX folder, and no run to be exported")
        _check(checked, as_json)
        return
    if run is None or to is None or out is None:
        raise UsageError("give RUN, --to and --out; or --check and a page or folder")
    if to == "onnx" and weights is not None:
        raise UsageError("--weights is for pages; ONNX files hold f32")
    if to == "web" and linear_attention is not None:
        raise UsageError("--linear-attention is for ONNX; a page has its own engine")
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
