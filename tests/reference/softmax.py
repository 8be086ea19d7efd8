"""Softmax attention, Vaswani et al. 2017; Eq. (2) of Katharopoulos et al. 2020."""

import math

import numpy as np


def attention(x, weights, heads, reads):
    """V'_i = Σ_j exp(q_i·k_j/√k) v_j / Σ_j exp(q_i·k_j/√k) over the keys j in ``reads(i)``."""
    t, d = x.shape
    k = d // heads
    w_q, w_k, w_v = np.split(weights["projections.qkv.weight"], 3)
    b_q, b_k, b_v = np.split(weights["projections.qkv.bias"], 3)
    out = np.zeros((t, d))
    for h in range(heads):
        head = slice(h * k, (h + 1) * k)
        for i in range(t):
            q = w_q[head] @ x[i] + b_q[head]
            scores = [q @ (w_k[head] @ x[j] + b_k[head]) / math.sqrt(k) for j in reads(i)]
            top = max(scores)
            numerator, denominator = np.zeros(k), 0.0
            for j, score in zip(reads(i), scores, strict=True):
                weight = math.exp(score - top)
                numerator += weight * (w_v[head] @ x[j] + b_v[head])
                denominator += weight
            out[i, head] = numerator / denominator
    w_o, b_o = weights["projections.out.weight"], weights["projections.out.bias"]
    return np.array([w_o @ row + b_o for row in out]).reshape(t, d)


def bidirectional(x, weights, *, heads):
    return attention(x, weights, heads, lambda _: range(len(x)))


def causal(x, weights, *, heads):
    return attention(x, weights, heads, lambda i: range(i + 1))
