"""Whole models given to torch's tracers, in a process of its own: ``python -m tests.traced_models``
with a kind and models (``linear`` both ways, ``causal:linear``). Prints ``{model: difference from
eager, or the error}`` as JSON."""

import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from subquad.models import CausalModel, Classifier
from subquad.models.config import ModelConfig

TOKENS, LONGEST = 30, 512
#: (rows, length): none is that of the example.
SIZES = [(1, 2), (2, 17), (3, 300), (1, 500)]


def model(name: str) -> nn.Module:
    torch.manual_seed(0)
    causal, mixer = name.startswith("causal:"), name.removeprefix("causal:")
    config = ModelConfig(mixers=(mixer,), layers=1, d=16, heads=2, ff=32, dropout=0.0)
    if causal:
        return CausalModel(config, inputs=TOKENS, outputs=TOKENS - 1, length=LONGEST).eval()
    return Classifier(config, vocabulary=TOKENS, length=LONGEST, classes=3).eval()


def rows(b: int, t: int) -> tuple[Tensor, Tensor]:
    """Tokens, and a mask of rows that are shorter than the widest."""
    real = torch.randint(1, t + 1, (b,))
    real[0] = t
    return torch.randint(0, TOKENS - 1, (b, t)), torch.arange(t) < real.unsqueeze(1)


def worst(found: Callable[..., Tensor], right: nn.Module, sizes: list[tuple[int, int]]) -> float:
    pairs = [(found(*given), right(*given)) for given in (rows(b, t) for b, t in sizes)]
    return max(float((a - b).abs().max()) for a, b in pairs)


def refuses(found: Callable[..., Tensor]) -> None:
    """Nothing is read beyond the learned positions, and the error names their number."""
    beyond = torch.zeros(1, LONGEST + 1, dtype=torch.long)
    try:
        found(beyond, torch.ones_like(beyond, dtype=torch.bool))
    except (RuntimeError, AssertionError) as error:
        if str(LONGEST) in str(error) or str(LONGEST - 1) in str(error):
            return
        raise
    raise ValueError(f"{LONGEST + 1} tokens were read, and {LONGEST} positions are learned")


def program(name: str) -> ExportedProgram:
    # Matrices as wide as the longest row; at that very length nothing is cut, which torch takes
    # for another graph.
    bounded = name in ("dense", "random")
    free = {0: Dim("b", min=1, max=64), 1: Dim("t", min=2, max=LONGEST - 1 if bounded else 1000)}
    shapes = {"tokens": free, "mask": free}
    return export(model(name), rows(3, 16), dynamic_shapes=shapes)


def exported(name: str) -> float:
    graph = program(name).module()
    refuses(graph)
    return worst(graph, model(name), SIZES)


def compiled(name: str, backend: str = "aot_eager") -> float:
    """One size is one graph, without a break; other sizes are other graphs."""
    graph = torch.compile(model(name), fullgraph=True, backend=backend, dynamic=False)
    return worst(graph, model(name), [(2, 70)])


def by_inductor(name: str) -> float:
    graph = torch.compile(model(name), fullgraph=True, dynamic=True)
    refuses(graph)
    return worst(graph, model(name), SIZES)


def ahead_of_time(name: str) -> float:
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    with tempfile.TemporaryDirectory() as folder:
        package = str(Path(folder) / "model.pt2")
        graph = aoti_load_package(aoti_compile_and_package(program(name), package_path=package))
        refuses(graph)
        return worst(graph, model(name), SIZES)


KINDS = {f.__name__: f for f in (exported, compiled, by_inductor, ahead_of_time)}


def outcome(kind: str, name: str) -> float | str:
    torch._dynamo.reset()
    try:
        with torch.no_grad():
            return KINDS[kind](name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    print(json.dumps({name: outcome(sys.argv[1], name) for name in sys.argv[2:]}))
