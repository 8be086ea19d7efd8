"""FNet, Lee-Thorp et al. 2021 (arXiv 2105.03824)."""

import numpy as np


def dft(x):
    """Eq. (1): X_k = Σ_j x_j exp(-2πi jk/n), along the first axis, without a factor."""
    n = len(x)
    out = np.zeros(x.shape, dtype=np.complex128)
    for k in range(n):
        for j in range(n):
            out[k] += x[j] * np.exp(-2j * np.pi * j * k / n)
    return out


def bidirectional(x, weights, *, padding="own-length", length=None):
    """Eq. (3): y = Re(F_seq(F_hidden(x))). With ``fixed`` the row must already be of ``length``."""
    assert not weights
    assert padding == "own-length" or len(x) == length
    return dft(dft(x.T).T).real
