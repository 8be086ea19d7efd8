"""A comparison as one HTML file: turns numbers into the strings that the template shows.

Anything a user could have typed (paths, labels, column names) is escaped by the template engine;
only the plots, which are made here, are passed as markup.
"""

import statistics
from typing import Any

from markupsafe import Markup

from subquad.lab.compare import figures
from subquad.lab.compare.budget import in_words
from subquad.lab.compare.comparison import RESULTS, Comparison
from subquad.lab.compare.confusion import confusion
from subquad.lab.compare.floors import BAG, MAJORITY
from subquad.lab.compare.verdict import Candidate, Figure
from subquad.lab.drawing.cost import cost
from subquad.lab.drawing.pages import environment, machine_facts, style
from subquad.lab.drawing.svg import series
from subquad.lab.instruments.layer import Measured
from subquad.mixers import ATTENTION, CONTROL

Context = dict[str, Any]


def render(comparison: Comparison, demo: Context | None = None) -> str:
    """The page of a comparison; with ``demo`` (see ``demo.context``) the page of the demo."""
    context = {
        "c": comparison,
        "css": style(),
        "title": "subquad demo" if demo else f"subquad compare: {comparison.config.data.path}",
        "demo": demo,
        "results_name": RESULTS,
        "config": comparison.config.to_json().strip(),
        "how": [*_how(comparison), *(demo or {}).get("how", [])],
        "facts": _facts(comparison),
        "confusion": confusion(comparison),
    }
    context |= _table(comparison) | _quality(comparison) | _cost(comparison.measured)
    return environment().get_template("report.html.j2").render(context)


def _quality(comparison: Comparison) -> Context:
    shown = {c.name for c in figures.floors_in_view(comparison)}
    hidden = [c for c in comparison.candidates() if c.floor and c.name not in shown]
    return {
        "quality": Markup(figures.quality_speed(comparison)),
        "learning": Markup(figures.learning(comparison)),
        "floor_lines": bool(shown),
        "out_of_view": ", ".join(f"{c.name} ({comparison.figure.show(c.mean)})" for c in hidden),
    }


def _table(comparison: Comparison) -> Context:
    """Table rows, best first; the columns are the metrics on the deciding split."""
    deciding = comparison.figure
    keys = [deciding.key, *_beside(comparison)]
    order = sorted(
        comparison.candidates(), key=lambda c: -c.mean if deciding.higher_is_better else c.mean
    )
    colours = series(comparison.mixers)
    rows = [_row(comparison, c, keys, c is order[0], colours.get(c.name)) for c in order]
    return {
        "heads": [Figure(k, True, deciding.rows, deciding.split).title for k in keys],
        "rows": rows,
        "pace": "rows/s" if _texts(comparison) else "tokens/s",
        "caption": _caption(comparison),
        "table_note": _table_note(comparison),
    }


def _beside(comparison: Comparison) -> list[str]:
    """The metrics shown next to the deciding one, if every method has them."""
    key = {"accuracy": "macro_f1", "micro_f1": "macro_f1", "mse": "spearman"}.get(
        comparison.figure.key
    )
    rows = [*comparison.runs, *(f for seed in comparison.floors for f in seed)]
    split = "held_out" if comparison.figure.split == "held-out" else "test"
    return [key] if key is not None and all(key in getattr(row, split) for row in rows) else []


def _texts(comparison: Comparison) -> bool:
    """Whether examples are texts, for which speed is shown in examples rather than tokens."""
    return any(floor.name == BAG for of_seed in comparison.floors for floor in of_seed)


def _caption(comparison: Comparison) -> str:
    figure, seeds = comparison.figure, len(comparison.seeds)
    where = comparison.test if figure.split == "test" else "the held-out set"
    seeded = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "one seed"
    return f"Measured on {figure.rows:,} examples of {where}; {seeded}."


def _table_note(comparison: Comparison) -> str:
    first = comparison.floors[0] if comparison.floors else ()
    said = [f"{floor.name[0].upper()}{floor.name[1:]}: {floor.what}." for floor in first]
    if taught := [r for r in comparison.runs if r.taught]:
        names = ", ".join(dict.fromkeys(r.mixer for r in taught))
        minutes = statistics.fmean(r.taught for r in taught) / 60
        said.append(
            f"Training of {names} includes {minutes:.1f} minutes of teaching from the start's own "
            "mixer, without labels."
        )
    if comparison.figure.percent:
        said.append(f"One example is worth {100 / comparison.figure.rows:.2g} points.")
    return " ".join(said)


def _row(
    comparison: Comparison, c: Candidate, keys: list[str], best: bool, colour: int | None
) -> Context:
    verdict = comparison.verdict
    cells = [_cell(comparison, c.name, key) for key in keys]
    tags = ["best"] if best else ["level"] if c.name in verdict.level else []
    if c.name == verdict.choice and verdict.claimed:
        tags.append("recommended")
    row = {"name": c.name, "floor": c.floor, "best": best, "tag": " · ".join(tags), "cells": cells}
    if c.floor:
        seconds = statistics.fmean(
            f.seconds for s in comparison.floors for f in s if f.name == c.name
        )
        blank = {"parameters": "–", "step": "–", "pace": "–", "series": None}
        return row | blank | {"seconds": f"{seconds:.1f}"}
    runs = comparison.of(c.name)
    texts = _texts(comparison)
    pace = [r.rows_per_second if texts else r.tokens_per_second for r in runs]
    return row | {
        "parameters": f"{runs[0].parameters:,}",
        "seconds": f"{statistics.fmean(r.seconds + r.taught for r in runs):,.1f}",
        "step": f"{1e3 * (c.seconds or 0):,.1f}",
        "pace": f"{statistics.median(pace):,.0f}",
        "series": colour,
    }


def _cell(comparison: Comparison, name: str, key: str) -> Context:
    figure = comparison.figure
    sources: list[Any] = [r for r in comparison.runs if r.mixer == name]
    sources += [f for seed in comparison.floors for f in seed if f.name == name]
    split = "held_out" if figure.split == "held-out" else "test"
    values = [getattr(s, split)[key] for s in sources]
    shown = Figure(key, True, figure.rows, figure.split)
    std = shown.show(statistics.stdev(values)).removesuffix(" %") if len(values) > 1 else ""
    return {"mean": shown.show(statistics.fmean(values)), "std": std}


def _cost(measured: Measured | None) -> Context:
    if measured is None or not measured.points:
        return {"time": ""}
    mixers = list(dict.fromkeys(p.mixer for p in measured.points))
    lengths = sorted({p.length for p in measured.points})
    shown = sorted({lengths[0], lengths[len(lengths) // 2], lengths[-1]})
    colours = series(mixers)
    rows = [
        {
            "name": m,
            "series": colours[m],
            "times": [_time(measured, m, t) for t in shown],
            "time": _power(measured.slope(m)),
            "memory": _power(measured.slope(m, "nbytes")),
        }
        for m in mixers
    ]
    return {
        "time": Markup(cost(measured, "seconds")),
        "memory": Markup(cost(measured, "nbytes")),
        "slopes": rows,
        "lengths": [f"{t:,}" for t in shown],
        "cost_sentence": cost_sentence(measured),
        "growth_note": _growth_note(measured, mixers),
    }


def _growth_note(measured: Measured, mixers: list[str]) -> str:
    slopes = {
        f"{name} of {mixer}": measured.slope(mixer, what)
        for what, name in (("seconds", "time"), ("nbytes", "memory"))
        for mixer in mixers
    }
    below = [name for name, slope in slopes.items() if slope is not None and slope < 0.9]
    if not below:
        return ""
    return (
        f"Exponents below 1 ({', '.join(below)}) do not hold for ever longer sequences: at these "
        "lengths fixed costs still matter, longer sequences use the processor better, or a kernel "
        "switches to another algorithm."
    )


def _time(measured: Measured, mixer: str, length: int) -> str:
    found = [p for p in measured.of(mixer) if p.length == length]
    return f"{found[0].seconds * 1e3:,.3g}" if found else "too slow"


def _power(slope: float | None) -> str:
    return "–" if slope is None else f"{slope:.2f}"


def cost_sentence(measured: Measured) -> str:
    """How each mixer's speed compares with softmax's at the longest sequence both were timed at."""
    rows = (
        f"One layer (mixer and feed-forward) of width {measured.d}, "
        f"{'causal, ' if measured.causal else ''}in {measured.precision}."
    )
    softmax = {p.length: p.seconds for p in measured.of(ATTENTION)}
    said = []
    for m in dict.fromkeys(p.mixer for p in measured.points):
        both = [
            (p.length, softmax[p.length] / p.seconds) for p in measured.of(m) if p.length in softmax
        ]
        if m in (ATTENTION, CONTROL) or not both:
            continue
        length, ratio = both[-1]
        if ratio >= 1:
            said.append(f"{m} is {ratio:.1f}× as fast as {ATTENTION} at {length:,} tokens")
        else:
            said.append(f"{m} takes {1 / ratio:.1f}× {ATTENTION}'s time even at {length:,} tokens")
    return f"{rows} {'; '.join(said)[:1].upper()}{'; '.join(said)[1:]}{'.' if said else ''}".strip()


def _how(comparison: Comparison) -> list[str]:
    figure, config = comparison.figure, comparison.config
    t = config.training
    lines = [
        f"Every mixer was trained on the same data with the same budget ({in_words(config)}, batch "
        f"size {t.batch * t.accumulate}) and otherwise identical settings; nothing was tuned for "
        "any one of them.",
    ]
    if figure.split == "test":
        lines.append(
            "Results are on the test file, with each run's best checkpoint, which was chosen on "
            "the held-out set. The test file was not used to choose anything."
        )
    else:
        lines.append(
            "Results are on the held-out set, with the weights at the end of training, so the "
            "held-out set was not used to choose a checkpoint. It still isn't a test set: trying "
            "many settings on it overfits it. Use --test FILE to evaluate on a file of your own."
        )
    lines += _fitted({f.name for seed in comparison.floors for f in seed})
    lines.append(
        "Two methods count as different only if their means differ by more than the noise between "
        "seeds: Student's t (95 %) times the standard error of the difference, and at least one "
        "example. With a single seed, no difference is claimed."
        if len(comparison.seeds) > 1
        else "Only one seed was run, so no difference between mixers is claimed."
    )
    lines.append(
        "The mixers took turns, one seed at a time. Step times are medians and exclude evaluations."
    )
    return lines


def _fitted(floors: set[str]) -> list[str]:
    if not floors:
        return []
    said = "The baselines were fitted to exactly the examples that the models were trained on"
    if MAJORITY in floors:
        said += "; the majority class is the most frequent class among those examples"
    return [f"{said}."]


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    seeds = ", ".join(map(str, comparison.seeds))
    return [*machine_facts(comparison.machine), ("seeds", seeds)]
