"""Generation from a causal run: prefill in parallel, then one token at a time from the state.

For linear attention the state has a fixed size, so every token costs the same (Katharopoulos et al.
2020, section 3.4), and the step engine (``kernels/csrc/step.h``) serves it; for every other causal
model, torch ``scan`` does. ``decoder`` has both behind one interface.
"""

from subquad.generation.baselines import CopyingDecoder, RecomputingDecoder, recompute_tokens
from subquad.generation.continuing import continue_tokens
from subquad.generation.decoder import (
    Decoder,
    EngineDecoder,
    Streams,
    TorchDecoder,
    decoder_for,
    engine_refuses,
)
from subquad.generation.packing import Weights
from subquad.generation.pictures import Images, images
from subquad.generation.runs import generate
from subquad.generation.sampling import CATEGORICAL, Head, Sampling, draw
from subquad.generation.saved import Saved
from subquad.generation.texts import Request, Text, Texts, read_prompts, write

__all__ = [
    "CATEGORICAL",
    "CopyingDecoder",
    "Decoder",
    "EngineDecoder",
    "Head",
    "Images",
    "RecomputingDecoder",
    "Request",
    "Sampling",
    "Saved",
    "Streams",
    "Text",
    "Texts",
    "TorchDecoder",
    "Weights",
    "continue_tokens",
    "decoder_for",
    "draw",
    "engine_refuses",
    "generate",
    "images",
    "read_prompts",
    "recompute_tokens",
    "write",
]
