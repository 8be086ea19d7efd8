"""Timing: candidates take turns in one process, so that a machine that slows down affects all of
them alike, and ratios are computed within a round."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: The function to time.
Run = Callable[[], object]


@dataclass(frozen=True)
class Prepared:
    """A candidate that is set up anew for every round; the setup is not timed."""

    make: Callable[[], Run]


@dataclass(frozen=True)
class Times:
    """Seconds taken by each candidate in each round; a round runs every candidate once."""

    rounds: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def ratio(self, slow: str, fast: str) -> tuple[float, float, float]:
        """How many times as long as ``fast`` does ``slow`` take: (median, lower and upper quartile)
        over rounds."""
        pairs = zip(self.rounds[slow], self.rounds[fast], strict=True)
        ratios = [a / b for a, b in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return middle, low, high


def seconds_of(candidate: Run | Prepared) -> float:
    """Wall-clock seconds of one run."""
    run = candidate.make() if isinstance(candidate, Prepared) else candidate
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def in_turns(candidates: Mapping[str, Run | Prepared], rounds: int) -> Times:
    """Run all candidates in turn, ``rounds`` times. Warm-up is up to the caller."""
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            taken[name].append(seconds_of(candidate))
    return Times(taken)


def interleave(candidates: Mapping[str, Run | Prepared], seconds: float) -> Times:
    """Run all candidates in turn for about ``seconds`` (3 to 300 rounds), after a warm-up round."""
    in_turns(candidates, 1)
    started, times = time.perf_counter(), in_turns(candidates, 3)
    for _ in range(297):
        if time.perf_counter() - started >= seconds:
            break
        for name, taken in in_turns(candidates, 1).rounds.items():
            times.rounds[name] += taken
    return times
