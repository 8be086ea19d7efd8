"""Models as graphs of plain tensors: inputs and outputs have names, and no form is chosen by what
a tensor holds. Each computes what its model computes."""

import copy
from dataclasses import fields

import torch
from torch import Tensor, nn

from subquad.errors import UsageError
from subquad.export.operator import ByOperator
from subquad.mixers import CausalMixer, State
from subquad.mixers.convolution import CausalConvolution, LastInputs
from subquad.mixers.fnet import FNet, definition
from subquad.mixers.linear import CausalLinearAttention, LinearAttention
from subquad.mixers.linear_parts import LinearState
from subquad.mixers.none import NoMixing, Nothing
from subquad.mixers.raster import CausalRaster
from subquad.models import CausalModel, Classifier, ModelState
from subquad.models.block import Block
from subquad.models.embeddings import Embedding
from subquad.models.shared_levels import settle
from subquad.shapes import Mask, Tokens


class ByProducts(nn.Module):
    """FNet's transform as products with DFT matrices: ONNX's own DFT is slow where it exists."""

    def __init__(self, mixer: FNet) -> None:
        super().__init__()
        self.fixed = mixer.fixed_length is not None

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        return definition(x, None if self.fixed else mask)


class Unchecked(Embedding):
    """Positions beyond those learned are refused by the runtime, which looks them up."""

    def _check(self, positions: Tensor) -> None: ...


def plain(model: nn.Module, causal_form: str = "quadratic") -> nn.Module:
    """A copy of ``model`` that can become a graph; ``causal_form`` is one of ``CAUSAL_FORMS``, or
    ``"operator"``, ONNX's own."""
    made = copy.deepcopy(model).cpu()
    settle(made)
    for module in made.modules():
        if isinstance(module, LinearAttention):
            module.form = "sums"
        if isinstance(module, CausalLinearAttention):
            if causal_form == "operator":
                module.__class__ = ByOperator
            else:
                module.form = causal_form
        if isinstance(module, Embedding):
            module.__class__ = Unchecked
        if isinstance(module, Block) and isinstance(module.mixer, FNet):
            module.mixer = ByProducts(module.mixer)  # type: ignore[assignment]
    return made


class Classes(nn.Module):
    """tokens, mask → logits."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = plain(model)

    def forward(self, tokens: Tokens, mask: Mask) -> Tensor:
        out: Tensor = self.model(tokens, mask)
        return out


class Continues(nn.Module):
    """What prefill and step share: states as a flat list of tensors."""

    def __init__(self, model: CausalModel, form: str) -> None:
        super().__init__()
        made = plain(model, form)
        assert isinstance(made, CausalModel)
        self.model = made

    def after(
        self, tokens: Tokens, mask: Mask | None, position: Tensor, states: list[Tensor]
    ) -> tuple[Tensor, ...]:
        left, layers = list(states), []
        for block in self.model.blocks:
            assert isinstance(block, Block)
            kind = KINDS[type(block.mixer)]
            layers.append(kind(*(left.pop(0) for _ in fields(kind))))
        logits, state = self.model.scan(tokens, ModelState(position, tuple(layers)), mask)
        flat = [t for layer in state.layers for t in layer.tensors().values()]
        return (logits[:, -1], state.position, *flat)


class Prefill(Continues):
    """Many tokens at once, padding on the left: tokens, mask, position, states → logits after the
    last token, and the same again."""

    def __init__(self, model: CausalModel, form: str = "quadratic") -> None:
        super().__init__(model, form)

    def forward(
        self, tokens: Tokens, mask: Mask, position: Tensor, states: list[Tensor]
    ) -> tuple[Tensor, ...]:
        return self.after(tokens, mask, position, states)


class Step(Continues):
    """One token: tokens ``[b]``, position, states → logits, position, states."""

    def __init__(self, model: CausalModel, form: str = "recurrent") -> None:
        super().__init__(model, form)

    def forward(self, tokens: Tensor, position: Tensor, states: list[Tensor]) -> tuple[Tensor, ...]:
        return self.after(tokens.unsqueeze(1), None, position, states)


#: Mixers whose state has a fixed size, and its type.
KINDS: dict[type[nn.Module], type[State]] = {
    CausalLinearAttention: LinearState,
    ByOperator: LinearState,
    CausalConvolution: LastInputs,
    CausalRaster: LastInputs,
    NoMixing: Nothing,
}


def state_names(model: CausalModel) -> list[str]:
    """``layers.0.s``, ``layers.0.z``, …: the states in order.

    Raises:
        UsageError: a layer's state is not of those that a graph is made for.
    """
    names = []
    for i, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        if type(block.mixer) not in KINDS:
            found = type(block.mixer).__name__
            raise UsageError(
                f"layer {i} is {found}; a step graph is made of linear attention and "
                "convolutions, whose states have a fixed size"
            )
        names += [f"layers.{i}.{field.name}" for field in fields(KINDS[type(block.mixer)])]
    return names


def empty_states(model: CausalModel, rows: int) -> list[Tensor]:
    """Zeros: nothing has been read."""
    found: list[Tensor] = []
    for block in model.blocks:
        assert isinstance(block, Block)
        assert isinstance(block.mixer, CausalMixer)
        nothing = torch.zeros(rows, 0, block.ff.inner.in_features)
        found += block.mixer.scan(nothing)[1].tensors().values()
    return found
