"""Which tokens a head likes, over a data set, and whether it likes them whatever stands around.

A token's *lift* is its weight times the number of tokens in its row: 1 is the average. A head's
liking for a token is the mean of log lift over all places where it stands.

*Static or not*: for every token that stands in at least two rows, its score in the first and in
the second, before the scores are divided among the row; Spearman's rank correlation of the two over
all those tokens. 1: a token's rank is its own, whatever the context. 0: context decides alone.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

#: Fewer tokens than this say nothing about a correlation.
ENOUGH = 30
#: A token must stand in so many rows to be shown.
SHOWN_FROM = 5
#: Smaller lifts count as this one: a weight of zero has no logarithm.
LEAST = 1e-4


class Likings:
    """Sums over a data set for ``heads`` signals and a vocabulary of so many tokens."""

    def __init__(self, vocabulary: int, heads: int) -> None:
        self.total = np.zeros((vocabulary, heads))
        self.count = np.zeros(vocabulary, dtype=np.int64)
        self.rows = np.zeros(vocabulary, dtype=np.int64)
        self.first, self.second = (np.full((vocabulary, heads), np.nan) for _ in range(2))

    def add(self, tokens: Ids, lifts: Floats, scores: Floats) -> None:
        """One row: its tokens ``[t]``, lift and score of each for every head ``[t, heads]``."""
        logs = np.log(np.maximum(lifts, LEAST))
        np.add.at(self.total, tokens, logs)
        np.add.at(self.count, tokens, 1)
        kinds, places = np.unique(tokens, return_index=True)
        for kept, before in ((self.first, 0), (self.second, 1)):
            new = self.rows[kinds] == before
            kept[kinds[new]] = scores[places[new]]
        self.rows[kinds] += 1

    def favourites(self, head: int, count: int) -> list[tuple[int, float]]:
        """The tokens that a head likes most, and their mean lifts."""
        enough = np.flatnonzero(self.rows >= min(SHOWN_FROM, max(int(self.rows.max()), 1)))
        means = self.total[enough, head] / self.count[enough]
        best = np.argsort(-means, kind="stable")[:count]
        return [(int(enough[i]), float(np.exp(means[i]))) for i in best]

    def correlations(self) -> list[float | None]:
        """Spearman's ρ of every head; None where too few tokens stand in two rows."""
        from scipy.stats import rankdata

        twice = self.rows >= 2
        if twice.sum() < ENOUGH:
            return [None] * self.total.shape[1]
        ranks = (rankdata(kept[twice], axis=0) for kept in (self.first, self.second))
        a, b = (r - r.mean(0) for r in ranks)
        size = np.sqrt((a**2).sum(0) * (b**2).sum(0))
        return [float(x) for x in (a * b).sum(0) / np.where(size == 0, 1, size)]


@dataclass(frozen=True)
class Judgement:
    """Whether the heads of a run are static detectors."""

    median: float
    share: float
    """Part of the heads whose ρ is at least ``STATIC``."""
    heads: int

    @property
    def headline(self) -> str:
        """The judgement itself."""
        if self.median >= STATIC:
            return "Static detectors: most heads know words, not their contexts"
        if self.median >= PARTLY:
            return "Not static: what most heads weigh depends in part on context"
        return "Not static: what most heads weigh depends on context"

    @property
    def sentence(self) -> str:
        """The numbers behind it."""
        return (
            f"The median rank correlation between two contexts of the same word is "
            f"{self.median:.2f}; {round(self.share * self.heads)} of {self.heads} heads reach "
            f"{STATIC}."
        )


#: From this rank correlation on, a head is called static.
STATIC = 0.9
#: Below this one, context decides more than the word.
PARTLY = 0.5


def judge(correlations: list[float | None]) -> Judgement | None:
    """None if there is nothing to judge."""
    known = [c for c in correlations if c is not None]
    if not known:
        return None
    share = sum(c >= STATIC for c in known) / len(known)
    return Judgement(float(np.median(known)), share, len(known))
