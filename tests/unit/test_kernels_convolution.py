"""The native depthwise convolution: torch's own, with a tap for every lag, is the reference."""

import pytest
import torch
from torch.nn import functional as F

from subquad.kernels import status
from subquad.mixers import build
from subquad.mixers.convolution.depthwise import convolve, dense
from subquad.mixers.convolution.native import lagged_sum
from subquad.mixers.native import core_serves_plainly

pytestmark = pytest.mark.skipif(not status().native, reason=f"no native core: {status().reason}")

TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
SHAPES = [  # rows, outputs, width, lags
    (2, 37, 19, (0, 1, 2, 3)),
    (1, 1, 1, (0,)),
    (3, 5, 16, (2, 7)),  # none at the present token
    (1, 2100, 33, (0, 5, 29, 70, 113)),  # more than one chunk
    (4, 130, 96, tuple(range(30))),
]


def by_torch(x, taps, lags, past):
    return F.conv1d(x.mT, dense(taps, lags, past).flip(2), groups=x.shape[2]).mT


def subject(shape, dtype):
    torch.manual_seed(0)
    b, made, d, lags = shape
    past = max(lags)
    x = torch.randn(b, made + past, d).to(dtype)
    taps = torch.randn(d, len(lags)).to(torch.promote_types(dtype, torch.float32))
    dout = torch.randn(b, made, d).to(dtype)
    return x, taps, torch.tensor(lags), past, dout


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_equals_torchs_convolution(shape, dtype) -> None:
    x, taps, lags, past, dout = subject(shape, dtype)
    x.requires_grad_(), taps.requires_grad_()
    y = lagged_sum(x, taps, lags, past)
    exact = [a.detach().double().requires_grad_() for a in (x, taps)]
    want = by_torch(*exact, lags, past)
    found = (y, *torch.autograd.grad(y, (x, taps), dout))
    wanted = (want, *torch.autograd.grad(want, exact, dout.double()))
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert (a.double() - b).abs().max() <= TOLERANCE[dtype] * b.abs().max()
    assert [a.dtype for a in found] == [dtype, dtype, taps.dtype]


def test_any_strides() -> None:
    x, taps, lags, past, _ = subject(SHAPES[0], torch.float32)
    want = lagged_sum(x, taps, lags, past)
    folded = x.mT.contiguous().mT
    assert folded.stride() != x.stride()
    assert torch.equal(lagged_sum(folded, taps, lags, past), want)
    wide = torch.stack([x, -x], dim=3)[..., 0]
    assert torch.equal(lagged_sum(wide, taps, lags, past), want)
    expanded = x[:1].expand(3, -1, -1).requires_grad_()
    y = lagged_sum(expanded, taps, lags, past)
    assert torch.equal(y[2], want[0])
    (one,) = torch.autograd.grad(y.sum(), expanded)  # an expanded gradient comes in
    assert torch.equal(one[0], one[2])


def test_gradients_numerically_and_twice() -> None:
    x, taps, lags, past, _ = subject((2, 4, 3, (0, 2, 5)), torch.float64)
    x.requires_grad_(), taps.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: lagged_sum(x, w, lags, past), (x, taps))
    assert torch.autograd.gradgradcheck(lambda x, w: lagged_sum(x, w, lags, past), (x, taps))


def test_a_gradient_is_only_taken_where_it_is_wanted() -> None:
    x, taps, lags, past, _ = subject(SHAPES[0], torch.float32)
    taps.requires_grad_()
    lagged_sum(x, taps, lags, past).sum().backward()
    assert taps.grad is not None


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_bits_whatever_the_threads(threads) -> None:
    x, taps, lags, past, dout = subject(SHAPES[3], torch.float32)
    taps.requires_grad_()

    def both():
        y = lagged_sum(x, taps, lags, past)
        return y, *torch.autograd.grad(y, taps, dout)

    want, before = both(), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert all(map(torch.equal, both(), want))
    finally:
        torch.set_num_threads(before)


def test_what_is_not_read_may_be_anything() -> None:
    """A dense form multiplies what lies between the taps by zero, and 0 · NaN is NaN."""
    x, taps, lags, past, _ = subject((1, 8, 3, (0, 5)), torch.float32)
    x[0, past + 3] = float("nan")
    y = lagged_sum(x, taps, lags, past)
    assert [i for i in range(8) if y[0, i].isnan().any()] == [3]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own
def test_where_torch_serves() -> None:
    """A compiler, an exporter and a forward-mode derivative see torch's own convolution."""
    x, taps, lags, past, _ = subject(SHAPES[0], torch.float32)
    assert core_serves_plainly(x)
    want = convolve(x, taps, lags, past)
    _, along = torch.func.jvp(lambda x: convolve(x, taps, lags, past), (x,), (x,))
    assert torch.allclose(along, want, atol=1e-5)
    rows = torch.func.vmap(lambda row: convolve(row[None], taps, lags, past)[0])(x)
    assert torch.allclose(rows, want, atol=1e-5)


def test_a_short_row_has_no_output() -> None:
    lags = torch.tensor([0, 4])
    assert convolve(torch.ones(2, 4, 3), torch.ones(3, 2), lags, 4).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"row": 0}, "row=0 must be at least 1"),
        ({"above": -1}, "above=-1 must be at least 0"),
        ({"width": 0}, "width=0 must be at least 1"),
        ({"row": 3, "side": 3}, "side=3 must be less than row=3"),
    ],
)
def test_a_masked_convolution_that_cannot_be(options, told) -> None:
    with pytest.raises(ValueError, match=told):
        build("masked_convolution", 8, causal=True, **options)
