"""Linear attention, Katharopoulos et al. 2020 (arXiv 2006.16236): every similarity written out."""

import math

import numpy as np

from tests.attention_heads import merged, projected

VARIANTS = {
    "both": [{"feature_map": name} for name in ("relu", "relu^2", "softmax", "hedgehog", "t2r")],
    "causal": [{"form": name} for name in ("quadratic", "recurrent")],
}
VARIANTS["both"] += [
    {"window": 1},
    {"window": 3, "feature_map": "hedgehog"},
    {"window": 16, "feature_map": "relu"},
    {"window": 5, "form": "quadratic"},
    {"kv_heads": 1, "biases": "none"},
    {"window": 4, "kv_heads": 1, "biases": "qkv", "rotary": 100.0},
]
VARIANTS["bidirectional"] = [{"rotary": 100.0}]


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


def learned(name, x, weight, bias):
    """The maps of Hedgehog and T2R, with the weights of one head, of its queries or its keys."""
    y = [sum(x[r] * weight[r][c] for r in range(len(x))) + bias[0][c] for c in range(len(x))]
    if name == "t2r":
        return phi("relu", y)
    return np.concatenate([phi("softmax", y), phi("softmax", [-c for c in y])])


def mapped(name, x, weights, side, h):
    """φ of a query (side q) or key (side k) of head h."""
    if name not in ("hedgehog", "t2r"):
        return phi(name, x)
    return learned(name, x, weights[f"maps.{side}.weight"][h], weights[f"maps.{side}.bias"][h])


def attention(x, weights, heads, feature_map, window, reads, grouped):
    """Eq. (3): V'_i = Σ_j sim(Q_i, K_j) V_j / Σ_j sim(Q_i, K_j), sim(q, k) = φ(q)·φ(k); zero
    where no key is similar at all. With a window (LoLCATs), sim(q, k) is exp(qᵀk/√k) where the
    blocks of i and j are one another or neighbours, and γ φ(q)·φ(k) elsewhere."""
    t, d = x.shape
    k = d // heads
    queries, keys, values = projected(x, weights, heads, *grouped)
    out = np.zeros((t, d))
    for h in range(heads):
        head = slice(h * k, (h + 1) * k)
        for i in range(t):
            numerator, denominator = np.zeros(k), 0.0
            q_i = queries[h][i]
            phi_q = mapped(feature_map, q_i, weights, "q", h)
            for j in reads(i):
                k_j = keys[h][j]
                sim = phi_q @ mapped(feature_map, k_j, weights, "k", h)
                if window and abs(i // window - j // window) <= 1:
                    sim = math.exp(q_i @ k_j / math.sqrt(k))
                elif window:
                    sim *= math.exp(weights["window.balance"][h])
                numerator += sim * values[h][j]
                denominator += sim
            if denominator > 0:
                out[i, head] = numerator / denominator
    return merged(out, weights)


def bidirectional(x, weights, *, heads, feature_map="elu+1", window=0, **others):
    """Eq. (4) and (5): all keys of the row. The form is a way to compute, so it changes nothing."""
    grouped = others.get("kv_heads"), others.get("rotary")
    return attention(x, weights, heads, feature_map, window, lambda _: range(len(x)), grouped)


def causal(x, weights, *, heads, feature_map="elu+1", window=0, **others):
    """Eq. (8) and (9): keys up to i. The form is a way to compute, so it changes nothing."""
    grouped = others.get("kv_heads"), others.get("rotary")
    return attention(x, weights, heads, feature_map, window, lambda i: range(i + 1), grouped)
