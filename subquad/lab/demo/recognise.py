"""Do the generated images look like digits? A classifier trained only on real digits decides.

The share it recognises is reported together with the same share for held-out real digits and for
images without structure, because it means little without these two reference points.

The classifier's weight decay was chosen among 1, 0.3, 0.1, 0.06, 0.03, 0.01 and 0.001 by log loss
on held-out real digits, so it is the best calibrated rather than the most generous. (A support
vector machine is as accurate, but confident about four fifths of the images without structure.)
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from subquad.data.batches import Examples
from subquad.data.digits import LEVELS
from subquad.data.targets import Classes
from subquad.lab.compare.floors import matrix

#: An image counts as recognised if the classifier assigns one class a higher probability than this.
CERTAIN = 0.8

Images = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Recognition:
    """What the classifier says. Shares count the images with a class above ``CERTAIN``."""

    samples: int
    recognised: float
    real: float
    """The share among held-out real digits."""
    noise: float
    """The share among images whose pixels are sampled independently from the data."""
    accuracy: float
    """The classifier's accuracy on held-out real digits."""
    classes: int
    """How many of the ten digits occur among the recognised samples."""
    guesses: tuple[str, ...]
    """The predicted class of each sample."""
    copies: int
    """Number of samples that are identical to a training digit."""
    nearest: float
    """Median Euclidean distance from a sample to the nearest training digit."""
    nearest_real: float
    """The same for held-out real digits."""

    @property
    def passed(self) -> bool:
        """At least three quarters are recognised."""
        return self.recognised >= 0.75


def recognise(images: Images, training: Examples, held_out: Examples) -> Recognition:
    """Judge generated ``images`` ``[n, 64]`` with grey levels 0 to 16.

    ``training`` and ``held_out`` are real digits with their classes.
    """
    from sklearn.neural_network import MLPClassifier

    seen, other = matrix(training), matrix(held_out)
    judge = MLPClassifier((128,), alpha=0.06, max_iter=120, tol=0.0, n_iter_no_change=120)
    judge.set_params(random_state=0, batch_size=64)
    _fit(judge, seen / (LEVELS - 1), training.answers(Classes))

    def chances(rows: Images) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = judge.predict_proba(rows / (LEVELS - 1))
        return found

    own, real = chances(images), chances(other)
    sure = own.max(1) > CERTAIN
    return Recognition(
        samples=len(images),
        recognised=float(sure.mean()),
        real=float((real.max(1) > CERTAIN).mean()),
        noise=float((chances(_shuffled(seen)).max(1) > CERTAIN).mean()),
        accuracy=float((real.argmax(1) == held_out.answers(Classes)).mean()),
        classes=len(np.unique(own.argmax(1)[sure])),
        guesses=tuple(str(c) for c in own.argmax(1)),
        copies=int((_distances(images, seen) == 0).sum()),
        nearest=float(np.median(_distances(images, seen))),
        nearest_real=float(np.median(_distances(other, seen))),
    )


def _fit(judge: object, x: npt.NDArray[np.float64], y: npt.NDArray[np.int64]) -> None:
    """Fit for a fixed number of iterations, without scikit-learn's warning about convergence."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        judge.fit(x, y)  # type: ignore[attr-defined]


def _shuffled(images: Images) -> Images:
    """As many images, every pixel sampled independently from the same position in the data."""
    random = np.random.default_rng(0)
    rows = random.integers(0, len(images), images.shape)
    return np.take_along_axis(images, rows, axis=0)


def _distances(images: Images, seen: Images) -> npt.NDArray[np.float64]:
    """Euclidean distance from each image to the nearest row of ``seen``."""
    a, b = images.astype(np.float64), seen.astype(np.float64)
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    return np.sqrt(np.maximum(squared.min(1), 0))
