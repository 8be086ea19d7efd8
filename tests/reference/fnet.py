"""FNet, Lee-Thorp et al. 2021 (arXiv 2105.03824), and the transforms that it compares."""

import math

import numpy as np

VARIANTS = {
    "both": [{"form": "products"}]
    + [{"transform": name} for name in ("hartley", "dct", "hadamard", "sequence")]
}


def dft(x):
    """X_k = Σ_j x_j exp(-2πi jk/n), along the first axis, without a factor."""
    n = len(x)
    out = np.zeros(x.shape, dtype=np.complex128)
    for k in range(n):
        for j in range(n):
            out[k] += x[j] * np.exp(-2j * np.pi * j * k / n)
    return out


def dct(x):
    """DCT-II: X_k = Σ_j x_j cos(π(2j+1)k / 2n)."""
    n = len(x)
    angles = [[math.pi * (2 * j + 1) * k / (2 * n) for j in range(n)] for k in range(n)]
    return np.array([sum(x[j] * math.cos(a) for j, a in enumerate(row)) for row in angles])


def hadamard(x):
    """X = W x, W = [[V, V], [V, -V]] from W = [1]; filled up with zeros to a power of two, cut."""
    n, w = len(x), np.ones((1, 1))
    while len(w) < n:
        w = np.block([[w, w], [w, -w]])
    filled = np.zeros((len(w), *x.shape[1:]))
    filled[:n] = x
    return np.array([sum(w[k, j] * filled[j] for j in range(len(w))) for k in range(n)])


def bidirectional(
    x, weights, *, padding="own-length", length=None, transform="fourier", form="auto"
):
    """With ``fixed`` the row must already be of ``length``. The form is a way to compute."""
    assert not weights
    assert padding == "own-length" or len(x) == length
    del form
    if transform == "fourier":
        return dft(dft(x.T).T).real  # Eq. (3)
    if transform == "hartley":
        both = dft(dft(x.T).T)
        return both.real - both.imag
    if transform == "sequence":
        return dft(x).real
    over = {"dct": dct, "hadamard": hadamard}[transform]
    return over(over(x.T).T)
