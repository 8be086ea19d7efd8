"""Labels that are numbers to be told, not classes to be named: what a regression learns."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from subquad.errors import SubquadError

LARGEST = 1e12


@dataclass(frozen=True)
class Scale:
    """``mean`` and ``std`` of the numbers of training, which a model predicts in units of."""

    mean: float = 0.0
    std: float = 1.0
    names: ClassVar[tuple[str, ...]] = ()
    """Any number is a label."""
    dtype: ClassVar[type[np.generic]] = np.float64
    """Of the numbers."""

    @classmethod
    def fitted(cls, values: npt.NDArray[np.float64], where: str) -> Self:
        """With the mean and spread of these numbers.

        Raises:
            SubquadError: they are all the same, so there is nothing to tell.
        """
        std = float(values.std())
        if not std > 0:
            raise SubquadError(f"{where}: every label is {values[0]:g}: there is nothing to learn")
        return cls(float(values.mean()), std)

    @staticmethod
    def index(name: str, where: str) -> float:
        """The number that a label is.

        Raises:
            SubquadError: it is none, or too large.
        """
        try:
            value = float(name)
        except ValueError:
            raise SubquadError(f"{where}: label {name!r} is not a number") from None
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise SubquadError(f"{where}: label {name!r} is not a number up to {LARGEST:g}")
        return value

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({"mean": self.mean, "std": self.std}) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        """What ``save`` wrote.

        Raises:
            SubquadError: the file is missing or holds something else.
        """
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls(float(found["mean"]), float(found["std"]))
        except OSError as error:
            raise SubquadError(f"{path}: {error.strerror or error}") from None
        except (ValueError, TypeError, KeyError):
            raise SubquadError(f"{path} is not the mean and std of a regression") from None
