"""Fastformer, Wu et al. 2021 (arXiv 2108.09084), as released: values are the queries, scores read
the concatenated heads, the scale is √d_head, the query is added to the output. And every switch:
columns of the chain, residual, own values, other interactions, scores over a head, scale by width.
"""

import math

import numpy as np

VARIANTS = {
    "both": [
        {"columns": 1},
        {"columns": 4, "value": "own", "query_residual": False},
        {"interaction": "add", "scale": "width"},
        {"interaction": "concat", "columns": 3, "score_over": "own_head"},
        {"score_over": "own_head", "value": "own"},
    ]
}


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


def score(vector, w, heads, score_over):
    """One score per head: w_qᵀ q_i of Eq. (3), without its scale."""
    k = len(vector) // heads
    if score_over == "all_heads":
        return [w[h] @ vector for h in range(heads)]
    return [w[h] @ vector[h * k : (h + 1) * k] for h in range(heads)]


def meet(interaction, g, x, join=None):
    """q ∗ k_i of Eq. (5) and k ∗ v_i of Eq. (7), or the paper's two alternatives."""
    if interaction == "product":
        return g * x
    if interaction == "add":
        return g + x
    both = np.concatenate([g, x])
    return both if join is None else join @ both


def fastformer(x, weights, visible, options):
    """``visible(i)``: how many tokens, from the first, the global vectors that token i meets have
    pooled. Token j's own p was made with the vector that *it* met."""
    heads, columns = options["heads"], options.get("columns", 2)
    interaction = options.get("interaction", "product")
    t, d = x.shape
    if t == 0:
        return x.copy()
    scale = math.sqrt(d / heads if options.get("scale", "head") == "head" else d)
    w, b = weights["qk.weight"], weights["qk.bias"]
    projected = [
        np.array([w[c * d : (c + 1) * d] @ x[i] + b[c * d : (c + 1) * d] for i in range(t)])
        for c in range(len(w) // d)
    ]
    q = projected[0]
    v = projected[-1] if options.get("value", "query") == "own" else q
    p, w_score = q, weights["score_q.weight"]
    for c in range(columns):
        if c > 0:
            join = weights["join.weight"][(c - 1) * d : c * d] if "join.weight" in weights else None
            p = np.array([meet(interaction, g[i], projected[c][i], join) for i in range(t)])
            w_score = weights["score_k.weight"][(c - 1) * heads : c * heads]
        scores = [
            [s / scale for s in score(p[i], w_score, heads, options.get("score_over", "all_heads"))]
            for i in range(t)
        ]
        g = [pool(p[: visible(i)], scores[: visible(i)], heads) for i in range(t)]
    out = np.zeros((t, d))
    for i in range(t):
        u = meet(interaction, g[i], v[i])  # Eq. (7)
        out[i] = weights["transform.weight"] @ u + weights["transform.bias"]
        if options.get("query_residual", True):
            out[i] += q[i]
    return out


def bidirectional(x, weights, **options):
    """Every global vector has pooled the whole row."""
    return fastformer(x, weights, lambda _: len(x), options)


def causal(x, weights, **options):
    """Token i meets the global vectors of the tokens up to i."""
    return fastformer(x, weights, lambda i: i + 1, options)
