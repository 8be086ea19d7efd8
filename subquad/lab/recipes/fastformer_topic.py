"""Topic classification with the settings of Fastformer's released example, and a bag of words.

The example trains on the 120,000 articles of AG News and reports an accuracy of 0.9271 on its test
set after the second epoch. Here DATA may have any size; the checkpoint is chosen on the held-out
set, never on the test file.
"""

import shutil
import statistics
from dataclasses import asdict, replace
from typing import Any

from subquad.errors import UsageError
from subquad.lab.compare.comparison import Comparison
from subquad.lab.compare.experiment import study
from subquad.lab.recipes.job import Job, Outcome, Table
from subquad.models.official import released
from subquad.tasks import Config, DataConfig, TrainConfig, task_class
from subquad.tasks.classify import ClassifyOptions

#: Test accuracy in the example's own output, and the size of its training set.
PUBLISHED, PUBLISHED_ROWS = 0.9271, 120_000
MIXER = "fastformer"


def config(path: str) -> Config:
    """The settings of the released example, as far as they exist here."""
    usual = task_class("classify").defaults()
    sizes = replace(usual.model, layers=2, d=256, heads=16, ff=256, dropout=0.2)
    return Config(
        task="classify",
        data=DataConfig(path=path, length=256),
        model=released(sizes),
        training=TrainConfig(
            epochs=2, batch=64, lr=1e-3, weight_decay=0.0, warmup=0.0, evaluations=4
        ),
        options=ClassifyOptions(pooling="attention", token_dropout=0.0, label_smoothing=0.0),
    )


def recipe(job: Job) -> Outcome:
    """Train on TRAIN with several seeds; evaluate on TEST if given, else on the held-out set."""
    if len(job.data) not in (1, 2):
        raise UsageError(
            f"fastformer-topic takes TRAIN and optionally TEST, but {len(job.data)} files were "
            "given"
        )
    path, *rest = job.data
    made = config(path)
    test = rest[0] if rest else None
    found = study(made, [MIXER], job.seeds or 3, job.out, test=test, lengths=(), watch=job.watch)
    outcome = _outcome(made, found, int(found.runs[0].held_out["examples"]))
    for seed in found.seeds:
        shutil.rmtree(job.out / "runs" / f"store-seed{seed}", ignore_errors=True)
    return outcome


def _outcome(made: Config, found: Comparison, held_out: int) -> Outcome:
    by_name = {c.name: c for c in found.candidates()}
    ours, show = by_name[MIXER], found.figure.show
    floors = [c for c in found.candidates() if c.floor]
    best = max(floors, key=lambda c: c.mean)
    split = "test" if found.test else "held-out"
    seconds = statistics.fmean(r.seconds for r in found.runs)
    headline = (
        f"{show(ours.mean)} ± {show(ours.std)} {split} accuracy over {len(ours.values)} seeds; "
        f"{best.name} {show(best.mean)}."
    )
    ahead = "above" if ours.mean > best.mean else "below"
    lead = [
        f"Fastformer is {abs(ours.mean - best.mean) * 100:.1f} points {ahead} the {best.name}, "
        f"with {found.runs[0].parameters:,} parameters and {seconds:.0f} seconds of training.",
        *found.verdict.reasons,
    ]
    rows = [
        [c.name, show(c.mean, 2), show(c.std, 2), ", ".join(show(v, 2) for v in c.values)]
        for c in (ours, *floors)
    ]
    rows.append([f"the released example, {PUBLISHED_ROWS:,} articles", show(PUBLISHED, 2), "", ""])
    f1 = [float((r.test or r.held_out)["macro_f1"]) for r in found.runs]
    return Outcome(
        headline=headline,
        lead=lead,
        tables=[Table(f"{split} accuracy", ["method", "mean", "std", "each seed"], rows)],
        results=_numbers(found, f1),
        distance=[
            *_distance(made, found),
            f"Checkpoints were chosen on {held_out:,} held-out examples, never on the test file.",
        ],
        settings=asdict(made),
    )


def _distance(made: Config, found: Comparison) -> list[str]:
    return [
        f"The example trains on {PUBLISHED_ROWS:,} articles, this run on {made.data.path}.",
        "Model: width 256, 16 heads, 2 layers, feed-forward 256, dropout 0.2, attention pooling, "
        "a linear map after each mixer and exact GELU, all as in the example.",
        "Training: Adam with a learning rate of 1e-3, batch size 64, two epochs, as in the "
        "example; but here the learning rate decays linearly to zero, gradients are clipped to "
        "norm 1, and a tenth of the examples is held out.",
        "Words are lowercased and split at punctuation as in the example. The example's vocabulary "
        "includes the words of the test texts; ours doesn't, and it omits words that occur only "
        "once.",
        f"Seeds {', '.join(map(str, found.seeds))}: each has its own split, initial weights and "
        "data order.",
    ]


def _numbers(found: Comparison, f1: list[float]) -> dict[str, Any]:
    document = found.to_dict()
    kept = ("table", "figure", "verdict", "seeds", "test")
    return {name: document[name] for name in kept} | {
        "macro_f1": {"mean": statistics.fmean(f1), "seeds": f1},
        "published": PUBLISHED,
        "parameters": found.runs[0].parameters,
        "seconds": [r.seconds for r in found.runs],
        "curves": {r.path: r.curve for r in found.runs},
    }
