"""Softmax attention, Vaswani et al. 2017; Eq. (2) of Katharopoulos et al. 2020."""

import math

import numpy as np

from tests.attention_heads import merged, projected

VARIANTS = {
    "both": [{"kv_heads": 1}, {"biases": "none"}, {"biases": "qkv", "rotary": 100.0}],
    "causal": [{"kv_heads": 1, "biases": "none", "rotary": 10_000.0}],
}


def attention(x, weights, heads, reads, kv_heads=None, rotary=None):
    """V'_i = Σ_j exp(q_i·k_j/√k) v_j / Σ_j exp(q_i·k_j/√k) over the keys j in ``reads(i)``."""
    t, d = x.shape
    k = d // heads
    queries, keys, values = projected(x, weights, heads, kv_heads, rotary)
    out = np.zeros((t, d))
    for h in range(heads):
        for i in range(t):
            scores = [queries[h][i] @ keys[h][j] / math.sqrt(k) for j in reads(i)]
            top = max(scores)
            numerator, denominator = np.zeros(k), 0.0
            for j, score in zip(reads(i), scores, strict=True):
                weight = math.exp(score - top)
                numerator += weight * values[h][j]
                denominator += weight
            out[i, h * k : (h + 1) * k] = numerator / denominator
    return merged(out, weights)


def bidirectional(x, weights, *, heads, kv_heads=None, biases="all", rotary=None):
    del biases  # those that are not there are not among the weights
    return attention(x, weights, heads, lambda _: range(len(x)), kv_heads, rotary)


def causal(x, weights, *, heads, kv_heads=None, biases="all", rotary=None):
    del biases
    return attention(x, weights, heads, lambda i: range(i + 1), kv_heads, rotary)
