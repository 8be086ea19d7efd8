"""Depthwise convolution, Wu et al. 2019 (arXiv 1901.10430), section 2: tap by tap."""

import numpy as np

VARIANTS = {"both": [{"width": 1}, {"width": 7}]}


def convolution(x, weight, ahead):
    """Tap j of w weighs the token j before the one that is ``ahead``; outside the row are zeros."""
    t, d = x.shape
    y = np.zeros((t, d))
    for i in range(t):
        for c in range(d):
            for j, w in enumerate(weight[c]):
                if 0 <= i + ahead - j < t:
                    y[i, c] += w * x[i + ahead - j, c]
    return y


def bidirectional(x, weights, *, width=4):
    return convolution(x, weights["weight"][:, 0], width // 2)


def causal(x, weights, *, width=4):
    assert weights["weight"].shape == (x.shape[1], 1, width)
    return convolution(x, weights["weight"][:, 0], 0)
