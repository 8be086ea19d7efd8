"""Support for ONNX's operator ``LinearAttention`` (opset 27), which torch's exporter lacks.

torch's exporter supports opsets up to 25. A graph is therefore exported at an older opset, with the
operator in a private domain; then onnx converts it to opset 27, and the operator is moved to the
standard domain.
"""

from typing import Any

from subquad.errors import UsageError
from subquad.mixers.capabilities import OPERATOR_DOMAIN

OPSET = 27
NAME = "LinearAttention"


def known() -> None:
    """Raise ``UsageError`` if the installed version of onnx does not define the operator."""
    import onnx

    if onnx.defs.onnx_opset_version() < OPSET:
        raise UsageError(
            f"onnx {onnx.__version__} supports opsets up to {onnx.defs.onnx_opset_version()}, but "
            f"{NAME} needs {OPSET}: pip install 'onnx>=1.22'"
        )


def standard(model: Any) -> Any:
    """Convert an ``onnx.ModelProto`` to opset 27, with the operator in the standard domain."""
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
