"""Pretrained bodies and what becomes of them when their attention is replaced: three recipes.

All start from the same body with the same budget in minutes, teaching included. Beside the body as
it is and the converted one stand those without teaching and with the fixed map elu + 1, the vectors
of the untrained body with logistic regression, and a bag of words.
"""

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subquad.configuring import configure
from subquad.errors import UsageError
from subquad.lab.compare.comparison import Comparison
from subquad.lab.compare.experiment import study
from subquad.lab.compare.verdict import Candidate, Figure
from subquad.lab.recipes.job import Job, Outcome, Table
from subquad.lab.recipes.word_order import write
from subquad.tasks import Config

#: Minutes of every run, teaching included, and of teaching.
MINUTES, TEACHING = 10.0, 3.5
LONG_MINUTES, LONG_TEACHING, LONG = 40.0, 10.0, 1024


@dataclass(frozen=True)
class _Variant:
    """One row of the table: a mixer with options, taught or not."""

    name: str
    mixer: str
    options: tuple[str, ...] = ()
    teach: bool = True
    length: int | None = None


_SOFTMAX = _Variant("softmax, as it is", "softmax")
_TAUGHT = _Variant("linear, taught", "linear")
SHORT_ROWS = (
    _SOFTMAX,
    _TAUGHT,
    _Variant("linear, not taught", "linear", ("feature_map=hedgehog",), teach=False),
    _Variant("linear with elu + 1, taught", "linear", ("feature_map=elu+1",)),
)
ORDER_ROWS = (
    *SHORT_ROWS,
    _Variant("linear with a window of 64, taught", "linear", ("window=64",)),
    _Variant("fastformer, taught", "fastformer"),
    _Variant("fnet, taught", "fnet"),
)
LONG_ROWS = (
    _Variant("softmax, first 512 tokens", "softmax", length=512),
    _Variant("linear, first 512 tokens", "linear", length=512),
    _Variant(f"linear, {LONG:,} tokens", "linear", length=LONG),
    _Variant(f"linear with a window of 64, {LONG:,} tokens", "linear", ("window=64",), length=LONG),
)


def minilm(job: Job) -> Outcome:
    """BODY TRAIN TEST: tuned as it is, converted and tuned, and the ablations."""
    body, train, test = _given(job, "convert-minilm", ("BODY", "TRAIN", "TEST"))
    return _outcome(job, body, train, test, SHORT_ROWS, (MINUTES, TEACHING))


def word_order(job: Job) -> Outcome:
    """BODY TRAIN TEST: were two neighbouring words exchanged? Labels of the files are not used."""
    body, train, test = _given(job, "word-order", ("BODY", "TRAIN", "TEST"))
    made = [job.out / f"{name}.jsonl" for name in ("train", "test")]
    for seed, (given, place) in enumerate(zip((train, test), made, strict=True)):
        write(given, place, seed)
    return _outcome(job, body, str(made[0]), str(made[1]), ORDER_ROWS, (MINUTES, TEACHING))


def long_documents(job: Job) -> Outcome:
    """BODY TRAIN TEST: is it worth reading more than the 512 tokens that the body was made for?"""
    body, train, test = _given(job, "long-documents", ("BODY", "TRAIN", "TEST"))
    return _outcome(job, body, train, test, LONG_ROWS, (LONG_MINUTES, LONG_TEACHING))


def _given(job: Job, name: str, wanted: Sequence[str]) -> Sequence[str]:
    if len(job.data) != len(wanted):
        raise UsageError(f"{name} takes {' '.join(wanted)}, but {len(job.data)} were given")
    return job.data


def _config(body: str, train: str, variant: _Variant, minutes: float) -> Config:
    values: dict[str, Any] = {"start": body, "minutes": minutes, "mixers": variant.mixer}
    if variant.options:
        values["mixer_options"] = variant.options
    if variant.length is not None:
        values["length"] = variant.length
    return configure("classify", train, values)


def _outcome(
    job: Job,
    body: str,
    train: str,
    test: str,
    rows: Sequence[_Variant],
    budget: tuple[float, float],
) -> Outcome:
    minutes, teaching = budget
    found: list[tuple[_Variant, Comparison]] = []
    for i, variant in enumerate(rows):
        config = _config(body, train, variant, minutes)
        place = job.out / f"{i + 1}-{variant.mixer}"
        teach = teaching if variant.teach else 0.0
        watch = job.part(i, len(rows))
        made = study(
            config,
            [variant.mixer],
            job.seeds or 3,
            place,
            test=test,
            teach=teach,
            lengths=(),
            baselines=i == 0,
            watch=watch,
        )
        _remove_stores(place)
        found.append((variant, made))
    return _told(body, train, test, found, budget)


def _remove_stores(place: Path) -> None:
    for store in (place / "runs").glob("*/store*"):
        shutil.rmtree(store, ignore_errors=True)


def _told(
    body: str,
    train: str,
    test: str,
    found: Sequence[tuple[_Variant, Comparison]],
    budget: tuple[float, float],
) -> Outcome:
    figure = found[0][1].figure
    models = [(variant.name, _candidate(made, variant.mixer), made) for variant, made in found]
    floors = [c for c in found[0][1].candidates() if c.floor]
    show = figure.show
    table = [
        [name, show(c.mean, 2), show(c.std, 2), _each(c, figure), _time(made)]
        for name, c, made in models
    ]
    table += [[c.name, show(c.mean, 2), "", "", ""] for c in floors]
    best = max(models, key=lambda m: m[1].mean)
    floor = max(floors, key=lambda c: c.mean)
    gap = 100 * (models[0][1].mean - models[1][1].mean)
    headline = (
        f"{models[1][0]}: {show(models[1][1].mean)}; {models[0][0]}: {show(models[0][1].mean)}; "
        f"{floor.name}: {show(floor.mean)}."
    )
    lead = [
        f"{models[1][0][0].upper()}{models[1][0][1:]} is {abs(gap):.1f} points "
        f"{'behind' if gap > 0 else 'ahead of'} {models[0][0]}; the best is {best[0]}.",
    ]
    heads = ["method", "mean", "std", "each seed", "minutes of teaching and training"]
    minutes, teaching = budget
    return Outcome(
        headline=headline,
        lead=lead,
        tables=[Table(f"{figure.title} on {test}", heads, table)],
        results={name: made.to_dict() for name, _, made in models},
        distance=[
            f"Every run starts from {body} and has {minutes:g} minutes in all, of which at most "
            f"{teaching:g} are for teaching new mixers from the old ones on the texts of {train}.",
            "Seeds have their own split, teaching, order of rows and dropout.",
        ],
        settings={"body": body, "train": train, "test": test, "budget": budget},
    )


def _candidate(made: Comparison, mixer: str) -> Candidate:
    return next(c for c in made.candidates() if c.name == mixer and not c.floor)


def _time(made: Comparison) -> str:
    taught = statistics.fmean(r.taught for r in made.runs) / 60
    return f"{taught:.1f} + {statistics.fmean(r.seconds for r in made.runs) / 60:.1f}"


def _each(candidate: Candidate, figure: Figure) -> str:
    return ", ".join(figure.show(value, 2) for value in candidate.values)
