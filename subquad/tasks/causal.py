"""What the causal tasks share: the next-token loss, and its conversion to bits.

The first token of every row is only read, not predicted: of a row ``s`` of n + 1 tokens the model
reads s[:-1] and predicts s[1:].
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from torch import Tensor, nn

from subquad.data.batches import Batch, Examples
from subquad.errors import SubquadError
from subquad.tasks.base import Loss, Score, Task
from subquad.tasks.outputs import Generated


class CausalTask(Task):
    """Base class of tasks that predict the next token."""

    causal: ClassVar[bool] = True
    usage: ClassVar[str] = "generate RUN"
    score = Score("loss", higher_is_better=False)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        seen, target, counted = batch.tokens[:, :-1], batch.tokens[:, 1:], batch.mask[:, 1:]
        whole = bool(batch.mask.all())
        logits = model(seen, None if whole else batch.mask[:, :-1])
        return Loss(self.nats(logits, target, counted), int(counted.sum()))

    def nats(self, logits: Tensor, target: Tensor, counted: Tensor) -> Tensor:
        """-log p of ``target``, summed over the counted positions."""
        return next_token_nats(logits, target, counted)

    def evaluate(
        self, model: nn.Module, examples: Examples, batches: Iterator[Batch]
    ) -> dict[str, Any]:
        nats, count = 0.0, 0
        for batch in batches:
            loss = self.loss(model, batch)
            nats += float(loss.total)
            count += loss.count
        if not count:
            raise SubquadError("there is nothing to evaluate: the data have no token to predict")
        measured = {"examples": len(examples), "tokens": count, "loss": nats / count}
        return measured | self.units(nats / math.log(2), count, examples)

    def page(self) -> Generated:
        return self.generates()

    @abstractmethod
    def units(self, bits: float, count: int, examples: Examples) -> dict[str, Any]:
        """The total of ``bits`` over ``count`` tokens, converted to the task's own metrics."""


def next_token_nats(logits: Tensor, target: Tensor, counted: Tensor) -> Tensor:
    """-log p summed over the counted positions; logits ``[b, t, v]``, the others ``[b, t]``."""
    losses = nn.functional.cross_entropy(
        logits.float().flatten(0, 1), target.flatten(), reduction="none"
    )
    return losses.masked_fill(~counted.flatten(), 0).sum()
