"""Generate with a run in a single call from Python."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.errors import UsageError
from subquad.generation.pictures import images
from subquad.generation.requests import Request
from subquad.generation.sampling import Sampling
from subquad.generation.texts import write
from subquad.run import Run
from subquad.tasks.outputs import TextOutput

#: Options for each kind of run, in addition to the fields of ``Sampling``.
TEXTS = {"samples", "length", "stop", "beams", "weights"}
IMAGES = {"samples", "given", "keep", "weights"}


def generate(
    run: Run, prompt: str | Sequence[str] | None = None, **options: Any
) -> list[str] | npt.NDArray[np.int64]:
    """Generate texts that continue ``prompt`` (language runs) or images (pixels runs).

    >>> run = subquad.load("runs/book")
    >>> subquad.generate(run, "It was", length=60, samples=2, seed=1, temperature=0.8)
    ['It was the best of …', 'It was a dark and …']

    Args:
        run: a trained run, from ``subquad.load``.
        prompt: one text or several to continue; if omitted, texts begin from nothing.
        **options: ``samples`` (for each prompt or given image), ``weights``, and the fields of
            ``Sampling`` (``temperature``, ``top_k``, ``top_p``, ``min_p``, ``repetition_penalty``,
            ``seed``); for texts also ``length``, ``stop`` and ``beams`` as in ``Request``; for
            images ``given`` and ``keep`` as in ``images``.

    Returns:
        All samples of the first prompt, then of the second, …, each including its prompt; or the
        pixels of the images, ``[n, height, width]`` or ``[n, height, width, channels]``.
        ``generation.write`` and ``generation.images`` also return scores, costs and saved states.

    Raises:
        UsageError: the run's task cannot generate, or an option is unknown or not for this kind of
            run.
    """
    how = Sampling(**{f.name: options.pop(f.name) for f in fields(Sampling) if f.name in options})
    made = run.task.generates()
    if isinstance(made, TextOutput):
        _only(TEXTS, options, f"{run.path}, which generates texts")
        if prompt is not None:
            options["prompts"] = [prompt] if isinstance(prompt, str) else list(prompt)
        return [text.text for text in write(run, Request(**options), how).texts]
    if prompt is not None:
        raise UsageError(
            f"prompt is for texts, but {run.path} generates images: omit it, or use given=IMAGE"
        )
    _only(IMAGES, options, f"{run.path}, which generates images")
    return images(run, options.pop("samples", 1), how, **options).pixels


def _only(known: set[str], options: dict[str, Any], what: str) -> None:
    for name in options:
        if name not in known:
            raise UsageError(
                f"{name} is not an option of generate for {what}; available: "
                + ", ".join(sorted(known | {f.name for f in fields(Sampling)}))
            )
