"""Local softmax attention, Beltagy et al. 2020: keys at a distance of at most w."""

from tests.reference.softmax import attention

VARIANTS = {
    "both": [
        {"width": 1},
        {"width": 5, "form": "quadratic"},
        {"width": 4, "kv_heads": 1, "biases": "none", "rotary": 100.0},
    ]
}


def bidirectional(x, weights, *, heads, width=64, kv_heads=None, rotary=None, **others):
    del others

    def reads(i):
        return range(max(0, i - width), min(len(x), i + width + 1))

    return attention(x, weights, heads, reads, kv_heads, rotary)
