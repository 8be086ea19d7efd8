"""Generation from a causal run: prefill in parallel, then one token at a time from the state.

For linear attention the state has a fixed size, so every token costs the same (Katharopoulos et al.
2020, section 3.4); for softmax it is the KV cache. Both are the same loop.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from subquad.errors import UsageError
from subquad.models import CausalModel, ModelState
from subquad.run import Run
from subquad.shapes import Tokens
from subquad.tasks.language import Language
from subquad.tasks.pixels import Pixels

#: Below this temperature the likeliest token is as good as certain.
COLDEST = 1e-4
#: Tokens of a text, if nobody says how many.
USUAL_LENGTH = 200
#: Called after each token with the number made so far, of how many.
Watch = Callable[[int, int], None]


def _ignore(done: int, total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a token is drawn from its distribution."""

    temperature: float = 1.0
    """Divides the logits; 0 = always the likeliest token."""
    seed: int = 0
    """Same seed, same tokens, whatever the batch: each sample has a random stream of its own."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise UsageError(f"temperature={self.temperature} must be a number of at least 0")


def uniforms(samples: int, steps: int, seed: int) -> Float[Tensor, "b t"]:
    """One number in [0, 1) per sample and step; a sample's row depends on (seed, sample) only."""
    rows = []
    for sample in range(samples):
        stream = torch.Generator().manual_seed((seed * 1_000_003 + sample) % 2**63)
        rows.append(torch.rand(steps, generator=stream))
    return torch.stack(rows) if rows else torch.zeros(0, steps)


def draw(
    logits: Float[Tensor, "b v"], u: Float[Tensor, "b"], temperature: float
) -> Int[Tensor, "b"]:
    """One token per row by inverting the cumulative distribution at ``u``."""
    if temperature < COLDEST:
        return logits.argmax(-1)
    cumulative = (logits.double() / temperature).softmax(-1).cumsum(-1)
    u = u.to(logits.device, torch.float64).unsqueeze(-1) * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, u, right=True).squeeze(-1)
    return drawn.clamp(max=logits.shape[-1] - 1)


@torch.inference_mode()
def continue_tokens(
    model: CausalModel,
    prompt: Tokens,
    steps: int,
    sampling: Sampling,
    state: ModelState | None = None,
    watch: Watch = _ignore,
) -> tuple[Int[Tensor, "b steps"], ModelState]:
    """``steps`` new tokens ``[b, steps]`` after ``prompt`` ``[b, t]`` (at least one token), and the
    state that has read all but the last of them."""
    u = uniforms(len(prompt), steps, sampling.seed)
    out = prompt.new_zeros(len(prompt), steps)
    logits, state = model.scan(prompt, state)
    for i in range(steps):
        out[:, i] = draw(logits[:, -1].float(), u[:, i], sampling.temperature)
        watch(i + 1, steps)
        if i + 1 < steps:
            logits, state = model.scan(out[:, i : i + 1], state)
    return out, state


@torch.inference_mode()
def recompute_tokens(
    model: CausalModel, prompt: Tokens, steps: int, sampling: Sampling
) -> Int[Tensor, "b steps"]:
    """The same tokens by reading the whole prefix again for each one: what a model without a
    state has to do, and the baseline of the paper's table 1."""
    u = uniforms(len(prompt), steps, sampling.seed)
    tokens = prompt
    for i in range(steps):
        logits = model(tokens)[:, -1]
        new = draw(logits.float(), u[:, i], sampling.temperature)
        tokens = torch.cat([tokens, new.unsqueeze(1)], dim=1)
    return tokens[:, prompt.shape[1] :]


def causal_model(run: Run) -> CausalModel:
    """The model of a run that can generate.

    Raises:
        UsageError: the run's task does not generate.
    """
    if not isinstance(run.model, CausalModel):
        raise UsageError(
            f"{run.path} is a {run.config.task} run: it predicts, it does not generate"
        )
    return run.model


@dataclass(frozen=True)
class Images:
    """Generated images and what they cost."""

    pixels: npt.NDArray[np.int64]
    """``[n, height, width]``, or ``[n, height, width, channels]``."""
    levels: int
    """Values run from 0 to ``levels - 1``."""
    state_bytes: int
    """Size of the state after the last pixel, all samples together."""


def images(run: Run, samples: int, sampling: Sampling, watch: Watch = _ignore) -> Images:
    """Draw ``samples`` images with a run of the task ``pixels``.

    Raises:
        UsageError: the run is of another task.
    """
    task = run.task
    if not isinstance(task, Pixels):
        raise UsageError(f"{run.path} is a {run.config.task} run; only pixels runs draw images")
    model = causal_model(run)
    start = torch.full((samples, 1), task.start, device=run.device)
    tokens, state = continue_tokens(model, start, task.images.length, sampling, watch=watch)
    pixels = tokens.cpu().numpy().reshape(samples, *task.images.shape)
    return Images(pixels, task.images.levels, state.nbytes)


@dataclass(frozen=True)
class Texts:
    """Generated texts and what they cost."""

    texts: list[str]
    """Each begins with the prompt; a text that ended itself is shorter than asked."""
    tokens: int
    """Tokens made, all samples together."""
    state_bytes: int
    """Size of the state after the last token, all samples together."""


def texts(
    run: Run,
    prompt: str,
    samples: int,
    length: int | None,
    sampling: Sampling,
    watch: Watch = _ignore,
) -> Texts:
    """Continue ``prompt`` with up to ``length`` tokens, ``samples`` times. None = ``USUAL_LENGTH``,
    or fewer where learned positions end.

    Raises:
        UsageError: the run is of another task, or prompt and length do not fit the positions that
            the model has learned.
    """
    task = run.task
    if not isinstance(task, Language):
        raise UsageError(f"{run.path} is a {run.config.task} run; only language runs write texts")
    model = causal_model(run)
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise UsageError("the prompt is not valid UTF-8 text") from None
    ids = [task.start, *task.tokenizer.encode([prompt])[0]]
    limit = run.config.data.length
    if length is None:
        room = limit - len(ids) + 1 if run.config.model.positions == "learned" else USUAL_LENGTH
        length = max(1, min(USUAL_LENGTH, room))
    if run.config.model.positions == "learned" and len(ids) + length - 1 > limit:
        raise UsageError(
            f"a prompt of {len(ids) - 1} tokens and {length} more go beyond the {limit} positions "
            f"that {run.path} has learned; ask for at most {max(limit - len(ids) + 1, 0)}, "
            "or train with --positions sinusoidal"
        )
    start = torch.tensor(ids, device=run.device).repeat(samples, 1)
    made, state = continue_tokens(model, start, length, sampling, watch=watch)
    written = []
    for row in made.tolist():
        own = row[: row.index(task.start)] if task.start in row else row
        written.append(prompt + task.tokenizer.decode(own))
    return Texts(written, made.numel(), state.nbytes)
