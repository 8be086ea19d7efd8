"""Masked convolution, van den Oord et al. 2016 (arXiv 1601.06759), depthwise: place by place."""

import numpy as np

VARIANTS = {"causal": [{"row": 5, "above": 2, "side": 2, "width": 3}, {"above": 0}]}


def _read(i, row, above, side, width):
    """Tokens that are read at token i, the newest first. Token n + 1 holds the value at place n,
    for the first token stands before the picture; what comes next is place i."""
    found = {i - j for j in range(width)}
    line, column = divmod(i, row)
    for r in range(1, above + 1):
        for s in range(-side, side + 1):
            place = (line - r) * row + column + s
            found.add(place + 1)
    return sorted(found, reverse=True)


def causal(x, weights, *, row=28, above=4, side=3, width=4):
    t, d = x.shape
    y = np.zeros((t, d))
    for i in range(t):
        for tap, token in enumerate(_read(i, row, above, side, width)):
            for c in range(d):
                if 0 <= token <= i:
                    y[i, c] += weights["weight"][c, tap] * x[token, c]
    return y
