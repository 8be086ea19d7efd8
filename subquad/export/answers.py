"""What torch says: the answers that a folder of ONNX files carries and is held to.

One safetensors file of cases, named by their size: ``3x17.`` are 3 rows of 17 tokens.

| name | content |
|---|---|
| ``tokens``, ``mask`` | int64, bool [rows, length]: what is read, rows of unlike lengths |
| ``logits`` | of a classifier [rows, classes]; after a causal model's last token [rows, tokens] |
| ``steps.0.token``, ``steps.0.logits``, … | causal: torch's likeliest token, logits after it |
| ``end.next_position``, ``end.next_layers.0.s``, … | causal: first row's state after the steps |
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from subquad.errors import UsageError
from subquad.models import CausalModel, Classifier, Embedding
from subquad.storage import write_tensors

FILE = "selftest.safetensors"
#: None of them is the size of the example that a graph is made with.
ROWS, LENGTHS = (1, 3), (1, 17, 300)
STEPS = 2
#: Tokens and mask → the tokens' types, or None (``Task.types``).
Types = Callable[[Tensor, Tensor], Tensor | None]


def save(
    model: Classifier | CausalModel, types: Types, names: list[str], longest: int, path: Path
) -> None:
    """Write torch's answers; ``types`` are those of a classifier's tokens, ``names`` those of a
    causal model's states."""
    found: dict[str, Tensor] = {}
    with torch.no_grad():
        for length in sorted({max(1, min(n, longest)) for n in LENGTHS}):
            for rows in ROWS:
                if isinstance(model, Classifier):
                    case = _classes(model, types, rows, length)
                else:
                    case = _continued(model, names, rows, length)
                found |= {f"{rows}x{length}.{name}": t for name, t in case.items()}
    write_tensors(path, {name: t.clone().contiguous() for name, t in found.items()})


def rows_of(tokens: int, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Ids below ``tokens`` that are not their positions, and a mask of lengths that differ."""
    ids = (torch.arange(rows * length) * 7 + 3).reshape(rows, length) % tokens
    real = torch.tensor([length - i * (length // 3) for i in range(rows)])
    return ids, torch.arange(length) < real.unsqueeze(1)


def known_tokens(model: Classifier) -> int:
    """The ids that a row may hold: the one that stands for the row is not among them."""
    front = model.encoder.embedding
    if not isinstance(front, Embedding):
        raise UsageError("no graph is made of a model that reads frames: tokens are expected")
    return front.tokens.num_embeddings - (model.cls is not None)


def _classes(model: Classifier, types: Types, rows: int, length: int) -> dict[str, Tensor]:
    tokens, mask = rows_of(known_tokens(model), rows, length)
    return {"tokens": tokens, "mask": mask, "logits": model(tokens, mask, types(tokens, mask))}


def _continued(model: CausalModel, names: list[str], rows: int, length: int) -> dict[str, Tensor]:
    """A prompt with padding on the left, then the likeliest tokens one by one."""
    tokens, mask = rows_of(model.outputs, rows, length)
    mask = mask.flip(1)
    logits, state = model.scan(tokens, None, mask)
    case = {"tokens": tokens, "mask": mask, "logits": logits[:, -1]}
    for i in range(STEPS):
        token = logits[:, -1].argmax(-1)
        logits, state = model.scan(token.unsqueeze(1), state)
        case |= {f"steps.{i}.token": token, f"steps.{i}.logits": logits[:, -1]}
    states = [t for layer in state.layers for t in layer.tensors().values()]
    ends = dict(zip(["position", *names], [state.position, *states], strict=True))
    return case | {f"end.next_{name}": t[:1] for name, t in ends.items()}
