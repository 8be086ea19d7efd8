"""Dropout: how much is dropped, what is left, and the same by the same seed."""

import pytest
import torch
from torch import nn

from subquad.models.dropout import LEAST, Dropout


@pytest.mark.parametrize("p", [0.0005, 0.1, 0.2, 0.5, 0.97])
def test_drops_its_share_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    n = 400_000
    y = Dropout(p)(torch.ones(n))
    kept = y != 0
    # Four standard deviations of a share.
    assert abs((~kept).double().mean() - p) < 4 * (p * (1 - p) / n) ** 0.5
    assert torch.allclose(y[kept], torch.tensor(1 / (1 - p)), rtol=1e-3)


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = (Dropout(0.5)(torch.ones(400_001)) == 0).double() - 0.5
    for apart in (1, 2, 3, 4, 8):
        assert abs((dropped[apart:] * dropped[:-apart]).mean()) < 4 * 0.25 / 400_000**0.5


def test_the_gradient_goes_where_the_values_went() -> None:
    x = torch.randn(64, 100, 3, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    assert torch.equal(y == 0, x.grad == 0)
    torch.testing.assert_close(y, x * x.grad)


def test_follows_torchs_seed_and_does_nothing_in_evaluation() -> None:
    x = torch.randn(LEAST)
    layer = Dropout(0.2)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(layer(x))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
    assert layer.eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_keeps_the_dtype(dtype: torch.dtype) -> None:
    assert Dropout(0.2)(torch.ones(LEAST, dtype=dtype)).dtype == dtype


def test_ends_of_the_scale_and_small_tensors_are_torchs() -> None:
    assert (Dropout(1.0)(torch.ones(LEAST)) == 0).all()
    few = torch.ones(LEAST - 1)
    torch.manual_seed(3)
    ours = Dropout(0.4)(few)
    torch.manual_seed(3)
    assert torch.equal(ours, nn.functional.dropout(few, 0.4))
