"""FNet's ladder of encoders: how much mixing matters, and which kind.

Six encoders that differ only in the mixing sublayer are pretrained on the same text, with the same
budget and several seeds: BERT (softmax), Hybrid (FNet with attention in the top two layers),
Linear (``dense``), FNet, Random, and FF-only (``none``).
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

#: Number of attention layers at the top of the hybrid.
ATTENTION = 2
#: The encoders in the order of the paper's results, best first.
LADDER = ("BERT", "Hybrid", "Linear", "FNet", "Random", "FF-only")
_MIXER = {"BERT": "softmax", "Linear": "dense", "Random": "random", "FF-only": "none"}

#: How long to time training steps.
SECONDS = 20.0

#: The paper's Base models on C4: (masked-token accuracy, next-sentence accuracy, source).
PAPER: dict[str, tuple[float, float | None, str]] = {
    "BERT": (0.68, None, "second-hand"),
    "Linear": (0.62, None, "second-hand"),
    "FNet": (0.58, 0.80, "the released model's card"),
}


@dataclass(frozen=True)
class Rung:
    """One encoder: its runs and its cost per example."""

    name: str
    results: Sequence[Result]
    gflop: float
    seconds: float
    """Seconds per training step, timed with all encoders taking turns."""

    def values(self, key: str) -> tuple[float, ...]:
        return tuple(r.held_out[key] for r in self.results)

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.name, self.values("masked_accuracy"), self.seconds)


def settings(path: str, full: bool) -> Config:
    """The settings that all encoders share. Without ``full``, a run takes minutes; tokens are then
    characters, of which there are few, so that this is enough to learn more than their frequencies
    (LOG.md)."""
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
    """The mixers of an encoder's layers."""
    if name == "Hybrid":
        top = f"top:{min(ATTENTION, layers)}"
        return ModelConfig(mixers=("fnet",), layers=layers, hybrid=top).layer_mixers()
    return (_MIXER.get(name, "fnet"),)


def documentation(out: Path) -> str:
    """Write the documentation that comes with Python as JSONL, a topic per row; return its path."""
    from pydoc_data.topics import topics

    lines = (json.dumps({"topic": name, "text": topics[name]}) for name in sorted(topics))
    write_text(out / "documentation.jsonl", "\n".join(lines) + "\n")
    return str(out / "documentation.jsonl")


def recipe(job: Job) -> Outcome:
    """Pretrain all encoders with several seeds, then time a training step of each."""
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
    """A training step (forward, backward and update) on random sequences of full length, on the
    device and in the precision of the real training."""
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
        loss.item()  # waits for the GPU, if there is one

    return run


def count(config: Config, vocabulary: int) -> float:
    """FLOPs of the forward pass for one example at full length, heads included."""
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
    """The measured ladder next to the paper's."""
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
        note="The paper's results are for Base models on C4 after a million steps; –: not known to "
        f"us. Sources: {'; '.join(f'{n}: {s}' for n, (_, _, s) in PAPER.items())}.",
    )
    return Outcome(
        headline=headline,
        lead=lead,
        tables=[table],
        results={rung.name: _numbers(rung) for rung in rungs},
        distance=[
            *notes,
            f"{base.training.steps} steps with batch size {base.training.batch}; in the paper, "
            "1,000,000 steps with batch size 64.",
            f"{base.model.layers} layers of width {base.model.d}, sequences of {base.data.length} "
            f"tokens ({base.data.tokenizer}); in the paper, 12 layers of width 768, 512 tokens "
            "(SentencePiece).",
            "As in the official code, the model also predicts the order of two segments. Here, "
            "each sequence is transformed at its own length, without padding.",
            "The end of the text is the held-out set. Steps/s are training steps on random "
            "sequences, timed with all encoders taking turns.",
        ],
        settings=json.loads(base.to_json()),
    )


def _step(a: Rung, b: Rung, figure: Figure, seeds: int) -> str:
    gap = f"{a.name} – {b.name}: {100 * (a.candidate.mean - b.candidate.mean):.2f} points"
    if seeds < 2:
        return f"{gap}; from a single seed, which may be chance."
    if differ(a.candidate, b.candidate, figure):
        return f"{gap}, more than the noise between seeds."
    return f"{gap}, within the noise between seeds."


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
