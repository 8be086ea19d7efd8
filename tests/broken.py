"""Mixers that are broken on purpose, one fault each, for ``test_teeth``."""

import math

import torch
from torch import Tensor

from subquad.mixers import dense, fastformer, fnet, linear, softmax
from subquad.mixers.base import divide, zero_padding
from subquad.mixers.fastformer.causal import CausalFastformer
from subquad.mixers.linear.feature_maps import elu_plus_one
from subquad.mixers.pooling import pool


class Linear(linear.CausalLinearAttention):
    """Causal linear attention in one plain form, with a switch for each fault."""

    fault = ""

    def scan(self, x, state=None, mask=None):
        fault = self.fault
        q, k, v = self.projections.split(zero_padding(x, mask))
        wide = torch.promote_types(x.dtype, torch.float32)
        hidden = torch.zeros_like(x[:, None, :, :1], dtype=torch.bool)
        if mask is not None:
            hidden = ~mask[:, None, :, None]
        if fault == "mask before the feature map":
            k, hidden = k.masked_fill(hidden, 0), hidden & False
        phi_q, phi_k, v = elu_plus_one(q.to(wide)), elu_plus_one(k.to(wide)), v.to(wide)
        z_seen = phi_k
        phi_k, v = phi_k.masked_fill(hidden, 0), v.masked_fill(hidden, 0)
        if fault != "padding stays in the normaliser":
            z_seen = phi_k
        start = linear.empty_state(phi_k, v) if state is None else state
        if fault == "forgets the state":
            start = linear.empty_state(phi_k, v)
        ahead = 1 if fault == "looks ahead by one" else 0
        ahead = -1 if fault == "does not read the token itself" else ahead
        numerator = (phi_q @ phi_k.mT).tril(ahead) @ v + phi_q @ start.s
        denominator = (phi_q @ z_seen.mT).tril(ahead).sum(-1, keepdim=True)
        denominator = denominator + phi_q @ start.z.unsqueeze(-1)
        if fault == "epsilon in the divisor":
            denominator = denominator + 1e-6
        y = divide(numerator, denominator)
        if fault == "forgets to divide":
            y = numerator
        if fault == "divides and spreads NaN":
            y = numerator / denominator
        if fault == "ignores the past":
            y = v
        s, z = phi_k.mT @ v, z_seen.sum(2)
        if fault == "changes the state it was given" and state is not None:
            end = linear.LinearState(s=start.s.add_(s), z=start.z.add_(z))
        else:
            end = linear.LinearState(s=start.s + s, z=start.z + z)
        if fault == "a view keeps everything alive":
            end = end.map(lambda t: torch.stack([t] * 9)[0])
        y = self.projections.merge(y.to(x.dtype))
        return (y if fault == "padding gets outputs" else zero_padding(y, mask)), end


class HalfState(Linear):
    """The state in half precision, which is also how it would be after ``.to(bfloat16)``."""

    def scan(self, x, state=None, mask=None):
        wide = None if state is None else state.map(Tensor.float)
        y, end = super().scan(x, wide, mask)
        return y, end.map(Tensor.bfloat16)


def switched(fault: str) -> type[Linear]:
    """The class with that one fault."""
    return type("Faulty", (Linear,), {"fault": fault})


class RoundedState(linear.CausalLinearAttention):
    """The state goes through half precision between two calls."""

    def scan(self, x, state=None, mask=None):
        y, end = super().scan(x, state, mask)
        return y, end.map(lambda t: t.bfloat16().to(t.dtype))


class PaddedFFT(fnet.FNet):
    """The transform at the padded length, as every released FNet does it."""

    def forward(self, x, mask=None):
        return zero_padding(fnet.full(zero_padding(x, mask)).to(x.dtype), mask)


class ReadsByPlace(dense.Dense):
    """The row of S is the token's place in the padded row, not among the real tokens."""

    def forward(self, x, mask=None):
        t = x.shape[1]
        y = self.time[:t, :t] @ zero_padding(x, mask) @ self.hidden
        return zero_padding(y, mask)


class DrawsAgain(dense.Random):
    """The fixed matrices are drawn from a seed at loading, and not saved (B19)."""

    def __init__(self, d, *, length):
        super().__init__(d, length=length)
        for name in ("time", "hidden"):
            self.register_buffer(name, getattr(self, name), persistent=False)


class ForgetsHidden(dense.Dense):
    def forward(self, x, mask=None):
        return dense.packed(x, self.time, mask)


class OrthonormalFFT(fnet.FNet):
    def forward(self, x, mask=None):
        assert mask is None or mask.all()
        return torch.fft.fftn(x, dim=(1, 2), norm="ortho").real


class BatchOfOneSkipsItsMask(softmax.SoftmaxAttention):
    """B11, word for word."""

    def forward(self, x, mask=None):
        return super().forward(x, None if len(x) == 1 else mask)


class NormOverTheBatch(linear.LinearAttention):
    def forward(self, x, mask=None):
        y = super().forward(x, mask)
        return zero_padding(y - y.mean(0, keepdim=True), mask)


class Remembers(linear.LinearAttention):
    """Keeps a running mean of what it was given."""

    def forward(self, x, mask=None):
        self.seen = getattr(self, "seen", 0) + x.mean()
        return super().forward(x, mask) * (1 + self.seen)


class OutsideTheStateDict(linear.LinearAttention):
    """A random projection that is no buffer (B19)."""

    def __init__(self, d, *, heads):
        super().__init__(d, heads=heads)
        self.drawn = torch.rand(()).item()

    def forward(self, x, mask=None):
        return self.drawn * super().forward(x, mask)


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(_, y):
        return y * 2

    @staticmethod
    def backward(_, gradient):
        return gradient * 1.99


class GradientOffByAHair(linear.LinearAttention):
    def forward(self, x, mask=None):
        return WrongGradient.apply(super().forward(x, mask))


class MinusTenThousand(fastformer.Fastformer):
    """The released code's mask: a pad whose score is large enough outweighs it."""

    def forward(self, x, mask=None):
        q, k = self.qk(x).chunk(2, dim=-1)
        bias = 0 if mask is None else (~mask).to(x.dtype).unsqueeze(-1) * -10000

        def pool(x, scores):
            weights = (scores + bias).softmax(1)
            return torch.einsum("bth,bthk->bhk", weights, x.unflatten(-1, (2, 4))).flatten(1)[
                :, None
            ]

        p = pool(q, self.score_q(q) / 2) * k
        return zero_padding(self.transform(pool(p, self.score_k(p) / 2) * q) + q, mask)


class WidthScale(fastformer.Fastformer):
    """√d for √d_head, as the paper prints it and its code does not."""

    def __init__(self, d, *, heads):
        super().__init__(d, heads=heads, scale="width")


class PoolsRawKeys(fastformer.Fastformer):
    """The global key pools k where Eq. (6) pools p = q ∗ k."""

    def forward(self, x, mask=None):
        q, k = self.qk(x).chunk(2, dim=-1)
        p = pool(q, self.score_q(q) / 2, mask) * k
        return self.transform(pool(k, self.score_k(p) / 2, mask) * q) + q


class SharedShift(CausalFastformer):
    """One shift for the whole row, where every prefix needs its own: what a large score to come
    outweighs is lost."""

    def scan(self, x, state=None, mask=None):
        chain = self.chain(zero_padding(x, mask))
        q, scores = chain.columns[0], chain.columns[0] @ chain.scores[0].T
        weights = (scores - scores.amax(1, keepdim=True)).exp().repeat_interleave(4, dim=-1)
        means = divide((weights * q).cumsum(1), weights.cumsum(1))
        _, after = super().scan(x, state, mask)
        return zero_padding(means, mask), after


class NoScale(softmax.SoftmaxAttention):
    def forward(self, x, mask=None):
        assert mask is None or mask.all()
        q, k, v = self.projections.split(x)
        return self.projections.merge(softmax.fused(q * 2, k, v))


class SeesItsWholePiece(softmax.CausalSoftmaxAttention):
    """Not causal inside a piece: right only token by token."""

    def scan(self, x, state=None, mask=None):
        end = super().scan(x, state, mask)[1]
        q = self.projections.split(x)[0]
        allowed = end.real[:, None].expand(-1, x.shape[1], -1)
        return self.projections.merge(softmax.fused(q, end.k, end.v, allowed)), end


class MinusInfinity(softmax.SoftmaxAttention):
    """-inf without a thought for rows that are masked throughout (B13)."""

    def forward(self, x, mask=None):
        q, k, v = self.projections.split(x)
        scores = q @ k.mT / 2
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -math.inf)
        return self.projections.merge(scores.softmax(-1) @ v)


class DoesNotMix(linear.LinearAttention):
    def forward(self, x, mask=None):
        return zero_padding(x, mask)
