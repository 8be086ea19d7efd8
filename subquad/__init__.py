"""subquad: sequence models whose cost does not grow with the square of the length.

``subquad.load(run)`` opens a trained run, ``subquad.generate(run, "It was")`` continues a text with
it; ``subquad.mixers`` holds the token mixers.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["generate", "kernels", "load", "mixers"]

if TYPE_CHECKING:
    from subquad import mixers
    from subquad.generation import generate
    from subquad.run import load


def __getattr__(name: str) -> Any:
    """Import on first use: ``import subquad`` itself costs next to nothing."""
    import importlib

    if name == "generate":
        return importlib.import_module("subquad.generation").generate
    if name == "load":
        return importlib.import_module("subquad.run").load
    if name == "kernels":
        return importlib.import_module("subquad.kernels")
    if name == "mixers":
        return importlib.import_module("subquad.mixers")
    raise AttributeError(f"module 'subquad' has no attribute {name!r}")
