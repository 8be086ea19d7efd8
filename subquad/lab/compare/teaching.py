"""Where a comparison starts from a trained body, mixers other than the body's are first taught from
it (``subquad.conversion``), on the training file's texts without their labels.

The time counts: a budget in minutes has to pay for it, and reports show it.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from subquad import conversion
from subquad.checkpoint import CONFIG
from subquad.conversion import Plan
from subquad.errors import UsageError
from subquad.lab.progress import Progress, Watch
from subquad.run import load
from subquad.tasks import Config, load_config

#: Settings of how a file is read.
_READING = ("text", "pair", "format", "encoding", "on_bad_row", "header", "quotes")


@dataclass(frozen=True)
class Taught:
    """A configuration that starts from a taught body, and the seconds that this took."""

    config: Config
    seconds: float


def check(config: Config, minutes: float) -> None:
    """Raise ``UsageError`` if teaching does not fit the budget."""
    budget = config.training.minutes
    if not 0 <= minutes < 1e6:
        raise UsageError(f"--teach {minutes:g}: it must be at least 0")
    if config.training.start is not None and budget is not None and minutes >= budget:
        raise UsageError(
            f"--teach {minutes:g} leaves nothing of --minutes {budget:g} for training: the budget "
            "pays for both"
        )


def taught(config: Config, place: Path, minutes: float, watch: Watch) -> Taught:
    """Teach the mixers of ``config`` from the body that it starts from, in ``place``; a finished
    or unfinished conversion there is used.

    Raises:
        UsageError, SubquadError, Interrupted: as for ``conversion.convert``.
    """
    start = config.training.start
    if start is None or not minutes:
        return Taught(config, 0.0)
    teacher = load(start)
    if teacher.config.model.mixing() == config.model.mixing():
        return Taught(config, 0.0)
    mixer = config.model.mixers[0]
    if not (place / CONFIG).exists():
        plan = Plan(
            source=start,
            texts=config.data.path,
            mixer=mixer,
            options=config.model.mixer_options.get(mixer, {}),
            minutes=minutes,
            length=config.data.length,
            seed=config.training.seed,
        )
        reader = teacher.reading(**{n: getattr(config.data, n) for n in _READING})
        conversion.convert(reader, plan, place, _watched(mixer, watch))
    model = load_config(place / CONFIG).model
    model = replace(
        config.model, mixers=model.mixers, mixer_options=model.mixer_options, hybrid=model.hybrid
    )
    seconds = conversion.seconds_of(place)
    training = replace(config.training, start=str(place))
    if (budget := training.minutes) is not None:
        training = replace(training, minutes=max(budget - seconds / 60, budget / 100))
    return Taught(replace(config, model=model, training=training), seconds)


def _watched(mixer: str, watch: Watch) -> conversion.Watch:
    def note(line: dict[str, Any], spent: float) -> None:
        watch(Progress(spent * 0.3, f"teaching {mixer}", line.get("text", "")))

    return note
