"""Images from a pixels run: new ones, or completions of given ones."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from subquad.errors import UsageError
from subquad.generation.continuing import Progress, continue_tokens, ignore
from subquad.generation.decoder import decoder_for
from subquad.generation.packing import Weights
from subquad.generation.sampling import Head, Sampling
from subquad.models import CausalModel
from subquad.run import Run
from subquad.tasks.outputs import PictureOutput


@dataclass(frozen=True)
class Images:
    """Generated images and what they cost."""

    pixels: npt.NDArray[np.int64]
    """``[n, height, width]``, or ``[n, height, width, channels]``."""
    levels: int
    """Values run from 0 to ``levels - 1``."""
    state_bytes: int
    """Size of the decoder states after the last pixel, all samples together."""
    served_by: str
    """``step engine`` or ``torch scan``."""


def head_of(made: PictureOutput) -> Head:
    """What the outputs of a model that generates ``made`` stand for."""
    return Head(mixture=made.mixture, levels=made.levels if made.mixture else 0)


def images(
    run: Run,
    samples: int,
    how: Sampling,
    *,
    given: npt.NDArray[np.integer] | None = None,
    keep: float = 0.5,
    weights: Weights = "fp32",
    watch: Progress = ignore,
) -> Images:
    """Generate images with a run of the task ``pixels``, or complete given ones.

    Args:
        run: a trained ``pixels`` run.
        samples: number of images, or of completions of each given image.
        how: how pixels are sampled.
        given: images ``[n, *shape]`` to complete.
        keep: the fraction of the given images' rows, from the top, that is kept.
        weights: precision of the step engine's weights.
        watch: called with the progress.

    Raises:
        UsageError: the run is of another task, ``given`` has another shape or other levels than the
            run's images, or ``keep`` leaves nothing to generate.
    """
    made, model = run.task.generates(), run.model
    if not isinstance(made, PictureOutput) or not isinstance(model, CausalModel):
        raise UsageError(
            f"{run.path} is a {run.config.task} run, which cannot generate images; use a pixels run"
        )
    if how.repetition_penalty != 1:
        raise UsageError("--repetition-penalty is for texts and cannot be used for images: omit it")
    head = head_of(made)
    if head.mixture and (how.top_k, how.top_p, how.min_p) != (0, 1.0, 0.0):
        raise UsageError(
            "--top-k, --top-p and --min-p choose among levels, but this run samples pixels from "
            "logistics (--mixture): omit them"
        )
    kept = _kept(made, samples, given, keep)
    start = torch.full((len(kept), 1), made.start)
    prompt = torch.cat([start, torch.from_numpy(kept)], dim=1).to(run.device)
    decoder = decoder_for(model, rows=len(prompt), weights=weights, head=head)
    steps = made.length - kept.shape[1]
    drawn = continue_tokens(decoder, prompt, steps, how, watch=watch)
    whole = np.concatenate([kept, drawn.cpu().numpy()], axis=1)
    pixels = whole.reshape(len(whole), *made.shape)
    return Images(pixels, made.levels, decoder.nbytes, decoder.name)


def _kept(
    made: PictureOutput, samples: int, given: npt.NDArray[np.integer] | None, keep: float
) -> npt.NDArray[np.int64]:
    """The pixels that each image begins with, ``[n, k]``."""
    shape, levels = made.shape, made.levels
    if given is None:
        return np.zeros((samples, 0), np.int64)
    if given.shape[1:] != shape:
        found, wanted = ("×".join(map(str, s)) for s in (given.shape[1:], shape))
        raise UsageError(f"the given image is {found}, but this run generates images of {wanted}")
    if given.max(initial=0) >= levels:
        raise UsageError(
            f"the given image has values up to {given.max()}, but this run's images have values "
            f"from 0 to {levels - 1}"
        )
    if not 0 <= keep < 1:
        raise UsageError(
            f"keep={keep} must be at least 0 and below 1: it is the fraction of the image's rows "
            "to keep"
        )
    rows = int(keep * shape[0])
    first = given.reshape(len(given), -1)[:, : rows * (made.length // shape[0])]
    return np.repeat(first.astype(np.int64), samples, axis=0)
