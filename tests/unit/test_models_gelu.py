"""GELU by the native core: torch's own is the reference."""

import copy

import pytest
import torch
from torch.autograd import forward_ad
from torch.nn import functional as F

from subquad.kernels import status
from subquad.models import CausalModel, ModelConfig
from subquad.models.gelu import LEAST, _core_serves, tanh_gelu

pytestmark = pytest.mark.skipif(not status().native, reason=f"no native core: {status().reason}")

TOLERANCE = {torch.float64: 1e-13, torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


def numbers(n: int, dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(0)
    odd = torch.tensor([0.0, -0.0, 20.0, -20.0, 1e4, -1e4, 1e-30, -0.75246])
    return torch.cat([odd, 3 * torch.randn(n - len(odd))]).to(dtype)


@pytest.mark.parametrize("n", [LEAST, LEAST + 1, 3 * LEAST + 257])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_equals_torchs_formula(n: int, dtype: torch.dtype) -> None:
    x = numbers(n, dtype).requires_grad_()
    dout = torch.randn(n).to(dtype)
    assert _core_serves(x)
    y = tanh_gelu(x)
    (dx,) = torch.autograd.grad(y, x, dout)
    exact = x.detach().double().requires_grad_()
    want = F.gelu(exact, approximate="tanh")
    (want_dx,) = torch.autograd.grad(want, exact, dout.double())
    assert y.dtype == dx.dtype == dtype
    for found, wanted in ((y, want), (dx, want_dx)):
        error = (found.double() - wanted).abs() / (1 + wanted.abs())
        assert error.max() < TOLERANCE[dtype]


def test_infinity_and_nan() -> None:
    x = torch.zeros(LEAST)
    x[0], x[1] = float("inf"), float("nan")
    y = tanh_gelu(x)
    assert y[0] == float("inf")
    assert y[1].isnan()
    assert (y[2:] == 0).all()


def test_gradients_numerically_and_twice() -> None:
    few = torch.randn(3, dtype=torch.float64, requires_grad=True)
    rest = torch.zeros(LEAST, dtype=torch.float64)

    def three(x: torch.Tensor) -> torch.Tensor:
        return tanh_gelu(torch.cat([x, rest]))[:3]

    assert torch.autograd.gradcheck(three, few)
    assert torch.autograd.gradgradcheck(three, few)


def test_an_upper_gradient_of_any_strides() -> None:
    x = torch.randn(LEAST // 64, 128, requires_grad=True)
    for dout in (torch.ones(()).expand(x.shape), torch.randn(128, LEAST // 64).T):
        (found,) = torch.autograd.grad(tanh_gelu(x), x, dout)
        (want,) = torch.autograd.grad(F.gelu(x, approximate="tanh"), x, dout)
        torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-6)


def test_the_same_bits_whatever_the_threads() -> None:
    x = numbers(5 * LEAST, torch.float32)
    before, made = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            made.append(tanh_gelu(x))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[0], made[2])


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own
def test_torchs_own_where_the_core_cannot_serve() -> None:
    x = torch.randn(2, LEAST)
    assert not _core_serves(x.T)
    assert not _core_serves(x[:, : LEAST // 4])
    assert not _core_serves(x.to("meta"))
    torch.testing.assert_close(tanh_gelu(x.T), F.gelu(x.T, approximate="tanh"))
    rows = torch.func.vmap(tanh_gelu)(x)
    torch.testing.assert_close(rows, F.gelu(x, approximate="tanh"))
    with forward_ad.dual_level():
        y = tanh_gelu(forward_ad.make_dual(x, torch.ones_like(x)))
        assert forward_ad.unpack_dual(y).tangent.shape == x.shape


def test_a_model_learns_the_same_by_either() -> None:
    config = ModelConfig(mixers=("linear",), layers=2, d=32, heads=4, ff=64)
    torch.manual_seed(0)
    model = CausalModel(config, inputs=17, outputs=17, length=300)
    other = copy.deepcopy(model)
    for block in other.blocks:
        block.ff.gelu = lambda x: F.gelu(x, approximate="tanh")
    tokens = torch.randint(17, (2, 300))
    for m in (model, other):
        m.eval()
        m(tokens).square().mean().backward()
    for (name, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6, msg=name)
