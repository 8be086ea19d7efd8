"""The mixture of discretised logistics: a distribution over levels, whatever its parameters."""

import math

import numpy as np
import pytest
import torch

from subquad.generation import Head, Sampling, draw
from subquad.tasks.logistics import log_probability


@pytest.mark.parametrize("levels", [2, 17, 256])
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_probabilities_sum_to_one(levels, scale):
    outputs = (torch.randn(20, 30, dtype=torch.float64) * scale).unsqueeze(1)
    target = torch.arange(levels).expand(20, levels)
    total = log_probability(outputs.expand(20, levels, 30), target, levels).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total), atol=2e-3, rtol=0)


def test_against_loops():
    """Eq. (1) of PixelCNN++, component by component."""
    levels, m = 11, 3
    outputs = torch.randn(m * 3, dtype=torch.float64) * 0.7
    weights = np.exp(outputs[:m].numpy())
    weights /= weights.sum()

    def sigma(z):
        return 1 / (1 + math.exp(-z))

    for level in range(levels):
        x, delta, p = level / 5 - 1, 0.1, 0.0
        for i in range(m):
            mean, s = float(outputs[m + i]), math.exp(max(float(outputs[2 * m + i]), -7))
            upper = 1.0 if level == levels - 1 else sigma((x + delta - mean) / s)
            lower = 0.0 if level == 0 else sigma((x - delta - mean) / s)
            p += weights[i] * (upper - lower)
        found = log_probability(outputs, torch.tensor(level), levels)
        assert float(found) == pytest.approx(math.log(p), abs=1e-6)


def test_far_tails_are_finite_and_pull_back():
    outputs = torch.tensor([0.0, 5.0, -9.0], requires_grad=True)  # mean 5, scale e^-7
    loss = -log_probability(outputs, torch.tensor(100), 256)
    loss.backward()
    assert math.isfinite(float(loss.detach()))
    assert torch.isfinite(outputs.grad).all()
    assert outputs.grad[1] > 0  # the mean is to come down


def test_samples_follow_the_probabilities():
    outputs = torch.tensor([0.5, -0.2, 0.1, -0.4, 0.3, 0.9, -1.5, -2.0, -1.0])
    levels, n = 8, 40_000
    p = log_probability(outputs.expand(levels, 9), torch.arange(levels), levels).exp()
    samples, step = np.arange(n, dtype=np.uint64), np.zeros(n, np.uint64)
    head = Head(mixture=3, levels=levels)
    drawn = draw(outputs.expand(n, 9), Sampling(), samples, step, head=head)
    share = torch.bincount(drawn, minlength=levels) / n
    torch.testing.assert_close(share, p, atol=0.01, rtol=0)
