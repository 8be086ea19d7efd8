"""What the causal tasks share: next-token loss, and its measure in bits.

Every row starts with a token that is read but not predicted, so that row ``s`` of n + 1 tokens is
read as s[:-1] and predicted as s[1:].
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

from torch import Tensor, nn

from subquad.data.batches import Batch
from subquad.tasks.base import Loss, Score, Task


class CausalTask(Task):
    """Base of the tasks that predict the next token."""

    causal: ClassVar[bool] = True
    score: ClassVar[Score] = Score("loss", higher_is_better=False)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        seen, target, counted = batch.tokens[:, :-1], batch.tokens[:, 1:], batch.mask[:, 1:]
        whole = bool(batch.mask.all())
        logits = model(seen, None if whole else batch.mask[:, :-1])
        return Loss(next_token_nats(logits, target, counted), int(counted.sum()))

    def evaluate(self, model: nn.Module, batches: Iterator[Batch]) -> dict[str, Any]:
        nats, count, rows = 0.0, 0, 0
        for batch in batches:
            loss = self.loss(model, batch)
            nats += float(loss.total)
            count += loss.count
            rows += len(batch.tokens)
        return {"examples": rows, "tokens": count, "loss": nats / count} | self.bits(nats, count)

    def bits(self, nats: float, count: int) -> dict[str, Any]:
        """The loss in the task's own unit, named."""
        return {"bits_per_token": nats / count / math.log(2)}


def next_token_nats(logits: Tensor, target: Tensor, counted: Tensor) -> Tensor:
    """-log p summed over the counted positions; logits ``[b, t, v]``, the others ``[b, t]``."""
    losses = nn.functional.cross_entropy(
        logits.float().flatten(0, 1), target.flatten(), reduction="none"
    )
    return losses.masked_fill(~counted.flatten(), 0).sum()
