"""Calibrated probabilities: of the answers that a model gives with 80 %, about 80 % are right.

Guo et al. 2017, "On Calibration of Modern Neural Networks", https://arxiv.org/abs/1706.04599.
Temperature scaling divides the logits z by one T > 0, that which minimises the negative
log-likelihood (NLL) of the rows held out from training. Their order stays, and so do the answers.

    Eq. (3)  ECE = Σ_m |B_m| / n · |acc(B_m) − conf(B_m)|
    Eq. (9)  q = max_k softmax(z / T)_k
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from subquad.errors import SubquadError
from subquad.storage import write_text

#: Where a run keeps its temperature.
FILE = "calibration.json"
#: Held-out rows from which on a temperature is fitted: with 100 rows its standard error is 15 to
#: 20 % in simulations of two and four classes, with 20 rows 40 to 60 %.
LEAST = 100
#: Bounds of the search.
LOWEST, HIGHEST = 0.05, 20.0
#: Bins of equal width, as in the paper.
BINS = 15

Stated = tuple[npt.NDArray[np.floating], npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class Calibration:
    """The temperature of a run, and what it does on the held-out ``rows`` that it was fitted to. It
    is 1 where none was fitted; the figures are None where nothing was held out."""

    temperature: float = 1.0
    rows: int = 0
    nll_before: float | None = None
    nll_after: float | None = None
    ece_before: float | None = None
    ece_after: float | None = None

    def save(self, run: Path) -> None:
        write_text(run / FILE, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, run: Path) -> Self | None:
        """What ``save`` wrote; None if the run has none, as those of version 0.1.

        Raises:
            SubquadError: the file holds something else.
        """
        try:
            found = cls(**json.loads((run / FILE).read_text(encoding="utf-8")))
            t = found.temperature
            if not (isinstance(t, int | float) and 0 < t < math.inf):
                raise ValueError(f"the temperature is {t!r}")
        except FileNotFoundError:
            return None
        except (OSError, TypeError, ValueError) as error:
            raise SubquadError(f"{run / FILE} is not a calibration: {error}") from None
        return found

    def sentence(self) -> str:
        """What was found, for people."""
        if self.rows < LEAST:
            return (
                f"probabilities are not calibrated: {self.rows} rows are held out, and a "
                f"temperature is fitted to {LEAST} or more"
            )
        if self.temperature == 1:
            return (
                f"probabilities are not calibrated (T = 1, expected calibration error "
                f"{self.ece_before:.4f}): no temperature minimises the loss of the {self.rows} "
                "held-out rows, as when all answers are right"
            )
        return (
            f"probabilities are calibrated on {self.rows} held-out rows: T = "
            f"{self.temperature:.3f}, expected calibration error {self.ece_before:.4f} before and "
            f"{self.ece_after:.4f} after"
        )


class Calibrated(ABC):
    """Base of what gives logits a meaning (``OneLabel``, ``SeveralLabels``)."""

    calibration: Calibration | None = None
    """What was found at the end of training; None before it, and in runs of version 0.1."""

    @property
    def temperature(self) -> float:
        """What logits are divided by."""
        return 1.0 if self.calibration is None else self.calibration.temperature

    @abstractmethod
    def loss(
        self, logits: Tensor, truth: Tensor, weights: Tensor | None, smoothing: float
    ) -> Tensor:
        """Summed over the rows; without weights and smoothing, the NLL."""

    @abstractmethod
    def stated(self, logits: Tensor, truth: Tensor) -> Stated:
        """Probabilities, and whether what each is given to is so."""


def calibrated(way: Calibrated, pairs: Iterable[tuple[Tensor, Tensor]]) -> Calibration:
    """Fit a temperature to pairs of truth and logits, all held-out rows.

    The temperature stays 1 with fewer than ``LEAST`` rows, and where the likelihood has no maximum:
    if all answers are right, it would go to zero, and the probabilities to one.
    """
    kept = [(truth.cpu(), logits.cpu()) for truth, logits in pairs]
    if not kept:
        return Calibration()
    truth, logits = (torch.cat(part) for part in zip(*kept, strict=True))
    logits, rows = logits.double(), len(truth)

    def nll(temperature: float) -> float:
        return float(way.loss(logits / temperature, truth, None, 0.0)) / rows  # Eq. (9)

    def ece(temperature: float) -> float:
        return calibration_error(*way.stated(logits / temperature, truth))

    t = _fitted(nll) if rows >= LEAST else 1.0
    return Calibration(t, rows, nll(1.0), nll(t), ece(1.0), ece(t))


def _fitted(nll: Callable[[float], float]) -> float:
    """The temperature where ``nll`` is least, which has one minimum at most; 1 if there is none."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda log: nll(math.exp(log)),
        bounds=(math.log(LOWEST), math.log(HIGHEST)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    least = float(found.fun)
    inside = least < nll(LOWEST) and least < nll(1.0)
    return math.exp(float(found.x)) if inside else 1.0


def calibration_error(p: npt.NDArray[np.floating], right: npt.NDArray[np.bool_]) -> float:
    """The expected calibration error of probabilities ``p`` [n] of what is so (``right``) or not:
    how far, on average, they are from its frequency, in bins of equal width."""
    p = p.astype(np.float64)
    bins = np.clip(np.ceil(p * BINS).astype(np.int64) - 1, 0, BINS - 1)
    gap = np.bincount(bins, right, BINS) - np.bincount(bins, p, BINS)
    return float(np.abs(gap).sum() / len(p))  # Eq. (3), where |B_m| cancels


def figures_of(stated: Sequence[Stated]) -> dict[str, float]:
    """``ece``, among the metrics of an evaluation; nothing if no batch has ``stated`` anything."""
    if not stated:
        return {}
    p, right = (np.concatenate(part) for part in zip(*stated, strict=True))
    return {"ece": calibration_error(p, right)}


def threshold_at(threshold: float, temperature: float) -> float:
    """What a threshold of probabilities becomes: the same logits reach it. An uncalibrated one
    stays as it is, to the last bit."""
    if temperature == 1:
        return threshold
    logit = torch.tensor(threshold, dtype=torch.float64).logit()
    return float((logit / temperature).sigmoid())
