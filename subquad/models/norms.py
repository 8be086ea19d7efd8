"""The normalisation of a model's vectors: layer norm, or RMS norm."""

from torch import nn

from subquad.models.config import ModelConfig


def make_norm(config: ModelConfig) -> nn.Module:
    """LayerNorm (Ba et al. 2016), without a bias where the model has none, or RMSNorm (Zhang and
    Sennrich 2019, arXiv 1910.07467): x / √(mean(x²) + ε) · g."""
    if config.rms:
        return nn.RMSNorm(config.d, config.norm_eps)
    return nn.LayerNorm(config.d, config.norm_eps, bias=config.biases)
