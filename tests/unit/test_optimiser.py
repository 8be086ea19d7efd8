"""Muon: orthogonal updates for the blocks' matrices, AdamW for the rest, exact after a resume."""

from dataclasses import replace

import pytest
import torch

from subquad.models import CausalModel, ModelConfig
from subquad.optimiser import optimiser
from subquad.optimiser.muon import MOMENTUM, SIZE, Muon, orthogonal
from subquad.tasks import TrainConfig
from subquad.training import train
from tests.unit.test_training import Stop, assert_same_run, crash_at, tiny

MUON = TrainConfig(optimizer="muon", lr=0.01, weight_decay=0.0)


def model() -> CausalModel:
    torch.manual_seed(0)
    config = ModelConfig(mixers=("convolution", "linear"), layers=2, d=16, heads=2, ff=24)
    return CausalModel(config, inputs=9, outputs=9, length=20)


@pytest.mark.parametrize("shape", [(16, 16), (48, 16), (16, 48), (1, 7)])
def test_singular_values_come_near_to_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, *shape)
    y = orthogonal(x)
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    found = torch.linalg.svdvals(y)
    assert found.max() < 1.3
    # Those above a fifth of the largest one have become large, whatever they were.
    assert found[s > 0.2 * s[:, :1]].min() > 0.5
    assert torch.einsum("bij,bij->b", u @ vh, y).min() > 0.65 * min(shape)
    for i in range(3):
        torch.testing.assert_close(orthogonal(x[i : i + 1])[0], y[i], rtol=1e-4, atol=1e-5)


def test_a_matrix_of_zeros_is_not_moved() -> None:
    assert (orthogonal(torch.zeros(2, 4, 3)) == 0).all()


def test_muon_has_the_matrices_of_the_blocks_alone() -> None:
    made = model()
    groups = optimiser(made, MUON).param_groups
    names = {id(p): n for n, p in made.named_parameters()}
    hidden = {names[id(p)] for p in groups[-1]["params"]}
    assert groups[-1]["orthogonal"]
    assert "blocks.1.ff.inner.weight" in hidden
    assert all(n.startswith("blocks.") and "norm" not in n for n in hidden)
    assert not any("weight" in n and made.get_parameter(n).dim() != 2 for n in hidden)
    assert sum(len(g["params"]) for g in groups) == len(names)


def test_a_step_is_adamws_for_the_rest_and_orthogonal_for_matrices() -> None:
    made, plain = model(), model()
    ours, adamw = optimiser(made, MUON), optimiser(plain, replace(MUON, optimizer="adamw"))
    assert isinstance(ours, Muon)
    tokens = torch.randint(9, (3, 20))
    for m, o in ((made.eval(), ours), (plain.eval(), adamw)):
        m(tokens).square().mean().backward()
        o.step()
    torch.testing.assert_close(made.head.weight, plain.head.weight)
    torch.testing.assert_close(made.embedding.tokens.weight, plain.embedding.tokens.weight)
    name = "blocks.0.ff.inner.weight"
    before, after = model().get_parameter(name), made.get_parameter(name)
    gradient = after.grad
    assert gradient is not None
    nesterov = gradient.lerp(gradient * (1 - MOMENTUM), MOMENTUM)
    wanted = -0.01 * SIZE * max(before.shape) ** 0.5 * orthogonal(nesterov[None])[0]
    torch.testing.assert_close(after - before, wanted, rtol=1e-4, atol=1e-7)


def test_weight_decay_shrinks_matrices() -> None:
    made = model()
    o = optimiser(made, replace(MUON, weight_decay=0.5))
    name = "blocks.0.ff.inner.weight"
    weight = made.get_parameter(name)
    before = weight.detach().clone()
    for p in made.parameters():
        p.grad = torch.zeros_like(p)
    o.step()
    torch.testing.assert_close(weight.detach(), before * (1 - 0.01 * 0.5))


@pytest.mark.parametrize("task", ["classify", "pixels"])
def test_a_resume_is_bit_exact(tmp_path, task) -> None:
    config = tiny(task, optimizer="muon", save_every=1)
    whole = train(config, tmp_path / "whole")
    with pytest.raises(Stop):
        train(config, tmp_path / "broken", watch=crash_at(8))
    assert_same_run(whole, train(config, tmp_path / "broken", resume=True))
