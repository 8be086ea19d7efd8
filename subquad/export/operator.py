"""Graphs with an operator that torch's exporter does not know yet: ``LinearAttention`` of opset 27.

torch's exporter knows opsets up to 25, so a graph is made at an older one with the operator under a
name of our own; onnx converts it to 27, and then the operator gets its own name.
"""

from typing import Any

from subquad.errors import UsageError
from subquad.mixers.capabilities import OPERATOR_DOMAIN

OPSET = 27
NAME = "LinearAttention"


def known() -> None:
    """Raises UsageError where the installed onnx does not define the operator."""
    import onnx

    if onnx.defs.onnx_opset_version() < OPSET:
        raise UsageError(
            f"onnx {onnx.__version__} ends at opset {onnx.defs.onnx_opset_version()}, "
            f"{NAME} came with {OPSET}: pip install 'onnx>=1.22'"
        )


def standard(model: Any) -> Any:
    """An ``onnx.ModelProto`` at opset 27, the operator under its own name."""
    import onnx

    made = onnx.version_converter.convert_version(model, OPSET)
    for node in made.graph.node:
        if node.domain == OPERATOR_DOMAIN:
            node.domain = ""
    del made.opset_import[:]
    made.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    made.ir_version = onnx.helper.find_min_ir_version_for(made.opset_import)
    onnx.checker.check_model(made, full_check=True)
    return made
