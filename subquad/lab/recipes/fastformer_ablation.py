"""What makes Fastformer work? Its parts removed, changed or multiplied, with several seeds each.

Every variant is trained with the same settings on the same examples for the same number of steps.
Variants with more columns also have more parameters, so some are trained again at a width at which
the whole model has about as many parameters as with the paper's two columns. ``none``, the model
without a mixer, is the baseline: a variant that does not beat it gains nothing from mixing.

The default preset changes one thing at a time from the paper's design, and crosses the number of
columns with the query residual; ``--full`` crosses everything, at the size of the released example.
"""

import itertools
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from subquad.data.batches import Examples
from subquad.errors import UsageError
from subquad.lab.compare.floors import floors
from subquad.lab.compare.runs import Result, obtain
from subquad.lab.progress import Progress, ignore
from subquad.lab.recipes import fastformer_topic
from subquad.lab.recipes.ablation_page import distance, headline, picture, sentences, tables
from subquad.lab.recipes.job import Job, Outcome
from subquad.models import Classifier, ModelConfig
from subquad.tasks import Config, DataConfig, TrainConfig, task_class
from subquad.tasks.classify import Classify

MIXER = "fastformer"
COLUMNS = (1, 2, 4, 8, 16, 50)
EQUAL = (1, 8, 50)


@dataclass(frozen=True)
class Variant:
    """One variant of the mixer, or ``none``."""

    group: str
    """``columns``, ``equal parameters``, ``switch``, ``grid`` or ``control``."""
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    mixer: str = MIXER
    equal: bool = False
    """Whether to use the width at which the model is as large as with the paper's design."""


def variants(*, full: bool) -> Iterator[Variant]:
    """All variants, the most important ones first."""
    if full:
        names = ("query_residual", "columns", "value", "interaction", "heads")
        values = (
            (True, False),
            COLUMNS,
            ("query", "own"),
            ("product", "add", "concat"),
            (1, 4, 16),
        )
        for chosen in itertools.product(*values):
            options = dict(zip(names, chosen, strict=True))
            yield Variant("grid", ", ".join(map(str, chosen)), options)
    else:
        for columns, residual in itertools.product(COLUMNS, (True, False)):
            options = {"columns": columns, "query_residual": residual}
            name = f"{columns} column{'s' * (columns > 1)}{'' if residual else ', bare'}"
            yield Variant("columns", name, options)
        yield Variant("control", "no mixer", mixer="none")
        yield Variant("switch", "own value", {"value": "own"})
        yield Variant("switch", "sum", {"interaction": "add"})
        yield Variant("switch", "concatenation", {"interaction": "concat"})
        for heads in (1, 16):
            yield Variant("switch", f"{heads} head{'s' * (heads > 1)}", {"heads": heads})
        yield Variant("switch", "scores over own head", {"score_over": "own_head"})
    for columns in EQUAL:
        name = f"{columns} column{'s' * (columns > 1)}, equal size"
        yield Variant("equal parameters", name, {"columns": columns}, equal=True)


def config(path: str, *, full: bool) -> Config:
    """The settings that all variants share."""
    if full:
        return fastformer_topic.config(path)
    usual = task_class("classify").defaults()
    return Config(
        task="classify",
        data=DataConfig(path=path, length=64, vocabulary=8000),
        model=replace(usual.model, mixers=(MIXER,), d=32, heads=4, layers=1, ff=64, dropout=0.1),
        training=TrainConfig(epochs=1, batch=64, lr=8e-3, evaluations=2, precision="fp32"),
        options=usual.options,
    )


def recipe(job: Job) -> Outcome:
    """Train every variant with every seed; DATA is TRAIN and, optionally, TEST."""
    if len(job.data) not in (1, 2):
        raise UsageError(
            f"fastformer-ablation takes TRAIN and optionally TEST, but {len(job.data)} files were "
            "given"
        )
    test = job.data[1] if len(job.data) > 1 else None
    made, seeds = config(job.data[0], full=job.full), range(job.seeds or 3)
    fitted = {
        seed: Classify.fit(_seeded(made, seed), job.out / "stores" / f"seed{seed}")
        for seed in seeds
    }
    plan = list(variants(full=job.full))
    configs = {v.name: _configured(made, v, fitted[0][0]) for v in plan}
    found: dict[str, list[Result]] = {v.name: [] for v in plan}
    # Columns come first, for all seeds, so that an interrupted run has the most important results.
    first = [v for v in plan if v.group in ("columns", "control")]
    turns = [
        (s, v) for part in (first, [v for v in plan if v not in first]) for s in seeds for v in part
    ]
    for i, (seed, v) in enumerate(turns):
        stage = f"{v.name}, seed {seed}"
        job.watch(Progress(i / len(turns), stage))
        out = job.out / "variants" / _slug(v.name)
        one, rows = _seeded(configs[v.name], seed), fitted[seed][1:]
        found[v.name].append(obtain(one, out, test, rows, ignore))
        accuracy = (found[v.name][-1].test or found[v.name][-1].held_out)["accuracy"]
        line = f"{i + 1} of {len(turns)}: {stage}: accuracy {accuracy:.2%}"
        job.watch(Progress((i + 1) / len(turns), stage, line))
    results = _numbers(plan, configs, found, _bag(made, fitted, test), test)
    return Outcome(
        headline=headline(results),
        lead=sentences(results),
        tables=tables(results),
        results=results,
        pictures=picture(results),
        distance=distance(results, full=job.full),
        settings=asdict(made),
    )


def _seeded(made: Config, seed: int) -> Config:
    return replace(made, training=replace(made.training, seed=seed))


def _slug(name: str) -> str:
    return name.replace(",", "").replace(" ", "-")


def _configured(made: Config, v: Variant, task: Classify) -> Config:
    options = dict(v.options)
    model = replace(made.model, mixers=(v.mixer,), heads=options.pop("heads", made.model.heads))
    model = replace(model, mixer_options={v.mixer: options} if options else {})
    if v.equal:
        model = replace(model, d=_width(model, made.model, task))
    return replace(made, model=model)


def _width(model: ModelConfig, target: ModelConfig, task: Classify) -> int:
    """The width, a multiple of the heads, at which ``model`` is closest in size to ``target``."""

    def size(config: ModelConfig) -> int:
        words, classes = len(task.tokenizer or ()), len(task.labels)
        length = task.config.data.length
        pooling = task.config.options.pooling
        made = Classifier(config, vocabulary=words, length=length, classes=classes, pooling=pooling)
        return sum(p.numel() for p in made.parameters())

    wanted = size(target)
    widths = range(model.heads, 2 * target.d + 1, model.heads)
    return min(widths, key=lambda d: abs(size(replace(model, d=d)) - wanted))


Fitted = dict[int, tuple[Classify, Examples, Examples]]


def _bag(made: Config, fitted: Fitted, test: str | None) -> dict[str, list[float]]:
    """The accuracies of each baseline, one for each seed."""
    found: dict[str, list[float]] = {}
    for seed, (task, training, held_out) in fitted.items():
        for floor in floors(task, _seeded(made, seed), training, held_out, test):
            metrics = floor.held_out if floor.test is None else floor.test
            found.setdefault(floor.name, []).append(float(metrics["accuracy"]))
    return found


def _numbers(
    plan: list[Variant],
    configs: dict[str, Config],
    found: dict[str, list[Result]],
    bag: dict[str, list[float]],
    test: str | None,
) -> dict[str, Any]:
    rows = []
    for v in plan:
        runs = found[v.name]
        metrics = [r.held_out if r.test is None else r.test for r in runs]
        rows.append(
            {
                "group": v.group,
                "name": v.name,
                "options": v.options,
                "d": configs[v.name].model.d,
                "parameters": runs[0].parameters,
                "seconds_per_step": statistics.median(r.seconds_per_step for r in runs),
                "accuracy": [m["accuracy"] for m in metrics],
                "macro_f1": [m["macro_f1"] for m in metrics],
            }
        )
    some = next(iter(found.values()))
    return {
        "variants": rows,
        "floors": bag,
        "split": "held-out" if test is None else "test",
        "rows": int((some[0].test or some[0].held_out)["examples"]),
        "seeds": [r.seed for r in some],
        "steps": some[0].steps,
    }
