"""FNet's Linear encoder, Lee-Thorp et al. 2021: y_i = Σ_j S_ij x_j H, the leading block of S."""

import numpy as np


def bidirectional(x, weights, *, length):
    t, d = x.shape
    s, h = weights["time"], weights["hidden"]
    assert s.shape == (length, length)
    y = np.zeros((t, d))
    for i in range(t):
        for j in range(t):
            for k in range(d):
                y[i] += s[i, j] * x[j, k] * h[k]
    return y
