"""A place in a text that can be continued later, in another process: the state, the token to read
next, and how far the random stream has been used."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int
from safetensors import SafetensorError, safe_open
from torch import Tensor

from subquad.checkpoint import MODEL
from subquad.errors import SubquadError, UsageError
from subquad.generation.decoder import Streams
from subquad.models import ModelState
from subquad.run import Run


@dataclass(frozen=True)
class Saved:
    """What ``generate --save-state`` writes."""

    state: ModelState
    token: int
    """The last token of the text, which the state has not read."""
    sample: int
    drawn: int
    """The random stream, and how many numbers have been taken from it."""
    model: str
    """``fingerprint`` of the run that made it."""
    weights: str

    @classmethod
    def of(
        cls,
        state: ModelState,
        last: Int[Tensor, "b"],
        streams: Streams,
        model: str,
        weights: str,
    ) -> "Saved":
        """The place of the one text that ``last`` and ``streams`` are about."""
        return cls(
            state, int(last[0]), int(streams.samples[0]), int(streams.drawn[0]), model, weights
        )

    def streams(self) -> Streams:
        """The random stream, where it was left."""
        return Streams(np.array([self.sample], np.uint64), np.array([self.drawn], np.uint64))

    def check(self, run: Run, weights: str) -> None:
        """Raises:
        UsageError: the state belongs to another model, or to other weights of it.
        """
        if self.model != fingerprint(run):
            raise UsageError(
                f"the state was made by another model than {run.path} (weights {self.model[:12]}, "
                f"here {fingerprint(run)[:12]})"
            )
        if self.weights != weights:
            raise UsageError(
                f"the state was made with weights {self.weights}, and is continued with {weights}"
            )

    def save(self, path: Path) -> None:
        """Write one safetensors file, whole or not at all."""
        about = {
            "token": self.token,
            "sample": self.sample,
            "drawn": self.drawn,
            "model": self.model,
            "weights": self.weights,
        }
        self.state.save(path, about=about)

    @classmethod
    def load(cls, path: Path) -> "Saved":
        """Read what ``save`` wrote.

        Raises:
            SubquadError: the file is not a saved state, or not whole.
        """
        state = ModelState.load(path)
        try:
            with safe_open(path, framework="pt") as f:
                about = json.loads((f.metadata() or {})["about"])
            return cls(state, **about)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise SubquadError(f"{path} is not a state that generate has saved: {error}") from None


def fingerprint(run: Run) -> str:
    """SHA-256 of the run's weights file."""
    with (run.path / MODEL).open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
