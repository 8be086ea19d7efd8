"""Which tokens a head prefers over a data set, and whether it prefers them whatever the context.

A token's *lift* is its weight times the number of tokens in its text, so 1 is the average. A head's
preference ("liking") for a token is the mean log lift over all its occurrences.

*Static or not*: take every token that occurs in at least two texts, and its scores in the first and
second of them, before normalisation over the text. Spearman's rank correlation between the two,
over all those tokens, is 1 if the score depends on the token alone and 0 if only context matters.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

#: No correlation is computed from fewer tokens than this.
ENOUGH = 30
#: A token must occur in this many texts to be shown.
SHOWN_FROM = 5
#: Smaller lifts are clamped to this one, because a weight of zero has no logarithm.
LEAST = 1e-4


class Likings:
    """Running sums over a data set, for each token of the vocabulary and each head."""

    def __init__(self, vocabulary: int, heads: int) -> None:
        self.total = np.zeros((vocabulary, heads))
        self.count = np.zeros(vocabulary, dtype=np.int64)
        self.rows = np.zeros(vocabulary, dtype=np.int64)
        self.first, self.second = (np.full((vocabulary, heads), np.nan) for _ in range(2))

    def add(self, tokens: Ids, lifts: Floats, scores: Floats) -> None:
        """Add one text: its tokens ``[t]``, and their lifts and scores, both ``[t, heads]``."""
        logs = np.log(np.maximum(lifts, LEAST))
        np.add.at(self.total, tokens, logs)
        np.add.at(self.count, tokens, 1)
        kinds, places = np.unique(tokens, return_index=True)
        for kept, before in ((self.first, 0), (self.second, 1)):
            new = self.rows[kinds] == before
            kept[kinds[new]] = scores[places[new]]
        self.rows[kinds] += 1

    def favourites(self, head: int, count: int) -> list[tuple[int, float]]:
        """The tokens that a head prefers most, with their (geometric) mean lifts."""
        enough = np.flatnonzero(self.rows >= min(SHOWN_FROM, max(int(self.rows.max()), 1)))
        means = self.total[enough, head] / self.count[enough]
        best = np.argsort(-means, kind="stable")[:count]
        return [(int(enough[i]), float(np.exp(means[i]))) for i in best]

    def correlations(self) -> list[float | None]:
        """Spearman's ρ for every head; None if too few tokens occur in two texts."""
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
    """Share of the heads whose ρ is at least ``STATIC``."""
    heads: int

    @property
    def headline(self) -> str:
        """The judgement in one line."""
        if self.median >= STATIC:
            return "Static detectors: most heads respond to words, whatever their context"
        if self.median >= PARTLY:
            return "Not static: the weights of most heads depend in part on context"
        return "Not static: the weights of most heads depend on context"

    @property
    def sentence(self) -> str:
        """The numbers behind it."""
        return (
            f"The median rank correlation between the scores of a word in two contexts is "
            f"{self.median:.2f}; {round(self.share * self.heads)} of {self.heads} heads reach "
            f"{STATIC}."
        )


#: A head with at least this rank correlation is called static.
STATIC = 0.9
#: Below this rank correlation, context matters more than the word itself.
PARTLY = 0.5


def judge(correlations: list[float | None]) -> Judgement | None:
    """The judgement over all heads; None if no correlation is known."""
    known = [c for c in correlations if c is not None]
    if not known:
        return None
    share = sum(c >= STATIC for c in known) / len(known)
    return Judgement(float(np.median(known)), share, len(known))
