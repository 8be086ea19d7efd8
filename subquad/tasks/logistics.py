"""A mixture of discretised logistics as the distribution of a pixel's value.

Salimans, Karpathy, Chen and Kingma, "PixelCNN++", 2017 (arXiv 1701.05517), section 2.1; the output
that Katharopoulos et al. 2020 use for images (section 4.2: 10 components). With values on [-1, 1],
each standing for a bin of half-width δ = 1 / (levels - 1), components of weight π, mean μ, scale s:

    Eq. (1)   P(x) = Σ_i π_i [σ((x + δ - μ_i) / s_i) - σ((x - δ - μ_i) / s_i)]

where the first bin extends to -∞ and the last to +∞. Far in the tails the difference underflows and
is replaced by the density at the centre of the bin times its width, as in the authors' code.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

#: Lower bound of the logarithm of a scale.
LEAST_LOG_SCALE = -7.0
#: Numbers per component: the logit of its weight, its mean, the logarithm of its scale.
PARTS = 3
#: Below this probability of a bin, the density is used instead.
_TINY = 1e-5


def log_probability(
    outputs: Float[Tensor, "*b o"], target: Int[Tensor, "*b"], levels: int
) -> Float[Tensor, "*b"]:
    """log P of the levels ``target`` (0 … levels-1), in nats, fp32 or wider."""
    outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
    weights, means, log_scales = outputs.chunk(PARTS, dim=-1)
    log_scales = log_scales.clamp(min=LEAST_LOG_SCALE)
    delta = 1 / (levels - 1)
    x = (target.to(outputs.dtype) * 2 * delta - 1).unsqueeze(-1)
    inverse = (-log_scales).exp()
    upper, lower = (x + delta - means) * inverse, (x - delta - means) * inverse
    between = upper.sigmoid() - lower.sigmoid()  # Eq. (1)
    middle = (x - means) * inverse
    density = middle - log_scales - 2 * nn.functional.softplus(middle)
    inside = torch.where(
        between > _TINY, between.clamp(min=_TINY).log(), density + torch.tensor(2 * delta).log()
    )
    first = nn.functional.logsigmoid(upper)
    last = -nn.functional.softplus(lower)
    level = target.unsqueeze(-1)
    each = torch.where(level == 0, first, torch.where(level == levels - 1, last, inside))
    return (weights.log_softmax(-1) + each).logsumexp(-1)


def spread(head: nn.Linear) -> None:
    """Initialise the means evenly over the range of values and the scales to e⁻² (a seventh);
    components that start out equal would stay equal."""
    assert head.bias is not None
    _, means, log_scales = head.bias.data.chunk(PARTS)
    means.copy_(torch.linspace(-1, 1, len(means)))
    log_scales.fill_(-2.0)
