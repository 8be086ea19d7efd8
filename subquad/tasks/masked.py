"""Pretraining as for BERT and FNet: predict masked tokens, and whether segments are in order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from subquad.data.batches import Batch, Examples
from subquad.data.masking import Masked, Pairs, Specials, masked, rows_of
from subquad.data.ragged import Ragged
from subquad.data.source import Source, open_source
from subquad.data.store import tokenised
from subquad.data.tokenizers import CLS, MASK, SEP, Tokenizer
from subquad.errors import SubquadError
from subquad.models import ModelConfig, Pretraining
from subquad.tasks.base import Loss, Score, Task
from subquad.tasks.config import Config, DataConfig, TaskOptions, TrainConfig, share
from subquad.tasks.doubts import about_words
from subquad.tasks.texts import (
    TOKENIZER,
    before,
    counts,
    notes,
    open_training,
    reading,
    tokenizer_for,
    tokens_before,
)


@dataclass(frozen=True, kw_only=True)
class MaskedOptions(TaskOptions):
    """Options of ``masked``."""

    mask_rate: float = 0.15
    """Fraction of tokens that are masked and predicted."""
    pairs: Pairs = "order"
    """Second objective: predict whether the two segments of a row were swapped (order), or whether
    the second one comes from another document (next); none for rows of a single segment."""

    def check(self) -> None:
        super().check()
        share(self, "mask_rate")


class MaskedText(Task):
    """Documents (one per text) are cut into rows; masks and segments are drawn anew whenever a row
    is used. The held-out set is the rows at the end, as in ``language``."""

    name: ClassVar[str] = "masked"
    takes: ClassVar[tuple[str, ...]] = ("texts",)
    causal: ClassVar[bool] = False
    score = Score("loss", higher_is_better=False)
    usage: ClassVar[str] = "train FILE --task classify --from RUN --out NEW"
    Options: ClassVar[type[TaskOptions]] = MaskedOptions
    unused: ClassVar[frozenset[str]] = frozenset({"label", "pair", "tied"})
    heads: ClassVar[tuple[str, ...]] = ("masked", "order")
    tokenizer: Tokenizer

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer.with_specials(CLS, SEP, MASK)
        self.specials = Specials.of(self.tokenizer)
        self.config = replace(config, model=replace(config.model, pad=self.specials.pad))

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(tokenizer="bpe", vocabulary=8000, length=128),
            model=ModelConfig(
                mixers=("fnet",),
                layers=4,
                d=256,
                ff=1024,
                norm_eps=1e-12,
                types=4,
                projection=True,
                initialisation="fnet",
            ),
            training=TrainConfig(minutes=10, lr=5e-4),
            options=MaskedOptions(),
        )

    @classmethod
    def fit(
        cls, config: Config, store: Path, given: Source | None = None
    ) -> tuple["MaskedText", Examples, Examples]:
        source = open_training(config.data, given, labelled=False)
        characters = sum(len(record.text) for record in source.pieces())
        cut = round(characters * (1 - config.data.validation))
        task = cls(reading(config, source), tokenizer_for(config.data, before(source, cut)))
        stored = tokenised(source, task.tokenizer, store)
        rows = task._rows(stored.examples)
        here = len(stored.examples.tokens.values)
        if config.data.validation:
            here = tokens_before(source, task.tokenizer, cut, starts=False)
        learned = rows.tokens.ends <= here
        if not learned.any():
            raise SubquadError(f"{config.data.path} is too short to train on: {len(rows)} rows")
        lost = int(np.count_nonzero(stored.examples.tokens.lengths < 2))
        task.notes = [
            *notes(source, stored.examples, None),
            f"{len(stored.examples)} documents in {len(rows)} rows"
            + (f"; {lost} documents of a single token are not used" if lost else ""),
        ]
        training, held_out = rows.view(np.flatnonzero(learned)), rows.view(np.flatnonzero(~learned))
        if doubt := about_words(task.tokenizer, held_out if len(held_out) else training):
            task.notes = [*task.notes, doubt]
        return task, training, held_out

    def _rows(self, documents: Examples) -> Examples:
        """Rows that leave room for [CLS] and a [SEP] per segment."""
        segments = 1 if self.config.options.pairs == "none" else 2
        room = self.config.data.length - 1 - segments
        if room < 2:
            raise SubquadError(
                f"--length {self.config.data.length} leaves no room for two tokens besides the "
                "special ones"
            )
        rows = rows_of(documents.tokens, room)
        if not len(rows):
            raise SubquadError("no text has more than one token")
        return rows

    def save(self, run: Path) -> None:
        self.tokenizer.save(run / TOKENIZER)

    @classmethod
    def load(cls, run: Path, config: Config) -> "MaskedText":
        return cls(config, Tokenizer.load(run / TOKENIZER))

    def examples(self, path: str, store: Path) -> Examples:
        source = open_source(path, self.config.data.reading(), labelled=False)
        stored = tokenised(source, self.tokenizer, store)
        self.notes = notes(source, stored.examples, None)
        self.counts = counts(source, stored.examples, None)
        return self._rows(stored.examples)

    def unlabelled(self, path: str, store: Path) -> Examples:
        return self.examples(path, store)

    def model(self) -> Pretraining:
        return Pretraining(
            self.config.model,
            vocabulary=len(self.tokenizer),
            length=self.config.data.length,
            heads=("masked",) if self.config.options.pairs == "none" else ("masked", "order"),
        )

    def rows(self, texts: Sequence[str], length: int | None) -> Ragged:
        return self.tokenizer.ragged(texts, length)

    def _made(self, batch: Batch) -> Masked:
        options = self.config.options
        made = masked(batch, self.specials, rate=options.mask_rate, pairs=options.pairs)
        return made.to(batch.tokens.device)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Each row counts once: the mean loss over its masked tokens, plus that of its order."""
        _, nats, _, wrong_order = _guess(model, made := self._made(batch))
        total = (nats * made.weights).sum()
        return Loss(total if wrong_order is None else total + wrong_order.sum(), len(made.tokens))

    def evaluate(
        self, model: nn.Module, examples: Examples, batches: Iterator[Batch]
    ) -> dict[str, Any]:
        totals = dict.fromkeys(("masked_loss", "order_loss"), 0.0)
        right = dict.fromkeys(("masked", "order"), 0)
        guesses = 0
        for batch in batches:
            made = self._made(batch)
            logits, nats, order, wrong_order = _guess(model, made)
            totals["masked_loss"] += float((nats * made.weights).sum())
            right["masked"] += int((logits.argmax(-1) == made.targets).sum())
            guesses += len(made.targets)
            if order is not None and wrong_order is not None and made.order is not None:
                totals["order_loss"] += float(wrong_order.sum())
                right["order"] += int((order.argmax(-1) == made.order).sum())
        n = len(examples)
        found = {
            "examples": n,
            "guesses": guesses,
            "masked_accuracy": right["masked"] / max(guesses, 1),
            "masked_loss": totals["masked_loss"] / n,
        }
        if self.config.options.pairs != "none":
            found |= {"order_accuracy": right["order"] / n, "order_loss": totals["order_loss"] / n}
        return found | {"loss": sum(totals.values()) / n}


def _guess(model: nn.Module, made: Masked) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Logits and losses of the masked tokens, and those of the order if it is predicted."""
    x, pooled = model(made.tokens, made.mask, made.types)
    body: Any = model
    logits = body.masked_logits(x.flatten(0, 1)[made.places]).float()
    nats = nn.functional.cross_entropy(logits, made.targets, reduction="none")
    if made.order is None:
        return logits, nats, None, None
    order = body.order_logits(pooled).float()
    return logits, nats, order, nn.functional.cross_entropy(order, made.order, reduction="none")
