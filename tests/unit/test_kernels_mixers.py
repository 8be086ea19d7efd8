"""Fast forms of the other mixers against their definitions."""

import pytest
import torch

from subquad.mixers import fastformer, fnet, linear, transforms


@pytest.mark.parametrize("d", [1, 2, 5, 6])
def test_spectra_agree_with_the_definition(d: int) -> None:
    for t in (1, 2, 7, 8):
        x = torch.randn(2, t, d, dtype=torch.float64)
        right = fnet.definition(x)
        torch.testing.assert_close(transforms.half_spectrum(x), right)
        torch.testing.assert_close(transforms.whole_spectrum(x), right)


@pytest.mark.parametrize("masked", [False, True])
def test_fastformer_fused(masked: bool) -> None:
    torch.manual_seed(0)
    mixer = fastformer.Fastformer(12, heads=3).double()
    x = torch.randn(2, 9, 12, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(2, 9) < 0.7 if masked else None
    found = mixer(x, mask)
    chain = mixer.chain(fastformer.zero_padding(x, mask))
    u = fastformer.additive_attention(chain, mask)
    right = fastformer.zero_padding(mixer.transform(u) + chain.columns[0], mask)
    torch.testing.assert_close(found, right)
    weights = list(mixer.parameters())
    gradients = [torch.autograd.grad(y.square().sum(), [x, *weights]) for y in (found, right)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_auto_is_a_named_form() -> None:
    x = torch.randn(2, 70, 8)
    for cls, forms in (
        (linear.LinearAttention, linear.BIDIRECTIONAL_FORMS),
        (linear.CausalLinearAttention, linear.CAUSAL_FORMS),
    ):
        mixer = cls(8, heads=2)
        right = mixer(x)
        for mixer.form in forms:
            torch.testing.assert_close(mixer(x), right, rtol=1e-4, atol=1e-5)
        with pytest.raises(ValueError, match="form='fast' is not one of auto, "):
            cls(8, heads=2, form="fast")
