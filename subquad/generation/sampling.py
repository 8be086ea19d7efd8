"""How a token is drawn from a model's output. The step engine has the same in C++
(``kernels/csrc/sampling.cpp``), and a test holds the two to one another."""

import math
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int, UInt64
from torch import Tensor

from subquad.errors import UsageError
from subquad.tasks.logistics import LEAST_LOG_SCALE

#: Below this temperature the likeliest token is as good as certain.
COLDEST = 1e-4


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a token is drawn from its distribution. What leaves tokens out is applied in this order:
    repetition penalty, temperature, top-k, top-p, min-p."""

    temperature: float = 1.0
    """Divides the logits; 0 = always the likeliest token."""
    top_k: int = 0
    """Only the k likeliest tokens; 0 = all."""
    top_p: float = 1.0
    """Only the likeliest tokens that together have this probability; 1 = all."""
    min_p: float = 0.0
    """Only tokens with at least this part of the likeliest one's probability; 0 = all."""
    repetition_penalty: float = 1.0
    """Makes tokens that the text already holds less likely (Keskar et al. 2019): their logits are
    divided by it if above zero, else multiplied; 1 = no difference."""
    seed: int = 0
    """Same prompt and seed, same tokens, whatever the batch: each of a prompt's samples has a
    random stream of its own."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise UsageError(f"temperature={self.temperature} must be a number of at least 0")
        if not 0 <= self.top_k < 2**31:
            raise UsageError(f"top_k={self.top_k} must be a count of tokens, or 0 for all")
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
        """Whether the likeliest token is always taken."""
        return self.temperature < COLDEST


@dataclass(frozen=True, kw_only=True)
class Head:
    """What the numbers that a model puts out stand for."""

    mixture: int = 0
    """Logistic components, on values from -1 to 1: as many logits of their weights, then means,
    then logarithms of scales. 0 = the numbers are one logit per token."""
    levels: int = 0
    """Values that the mixture stands for."""


#: Logits, one per token.
CATEGORICAL = Head()


def core_arguments(how: Sampling, head: Head) -> tuple[float | int, ...]:
    """Both, as the C++ core takes them."""
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
    """A number in [0, 1) for each sample: a function of (seed, sample, step, which) alone, so that
    it does not matter in what order, or with which others, samples are drawn."""
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
    """One token per row. ``samples`` and ``step`` number the rows' random streams and the places in
    them; ``seen`` marks tokens that a text holds."""
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
    """Weights that are 1 for the likeliest."""
    return ((x - x.amax(-1, keepdim=True)) / temperature).exp()


def _filter(p: Tensor, how: Sampling) -> Tensor:
    """Zeros where top-k, top-p and min-p leave tokens out; ties go to the lower token."""
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
    """Where the cumulated weights pass ``u`` of their total."""
    cumulated = p.cumsum(-1)
    passed = cumulated > u.unsqueeze(-1) * cumulated[:, -1:]
    return passed.to(torch.uint8).argmax(-1)


def _draw_logistic(x: Tensor, how: Sampling, head: Head, u: Tensor, v: Tensor) -> Tensor:
    """Choose a component by ``u``, then a value of its logistic by ``v``."""
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
