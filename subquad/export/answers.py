"""Reference outputs computed by torch, which a folder of ONNX files contains for its self-test.

They are one safetensors file of cases named by size: ``3x17.`` is a batch of 3 rows of 17 tokens.

| name | content |
|---|---|
| ``tokens``, ``mask`` | the input, int64 and bool [rows, length]; rows differ in length |
| ``logits`` | classifier: [rows, classes]; causal: after the last token, [rows, vocabulary] |
| ``steps.0.token``, ``steps.0.logits``, … | causal: torch's likeliest token, logits after it |
| ``end.next_position``, ``end.next_layers.0.s``, … | causal: first row's state after all steps |
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from subquad.errors import UsageError
from subquad.models import CausalModel, Classifier, Embedding
from subquad.storage import write_tensors

FILE = "selftest.safetensors"
#: Sizes of the cases; all differ from the example inputs that the graphs are traced with.
ROWS, LENGTHS = (1, 3), (1, 17, 300)
STEPS = 2
#: A function from tokens and mask to token types, or None (``Task.types``).
Types = Callable[[Tensor, Tensor], Tensor | None]


def save(
    model: Classifier | CausalModel, types: Types, names: list[str], longest: int, path: Path
) -> None:
    """Write torch's outputs to ``path``. ``types`` gives a classifier's token types, ``names`` are
    the names of a causal model's states, and ``longest`` is the maximum length."""
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
    """Ids below ``tokens`` that differ from their positions, and a mask with different lengths."""
    ids = (torch.arange(rows * length) * 7 + 3).reshape(rows, length) % tokens
    real = torch.tensor([length - i * (length // 3) for i in range(rows)])
    return ids, torch.arange(length) < real.unsqueeze(1)


def known_tokens(model: Classifier) -> int:
    """The number of ids that a row may contain, which does not include the CLS token."""
    front = model.encoder.embedding
    if not isinstance(front, Embedding):
        raise UsageError("a model that reads frames cannot be exported to ONNX, only one of tokens")
    return front.tokens.num_embeddings - (model.cls is not None)


def _classes(model: Classifier, types: Types, rows: int, length: int) -> dict[str, Tensor]:
    tokens, mask = rows_of(known_tokens(model), rows, length)
    return {"tokens": tokens, "mask": mask, "logits": model(tokens, mask, types(tokens, mask))}


def _continued(model: CausalModel, names: list[str], rows: int, length: int) -> dict[str, Tensor]:
    """A prompt with padding on the left, followed by greedy decoding."""
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
