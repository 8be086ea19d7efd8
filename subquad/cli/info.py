"""``subquad info``."""

import platform
from typing import Any

import click

from subquad.cli.console import json_flag, result


@click.command()
@json_flag
def command(as_json: bool) -> None:
    """Show what this machine supports and what subquad will use."""
    document = facts()
    width = max(len(key) for key in document)
    text = "\n".join(f"{key:<{width}}  {value}" for key, value in document.items())
    result(document, as_json=as_json, text=text)


def facts() -> dict[str, Any]:
    """Versions, device, threads, precision, and which kernels are in use."""
    import torch

    import subquad
    from subquad.kernels import status
    from subquad.models.precision import device, native_bf16, resolve

    on, kernels = device(), status()
    native = f"native, {kernels.instruction_set}, {kernels.threads}"
    return {
        "subquad": subquad.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "processor": torch.cpu.get_capabilities().get("cpu_name", platform.processor()),
        "device": str(on),
        "threads": torch.get_num_threads(),
        "native bf16": "yes" if native_bf16(on) else "no",
        "bf16 or fp32": _measured(on),
        "default precision": resolve("auto", on),
        "kernels": native if kernels.native else f"pure torch: {kernels.reason}",
        "generation": "step engine for linear attention, torch for other mixers"
        if kernels.native
        else f"torch: {kernels.reason}",
    }


def _measured(on: Any) -> str:
    """The two timings behind the default precision."""
    from subquad.models import arithmetic
    from subquad.models.precision import native_bf16

    if not native_bf16(on):
        return "not measured: bf16 is not native"
    if on.type == "cuda":
        return "not measured: bf16 is always used on CUDA devices that support it"
    found, kept = arithmetic.times(), arithmetic.cache_file()
    where = f"cached in {kept}" if kept is not None and kept.exists() else "not cached"
    return (
        f"{found.bf16 * 1e3:.1f} ms in bf16, {found.fp32 * 1e3:.1f} ms in fp32 (matrix products of "
        f"a training step, measured; {where})"
    )
