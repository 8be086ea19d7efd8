"""A GLUE task: the same FNet fine-tuned after pretraining, and trained from scratch.

The task, and with it the metric, is recognised by the file's name. Both variants are trained with
several seeds, and a difference counts only if it is larger than the noise between seeds, because
single GLUE runs prove nothing.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from subquad import checkpoint, transfer
from subquad.data.files import ByteFile
from subquad.data.folders import TextFiles
from subquad.data.formats import open_table
from subquad.errors import UsageError
from subquad.lab.compare.verdict import Candidate, Figure, differ
from subquad.lab.progress import Progress, of_training
from subquad.lab.recipes.job import Job, Outcome, Table
from subquad.run import load
from subquad.tasks import Config, TrainConfig, task_class
from subquad.tasks.masked import MaskedText
from subquad.training import train

FIRST = ("sentence", "text", "sentence1", "question1", "question", "premise", "#1 String")
SECOND = ("sentence2", "question2", "hypothesis", "#2 String")


@dataclass(frozen=True)
class Glue:
    """A GLUE task. ``metric`` is accuracy, matthews, accuracy-f1 or spearman (for a regression);
    ``paper`` is FNet-Base's result (from the model card, which quotes the paper's table 1)."""

    metric: str
    paper: float
    pair: bool = True


TASKS: dict[str, Glue] = {
    "sst2": Glue("accuracy", 0.95, pair=False),
    "cola": Glue("matthews", 0.69, pair=False),
    "mrpc": Glue("accuracy-f1", 0.76),
    "qqp": Glue("accuracy-f1", 0.83),
    "mnli": Glue("accuracy", 0.72),
    "qnli": Glue("accuracy", 0.80),
    "stsb": Glue("spearman", 0.79),
    "rte": Glue("accuracy", 0.63),
}


def task_of(path: str) -> str:
    """The GLUE task whose name appears in the name of a file or of its folder.

    Raises:
        UsageError: there is none.
    """
    plain = Path(path).resolve()
    for part in (plain.name, plain.parent.name):
        letters = "".join(c for c in part.lower() if c.isalnum())
        for name in TASKS:
            if name in letters:
                return name
    raise UsageError(
        f"{path} is not named after a GLUE task: put one of {', '.join(TASKS)} into the name of "
        "the file or its folder"
    )


def columns(path: str, pair: bool) -> dict[str, Any]:
    """The columns that contain the texts, found by the names that GLUE's files give them."""
    table = open_table(ByteFile(Path(path)), None, "utf-8", header=True, quotes=None)
    if isinstance(table, TextFiles):
        raise UsageError(f"{path} has no columns; a GLUE file (TSV) is expected")
    first = next((c for c in FIRST if c in table.columns), None)
    second = next((c for c in (*SECOND, "sentence") if c in table.columns and c != first), None)
    if first is None or (pair and second is None):
        raise UsageError(
            f"{path} has the columns {', '.join(table.columns)}; expected the names that GLUE's "
            "files give their texts"
        )
    if not list(islice(table.rows(), 1)):
        raise UsageError(f"{path} has no rows")
    if not pair or second is None:
        return {"text": first}
    # QNLI's question comes before its sentence, whatever their order in the file.
    if first == "sentence" and "question" in table.columns:
        first, second = "question", "sentence"
    return {"text": first, "pair": second}


def metric(name: str, found: Mapping[str, Any]) -> float:
    """GLUE's metric from ``evaluate``'s result; in its confusion matrix [truth, prediction], the
    second class is the positive one."""
    if name in ("accuracy", "spearman"):
        return float(found[name])
    (tn, fp), (fn, tp) = found["confusion"]
    if name == "accuracy-f1":
        f1 = 2 * tp / max(2 * tp + fp + fn, 1)
        return (float(found["accuracy"]) + f1) / 2
    below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return (tp * tn - fp * fn) / below if below else 0.0


def recipe(job: Job) -> Outcome:
    """Fine-tune and train from scratch on a GLUE task, each with several seeds."""
    if len(job.data) not in (2, 3):
        raise UsageError(
            "fnet-glue takes TRAIN DEV and, optionally, a corpus or a pretrained run; "
            f"{len(job.data)} given"
        )
    train_path, dev = job.data[:2]
    name = task_of(train_path)
    seeds = job.seeds or 3
    parts = 1 + 2 * seeds
    start = _pretrained(job, parts)
    base = tuning(train_path, name, start, job.full)
    values: dict[str, list[float]] = {"pretrained": [], "scratch": []}
    for i in range(seeds):
        for j, which in enumerate(values):
            training = replace(base.training, seed=i)
            if which == "scratch":
                training = replace(training, start=None)
            config, watch = replace(base, training=training), job.part(1 + 2 * i + j, parts)
            out = job.out / "runs" / f"{which}-seed{i}"
            # A finished run on the same data is returned at once.
            watched = of_training(watch, f"training {out.name}")
            found = train(config, out, resume=True, watch=watched).evaluate(dev)
            values[which].append(metric(TASKS[name].metric, found))
            text = f"{which}, seed {i}: {TASKS[name].metric} {values[which][-1]:.4f}"
            watch(Progress(1.0, "training", text))
    rows = found["examples"]
    return outcome(name, values, base, rows, load(start).best())


def tuning(path: str, name: str, start: str, full: bool) -> Config:
    """The settings of both variants; with ``full``, those of the official code."""
    usual = task_class("regress" if TASKS[name].metric == "spearman" else "classify").defaults()
    config = replace(
        usual,
        data=replace(usual.data, path=path, label=None, **columns(path, TASKS[name].pair)),
        training=TrainConfig(start=start, epochs=1, batch=32, lr=5e-4, warmup=0.1, evaluations=4),
    )
    if full:
        training = replace(config.training, epochs=3, batch=64, lr=1e-5)
        config = replace(config, training=training)
    config = transfer.inherit(config, ())
    smoothing = {"label_smoothing": 0.0} if config.part_of("label_smoothing") else {}
    return config.having(dropout=0.1, token_dropout=0.0, **smoothing)


def _pretrained(job: Job, parts: int) -> str:
    """The pretrained run to start from: the given one, or one pretrained here on the given corpus
    or else on the task's own texts."""
    corpus = job.data[2] if len(job.data) > 2 else job.data[0]
    if (Path(corpus) / checkpoint.CONFIG).exists():
        return corpus
    usual = MaskedText.defaults()
    options = {} if len(job.data) > 2 else columns(corpus, pair=False)
    config = replace(
        usual,
        data=replace(usual.data, path=corpus, length=64, **options),
        model=replace(usual.model, d=128, ff=512),
        training=TrainConfig(
            steps=2000, batch=32, optimizer="muon", lr=4e-3, warmup=0.1, evaluations=3
        ),
    )
    if job.full:
        model = replace(config.model, layers=12, d=768, heads=12, ff=3072)
        training = TrainConfig(steps=1_000_000, batch=64, lr=1e-4, warmup=0.01)
        data = replace(config.data, length=512, tokenizer="unigram", vocabulary=32_000)
        config = replace(config, model=model, training=training, data=data)
    out = job.out / "runs" / "pretraining"
    watch = of_training(job.part(0, parts), "pretraining")
    train(config, out, resume=True, watch=watch)
    return str(out)


def outcome(
    name: str,
    values: Mapping[str, Sequence[float]],
    base: Config,
    rows: int,
    pre: Mapping[str, Any],
) -> Outcome:
    """Both results, and whether they differ by more than the noise between seeds."""
    task, seeds = TASKS[name], len(values["scratch"])
    both = {which: Candidate(which, tuple(found)) for which, found in values.items()}
    figure = Figure("accuracy", True, rows, "test")
    tuned, scratch = both["pretrained"], both["scratch"]
    gain = 100 * (tuned.mean - scratch.mean)
    brings = f"{'costs' if gain < 0 else 'brings'} {abs(gain):.1f} points"
    if seeds < 2:
        verdict = "from a single seed, which may be chance"
    elif differ(tuned, scratch, figure):
        verdict = "more than the noise between seeds"
    else:
        verdict = "within the noise between seeds"
    table = Table(
        f"{name}: {task.metric} on the {rows} examples of the dev file",
        ["variant", *(f"seed {i}" for i in range(seeds)), "mean ± std"],
        [
            [
                which,
                *(f"{100 * v:.2f}" for v in c.values),
                f"{100 * c.mean:.2f} ± {100 * c.std:.2f}",
            ]
            for which, c in both.items()
        ]
        + [["paper, FNet-Base", *[""] * seeds, f"{100 * task.paper:.0f}"]],
        note="The paper's result is the best of many runs of a Base model pretrained on C4.",
    )
    accuracy = pre.get("masked_accuracy")
    learned = "" if accuracy is None else f", masked-token accuracy {100 * accuracy:.1f} %"
    return Outcome(
        headline=f"{name}: pretraining {brings}, {verdict}.",
        lead=[
            f"Fine-tuned: {100 * tuned.mean:.2f} ± {100 * tuned.std:.2f}; from scratch: "
            f"{100 * scratch.mean:.2f} ± {100 * scratch.std:.2f}; the paper's FNet-Base: "
            f"{100 * task.paper:.0f} ({task.metric})."
        ],
        tables=[table],
        results={
            "task": name,
            "metric": task.metric,
            "rows": rows,
            **{which: list(found) for which, found in values.items()},
            "paper": {"fnet_base": task.paper, "source": "the released model's card"},
            "pretraining": dict(pre),
        },
        distance=[
            f"{base.model.layers} layers of width {base.model.d}{learned}; in the paper, 12 of "
            "width 768, pretrained on C4.",
            f"Both variants: {base.training.epochs:g} epochs, batch size {base.training.batch}, "
            f"learning rate {base.training.lr}; in the official code, 3 epochs, 64 and 1e-5.",
            "Checkpoints were chosen on a tenth of the training data, held out; the dev file was "
            "not used to choose anything.",
        ],
        settings=json.loads(base.to_json()),
    )
