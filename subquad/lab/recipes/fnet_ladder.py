"""FNet's ladder of encoders: how much mixing matters, and of which kind.

Six encoders that differ in the mixing sublayer alone are pretrained on the same text, at the same
budget, from several seeds: BERT (softmax), Hybrid (FNet with attention in the top two layers),
Linear (``dense``), FNet, Random, FF-only (``none``).
"""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import torch

from subquad.lab.compare import runs
from subquad.lab.compare.runs import Result
from subquad.lab.compare.verdict import Candidate, Figure, differ
from subquad.lab.instruments import flops
from subquad.lab.instruments.timing import interleave
from subquad.lab.progress import Progress
from subquad.lab.recipes.job import Job, Outcome, Table
from subquad.models import ModelConfig, Pretraining
from subquad.models.precision import autocast, device, resolve
from subquad.optimiser import optimiser
from subquad.storage import write_text
from subquad.tasks import Config, TrainConfig
from subquad.tasks.masked import MaskedText

#: Attention layers of the hybrid, on top.
ATTENTION = 2
#: The encoders in the order that the paper finds, best first.
LADDER = ("BERT", "Hybrid", "Linear", "FNet", "Random", "FF-only")
_MIXER = {"BERT": "softmax", "Linear": "dense", "Random": "random", "FF-only": "none"}

#: For which training steps are timed.
SECONDS = 20.0

#: The paper's Base models on C4: (masked-token accuracy, next-sentence accuracy, source).
PAPER: dict[str, tuple[float, float | None, str]] = {
    "BERT": (0.68, None, "second-hand"),
    "Linear": (0.62, None, "second-hand"),
    "FNet": (0.58, 0.80, "the released model's card"),
}


@dataclass(frozen=True)
class Rung:
    """One encoder: its runs, and what one example costs it."""

    name: str
    results: Sequence[Result]
    gflop: float
    seconds: float
    """Of a training step, all encoders in turn."""

    def values(self, key: str) -> tuple[float, ...]:
        return tuple(r.held_out[key] for r in self.results)

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.name, self.values("masked_accuracy"), self.seconds)


def settings(path: str, full: bool) -> Config:
    """What every encoder shares. Without ``full``, minutes a run: characters, of which there are
    few, so that more than their frequency can be learned in that time (LOG.md)."""
    usual = MaskedText.defaults()
    data = replace(usual.data, path=path)
    if full:
        return replace(
            usual,
            data=replace(data, tokenizer="unigram", vocabulary=32_000, length=512),
            model=replace(usual.model, layers=12, d=768, heads=12, ff=3072),
            training=TrainConfig(steps=1_000_000, batch=64, lr=1e-4, warmup=0.01),
        )
    return replace(
        usual,
        data=replace(data, tokenizer="chars", length=64),
        model=replace(usual.model, layers=4, d=64, heads=4, ff=256),
        training=TrainConfig(steps=1500, batch=16, lr=3e-3, warmup=0.1, evaluations=3),
    )


def mixers(name: str, layers: int) -> tuple[str, ...]:
    """The mixer of each layer of an encoder."""
    if name == "Hybrid":
        top = f"top:{min(ATTENTION, layers)}"
        return ModelConfig(mixers=("fnet",), layers=layers, hybrid=top).layer_mixers()
    return (_MIXER.get(name, "fnet"),)


def documentation(out: Path) -> str:
    """The English documentation that comes with every Python, a topic per row."""
    from pydoc_data.topics import topics

    lines = (json.dumps({"topic": name, "text": topics[name]}) for name in sorted(topics))
    write_text(out / "documentation.jsonl", "\n".join(lines) + "\n")
    return str(out / "documentation.jsonl")


def recipe(job: Job) -> Outcome:
    path = job.data[0] if job.data else documentation(job.out)
    base = settings(path, job.full)
    seeds = job.seeds or 3
    task, *rows = MaskedText.fit(base, job.out / "store")
    for text in task.notes:
        job.watch(Progress(0.0, "reading", text))
    configs = {
        name: replace(base, model=replace(base.model, mixers=mixers(name, base.model.layers)))
        for name in LADDER
    }
    results: dict[str, list[Result]] = {name: [] for name in LADDER}
    for done, (name, seed) in enumerate(product(LADDER, range(seeds))):
        training = replace(base.training, seed=seed)
        watch = job.part(done, seeds * len(LADDER))
        config = replace(configs[name], training=training)
        found = runs.obtain(config, job.out, None, (rows[0], rows[1]), watch)
        results[name].append(found)
        right = found.held_out["masked_accuracy"]
        watch(Progress(1.0, "training", f"{name}, seed {seed}: masked accuracy {right:.2%}"))
    job.watch(Progress(1.0, "timing a training step of each encoder"))
    words = len(task.tokenizer)
    steps = {name: _training_step(config, words) for name, config in configs.items()}
    times = interleave(steps, SECONDS)
    rungs = [
        Rung(name, results[name], count(config, words) / 1e9, times.median(name))
        for name, config in configs.items()
    ]
    return outcome(rungs, base, seeds, task.notes)


def _training_step(config: Config, vocabulary: int) -> Callable[[], None]:
    """Forward, backward and update, of random full rows, where and in the precision that the
    encoders are trained."""
    t, batch, on = config.data.length, config.training.batch, device()
    precision = resolve(config.training.precision, on)
    model = Pretraining(config.model, vocabulary=vocabulary, length=t).to(on)
    update = optimiser(model, config.training)
    tokens = torch.randint(vocabulary, (batch, t), device=on)
    guesses = round(config.options.mask_rate * t)

    def run() -> None:
        with autocast(precision, on):
            x, pooled = model(tokens)
            words = model.masked_logits(x[:, :guesses].flatten(0, 1))
            loss = words.square().mean() + model.order_logits(pooled).square().mean()
        loss.backward()
        update.step()
        update.zero_grad()
        loss.item()  # waits, where there is something to wait for

    return run


def count(config: Config, vocabulary: int) -> float:
    """Operations of one example at full length, forward, the heads included."""
    t = config.data.length
    model = Pretraining(config.model, vocabulary=vocabulary, length=t).eval()
    tokens = torch.ones(1, t, dtype=torch.int64)
    guesses = round(config.options.mask_rate * t)

    def run() -> None:
        x, pooled = model(tokens)
        model.masked_logits(x[0, :guesses])
        model.order_logits(pooled)

    return flops.per_example(model, run, t)


def outcome(rungs: Sequence[Rung], base: Config, seeds: int, notes: Sequence[str]) -> Outcome:
    """The ladder as found, beside the paper's."""
    figure = Figure(
        "accuracy", True, sum(r["guesses"] for r in [rungs[0].results[0].held_out]), "held-out"
    )
    ranked = sorted(rungs, key=lambda r: -r.candidate.mean)
    found = " > ".join(r.name for r in ranked)
    same = [r.name for r in ranked] == [name for name in LADDER if name in found]
    headline = f"Masked-token accuracy, best first: {found}" + (
        " — the paper's order." if same else f"; the paper's order is {' > '.join(LADDER)}."
    )
    lead = [_step(a, b, figure, seeds) for a, b in pairwise(ranked)]
    table = Table(
        f"Pretraining on {base.data.path}: mean ± standard deviation over {seeds} seeds",
        [
            *("encoder", "masked accuracy", "order accuracy", "paper: masked", "paper: order"),
            *("steps/s", "parameters", "GFLOP per example"),
        ],
        [_row(rung) for rung in rungs],
        note="The paper's figures are of Base models on C4 after a million steps; – = not known to "
        f"us. Sources: {'; '.join(f'{n}: {s}' for n, (_, _, s) in PAPER.items())}.",
    )
    return Outcome(
        headline=headline,
        lead=lead,
        tables=[table],
        results={rung.name: _numbers(rung) for rung in rungs},
        distance=[
            *notes,
            f"{base.training.steps} steps of {base.training.batch} rows; paper: 1,000,000 of 64.",
            f"{base.model.layers} layers of width {base.model.d}, rows of {base.data.length} "
            f"tokens ({base.data.tokenizer}); paper: 12 of 768, 512 tokens (SentencePiece).",
            "The order of two segments is guessed, as in the official code; each row is "
            "transformed at its own length.",
            "Held out are the last rows of the text. Steps/s are of training steps of all encoders "
            "in turn, on random rows.",
        ],
        settings=json.loads(base.to_json()),
    )


def _step(a: Rung, b: Rung, figure: Figure, seeds: int) -> str:
    gap = f"{a.name} – {b.name}: {100 * (a.candidate.mean - b.candidate.mean):.2f} points"
    if seeds < 2:
        return f"{gap}; from one seed, which may be chance."
    if differ(a.candidate, b.candidate, figure):
        return f"{gap}, more than the noise of the seeds."
    return f"{gap}, within the noise of the seeds."


def _share(values: Sequence[float]) -> str:
    spread = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.2f}{spread} %"


def _row(rung: Rung) -> list[str]:
    masked, order, _ = PAPER.get(rung.name, (None, None, ""))
    return [
        rung.name,
        _share(rung.values("masked_accuracy")),
        _share(rung.values("order_accuracy")),
        "–" if masked is None else f"{100 * masked:.0f} %",
        "–" if order is None else f"{100 * order:.0f} %",
        f"{1 / rung.seconds:.2f}",
        f"{rung.results[0].parameters:,}",
        f"{rung.gflop:.3f}",
    ]


def _numbers(rung: Rung) -> dict[str, Any]:
    masked, order, source = PAPER.get(rung.name, (None, None, "not found"))
    keys = ("masked_accuracy", "order_accuracy", "masked_loss", "loss")
    return {
        "mixers": rung.results[0].mixer,
        **{key: list(rung.values(key)) for key in keys},
        "seconds_per_step": rung.seconds,
        "parameters": rung.results[0].parameters,
        "gflop_per_example": rung.gflop,
        "paper": {"masked_accuracy": masked, "order_accuracy": order, "source": source},
    }
