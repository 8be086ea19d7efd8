"""What torch and people can hand to the core: marks for values, forward mode, NaN, infinity."""

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from subquad import kernels
from subquad.mixers import fnet, linear
from subquad.mixers.convolution.depthwise import convolve
from subquad.mixers.fastformer import bidirectional as fastformer

if not kernels.status().native:
    pytest.skip(f"native core: {kernels.status().reason}", allow_module_level=True)

BOTH_WAYS = [lambda q, k, v: kernels.causal_linear_attention(q, k, v)[0], kernels.linear_attention]


def negated(*shape: int) -> Tensor:
    """A tensor whose sign is a mark, not in memory."""
    x = torch.randn(*shape, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    return x


@pytest.mark.parametrize("form", BOTH_WAYS)
def test_a_sign_that_is_a_mark(form) -> None:
    x = negated(1, 2, 20, 4)
    k, written = torch.randn(1, 2, 20, 4, requires_grad=True), x.resolve_neg().clone()
    for given in ((x, k, k), (k, x, k), (k, k, x)):
        right = tuple(written if a is x else a for a in given)
        assert torch.equal(form(*given), form(*right))
    y = form(k, k, k)
    found, right = (torch.autograd.grad(y, k, d, retain_graph=True)[0] for d in (x, written))
    assert torch.equal(found, right)


def test_a_sign_that_is_a_mark_elsewhere() -> None:
    x = negated(2, 20, 4)
    written, lags, taps = x.resolve_neg().clone(), torch.arange(3), torch.randn(4, 3)
    assert torch.equal(convolve(x, taps, lags, 2), convolve(written, taps, lags, 2))
    weights = torch.randn(2, 2, 4)
    assert torch.equal(fastformer.attend(x, weights), fastformer.attend(written, weights))


def test_a_zero_that_is_a_mark() -> None:
    q = torch.randn(1, 2, 5, 3, requires_grad=True)
    zero = torch._efficientzerotensor((1, 2, 5, 3))
    (found,) = torch.autograd.grad(kernels.linear_attention(q, q, q), q, zero)
    assert not found.any()


def test_another_default_device_changes_nothing() -> None:
    x = torch.randn(1, 6, 8)
    right = fnet.FNet(8)(x)
    with torch.device("meta"):
        assert torch.equal(fnet.FNet(8)(x), right)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("cls", [linear.LinearAttention, linear.CausalLinearAttention])
def test_forward_mode_is_right_or_refused(cls: type[nn.Module]) -> None:
    mixer, x, along = cls(8, heads=2), torch.randn(1, 70, 8), torch.randn(1, 70, 8)
    mixer = mixer.double().requires_grad_(False)
    x, along = x.double(), along.double()
    near = (mixer(x + 1e-6 * along) - mixer(x - 1e-6 * along)) / 2e-6
    torch.testing.assert_close(torch.func.jvp(mixer, (x,), (along,))[1], near, rtol=1e-5, atol=1e-7)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.unflatten(2, (2, 4)).transpose(1, 2), torch.ones(1, 2, 70, 4))
        for form in BOTH_WAYS:
            with pytest.raises(RuntimeError, match="no forward-mode derivatives"):
                form(dual, dual, dual)


def test_nan_stays_with_its_token() -> None:
    q, k, v = (torch.randn(1, 1, 100, 17, requires_grad=True) for _ in range(3))
    with torch.no_grad():
        q[0, 0, 10, 3] = float("nan")
    (dq,) = torch.autograd.grad(kernels.linear_attention(q, k, v).sum(), q)
    assert dq.isnan().any(-1).flatten().nonzero().tolist() == [[10]]


@pytest.mark.parametrize("width", [3, 16, 17])
@pytest.mark.parametrize("form", BOTH_WAYS)
def test_infinite_values_are_infinite(width: int, form) -> None:
    q, k, v = (torch.randn(1, 1, 6, width) for _ in range(3))
    v[0, 0, 2, 1] = float("inf")
    found = form(q, k, v)[0, 0, :, 1]
    assert found[2:].isinf().all()
    assert not found.isnan().any()


@pytest.mark.parametrize("form", BOTH_WAYS)
def test_features_of_minus_infinity_are_zero(form) -> None:
    q, k, v = (torch.randn(1, 1, 6, 4) for _ in range(3))
    assert not form(q, torch.full_like(k, -torch.inf), v).any()
    k[0, 0, 3] = -torch.inf  # never seen
    mask = torch.arange(6).unsqueeze(0) != 3
    seen = torch.where(mask[0].unsqueeze(1), k, torch.zeros_like(k))
    if form is kernels.linear_attention:
        right = kernels.linear_attention(q, seen, v, mask=mask)
    else:
        right = kernels.causal_linear_attention(q, seen, v, mask=mask)[0]
    torch.testing.assert_close(form(q, k, v), right)


def test_saved_tensors_that_come_back_narrower_are_refused() -> None:
    q = torch.randn(1, 1, 5, 3, dtype=torch.float64, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.float(), lambda x: x):
        y = kernels.linear_attention(q, q, q)
    with pytest.raises(RuntimeError, match=r"saved as torch.float64 but restored as"):
        y.sum().backward()


def test_pooling_by_weights_made_from_what_is_pooled() -> None:
    x = torch.randn(1, 5, 4, dtype=torch.float64, requires_grad=True)

    def pooled(x: Tensor) -> Tensor:
        return fastformer.attend(x, x[:, :2] * 1.5)

    assert torch.autograd.gradcheck(pooled, x)
    assert torch.autograd.gradgradcheck(pooled, x)
