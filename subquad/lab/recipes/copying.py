"""Recipe ``copy-task``: does linear attention learn to repeat a sequence?

Katharopoulos et al. 2020, section 4.1: sequences w # w of at most 128 tokens, with 10 symbols and a
separator; 4 layers, 8 heads, batch size 64, RAdam with a learning rate of 1e-3, and 1e-4 after
3,000 updates. The paper gives neither the width nor numbers, only learning curves, on which linear
attention ends at the same loss as softmax.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from subquad.checkpoint import read_metrics
from subquad.errors import UsageError
from subquad.lab.compare.figures import curves
from subquad.lab.progress import Progress, of_training
from subquad.lab.recipes.job import Job, Outcome, Picture, Table
from subquad.models import CausalModel
from subquad.run import Run
from subquad.storage import write_text
from subquad.tasks import Config, task_class
from subquad.tasks.outputs import TextOutput
from subquad.training import train

SYMBOLS, SEPARATOR = "0123456789", "#"
#: Length of w with --full (with the separator, the copy and the start token, a sequence has 128
#: tokens), and in the smaller preset, where copying is learned within minutes.
PAPER_WORD, WORD = 63, 15
MIXERS = ("linear", "softmax")
#: Number of new sequences on which the copied half is scored.
JUDGED = 200


def word_length(full: bool) -> int:
    """The number of symbols in w."""
    return PAPER_WORD if full else WORD


def row_length(word: int) -> int:
    """The number of tokens in a sequence."""
    return 2 * word + 2


def rows(count: int, seed: int, word: int) -> list[str]:
    """``count`` texts w#w, where w has ``word`` random symbols."""
    drawn = np.random.default_rng(seed).integers(len(SYMBOLS), size=(count, word))
    words = ["".join(SYMBOLS[i] for i in row) for row in drawn]
    return [f"{w}{SEPARATOR}{w}" for w in words]


def settings(path: Path, mixer: str, full: bool, seed: int) -> Config:
    """The paper's settings (``full``), or settings for a few minutes per mixer on two cores."""
    usual = task_class("language").defaults()
    d, steps = (256, 6_000) if full else (64, 1_500)
    return replace(
        usual,
        data=replace(
            usual.data,
            path=str(path),
            format="lines",
            tokenizer="chars",
            length=row_length(word_length(full)),
            validation=0.02,
        ),
        model=replace(usual.model, mixers=(mixer,), layers=4, d=d, heads=8, ff=4 * d, dropout=0.0),
        training=replace(
            usual.training,
            minutes=None,
            steps=steps,
            batch=64,
            optimizer="radam",
            lr=1e-3,
            schedule="drop",
            warmup=0.0,
            weight_decay=0.0,
            evaluations=12,
            seed=seed,
        ),
    )


def recipe(job: Job) -> Outcome:
    """Run ``copy-task``, which takes no data."""
    if job.data:
        raise UsageError(f"copy-task makes its own data: omit {job.data[0]!r}")
    seeds = job.seeds or 1
    data = job.out / "copies.txt"
    steps = settings(data, "linear", job.full, 0).training.steps
    assert steps is not None
    word = word_length(job.full)
    write_text(data, "\n".join(rows(64 * steps, seed=1, word=word)) + "\n")
    found: dict[str, list[dict[str, Any]]] = {mixer: [] for mixer in MIXERS}
    parts, done = seeds * len(MIXERS), 0
    for seed in range(seeds):
        for mixer in MIXERS:
            config = settings(data, mixer, job.full, seed)
            out = job.out / "runs" / f"{mixer}-seed{seed}"
            watch = job.part(done, parts)
            watched = of_training(watch, f"training {out.name}")
            run = train(config, out, resume=True, watch=watched)
            found[mixer].append(judge(run, word))
            right = found[mixer][-1]["accuracy"]
            watch(Progress(1.0, "training", f"{mixer}, seed {seed}: {right:.1%} copied correctly"))
            done += 1
    return _outcome(found, job.full, asdict(settings(data, "linear", job.full, 0)))


@torch.inference_mode()
def judge(run: Run, word: int) -> dict[str, Any]:
    """Accuracy and bits per symbol on the copied half of new sequences, and the learning curve."""
    task, model = run.task.generates(), run.model
    assert isinstance(task, TextOutput)
    assert isinstance(model, CausalModel)
    ids = task.tokenizer.encode(rows(JUDGED, seed=2, word=word))
    tokens = torch.tensor([[task.start, *row] for row in ids])
    logits, target = model(tokens[:, :-1])[:, word + 1 :], tokens[:, word + 2 :]
    nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), target.flatten())
    return {
        "accuracy": float((logits.argmax(-1) == target).float().mean()),
        "bits_per_symbol": float(nats) / float(np.log(2)),
        "curve": _curve(run),
        "seconds": run.best().get("seconds"),
    }


def _curve(run: Run) -> list[tuple[int, float]]:
    lines = [line for line in read_metrics(run.path) if line["kind"] == "validation"]
    return [(line["step"], line["bits_per_token"]) for line in lines]


def _outcome(found: dict[str, list[dict[str, Any]]], full: bool, config: dict[str, Any]) -> Outcome:
    mean = {m: float(np.mean([f["accuracy"] for f in fs])) for m, fs in found.items()}
    bits = {m: float(np.mean([f["bits_per_symbol"] for f in fs])) for m, fs in found.items()}
    word = word_length(full)
    floor = word * np.log2(len(SYMBOLS)) / row_length(word)
    table = Table(
        f"The copied half of {JUDGED} new sequences",
        ["mixer", "accuracy", "bits per symbol", "training, s"],
        [
            [m, f"{mean[m]:.1%}", f"{bits[m]:.3f}", f"{fs[0]['seconds']:.0f}"]
            for m, fs in found.items()
        ],
        note=f"Chance level: {1 / len(SYMBOLS):.0%} and {np.log2(len(SYMBOLS)):.2f} bits. A model "
        f"that copies perfectly needs {floor:.3f} bits per token averaged over the whole sequence, "
        "because the first half is random.",
    )
    picture = curves(
        {m: [f["curve"] for f in fs] for m, fs in found.items()},
        y="bits per token, held out",
        name="copy",
    )
    return Outcome(
        headline=f"Copying {word} symbols: linear {mean['linear']:.1%} correct, softmax "
        f"{mean['softmax']:.1%}",
        lead=[
            "In the paper, linear attention reaches the same loss as softmax, and hashed attention "
            "does not."
        ],
        tables=[table],
        pictures=[Picture("Held-out bits per token during training.", svg=picture)],
        results=found,
        distance=[
            "The paper does not state the width; it is 256 with --full and 64 without.",
            *([] if full else [_shorter(config["training"]["steps"])]),
            "All sequences have the full length here. RAdam with a learning rate of 1e-3, and a "
            "tenth of that in the second half of training.",
        ],
        settings=config,
    )


def _shorter(steps: int) -> str:
    return (
        f"The paper trains for more than 3,000 updates, this run for {steps:,}; the paper's "
        f"sequences copy up to {PAPER_WORD} symbols."
    )
