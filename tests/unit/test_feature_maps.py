"""The maps φ: their values, their slopes, and that none can make the divisor cross zero."""

import math

import pytest
import torch

from subquad.mixers.base import divide
from subquad.mixers.linear.feature_maps import FEATURE_MAPS, elu_plus_one
from subquad.mixers.linear.learned import Maps

every_map = pytest.mark.parametrize("phi", list(FEATURE_MAPS.values()), ids=list(FEATURE_MAPS))


@pytest.mark.parametrize(
    ("dtype", "lowest"), [(torch.bfloat16, -80.0), (torch.float16, -15.0), (torch.float32, -80.0)]
)
def test_b01_the_negative_side_is_exp(dtype: torch.dtype, lowest: float) -> None:
    """elu(x) + 1 would round to 0 in bf16 from -6 on, in fp32 from -17 on."""
    x = torch.linspace(lowest, 0, 200, dtype=torch.float64).to(dtype)
    found, exact = elu_plus_one(x).double(), x.double().exp()
    assert (found > 0).all()
    assert ((found / exact - 1).abs()[exact > torch.finfo(dtype).tiny] < 1e-2).all()


def test_b01_at_minus_eight_in_bf16() -> None:
    x = torch.tensor(-8.0, dtype=torch.bfloat16, requires_grad=True)
    elu_plus_one(x).backward()
    assert elu_plus_one(x).item() == pytest.approx(3.357e-4, rel=1e-3)
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(3.357e-4, rel=1e-3)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)
def test_b01_value_and_slope_at_zero_are_one(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0], dtype=dtype, requires_grad=True)
    y = elu_plus_one(x)
    y.sum().backward()
    assert y.tolist() == [1, 1]
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1]


def test_elu_plus_one_has_finite_gradients_everywhere() -> None:
    """exp of a large number on the side not taken would give 0 · ∞ = NaN."""
    x = torch.tensor([-1e30, -1000.0, 1000.0, 1e30], requires_grad=True)
    elu_plus_one(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0, 1, 1]


@every_map
def test_b05_no_map_is_ever_negative(phi) -> None:
    """A signed map lets the divisor cross zero; those on offer are non-negative and finite."""
    x = torch.cat([torch.linspace(-60, 60, 999), torch.tensor([0.0, -1e4, 1e4])]).reshape(-1, 2)
    assert (phi(x) >= 0).all()
    assert phi(x).isfinite().all()


@every_map
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_maps_keep_shape_and_dtype(phi, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 5, 4, dtype=dtype)
    assert phi(x).shape == x.shape
    assert phi(x).dtype == dtype


def test_values() -> None:
    x = torch.tensor([[-2.0, 0.0, 3.0]])
    e = [math.exp(c) for c in (-2, 0, 3)]
    torch.testing.assert_close(FEATURE_MAPS["elu+1"](x), torch.tensor([[e[0], 1.0, 4.0]]))
    torch.testing.assert_close(FEATURE_MAPS["relu"](x), torch.tensor([[0.0, 0.0, 3.0]]))
    torch.testing.assert_close(FEATURE_MAPS["relu^2"](x), torch.tensor([[0.0, 0.0, 9.0]]))
    torch.testing.assert_close(FEATURE_MAPS["softmax"](x), torch.tensor([e]) / sum(e))


def test_b05_nothing_is_divided_by_zero() -> None:
    top = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    bottom = torch.tensor([0.0, 0.0, 4.0], requires_grad=True)
    y = divide(top, bottom)
    y.sum().backward()
    assert y.tolist() == [0, 0, 0.5]
    assert top.grad is not None
    assert bottom.grad is not None
    assert top.grad.tolist() == [0, 0, 0.25]
    assert bottom.grad.tolist() == [0, 0, -0.125]


def test_an_unknown_map_lists_those_there_are() -> None:
    assert Maps("relu", 2, 4).phi is FEATURE_MAPS["relu"]
    with pytest.raises(ValueError, match=r"feature_map='cos' is not one of elu\+1, relu, relu\^2"):
        Maps("cos", 2, 4)
