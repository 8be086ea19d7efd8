"""Fastformer, Wu et al. 2021 (arXiv 2108.09084), as released: values are the queries, scores read
the concatenated heads, the scale is √d_head, the query is added to the output."""

import math

import numpy as np


def pool(vectors, scores, heads):
    """Eq. (3)-(4) and (5)-(6): per head, the softmax-weighted sum over tokens."""
    t, d = vectors.shape
    k = d // heads
    pooled = np.zeros(d)
    for h in range(heads):
        column = [scores[i][h] for i in range(t)]
        weights = [math.exp(s - max(column)) for s in column]
        for i in range(t):
            head = slice(h * k, (h + 1) * k)
            pooled[head] += weights[i] / sum(weights) * vectors[i, head]
    return pooled


def bidirectional(x, weights, *, heads):
    t, d = x.shape
    if t == 0:
        return x.copy()
    scale = math.sqrt(d / heads)
    w, b = weights["qk.weight"], weights["qk.bias"]
    q = np.array([w[:d] @ x[i] + b[:d] for i in range(t)])
    k = np.array([w[d:] @ x[i] + b[d:] for i in range(t)])
    alpha = [weights["score_q.weight"] @ q[i] / scale for i in range(t)]  # Eq. (3)
    global_query = pool(q, alpha, heads)  # Eq. (4)
    p = np.array([global_query * k[i] for i in range(t)])
    beta = [weights["score_k.weight"] @ p[i] / scale for i in range(t)]  # Eq. (5)
    global_key = pool(p, beta, heads)  # Eq. (6)
    out = np.zeros((t, d))
    for i in range(t):
        u = global_key * q[i]  # Eq. (7)
        out[i] = weights["transform.weight"] @ u + weights["transform.bias"] + q[i]
    return out
