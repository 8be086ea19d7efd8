"""Sampling a token from a model's output. The step engine does the same in C++
(``kernels/csrc/sampling.cpp``), and a test checks that the two agree."""

import math
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int, UInt64
from torch import Tensor

from subquad.errors import UsageError
from subquad.tasks.logistics import LEAST_LOG_SCALE

#: Below this temperature, sampling is treated as greedy.
COLDEST = 1e-4


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are sampled from the model's distribution. The options are applied in this order:
    repetition penalty, temperature, top-k, top-p, min-p."""

    temperature: float = 1.0
    """Divide the logits by this; 0 always picks the likeliest token (greedy decoding)."""
    top_k: int = 0
    """Sample only from the k likeliest tokens; 0 means all."""
    top_p: float = 1.0
    """Sample only from the likeliest tokens that together reach this probability; 1 means all."""
    min_p: float = 0.0
    """Sample only from tokens with at least this fraction of the likeliest token's probability; 0
    means all."""
    repetition_penalty: float = 1.0
    """Make tokens that already occur in the text less likely (Keskar et al. 2019): positive logits
    are divided by this, negative ones multiplied; 1 has no effect."""
    seed: int = 0
    """Random seed. The same prompt and seed give the same tokens, whatever else is in the batch:
    each sample of a prompt has its own random stream."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise UsageError(f"temperature={self.temperature} must be 0 or a positive number")
        if not 0 <= self.top_k < 2**31:
            raise UsageError(f"top_k={self.top_k} must be a number of tokens, or 0 for all")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p={self.top_p} must be above 0 and at most 1")
        if not 0 <= self.min_p <= 1:
            raise UsageError(f"min_p={self.min_p} must be from 0 to 1")
        if not 0 < self.repetition_penalty < math.inf:
            raise UsageError(f"repetition_penalty={self.repetition_penalty} must be above 0")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"seed={self.seed} must be at least 0 and below 2^63")

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always picked."""
        return self.temperature < COLDEST


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a model's outputs stand for."""

    mixture: int = 0
    """Number of components of a mixture of logistics over values from -1 to 1; the outputs are the
    logits of their weights, then their means, then their log scales. 0 means one logit per token.
    """
    levels: int = 0
    """Number of levels that values of the mixture are rounded to."""


#: One logit per token.
CATEGORICAL = Head()


def core_arguments(how: Sampling, head: Head) -> tuple[float | int, ...]:
    """``how`` and ``head`` as the C++ core expects them."""
    return (*astuple(how), head.mixture, head.levels)


def _splitmix(x: UInt64[np.ndarray, "n"]) -> UInt64[np.ndarray, "n"]:
    """Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def uniform(
    seed: int, samples: npt.NDArray[np.uint64], step: npt.NDArray[np.uint64], which: int = 0
) -> Float[np.ndarray, "b"]:
    """A number in [0, 1) for each sample. It depends only on (seed, sample, step, which), neither
    on the order in which samples are drawn nor on the rest of the batch."""
    x = _splitmix(np.full(samples.shape, seed, np.uint64))
    for word in (samples, step, np.uint64(which)):
        x = _splitmix(x ^ word)
    out: npt.NDArray[np.float64] = (x >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return out


def draw(
    outputs: Float[Tensor, "b v"],
    how: Sampling,
    samples: npt.NDArray[np.uint64],
    step: npt.NDArray[np.uint64],
    *,
    head: Head = CATEGORICAL,
    seen: Bool[Tensor, "b v"] | None = None,
) -> Int[Tensor, "b"]:
    """Sample one token per row.

    Args:
        outputs: the model's outputs ``[b, v]``.
        how: how tokens are sampled.
        samples: the number of each row's random stream, ``[b]``.
        step: the position in each random stream, ``[b]``.
        head: what ``outputs`` stand for.
        seen: marks the tokens ``[b, v]`` that each row already contains, for the repetition
            penalty.
    """
    u = torch.from_numpy(uniform(how.seed, samples, step)).to(outputs.device)
    x = outputs.double()
    if head.mixture:
        v = torch.from_numpy(uniform(how.seed, samples, step, 1)).to(outputs.device)
        return _draw_logistic(x, how, head, u, v)
    if seen is not None:
        r = how.repetition_penalty
        x = torch.where(seen, torch.where(x > 0, x / r, x * r), x)
    if how.greedy:
        return x.argmax(-1)
    return _invert(_filter(_soften(x, how.temperature), how), u)


def _soften(x: Tensor, temperature: float) -> Tensor:
    """Unnormalised probabilities at this temperature; the largest is 1."""
    return ((x - x.amax(-1, keepdim=True)) / temperature).exp()


def _filter(p: Tensor, how: Sampling) -> Tensor:
    """``p`` with zeros for tokens that top-k, top-p or min-p exclude; ties favour lower ids."""
    n = p.shape[-1]
    k = how.top_k if 0 < how.top_k < n else n
    if k < n or how.top_p < 1:
        sorted_p, order = p.sort(dim=-1, descending=True, stable=True)
        sorted_p = sorted_p[:, :k]
        before = sorted_p.cumsum(-1) - sorted_p
        kept = before < how.top_p * sorted_p.sum(-1, keepdim=True)
        kept[:, 0] = True
        p = torch.zeros_like(p).scatter(-1, order[:, :k], sorted_p * kept)
    if how.min_p > 0:
        p = p.masked_fill(p < how.min_p * p.amax(-1, keepdim=True), 0)
    return p


def _invert(p: Tensor, u: Tensor) -> Tensor:
    """Inverse-CDF sampling: the first index whose cumulative sum exceeds ``u`` times the total."""
    cumulated = p.cumsum(-1)
    passed = cumulated > u.unsqueeze(-1) * cumulated[:, -1:]
    return passed.to(torch.uint8).argmax(-1)


def _draw_logistic(x: Tensor, how: Sampling, head: Head, u: Tensor, v: Tensor) -> Tensor:
    """Choose a component with ``u``, then sample its logistic with ``v``."""
    weights, means, log_scales = x.split(head.mixture, dim=-1)
    if how.greedy:
        one = weights.argmax(-1, keepdim=True)
        value = means.gather(-1, one)
    else:
        one = _invert(_soften(weights, how.temperature), u).unsqueeze(-1)
        scale = log_scales.gather(-1, one).clamp(min=LEAST_LOG_SCALE).exp()
        v = v.clamp(1e-5, 1 - 1e-5).unsqueeze(-1)
        value = means.gather(-1, one) + how.temperature * scale * (v.log() - torch.log1p(-v))
    level = (value.clamp(-1, 1) + 1) / 2 * (head.levels - 1)
    return (level + 0.5).floor().long().squeeze(-1)
