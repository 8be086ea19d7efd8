"""Modules for export to ONNX: the same computation as a model, but with plain tensors as inputs and
outputs, and without control flow that depends on tensor values."""

import copy
from dataclasses import fields

import torch
from torch import Tensor, nn

from subquad.errors import UsageError
from subquad.export.answers import Types
from subquad.mixers.capabilities import GraphForm
from subquad.models import CausalModel, Classifier, ModelState
from subquad.models.block import Block
from subquad.models.embeddings import Embedding
from subquad.models.shared_levels import settle
from subquad.shapes import Mask, Tokens


def plain(model: nn.Module, form: GraphForm) -> nn.Module:
    """A copy of ``model`` that can be traced into a graph."""
    made = copy.deepcopy(model).cpu()
    settle(made)
    for module in made.modules():
        if isinstance(module, Block):
            module.mixer = module.mixer.for_graph(form)
        if isinstance(module, Embedding):
            module.checked = False
    return made


class Classes(nn.Module):
    """A classifier: tokens, mask → logits. ``types`` computes token types from both, or None."""

    def __init__(self, model: Classifier, types: Types) -> None:
        super().__init__()
        self.model = plain(model, "rows")
        self.types = types

    def forward(self, tokens: Tokens, mask: Mask) -> Tensor:
        out: Tensor = self.model(tokens, mask, self.types(tokens, mask))
        return out


class Continues(nn.Module):
    """The part that prefill and step share; the states are a flat list of tensors."""

    def __init__(self, model: CausalModel, form: GraphForm) -> None:
        super().__init__()
        made = plain(model, form)
        assert isinstance(made, CausalModel)
        self.model = made
        self.kinds = [type(state) for state in model.empty_state(1).layers]

    def after(
        self, tokens: Tokens, mask: Mask | None, position: Tensor, states: list[Tensor]
    ) -> tuple[Tensor, ...]:
        left = list(states)
        layers = [kind(*(left.pop(0) for _ in fields(kind))) for kind in self.kinds]
        logits, state = self.model.scan(tokens, ModelState(position, tuple(layers)), mask)
        flat = [t for layer in state.layers for t in layer.tensors().values()]
        return (logits[:, -1], state.position, *flat)


class Prefill(Continues):
    """Reads many tokens at once, padded on the left: tokens, mask, position, states → logits after
    the last token, new position, new states."""

    def __init__(self, model: CausalModel, form: GraphForm = "many") -> None:
        super().__init__(model, form)

    def forward(
        self, tokens: Tokens, mask: Mask, position: Tensor, states: list[Tensor]
    ) -> tuple[Tensor, ...]:
        return self.after(tokens, mask, position, states)


class Step(Continues):
    """Reads one token: tokens ``[b]``, position, states → logits, new position, new states."""

    def __init__(self, model: CausalModel, form: GraphForm = "one") -> None:
        super().__init__(model, form)

    def forward(self, tokens: Tensor, position: Tensor, states: list[Tensor]) -> tuple[Tensor, ...]:
        return self.after(tokens.unsqueeze(1), None, position, states)


def state_names(model: CausalModel) -> list[str]:
    """The names of a model's states in order: ``layers.0.s``, ``layers.0.z``, ….

    Raises:
        UsageError: the state of a layer grows with the number of tokens read.
    """
    before = model.empty_state(1)
    after = model.scan(torch.zeros(1, 1, dtype=torch.long), before)[1]
    names = []
    for i, (empty, one) in enumerate(zip(before.layers, after.layers, strict=True)):
        kept = one.tensors()
        if any(kept[name].shape != t.shape for name, t in empty.tensors().items()):
            raise UsageError(
                f"layer {i} ({type(model.blocks[i].mixer).__name__}) has a state that grows with "
                "every token; a step graph needs mixers whose states have a fixed size"
            )
        names += [f"layers.{i}.{name}" for name in kept]
    return names


def empty_states(model: CausalModel, rows: int) -> list[Tensor]:
    """The initial states, before any token is read."""
    return [t for layer in model.empty_state(rows).layers for t in layer.tensors().values()]
