"""The verdict of a comparison: one rule for all candidates, softmax and the baselines included.

1. The best candidate is the one with the best mean. Baselines ("floors") are candidates too.
2. Another candidate is *level* with the best if they differ by no more than the noise: Student's t
   (95 %, 2n - 2 degrees of freedom) times the standard error of a difference of two means over n
   seeds, and at least one evaluated example.
3. Among the candidates that are level, the cheapest is recommended: a baseline before any model,
   then the model with the fewest seconds per step. A candidate that varies much more between seeds
   than the best (more than three times the best's standard deviation, and more than 1 % of the
   best mean) is not recommended, because only its large variance makes it level.
4. With a single seed nothing is claimed: the verdict names the best and adds that it may be chance.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from subquad.lab.compare.floors import BAG, MAJORITY
from subquad.mixers import ATTENTION, CONTROL


@dataclass(frozen=True)
class Figure:
    """The metric that decides, and the data it was measured on."""

    key: str
    higher_is_better: bool
    rows: int
    split: str
    """``held-out`` or ``test``."""

    @property
    def percent(self) -> bool:
        return self.key.endswith(("accuracy", "_f1"))

    @property
    def title(self) -> str:
        known = {
            "bits_per_dim": "bits per pixel",
            "macro_f1": "macro F1",
            "micro_f1": "micro F1",
            "mse": "mean squared error",
            "spearman": "Spearman's correlation",
        }
        return known.get(self.key, self.key.replace("_", " "))

    def show(self, value: float, digits: int | None = None) -> str:
        """Format a value: ``0.9612`` becomes ``96.1 %``; other metrics get three decimals."""
        if self.percent:
            return f"{value * 100:.{1 if digits is None else digits}f} %"
        return f"{value:.{3 if digits is None else digits}f}"


@dataclass(frozen=True)
class Candidate:
    """One method of the comparison."""

    name: str
    values: tuple[float, ...]
    """The metric for every seed."""
    seconds: float | None = None
    """Seconds per training step; None for a baseline."""

    @property
    def floor(self) -> bool:
        return self.seconds is None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        """Sample standard deviation over seeds (n - 1); 0 for a single seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0


@dataclass(frozen=True)
class Verdict:
    """What to use, and why."""

    choice: str
    headline: str
    reasons: tuple[str, ...]
    level: tuple[str, ...] = field(default=())
    """The candidates that cannot be told apart from the best, including the best itself."""
    claimed: bool = True
    """False if there was only one seed, which cannot support a claim."""
    cautions: tuple[str, ...] = ()
    """Reasons why the budget may have been too small to decide."""


def noise(a: Candidate, b: Candidate, figure: Figure) -> float:
    """The largest difference between ``a`` and ``b`` that may be due to chance."""
    from scipy.stats import t as student

    n = min(len(a.values), len(b.values))
    row = 1 / figure.rows if figure.percent else 0.0
    if n < 2:
        return math.inf
    pooled = math.sqrt((a.std**2 + b.std**2) / 2)
    return max(float(student.ppf(0.975, 2 * n - 2)) * pooled * math.sqrt(2 / n), row)


def differ(a: Candidate, b: Candidate, figure: Figure) -> bool:
    """Whether two candidates differ by more than the noise."""
    return abs(a.mean - b.mean) > noise(a, b, figure) * (1 + 1e-9)


def judge(candidates: Sequence[Candidate], figure: Figure) -> Verdict:
    """Apply this module's rule to ``candidates``.

    Raises:
        ValueError: the list of candidates is empty.
    """
    if not candidates:
        raise ValueError("no candidates: nothing to judge")
    ranked = sorted(candidates, key=lambda c: -c.mean if figure.higher_is_better else c.mean)
    best = ranked[0]
    if min(len(c.values) for c in candidates) < 2:
        return _one_seed(ranked, figure)
    level = [c for c in ranked if c is best or not differ(c, best, figure)]
    steady = [c for c in level if _steady(c, best)]
    choice = min(steady, key=lambda c: (not c.floor, c.seconds or 0.0))
    headline = _headline(choice, best, figure)
    reasons = (*_level(choice, level, figure), *_unsteady(level, steady, figure))
    reasons = (*reasons, *_softmax(choice, ranked, figure))
    if not choice.floor:
        reasons = (*reasons, *_floors(ranked, figure))
    return Verdict(choice.name, headline, reasons, tuple(c.name for c in level))


def _steady(c: Candidate, best: Candidate) -> bool:
    """Whether ``c`` varies little enough between seeds, compared with the best."""
    return c is best or c.std <= max(3 * best.std, 0.01 * abs(best.mean))


def _unsteady(level: list[Candidate], steady: list[Candidate], figure: Figure) -> list[str]:
    names = [f"{c.name} (± {figure.show(c.std)})" for c in level if c not in steady]
    return [f"Varies too much between seeds to be recommended: {_list(names)}."] if names else []


def _headline(choice: Candidate, best: Candidate, figure: Figure) -> str:
    got = f"{figure.show(choice.mean)} {figure.title}"
    if choice.name == MAJORITY:
        return (
            f"Nothing was learned: always predicting the most frequent class is as good "
            f"({got}). Train longer, or check the data."
        )
    if choice.floor:
        name = "the bag of words" if choice.name == BAG else choice.name
        return f"Use {name}: {got}, and no mixer does better here."
    name = f"no mixer at all ({CONTROL})" if choice.name == CONTROL else choice.name
    if choice is best:
        return f"Use {name}: {got}, the best of all."
    return (
        f"Use {name}: {got}, level with {best.name} ({figure.show(best.mean)}) "
        "and cheaper to train."
    )


def _one_seed(ranked: list[Candidate], figure: Figure) -> Verdict:
    best = ranked[0]
    return Verdict(
        best.name,
        f"Only one seed, so no claim: the best {figure.title} here is that of {best.name} "
        f"({figure.show(best.mean)}), which may be chance.",
        ("With three or more seeds, real differences can be told from noise.",),
        claimed=False,
    )


def _level(choice: Candidate, level: list[Candidate], figure: Figure) -> list[str]:
    others = [f"{c.name} ({figure.show(c.mean)})" for c in level if c is not choice]
    if not others:
        return ["The difference to every other candidate is larger than the noise between seeds."]
    return [f"Within the noise between seeds: {_list(others)}."]


def _softmax(choice: Candidate, ranked: list[Candidate], figure: Figure) -> list[str]:
    softmax = next((c for c in ranked if c.name == ATTENTION), None)
    if softmax is None or softmax is choice or choice.floor:
        return []
    assert choice.seconds is not None
    assert softmax.seconds is not None
    ratio = choice.seconds / softmax.seconds
    speed = f"{ratio:.2f}× as long as with softmax"
    gap = choice.mean - softmax.mean
    sign = "higher" if gap > 0 else "lower"
    if not differ(choice, softmax, figure):
        return [f"A step takes {speed}; the difference in quality is within the noise."]
    points = f"{abs(gap) * 100:.1f} points" if figure.percent else f"{abs(gap):.3f}"
    return [f"A step takes {speed}, and {figure.title} is {points} {sign}."]


def _floors(ranked: list[Candidate], figure: Figure) -> list[str]:
    floor = next((c for c in ranked if c.floor), None)
    if floor is None:
        return []
    return [f"The best baseline without a mixer, {floor.name}, reaches {figure.show(floor.mean)}."]


def _list(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
