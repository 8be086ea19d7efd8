"""Speed of FNet here and in ``transformers``, as shipped, with the same weights on this machine.

Training means a full pretraining step (both heads, AdamW), inference means computing the logits of
both heads, at the paper's Base size. All candidates take turns in one process, and ratios are
computed within a round. Needs ``transformers`` (``pip install transformers``).
"""

import copy
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from subquad.errors import SubquadError
from subquad.lab.instruments.timing import Times, interleave
from subquad.lab.progress import Progress
from subquad.lab.recipes.job import Job, Outcome, Table
from subquad.models import Pretraining, huggingface
from subquad.models.precision import autocast, resolve

#: Minimum speed-up over ``transformers``, with the machine's default precision and in fp32.
LEAST = {"ours": 2.5, "ours, fp32": 1.0}
#: Share of the tokens that are masked and predicted.
RATE = 0.15
SIZE = {"hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072}
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128}

Batch = tuple[Tensor, Tensor, Tensor, Tensor]


def recipe(job: Job, *, shape: dict[str, int] = SIZE, length: int = 512, rows: int = 2) -> Outcome:
    """Time training and inference on batches of ``rows`` sequences of ``length`` tokens."""
    if job.data:
        raise SubquadError(f"fnet-speed takes no data: omit {job.data[0]!r}")
    theirs = _theirs(shape, length)
    with tempfile.TemporaryDirectory(prefix="subquad-") as folder:
        theirs.save_pretrained(folder)
        ours = huggingface.load(folder).model
    assert isinstance(ours, Pretraining)
    vocabulary = theirs.config.vocab_size
    seconds = 300.0 if job.full else 60.0
    tables, results, lead = [], {}, []
    for i, (kind, build) in enumerate((("training", _training), ("inference", _inference))):
        job.watch(Progress(i / 2, f"measuring {kind}"))
        times = interleave(build(ours, theirs, _batch(rows, length, vocabulary)), seconds)
        job.watch(Progress((i + 1) / 2, f"measured {kind}", _said(kind, "ours", times)))
        tables.append(_table(kind, times, rows * length))
        results[kind] = _numbers(times, rows * length)
        lead += [_said(kind, name, times) for name in LEAST]
    return Outcome(
        headline=" ".join(lead),
        lead=[],
        tables=tables,
        results=results,
        distance=[
            f"Batches of {rows} sequences of {length} tokens, {torch.get_num_threads()} threads; "
            f"{shape['num_hidden_layers']} layers of width {shape['hidden_size']}.",
            "The implementation in transformers computes logits over the vocabulary at every "
            f"token, ours only at the {RATE:.0%} that are masked; `ours, all logits` in the table "
            "shows how much that accounts for.",
            "Both train with torch's fused AdamW and with FNet's dropout.",
            f"`ours` uses {resolve('auto', torch.device('cpu'))}, the default on this machine.",
        ],
        settings={**shape, "length": length, "rows": rows, "seconds": seconds},
    )


def _theirs(shape: dict[str, int], length: int) -> Any:
    try:
        from transformers import FNetConfig, FNetForPreTraining
        from transformers.utils import logging
    except ImportError:
        raise SubquadError(
            "fnet-speed needs transformers, which is not installed: pip install transformers"
        ) from None
    logging.disable_progress_bar()  # saving would show one
    torch.manual_seed(0)
    return FNetForPreTraining(FNetConfig(**shape, max_position_embeddings=length))


def _batch(rows: int, length: int, vocabulary: int) -> Batch:
    """Tokens, labels at all positions (-100: not masked), indices of the masked ones, order."""
    tokens = torch.randint(7, vocabulary, (rows, length))
    guessed = torch.rand(rows, length) < RATE
    labels = tokens.masked_fill(~guessed, -100)
    return tokens, labels, guessed.flatten().nonzero().squeeze(1), torch.randint(0, 2, (rows,))


Forward = Callable[[bool], Tensor]


def _ours(model: Pretraining, batch: Batch, *, every: bool) -> Tensor:
    """The loss on a batch, with logits at every token or only at the masked ones."""
    tokens, labels, places, order = batch
    x, pooled = model(tokens)
    flat = x.flatten(0, 1)
    logits = model.masked_logits(flat if every else flat[places]).float()
    targets = labels.flatten() if every else labels.flatten()[places]
    masked = nn.functional.cross_entropy(logits, targets)
    return masked + nn.functional.cross_entropy(model.order_logits(pooled).float(), order)


def _training(ours: Pretraining, theirs: Any, batch: Batch) -> dict[str, Callable[[], object]]:
    def step(
        model: nn.Module, precision: Any, loss: Callable[[Any], Tensor]
    ) -> Callable[[], object]:
        model = copy.deepcopy(model).train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def run() -> None:
            with autocast(precision, torch.device("cpu")):
                total = loss(model)
            total.backward()
            optimiser.step()
            optimiser.zero_grad()

        return run

    tokens, labels, _, order = batch
    given = {"input_ids": tokens, "labels": labels, "next_sentence_label": order}
    auto = resolve("auto", torch.device("cpu"))
    return {
        "transformers": step(theirs, "fp32", lambda m: m(**given).loss),
        "ours, fp32": step(ours, "fp32", lambda m: _ours(m, batch, every=False)),
        "ours": step(ours, auto, lambda m: _ours(m, batch, every=False)),
        "ours, all logits": step(ours, auto, lambda m: _ours(m, batch, every=True)),
    }


def _inference(ours: Pretraining, theirs: Any, batch: Batch) -> dict[str, Callable[[], object]]:
    ours.eval()
    theirs.eval()

    def answer(precision: Any) -> Callable[[], object]:
        def run() -> None:
            with torch.inference_mode(), autocast(precision, torch.device("cpu")):
                x, pooled = ours(batch[0])
                ours.masked_logits(x)
                ours.order_logits(pooled)

        return run

    def their_answer() -> None:
        with torch.inference_mode():
            theirs(input_ids=batch[0])

    return {
        "transformers": their_answer,
        "ours, fp32": answer("fp32"),
        "ours": answer(resolve("auto", torch.device("cpu"))),
    }


def _numbers(times: Times, tokens: int) -> dict[str, Any]:
    return {
        name: {
            "tokens_per_second": tokens / times.median(name),
            "seconds": times.median(name),
            "times_as_fast": dict(
                zip(("median", "low", "high"), times.ratio("transformers", name), strict=True)
            ),
            "rounds": len(times.rounds[name]),
        }
        for name in times.rounds
    }


def _table(kind: str, times: Times, tokens: int) -> Table:
    rows = []
    for name in times.rounds:
        middle, low, high = times.ratio("transformers", name)
        pace = f"{tokens / times.median(name):,.0f}"
        rows.append([name, pace, f"{middle:.2f}× ({low:.2f}–{high:.2f})"])
    return Table(
        f"{kind}: tokens per second",
        ["", "tokens/s", "speed-up over transformers, quartiles"],
        rows,
    )


def _said(kind: str, name: str, times: Times) -> str:
    found, least = times.ratio("transformers", name)[0], LEAST[name]
    verdict = "met" if found >= least else "missed"
    return f"{kind}, {name}: {found:.2f}× as fast as transformers ({least:g}× target {verdict})."
