"""Beam search: the states are reordered together with the beams that they belong to."""

from dataclasses import dataclass

import torch

from subquad.generation.continuing import Watch, ignore
from subquad.generation.decoder import Decoder
from subquad.shapes import Tokens


@dataclass(frozen=True)
class Beam:
    """A text that a search found."""

    tokens: list[int]
    score: float
    """Sum of the log-probabilities of ``tokens``, given the prompt."""


def search(
    decoder: Decoder,
    prompt: Tokens,
    steps: int,
    *,
    beams: int,
    end: int,
    watch: Watch = ignore,
) -> list[Beam]:
    """The ``beams`` likeliest continuations of ``prompt`` ``[1, t]`` that the search meets, best
    first. A beam ends with the token ``end`` or after ``steps`` tokens; no length is preferred: the
    score is the plain sum."""
    outputs = decoder.read(prompt)
    going = [Beam([], 0.0)]
    finished: list[Beam] = []
    for done in range(1, steps + 1):
        scores = outputs.double().log_softmax(-1)
        total = scores + torch.tensor([beam.score for beam in going]).unsqueeze(1)
        # One candidate more per beam: any of them may be an end.
        best = total.flatten().topk(min(2 * beams, total.numel()))
        parents: list[int] = []
        grown: list[Beam] = []
        for score, at in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            parent, token = divmod(at, total.shape[1])
            beam = Beam([*going[parent].tokens, token], score)
            if token == end:
                finished.append(beam)
            elif len(grown) < beams:
                grown.append(beam)
                parents.append(parent)
        finished = sorted(finished, key=lambda b: -b.score)[:beams]
        going = grown
        watch(done, steps)
        # What goes on can only become less likely.
        settled = len(finished) == beams and (not going or finished[-1].score >= going[0].score)
        if done == steps or settled or not going:
            break
        decoder.select(torch.tensor(parents))
        outputs = decoder.read(torch.tensor([[beam.tokens[-1]] for beam in going]))
    return sorted([*finished, *going], key=lambda b: -b.score)[:beams]
