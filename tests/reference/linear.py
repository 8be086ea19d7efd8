"""Linear attention, Katharopoulos et al. 2020 (arXiv 2006.16236): every similarity written out."""

import math

import numpy as np

VARIANTS = {
    "both": [{"feature_map": name} for name in ("relu", "relu^2", "softmax")],
    "causal": [{"form": name} for name in ("quadratic", "recurrent")],
}


def phi(name, x):
    """φ of one head's query or key."""
    if name == "elu+1":  # Eq. (7)
        return np.array([c + 1 if c > 0 else (math.exp(c) - 1) + 1 for c in x])
    if name == "relu":
        return np.array([c if c > 0 else 0.0 for c in x])
    if name == "relu^2":
        return np.array([c * c if c > 0 else 0.0 for c in x])
    if name == "softmax":
        weights = [math.exp(c - max(x)) for c in x]
        return np.array([w / sum(weights) for w in weights])
    raise KeyError(f"the reference of linear attention lacks the feature map {name!r}")


def attention(x, weights, heads, feature_map, reads):
    """Eq. (3): V'_i = Σ_j sim(Q_i, K_j) V_j / Σ_j sim(Q_i, K_j), sim(q, k) = φ(q)·φ(k); zero
    where no key is similar at all."""
    t, d = x.shape
    k = d // heads
    w_q, w_k, w_v = np.split(weights["projections.qkv.weight"], 3)
    b_q, b_k, b_v = np.split(weights["projections.qkv.bias"], 3)
    out = np.zeros((t, d))
    for h in range(heads):
        head = slice(h * k, (h + 1) * k)
        for i in range(t):
            numerator, denominator = np.zeros(k), 0.0
            phi_q = phi(feature_map, w_q[head] @ x[i] + b_q[head])
            for j in reads(i):
                sim = phi_q @ phi(feature_map, w_k[head] @ x[j] + b_k[head])
                numerator += sim * (w_v[head] @ x[j] + b_v[head])
                denominator += sim
            if denominator > 0:
                out[i, head] = numerator / denominator
    w_o, b_o = weights["projections.out.weight"], weights["projections.out.bias"]
    return np.array([w_o @ row + b_o for row in out]).reshape(t, d)


def bidirectional(x, weights, *, heads, feature_map="elu+1"):
    """Eq. (4) and (5): all keys of the row."""
    return attention(x, weights, heads, feature_map, lambda _: range(len(x)))


def causal(x, weights, *, heads, feature_map="elu+1", form="any"):
    """Eq. (8) and (9): keys up to i. The form is a way to compute, so it changes nothing."""
    del form
    return attention(x, weights, heads, feature_map, lambda i: range(i + 1))
