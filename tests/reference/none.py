"""FF-only (Lee-Thorp et al. 2021, section 4): the mixing sublayer is the identity."""


def bidirectional(x, weights):
    assert not weights
    return x.copy()


causal = bidirectional
