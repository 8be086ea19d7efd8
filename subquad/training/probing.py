"""Fits a new head on the vectors of a frozen body before everything is trained (Kumar et al. 2022,
arXiv 2202.10054): a random head would first pull the body away from what it knows, and where labels
are few there is no time to come back.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from subquad.data.batches import Batch, Examples, collate, sorted_batches
from subquad.models import Classifier
from subquad.models.precision import autocast, resolve
from subquad.tasks import Config, Task

#: Rows and tokens that a head is fitted to at most: its few numbers need no more.
MOST_ROWS, MOST_TOKENS = 2000, 100_000
#: Iterations of L-BFGS.
ITERATIONS = 100


@dataclass(frozen=True)
class _Rows:
    """A batch, and what the head reads of it."""

    batch: Batch
    vectors: Tensor


class _Head(nn.Module):
    """A head that reads the same vectors whatever it is given."""

    def __init__(self, head: nn.Module, vectors: Tensor) -> None:
        super().__init__()
        self.head, self.vectors = head, vectors

    def forward(self, *_: object) -> Tensor:
        out: Tensor = self.head(self.vectors)
        return out


def fit_head(task: Task, model: nn.Module, training: Examples, config: Config) -> None:
    """Fit the head of ``model`` to some of the training rows: the task's own loss, with a penalty
    of half the squared weights (for vectors of length 1 on average). A model without a head that
    reads one vector per row stays as it is."""
    if not isinstance(model, Classifier) or not isinstance(model.head, nn.Linear):
        return
    rows = _rows(task, model, training, config)
    size = torch.cat([row.vectors.norm(dim=-1) for row in rows]).mean().clamp(min=1e-6)
    head = model.head
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
    solver = torch.optim.LBFGS(
        head.parameters(), max_iter=ITERATIONS, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        solver.zero_grad()
        losses = [task.loss(_Head(head, row.vectors), row.batch).total for row in rows]
        loss = torch.stack(losses).sum() + 0.5 * (head.weight * size).square().sum()
        loss.backward()
        return loss

    solver.step(closure)
    solver.zero_grad()


@torch.no_grad()
def _rows(task: Task, model: Classifier, training: Examples, config: Config) -> list[_Rows]:
    order = np.random.default_rng(config.training.seed).permutation(len(training))[:MOST_ROWS]
    fits = np.cumsum(training.lengths[order]) <= MOST_TOKENS
    chosen = training.select(np.sort(order[: max(1, int(fits.sum()))]))
    on = next(model.parameters()).device
    precision = resolve(config.training.precision, on)
    model.eval()
    found = []
    for rows in sorted_batches(chosen.lengths, 64, 8192):
        batch = collate(chosen, rows).to(on)
        with autocast(precision, on):
            types = task.types(batch.tokens, batch.mask)
            vectors = model.vectors(batch.tokens, batch.mask, types)
        found.append(_Rows(batch, vectors.float()))
    model.train()
    return found
