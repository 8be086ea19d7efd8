"""The native pooling of additive attention: the form in torch is the reference."""

import pytest
import torch

from subquad.kernels import status
from subquad.mixers.fastformer.bidirectional import attend, attend_by_torch
from subquad.mixers.fastformer.native import additive_pool

pytestmark = pytest.mark.skipif(not status().native, reason=f"no native core: {status().reason}")

TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}
SHAPES = [  # rows, tokens, width, heads
    (1, 1, 1, 1),
    (2, 7, 6, 2),
    (3, 64, 51, 17),
    (2, 700, 64, 4),  # more than one piece
    (1, 1025, 24, 3),
]


def subject(shape, dtype, masked):
    torch.manual_seed(0)
    b, t, d, h = shape
    x, w = torch.randn(b, t, d).to(dtype), torch.randn(b, h, d)
    mask = torch.rand(b, t) < 0.6 if masked else None
    if mask is not None:
        mask[-1] = False  # a row without a token
    return x, w.to(torch.promote_types(dtype, torch.float32)), mask, torch.randn(b, 1, d).to(w)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_equals_torchs_form(shape, dtype, masked) -> None:
    x, w, mask, dy = subject(shape, dtype, masked)
    x.requires_grad_(), w.requires_grad_()
    y = additive_pool(x, w, mask, attend_by_torch)
    exact = [a.detach().double().requires_grad_() for a in (x, w)]
    want = attend_by_torch(*exact, mask)
    found = (y, *torch.autograd.grad(y, (x, w), dy.to(y.dtype)))
    wanted = (want, *torch.autograd.grad(want, exact, dy.double()))
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert (a.double() - b).abs().max() <= TOLERANCE[dtype] * (1e-3 + b.abs().max())
    assert [a.dtype for a in found] == [w.dtype, dtype, w.dtype]


def test_padding_may_be_anything_and_takes_no_part() -> None:
    x, w, mask, _ = subject(SHAPES[2], torch.float32, True)
    want = additive_pool(x, w, mask, attend_by_torch)
    spoiled = torch.where(mask.unsqueeze(-1), x, float("nan")).requires_grad_()
    y = additive_pool(spoiled, w, mask, attend_by_torch)
    assert torch.equal(y, want)
    (dx,) = torch.autograd.grad(y.sum(), spoiled)
    assert (dx[~mask] == 0).all()
    assert dx.isfinite().all()
    assert (want[-1] == 0).all()


def test_large_scores() -> None:
    """The greatest token takes all, wherever it stands, as in a softmax that is shifted first."""
    x = torch.randn(1, 600, 4)
    x[0, 555] = 3e4
    x[0, 20] = -3e4
    y = additive_pool(x, torch.ones(1, 2, 4), None, attend_by_torch)
    assert torch.equal(y[0, 0], x[0, 555])


def test_nan_is_not_hidden() -> None:
    x = torch.randn(1, 300, 4)
    x[0, 270, 1] = float("nan")
    assert additive_pool(x, torch.ones(1, 2, 4), None, attend_by_torch).isnan().all()


def test_any_strides() -> None:
    x, w, mask, dy = subject(SHAPES[3], torch.float32, True)
    want = additive_pool(x, w, mask, attend_by_torch)
    two = torch.cat([x, -x], dim=-1)  # queries and keys of one projection
    assert torch.equal(additive_pool(two.chunk(2, dim=-1)[0], w, mask, attend_by_torch), want)
    assert torch.equal(additive_pool(x.mT.contiguous().mT, w, mask, attend_by_torch), want)
    one = torch.randn(1, *w.shape[1:], requires_grad=True)
    y = attend(x, one, mask)
    (found,) = torch.autograd.grad(y, one, dy[:1].expand_as(y))
    apart = one.detach().expand_as(w).clone().requires_grad_()
    (each,) = torch.autograd.grad(attend(x, apart, mask), apart, dy[:1].expand_as(y))
    torch.testing.assert_close(found, each.sum(0, keepdim=True))


def test_gradients_numerically_and_twice() -> None:
    x, w, mask, _ = subject((2, 5, 6, 2), torch.float64, True)
    x.requires_grad_(), w.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: attend(x, w, mask), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: attend(x, w, mask), (x, w))


def test_the_same_bits_whatever_the_threads() -> None:
    x, w, mask, dy = subject(SHAPES[3], torch.float32, True)
    x.requires_grad_(), w.requires_grad_()
    before, made = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            y = additive_pool(x, w, mask, attend_by_torch)
            made.append((y, *torch.autograd.grad(y, (x, w), dy)))
    finally:
        torch.set_num_threads(before)
    for other in made[1:]:
        assert all(map(torch.equal, made[0], other))
