"""Fast forms of the other mixers against their definitions."""

import pytest
import torch

from subquad import kernels
from subquad.mixers import fnet, linear, native
from subquad.mixers.fastformer import bidirectional as fastformer
from subquad.mixers.fnet import transforms
from subquad.mixers.fnet.native import half_spectrum


@pytest.mark.parametrize("d", [1, 2, 5, 6])
@pytest.mark.parametrize("transform", ["fourier", "hartley"])
def test_spectra_agree_with_the_definition(
    d: int, transform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for t in (1, 2, 7, 8):
        x = torch.randn(2, t, d, dtype=torch.float64)
        right = fnet.definition(x, transform=transform)
        torch.testing.assert_close(transforms.full(x, transform), right)
        with monkeypatch.context() as patch:
            patch.setattr(transforms, "core_serves_plainly", lambda _: False)
            torch.testing.assert_close(transforms.full(x, transform), right)


@pytest.mark.skipif(
    not kernels.status().native, reason=f"no native core: {kernels.status().reason}"
)
@pytest.mark.parametrize("hartley", [False, True])
def test_half_a_spectrum_differentiates_to_any_order(hartley: bool) -> None:
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    assert native.core_serves_plainly(x)

    def form(x: torch.Tensor) -> torch.Tensor:
        return half_spectrum(x, hartley=hartley)

    assert torch.autograd.gradcheck(form, x)
    assert torch.autograd.gradgradcheck(lambda x: form(x).square(), x)


@pytest.mark.parametrize("masked", [False, True])
def test_a_fastformer_layer_is_pooling_transform_and_residual(masked: bool) -> None:
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
        for mixer.form in (f for f in forms if f != "native" or kernels.status().native):
            torch.testing.assert_close(mixer(x), right, rtol=1e-4, atol=1e-5)
        with pytest.raises(ValueError, match="form='fast' is not one of auto, "):
            cls(8, heads=2, form="fast")
