"""Reference outputs for a page's self-test, computed by torch with the same rounded weights."""

import base64
from typing import Any

import torch
from torch import Tensor

from subquad.generation import Head, Sampling, Streams
from subquad.models import CausalModel

#: Largest allowed difference of outputs, relative to the largest output if that is above 1.
TOLERANCE = 1e-4
#: Tokens of the prompt and of each continuation.
PROMPT, CONTINUED = 24, 32
#: Maximum number of output values that a page contains.
CARRIED = 1 << 16
#: Number of prompts to try for one whose continuation does not depend on rounding errors.
TRIES = 8


def reference(model: CausalModel, start: int, head: Head, length: int | None) -> dict[str, Any]:
    """A prompt, torch's outputs after its last tokens, and torch's continuations, both greedy and
    sampled. ``length`` is the number of learned positions, or None.

    A continuation ends where a difference of a quarter of the tolerance could change the token.
    """
    room = PROMPT + CONTINUED if length is None else min(length, PROMPT + CONTINUED)
    read = max(1, min(PROMPT, room // 2))
    drawing = Sampling(seed=5) if head.mixture else Sampling(seed=5, top_k=40, top_p=0.95)
    best: dict[str, Any] = {}
    for attempt in range(TRIES):
        prompt = _prompt(start, read, model.outputs if not head.mixture else head.levels, attempt)
        outputs = model(torch.tensor([prompt]))[0]
        kept = max(1, min(read, CARRIED // outputs.shape[1]))
        found = {
            "prompt": prompt,
            "outputs": _text(outputs[-kept:]),
            "tolerance": TOLERANCE,
            "likeliest": _continued(model, prompt, room - read, Sampling(temperature=0.0), head),
            "drawn": _continued(model, prompt, room - read, drawing, head),
            "how": {"seed": drawing.seed, "top_k": drawing.top_k, "top_p": drawing.top_p},
        }
        if not best or _firm(found) > _firm(best):
            best = found
        if _firm(best) == room - read:
            break
    return best


def _prompt(start: int, length: int, tokens: int, attempt: int) -> list[int]:
    """Ids that always differ from their positions, so that confusing the two is detected."""
    ids = [start]
    while len(ids) < length:
        token = (11 * len(ids) * len(ids) + 5 * attempt + 3) % tokens
        ids.append(token if token != len(ids) else (token + 1) % tokens)
    return ids


def _firm(found: dict[str, Any]) -> int:
    return min(len(found["likeliest"]), len(found["drawn"]))


def _continued(
    model: CausalModel, prompt: list[int], steps: int, how: Sampling, head: Head
) -> list[int]:
    tokens, streams = list(prompt), Streams.fresh(1)
    noise = torch.Generator().manual_seed(0)
    for _ in range(steps):
        outputs = model(torch.tensor([tokens]))[:, -1]
        reach = TOLERANCE / 4 * max(1.0, float(outputs.abs().max()))
        signs = torch.randint(0, 2, (7, outputs.shape[1]), generator=noise) * 2 - 1
        nearby = torch.cat([outputs, outputs + reach * signs])
        # All rows share one random stream, so that only their outputs differ.
        streams.samples, streams.drawn = streams.samples[:1].repeat(8), streams.drawn[:1].repeat(8)
        found = streams.draw(nearby, how, head)
        if (found != found[0]).any():
            break
        tokens.append(int(found[0]))
    return tokens[len(prompt) :]


def _text(numbers: Tensor) -> str:
    return base64.b64encode(numbers.float().numpy().tobytes()).decode()
