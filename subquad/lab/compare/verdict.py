"""From numbers to a sentence: one rule, the same for everybody, softmax and the floors included.

1. The best candidate is the one with the best mean. Floors are candidates.
2. Another is *level* with it if their difference is not larger than the noise: Student's t (95 %,
   2n - 2 degrees of freedom) times the standard error of a difference of two means over n seeds,
   and never less than one evaluated row.
3. Of those that are level, the cheapest is recommended: a floor before any model, then the model
   with the fewest seconds per step. One that varies much more between seeds than the best (over
   three times its standard deviation, and over a hundredth) is level only because it cannot be
   relied on, and is not recommended.
4. With one seed nothing is claimed: the best is named, and that it may be chance.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from subquad.lab.compare.floors import BAG, MAJORITY
from subquad.mixers import ATTENTION, CONTROL


@dataclass(frozen=True)
class Figure:
    """The number that decides, and where it was taken."""

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
        """``0.9612`` → ``96.1 %``; a number that is no share → three decimals."""
        if self.percent:
            return f"{value * 100:.{1 if digits is None else digits}f} %"
        return f"{value:.{3 if digits is None else digits}f}"


@dataclass(frozen=True)
class Candidate:
    """One line of the contest."""

    name: str
    values: tuple[float, ...]
    """The figure of every seed."""
    seconds: float | None = None
    """Per training step; None for a floor."""

    @property
    def floor(self) -> bool:
        return self.seconds is None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        """Over seeds, with n - 1; 0 for one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0


@dataclass(frozen=True)
class Verdict:
    """What a person should do, and why."""

    choice: str
    headline: str
    reasons: tuple[str, ...]
    level: tuple[str, ...] = field(default=())
    """Those that cannot be told apart from the best one, itself included."""
    claimed: bool = True
    """False where one seed cannot support a claim."""
    cautions: tuple[str, ...] = ()
    """Why the budget may have been too small to decide."""


def noise(a: Candidate, b: Candidate, figure: Figure) -> float:
    """The largest difference between ``a`` and ``b`` that says nothing."""
    from scipy.stats import t as student

    n = min(len(a.values), len(b.values))
    row = 1 / figure.rows if figure.percent else 0.0
    if n < 2:
        return math.inf
    pooled = math.sqrt((a.std**2 + b.std**2) / 2)
    return max(float(student.ppf(0.975, 2 * n - 2)) * pooled * math.sqrt(2 / n), row)


def differ(a: Candidate, b: Candidate, figure: Figure) -> bool:
    """Whether the difference of two candidates is larger than their noise."""
    return abs(a.mean - b.mean) > noise(a, b, figure) * (1 + 1e-9)


def judge(candidates: Sequence[Candidate], figure: Figure) -> Verdict:
    """Apply the rule of this module.

    Raises:
        ValueError: there is no candidate.
    """
    if not candidates:
        raise ValueError("no candidates: there is nothing to judge")
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
    """Whether ``c`` can be relied on as the best one can."""
    return c is best or c.std <= max(3 * best.std, 0.01 * abs(best.mean))


def _unsteady(level: list[Candidate], steady: list[Candidate], figure: Figure) -> list[str]:
    names = [f"{c.name} (± {figure.show(c.std)})" for c in level if c not in steady]
    return [f"Too unsteady between seeds to be recommended: {_list(names)}."] if names else []


def _headline(choice: Candidate, best: Candidate, figure: Figure) -> str:
    got = f"{figure.show(choice.mean)} {figure.title}"
    if choice.name == MAJORITY:
        return (
            f"Nothing was learned: always naming the most frequent class is as good "
            f"({got}). Train longer, or look at the data."
        )
    if choice.floor:
        name = "the bag of words" if choice.name == BAG else choice.name
        return f"Use {name}: {got}, and no mixer here does better."
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
        f"One seed: no claim. {best.name} has the best {figure.title} of this run "
        f"({figure.show(best.mean)}), which may be chance.",
        ("With three seeds or more, differences can be told from noise.",),
        claimed=False,
    )


def _level(choice: Candidate, level: list[Candidate], figure: Figure) -> list[str]:
    others = [f"{c.name} ({figure.show(c.mean)})" for c in level if c is not choice]
    if not others:
        return ["No other candidate comes within the noise of the seeds."]
    return [f"Within the noise of the seeds: {_list(others)}."]


def _softmax(choice: Candidate, ranked: list[Candidate], figure: Figure) -> list[str]:
    softmax = next((c for c in ranked if c.name == ATTENTION), None)
    if softmax is None or softmax is choice or choice.floor:
        return []
    assert choice.seconds is not None
    assert softmax.seconds is not None
    ratio = choice.seconds / softmax.seconds
    speed = f"{ratio:.2f}× the time of softmax" if ratio < 1 else f"{ratio:.2f}× softmax's time"
    gap = choice.mean - softmax.mean
    sign = "more" if gap > 0 else "less"
    if not differ(choice, softmax, figure):
        return [f"A step takes {speed}; the quality of the two cannot be told apart."]
    points = f"{abs(gap) * 100:.1f} points" if figure.percent else f"{abs(gap):.3f}"
    return [f"A step takes {speed}, with {points} {sign} {figure.title}."]


def _floors(ranked: list[Candidate], figure: Figure) -> list[str]:
    floor = next((c for c in ranked if c.floor), None)
    if floor is None:
        return []
    return [f"The best method without a mixer, {floor.name}, reaches {figure.show(floor.mean)}."]


def _list(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
