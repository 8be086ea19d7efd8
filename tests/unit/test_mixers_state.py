"""States: registered by name, copied without the graph they came from, empty before the first
token."""

import copy
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from subquad.errors import SubquadError
from subquad.mixers import State, names
from subquad.models import CausalModel, ModelConfig, ModelState
from tests.cases import ALL, CAUSAL, Case, D
from tests.checks import close, rows, same

every_causal = pytest.mark.parametrize("case", CAUSAL, ids=str)
every_name = pytest.mark.parametrize("name", names(causal=True))


def with_gradients(case: Case) -> State:
    """A state that hangs on a graph."""
    return case().scan(rows(2, 3, torch.float64).requires_grad_())[1]


def model(name: str) -> CausalModel:
    config = ModelConfig(mixers=(name,), layers=2, d=8, heads=2, ff=8)
    return CausalModel(config, inputs=5, outputs=5, length=9)


def check_copies(state: State | ModelState, tensors) -> None:
    """``deepcopy`` and ``clone`` share neither memory nor graph, ``detach`` no graph."""
    for copied in (copy.deepcopy(state), state.clone()):
        for mine, other in zip(tensors(copied), tensors(state), strict=True):
            same(mine, other.detach(), "a copy")
            assert not mine.requires_grad
            assert not mine.numel() or mine.data_ptr() != other.data_ptr()
    for mine, other in zip(tensors(state.detach()), tensors(state), strict=True):
        assert not mine.requires_grad
        assert mine.data_ptr() == other.data_ptr()


@every_causal
def test_a_state_with_gradients_can_be_copied(case: Case) -> None:
    state = with_gradients(case)
    if case.cls.mixes:
        assert any(t.requires_grad for t in state.tensors().values())
    check_copies(state, lambda s: list(s.tensors().values()))


@every_name
def test_a_models_state_with_gradients_can_be_copied(name: str) -> None:
    _, state = model(name).scan(torch.tensor([[1, 2, 3], [4, 0, 1]]))
    held = [t for layer in state.layers for t in layer.tensors().values()]
    assert name == "none" or any(t.requires_grad for t in held)

    def tensors(s: ModelState) -> list[Tensor]:
        return [s.position, *(t for layer in s.layers for t in layer.tensors().values())]

    check_copies(state, tensors)


def test_a_kept_copy_does_not_keep_the_graph() -> None:
    """A loop over pieces that keeps copies must not keep every step before them alive."""
    x = rows(1, 2, torch.float64).requires_grad_()
    state = Case("linear", True)().scan(x)[1]
    assert all(t.grad_fn is None for t in state.clone().tensors().values())
    assert all(t.grad_fn is not None for t in state.tensors().values())


@pytest.mark.parametrize("case", [case for case in ALL if case.causal], ids=str)
@pytest.mark.parametrize("rows_", [0, 1, 3])
def test_an_empty_state_is_that_of_no_tokens(case: Case, rows_: int) -> None:
    mixer = case()
    found = mixer.empty_state(rows_, dtype=torch.float64)
    nothing = mixer.scan(torch.zeros(rows_, 0, D, dtype=torch.float64))[1]
    assert type(found) is type(nothing)
    for name, tensor in nothing.tensors().items():
        same(found.tensors()[name], tensor.detach(), name)
        assert not found.tensors()[name].requires_grad
    x = rows(rows_, 4, torch.float64)
    close(mixer.scan(x, found)[0].detach(), mixer(x).detach(), "outputs from an empty state")


@every_name
def test_a_models_empty_state_is_a_beginning(name: str) -> None:
    made, tokens = model(name).eval(), torch.tensor([[1, 2, 3], [4, 0, 1]])
    empty = made.empty_state(2)
    assert empty.position.tolist() == [0, 0]
    close(made.scan(tokens, empty)[0].detach(), made(tokens).detach(), "logits")


def test_states_are_known_by_name_grandchildren_too(tmp_path) -> None:
    @dataclass(frozen=True)
    class Sums(State):
        s: Tensor

    @dataclass(frozen=True)
    class SumsAndCount(Sums):
        n: Tensor

    assert State.kinds["SumsAndCount"] is SumsAndCount
    layer = SumsAndCount(torch.ones(1, 2), torch.tensor([3]))
    ModelState(torch.tensor([3]), (layer,)).save(tmp_path / "s")
    back = ModelState.load(tmp_path / "s")
    assert isinstance(back.layers[0], SumsAndCount)
    same(back.layers[0].n, layer.n, "n")


def test_two_states_of_one_name_are_refused() -> None:
    def another() -> type[State]:
        @dataclass(frozen=True)
        class LinearState(State):
            pass

        return LinearState

    with pytest.raises(TypeError, match="defines a state LinearState, and so does subquad"):
        another()
    assert State.kinds["LinearState"].__module__.startswith("subquad")


@every_name
def test_a_damaged_saved_state_is_refused_in_one_line(name: str, tmp_path) -> None:
    _, state = model(name).scan(torch.tensor([[1, 2]]))
    state.detach().save(tmp_path / "s")
    tensors = load_file(tmp_path / "s")
    lost = next((n for n in tensors if n.startswith("layers.1.")), "position")
    kept = {n: t for n, t in tensors.items() if n != lost}
    from safetensors import safe_open

    with safe_open(tmp_path / "s", framework="pt") as f:
        save_file(kept, tmp_path / "t", metadata=f.metadata())
    with pytest.raises(SubquadError, match=r"is damaged: (layer 1|it has no position)"):
        ModelState.load(tmp_path / "t")
