"""A saved decoder state, for continuing a text later in another process: the state, the token to
read next, and the position in the random stream."""

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
    """The contents of a file written by ``generate --save-state``."""

    state: ModelState
    token: int
    """The last token of the text, which has not been read yet."""
    sample: int
    drawn: int
    """The number of the random stream, and how many numbers it has supplied."""
    model: str
    """``fingerprint`` of the run that the state belongs to."""
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
        """The saved state of a single text, from its last token and its random stream."""
        return cls(
            state, int(last[0]), int(streams.samples[0]), int(streams.drawn[0]), model, weights
        )

    def streams(self) -> Streams:
        """The random stream at the position where it stopped."""
        return Streams(np.array([self.sample], np.uint64), np.array([self.drawn], np.uint64))

    def check(self, run: Run, weights: str) -> None:
        """Check that ``run`` can continue this state.

        Raises:
            UsageError: the state belongs to another model or another precision of the weights.
        """
        if self.model != fingerprint(run):
            raise UsageError(
                f"the saved state belongs to another model than {run.path} (SHA-256 of the weights "
                f"{self.model[:12]}…, here {fingerprint(run)[:12]}…): use the run that saved it"
            )
        if self.weights != weights:
            raise UsageError(
                f"the state was saved with weights {self.weights}, not {weights}: use "
                f"--weights {self.weights}"
            )

    def save(self, path: Path) -> None:
        """Write one safetensors file, atomically."""
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
        """Read a file written by ``save``.

        Raises:
            SubquadError: the file is not a saved state, or is damaged.
        """
        state = ModelState.load(path)
        try:
            with safe_open(path, framework="pt") as f:
                about = json.loads((f.metadata() or {})["about"])
            return cls(state, **about)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise SubquadError(
                f"{path} is not a file written by generate --save-state: {error}"
            ) from None


def fingerprint(run: Run) -> str:
    """SHA-256 of the run's weights file."""
    with (run.path / MODEL).open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
