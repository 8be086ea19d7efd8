"""Tokens after tokens: the loop of all generation, and the paper's baseline of it."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from subquad.generation.decoder import Decoder, Streams
from subquad.generation.sampling import CATEGORICAL, Head, Sampling
from subquad.models import CausalModel
from subquad.shapes import Mask, Tokens

#: Called with the number of tokens made so far, of how many.
Watch = Callable[[int, int], None]
#: Tokens drawn between two looks at the world (progress, Ctrl-C).
STRIDE = 16


def ignore(done: int, total: int) -> None:
    """Nobody watches."""


def left_padded(
    rows: Sequence[Sequence[int]],
) -> tuple[Int[Tensor, "b t"], Tensor | None]:
    """Rows that end together, and which tokens are real (None: all)."""
    longest = max(map(len, rows))
    tokens = torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows])
    if all(len(row) == longest for row in rows):
        return tokens, None
    lengths = torch.tensor([len(row) for row in rows])
    return tokens, torch.arange(longest) >= (longest - lengths).unsqueeze(1)


def continue_tokens(
    decoder: Decoder,
    prompt: Tokens,
    steps: int,
    how: Sampling,
    *,
    mask: Mask | None = None,
    streams: Streams | None = None,
    watch: Watch = ignore,
) -> Int[Tensor, "b steps"]:
    """``steps`` new tokens ``[b, steps]`` after ``prompt`` ``[b, t]`` (at least one real token
    each, the last of them at the end). The decoder has then read all but the last of them."""
    streams = streams or Streams.fresh(len(prompt))
    if how.repetition_penalty != 1:
        streams.note(prompt, decoder.model.outputs, mask)
    before, last = prompt[:, :-1], prompt[:, -1]
    if before.shape[1]:
        decoder.read(before, None if mask is None else mask[:, :-1])
    pieces: list[Tensor] = []
    done = 0
    while done < steps:
        made = decoder.run(last, min(STRIDE, steps - done), how, streams)
        pieces.append(made)
        last, done = made[:, -1], done + made.shape[1]
        watch(done, steps)
    return torch.cat(pieces, dim=1) if pieces else prompt[:, :0]


@torch.inference_mode()
def recompute_tokens(
    model: CausalModel, prompt: Tokens, steps: int, how: Sampling, head: Head = CATEGORICAL
) -> Int[Tensor, "b steps"]:
    """The same tokens by reading the whole prefix again for each one: what a model without a
    state has to do, and the baseline of the paper's table 1."""
    streams, tokens = Streams.fresh(len(prompt)), prompt
    if how.repetition_penalty != 1:
        streams.note(prompt, model.outputs)
    for _ in range(steps):
        outputs = model(tokens)[:, -1].float()
        new = streams.draw(outputs, how, head).unsqueeze(1)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens[:, prompt.shape[1] :]
