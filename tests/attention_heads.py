"""The projections of multi-head attention, for the references of softmax and linear attention."""

import math

import numpy as np


def projected(x, weights, heads, kv_heads=None, rotary=None):
    """Queries, keys and values, each ``[h][t]``, of every head of queries. Heads of keys and values
    serve ``heads`` / ``kv_heads`` of those (Ainslie et al. 2023); biases that are not there are
    zero."""
    t, d = x.shape
    k, few = d // heads, heads if kv_heads is None else kv_heads
    weight = weights["projections.qkv.weight"]
    bias = weights.get("projections.qkv.bias", np.zeros(len(weight)))
    ends = (d, d + few * k)
    q, keys, values = [], [], []
    for h in range(heads):
        shared = h * few // heads
        for made, first in (
            (q, h * k),
            (keys, ends[0] + shared * k),
            (values, ends[1] + shared * k),
        ):
            rows = slice(first, first + k)
            made.append([weight[rows] @ x[i] + bias[rows] for i in range(t)])
        if rotary is not None:
            q[h] = [rotated(y, i, rotary) for i, y in enumerate(q[h])]
            keys[h] = [rotated(y, i, rotary) for i, y in enumerate(keys[h])]
    return q, keys, values


def rotated(y, position, base):
    """Su et al. 2021: features n and n + k/2 are a point in the plane, turned by position · θ_n,
    θ_n = base^(-2n/k)."""
    k = len(y)
    made = np.zeros(k)
    for n in range(k // 2):
        angle = position * base ** (-2 * n / k)
        a, b = y[n], y[n + k // 2]
        made[n] = a * math.cos(angle) - b * math.sin(angle)
        made[n + k // 2] = b * math.cos(angle) + a * math.sin(angle)
    return made


def merged(out, weights):
    """W_O over the concatenated heads."""
    bias = weights.get("projections.out.bias", 0.0)
    return np.array([weights["projections.out.weight"] @ row + bias for row in out]).reshape(
        out.shape
    )
