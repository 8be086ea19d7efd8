"""The confusion matrix of the best mixer, and its worst classes."""

from collections import Counter
from typing import Any

from subquad.lab.compare.comparison import Comparison

#: The whole matrix is shown for at most this many classes.
SHOWN = 20
WORST = 5
#: Class names longer than this are rotated above their columns.
SHORT = 3


def confusion(comparison: Comparison) -> dict[str, Any] | None:
    """Template data for the best mixer's confusion matrix (summed over seeds) and worst classes;
    None if the task has no classes."""
    figure = comparison.figure
    if figure.key != "accuracy":
        return None
    rows = [c for c in comparison.candidates() if not c.floor]
    best = max(rows, key=lambda c: c.mean).name
    metrics = [r.held_out if figure.split == "held-out" else r.test for r in comparison.of(best)]
    if metrics[0] is not None and "confusion" not in metrics[0]:
        return _many(best, [m for m in metrics if m is not None])
    tables = [m["confusion"] for m in metrics if m is not None]
    n = len(tables[0])
    total = [[sum(t[i][j] for t in tables) for j in range(n)] for i in range(n)]
    names = list(comparison.labels) or [str(i) for i in range(n)]
    return {
        "mixer": best,
        "names": names,
        "long": max(map(len, names)) > SHORT,
        "runs": len(tables),
        "cells": _cells(total) if n <= SHOWN else [],
        "worst": _worst(total, names),
        "sentence": _sentence(total, names),
    }


def _many(mixer: str, metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """The same for a task with so many classes that no matrix was stored."""
    names = list(metrics[0]["classes"])
    scores = [_summed(name, [m["classes"][name] for m in metrics]) for name in names]
    wrong = sum(round(m["examples"] * (1 - m["accuracy"])) for m in metrics)
    pairs: Counter[tuple[str, str]] = Counter()
    for m in metrics:
        pairs.update({(pair["truth"], pair["guess"]): pair["count"] for pair in m["confused"]})
    sentence = "No mistakes on these examples."
    if pairs:
        (true, said), count = pairs.most_common(1)[0]
        sentence = _mistakes(wrong, sum(m["examples"] for m in metrics), true, said, count)
    return {
        "mixer": mixer,
        "names": [],
        "runs": len(metrics),
        "cells": [],
        "worst": [_shown(*score) for score in sorted(s for s in scores if s[3])[:WORST]],
        "sentence": sentence,
    }


def _summed(name: str, seeds: list[dict[str, Any]]) -> tuple[float, float, float, int, str]:
    """F1, precision, recall, number of examples and name of a class, over all seeds."""
    right = [round(c["recall"] * c["examples"]) for c in seeds]
    said = sum(round(n / c["precision"]) for n, c in zip(right, seeds, strict=True) if n)
    true, hits = sum(c["examples"] for c in seeds), sum(right)
    return 2 * hits / max(true + said, 1), hits / max(said, 1), hits / max(true, 1), true, name


def _cells(total: list[list[int]]) -> list[list[dict[str, Any]]]:
    """Each cell with its share of the row, which sets its shade."""
    out = []
    for i, line in enumerate(total):
        seen = max(sum(line), 1)
        out.append(
            [
                {
                    "count": count,
                    "share": f"{count / seen if i == j else min(4 * count / seen, 1):.3f}",
                    "kind": "zero" if not count else "right" if i == j else "wrong",
                }
                for j, count in enumerate(line)
            ]
        )
    return out


def _worst(total: list[list[int]], names: list[str]) -> list[dict[str, str]]:
    scores = []
    for i, line in enumerate(total):
        right, true, said = total[i][i], sum(line), sum(row[i] for row in total)
        if true:
            scores.append((2 * right / (true + said), right / max(said, 1), right / true, true, i))
    scores.sort()
    return [_shown(f1, p, r, true, names[i]) for f1, p, r, true, i in scores[:WORST]]


def _shown(f1: float, precision: float, recall: float, true: int, name: str) -> dict[str, str]:
    return {
        "name": name,
        "f1": f"{100 * f1:.1f} %",
        "precision": f"{100 * precision:.1f} %",
        "recall": f"{100 * recall:.1f} %",
        "examples": f"{true:,}",
    }


def _sentence(total: list[list[int]], names: list[str]) -> str:
    wrong = [
        (count, names[i], names[j])
        for i, line in enumerate(total)
        for j, count in enumerate(line)
        if i != j and count
    ]
    if not wrong:
        return "No mistakes on these examples."
    all_wrong = sum(w[0] for w in wrong)
    count, true, said = max(wrong)
    return _mistakes(all_wrong, sum(map(sum, total)), true, said, count)


def _mistakes(wrong: int, of: int, true: str, said: str, count: int) -> str:
    return (
        f"{wrong:,} of {of:,} predictions are wrong. "
        f"The most frequent mistake: {true} predicted as {said} ({count:,}×)."
    )
