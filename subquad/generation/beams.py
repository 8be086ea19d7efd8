"""Beam search. The decoder states are reordered together with the beams they belong to."""

from dataclasses import dataclass, field

import torch

from subquad.generation.continuing import Extension, Progress, Strategy, continue_rows, ignore
from subquad.generation.decoder import Decoder
from subquad.shapes import Tokens


@dataclass(frozen=True)
class Beam:
    """One hypothesis of a beam search."""

    tokens: list[int]
    score: float
    """Sum of the log-probabilities of ``tokens``, given the prompt."""


@dataclass
class BeamSearch(Strategy):
    """Beam search as a decoding strategy; the decoder has one row for each beam in ``going``."""

    beams: int
    """Beam width."""
    end: int
    """The token that ends a text."""
    going: list[Beam] = field(default_factory=lambda: [Beam([], 0.0)])
    finished: list[Beam] = field(default_factory=list)

    def extend(self, decoder: Decoder, unread: Tokens, _: int, /) -> Extension:
        scores = decoder.read(unread).double().log_softmax(-1)
        total = scores + torch.tensor([beam.score for beam in self.going]).unsqueeze(1)
        # Twice as many candidates as beams, because any beam may end.
        best = total.flatten().topk(min(2 * self.beams, total.numel()))
        parents: list[int] = []
        grown: list[Beam] = []
        for score, at in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            parent, token = divmod(at, total.shape[1])
            beam = Beam([*self.going[parent].tokens, token], score)
            if token == self.end:
                self.finished.append(beam)
            elif len(grown) < self.beams:
                grown.append(beam)
                parents.append(parent)
        self.finished = sorted(self.finished, key=lambda b: -b.score)[: self.beams]
        self.going = grown
        going = [] if self._settled() else grown
        last = torch.tensor([beam.tokens[-1] for beam in going], dtype=torch.long)
        return Extension(last.unsqueeze(1), torch.tensor(parents[: len(going)], dtype=torch.long))

    def _settled(self) -> bool:
        """Whether enough beams have ended, and none that goes on can still overtake them."""
        if len(self.finished) < self.beams:
            return False
        return not self.going or self.finished[-1].score >= self.going[0].score

    def best(self) -> list[Beam]:
        return sorted([*self.finished, *self.going], key=lambda b: -b.score)[: self.beams]


def search(
    decoder: Decoder,
    prompt: Tokens,
    steps: int,
    *,
    beams: int,
    end: int,
    watch: Progress = ignore,
) -> list[Beam]:
    """The ``beams`` likeliest continuations of ``prompt`` ``[1, t]`` that the search finds, best
    first. A beam ends with the token ``end`` or after ``steps`` tokens. The score is the plain sum
    of log-probabilities, without length normalisation."""
    strategy = BeamSearch(beams, end)
    continue_rows(decoder, prompt, steps, strategy, watch)
    return strategy.best()
