"""subquad: sequence models whose cost does not grow with the square of the length.

``subquad.train(task="classify", texts=…, labels=…)`` trains a run and ``subquad.load(run)`` opens
one; ``subquad.generate(run, "It was")`` continues a text with it. ``subquad.TextClassifier`` is the
same for scikit-learn. ``subquad.mixers`` holds the token mixers.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "TextClassifier",
    "TextRegressor",
    "generate",
    "kernels",
    "load",
    "mixers",
    "train",
]

if TYPE_CHECKING:
    from subquad import mixers
    from subquad.estimator import TextClassifier, TextRegressor
    from subquad.fitting import train
    from subquad.generation import generate
    from subquad.run import load


def __getattr__(name: str) -> Any:
    """Import on first use: ``import subquad`` itself costs next to nothing."""
    import importlib

    if name == "generate":
        return importlib.import_module("subquad.generation").generate
    if name == "load":
        return importlib.import_module("subquad.run").load
    if name == "train":
        return importlib.import_module("subquad.fitting").train
    if name in ("TextClassifier", "TextRegressor"):
        return getattr(importlib.import_module("subquad.estimator"), name)
    if name == "kernels":
        return importlib.import_module("subquad.kernels")
    if name == "mixers":
        return importlib.import_module("subquad.mixers")
    raise AttributeError(f"module 'subquad' has no attribute {name!r}")
