"""Was the training budget large enough? Judged by the learning curves and the task's default."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from subquad.lab.compare.runs import Result
from subquad.lab.compare.verdict import Figure
from subquad.tasks import Config, task_class
from subquad.transfer import TUNING

#: A curve counts as still improving if the last quarter of training gained more than this: absolute
#: for accuracies, relative to the value for everything else.
LEAST = 0.005, 0.01


def cautions(
    config: Config, runs: Sequence[Result], figure: Figure, training_rows: int
) -> tuple[str, ...]:
    """Warnings about the budget as sentences; empty if it looks large enough."""
    said = _improving(runs, figure), _short(config, runs, training_rows)
    return tuple(text for text in said if text)


def _improving(runs: Sequence[Result], figure: Figure) -> str:
    said = []
    for mixer in dict.fromkeys(r.mixer for r in runs):
        gains = [_last_quarter(r.curve, figure) for r in runs if r.mixer == mixer]
        known = [g for g in gains if g is not None]
        if len(known) < len(gains):
            continue
        noise = 2 * statistics.stdev(known) / math.sqrt(len(known)) if len(known) > 1 else 0.0
        gain = statistics.fmean(known)
        least = max(LEAST[0], 1 / figure.rows) if figure.percent else LEAST[1]
        if gain > max(noise, least):
            amount = f"{100 * gain:.1f} {'points' if figure.percent else '%'}"
            said.append(f"{mixer} (by {amount})")
    if not said:
        return ""
    return (
        f"Still improving in the last quarter of training: {', '.join(said)}. "
        "A larger budget may change the result."
    )


def _last_quarter(curve: list[dict[str, Any]], figure: Figure) -> float | None:
    """The gain from the last evaluation within the first three quarters of training to the end, in
    the units of ``LEAST``; None if there was no such evaluation."""
    end, key = curve[-1], figure.key
    before = [p[key] for p in curve if p["step"] <= 0.75 * end["step"] and key in p]
    if not before or key not in end:
        return None
    gain = float(end[key] - before[-1] if figure.higher_is_better else before[-1] - end[key])
    return gain if figure.percent else gain / max(abs(before[-1]), 1e-12)


def _short(config: Config, runs: Sequence[Result], training_rows: int) -> str:
    given, usual = config.training, task_class(config.task).defaults().training
    steps = max(r.steps for r in runs)
    if given.start is not None:
        least = TUNING["least_steps"]
        few = f"The budget was {_amount(steps, 'steps')}; tuning usually takes {least} or more."
        return few if steps < least else ""
    spent = {
        "epochs": steps * given.batch * given.accumulate / training_rows,
        "steps": float(steps),
        "minutes": max(r.seconds for r in runs) / 60,
    }
    for unit, amount in spent.items():
        wanted, asked = getattr(usual, unit), getattr(given, unit)
        if wanted is not None and (asked or amount) < 0.95 * wanted:
            spent_in_words = _amount(asked or amount, unit)
            return f"The budget was {spent_in_words}; the default for {config.task} is {wanted:g}."
    return ""


def in_words(config: Config) -> str:
    """The training budget in words, such as ``4 epochs``."""
    given = {unit: getattr(config.training, unit) for unit in ("epochs", "steps", "minutes")}
    return next(_amount(value, unit) for unit, value in given.items() if value is not None)


def _amount(value: float, unit: str) -> str:
    shown = f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    return f"{shown} {unit if shown != '1' else unit[:-1]}"
