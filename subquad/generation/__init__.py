"""Generation with a causal run: the prompt is read in parallel, then tokens are generated one by
one from the decoder state.

For linear attention the state has a fixed size, so every token costs the same (Katharopoulos et al.
2020, section 3.4), and the C++ step engine (``kernels/csrc/step.h``) is used. All other causal
models use ``scan`` in torch. ``decoder`` offers both behind one interface.
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
from subquad.generation.requests import Request, read_prompts
from subquad.generation.runs import generate
from subquad.generation.sampling import CATEGORICAL, Head, Sampling, draw
from subquad.generation.saved import Saved
from subquad.generation.texts import Text, Texts, write

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
