"""A task as another package would add it, in one file: rows of frames in, a sequence of tones out,
learned by connectionist temporal classification (Graves et al. 2006). ``subquad`` does not know it.

Data is JSON: ``[{"frames": [[…], …], "tones": [0, 2, …]}, …]``.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor, nn

from subquad.data.batches import Batch, Examples, collate
from subquad.data.ragged import Ragged
from subquad.data.rows import BadRow
from subquad.data.splits import split
from subquad.data.targets import Sequences
from subquad.errors import SubquadError
from subquad.models import Encoder, Frames, ModelConfig
from subquad.models.block import initialise
from subquad.tasks import Config, DataConfig, Loss, Score, Task, TaskOptions, TrainConfig
from subquad.tasks.base import Input, Inputs
from subquad.tasks.config import at_least

WIDTH, TONES = 5, 3
BLANK = TONES


@dataclass(frozen=True, kw_only=True)
class TonesOptions(TaskOptions):
    """How tones are heard."""

    stride: int = 1
    """Every so many frames one is read."""

    def check(self) -> None:
        super().check()
        at_least(self, 1, "stride")


class Listener(nn.Module):
    """A logit for each tone, and for none, at each frame."""

    def __init__(self, config: ModelConfig, length: int) -> None:
        super().__init__()
        self.encoder = Encoder(config, Frames(config, width=WIDTH, length=length))
        self.head = nn.Linear(config.d, TONES + 1)
        initialise(self)

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = self.head(self.encoder(frames, mask))
        return out


class Tones(Task):
    name: ClassVar[str] = "tones"
    causal: ClassVar[bool] = False
    score: ClassVar[Score] = Score("loss", higher_is_better=False)
    usage: ClassVar[str] = "predict RUN FILE"
    Options: ClassVar[type[TaskOptions]] = TonesOptions
    unused: ClassVar[frozenset[str]] = frozenset(
        [
            *("text", "label", "pair", "format", "encoding", "on_bad_row", "header", "quotes"),
            *("tokenizer", "vocabulary", "types", "tied"),
        ]
    )

    def __init__(self, config: Config) -> None:
        self.config = config

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(length=64),
            model=ModelConfig(mixers=("linear",)),
            training=TrainConfig(steps=20),
            options=TonesOptions(),
        )

    @classmethod
    def fit(cls, config: Config, store: Path) -> tuple[Self, Examples, Examples]:  # noqa: ARG003
        task, found = cls(config), read(config.data.path, config.options.stride)
        train, held = split(len(found), config.data.validation, seed=config.training.seed)
        task.notes = [f"{config.data.path}: {len(found)} rows of frames"]
        return task, found.view(train), found.view(held)

    def save(self, run: Path) -> None:
        (run / "tones.json").write_text(json.dumps({"tones": TONES}), encoding="utf-8")

    @classmethod
    def load(cls, run: Path, config: Config) -> Self:  # noqa: ARG003
        return cls(config)

    def examples(self, path: str, store: Path) -> Examples:  # noqa: ARG002
        return read(path, self.config.options.stride)

    def model(self) -> Listener:
        return Listener(self.config.model, self.config.data.length)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        assert isinstance(batch.target, Sequences)
        logs = model(batch.frames, batch.mask).float().log_softmax(-1).transpose(0, 1)
        heard, told = batch.mask.sum(1), batch.target.lengths
        total = nn.functional.ctc_loss(
            logs, batch.target.values, heard, told, blank=BLANK, reduction="sum"
        )
        return Loss(total, len(batch.rows))

    def evaluate(
        self, model: nn.Module, examples: Examples, batches: Iterator[Batch]
    ) -> dict[str, Any]:
        total, right = 0.0, 0
        for batch in batches:
            total += float(self.loss(model, batch).total)
            truth = [row[:n] for row, n in zip(*_lists(batch), strict=True)]
            right += sum(a == b for a, b in zip(self._heard(model, batch), truth, strict=True))
        n = len(examples)
        return {"examples": n, "exact": right / n, "loss": total / n}

    def inputs(self, path: str) -> Inputs:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        return Inputs(f"{path}: frames", (_input(i, row) for i, row in enumerate(rows, 1)))

    def predict(self, model: nn.Module, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        rows = Ragged.frames(inputs, WIDTH)
        batch = collate(Examples(rows), np.arange(len(rows))).to(next(model.parameters()).device)
        return [{"tones": tones} for tones in self._heard(model, batch)]

    def _heard(self, model: nn.Module, batch: Batch) -> list[list[int]]:
        """The likeliest at each frame, repetitions and blanks left out."""
        best = model(batch.frames, batch.mask).argmax(-1).masked_fill(~batch.mask, BLANK)
        rows = [[BLANK, *row] for row in best.tolist()]
        return [[b for a, b in pairwise(row) if b not in (a, BLANK)] for row in rows]


def _lists(batch: Batch) -> tuple[list[list[int]], list[int]]:
    assert isinstance(batch.target, Sequences)
    assert batch.target.lengths is not None
    return batch.target.values.tolist(), batch.target.lengths.tolist()


def _input(number: int, row: Any) -> Input | BadRow:
    frames = np.array(row.get("frames", ()), dtype=np.float32)
    if frames.ndim != 2 or frames.shape[1] != WIDTH:
        return BadRow(number, 0, f"the frames are not of {WIDTH} numbers each")
    return Input(number, frames)


def read(path: str, stride: int) -> Examples:
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        frames = [np.array(row["frames"], dtype=np.float32)[::stride] for row in rows]
        tones = Ragged.of(row["tones"] for row in rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SubquadError(f"{path} is no JSON of frames and tones: {error}") from None
    return Examples(Ragged.frames(frames, WIDTH), Sequences(tones))


def write(path: Path, rows: int = 60) -> None:
    """Each tone is a loud place among the five, three frames long."""
    random = np.random.default_rng(0)
    made = []
    for _ in range(rows):
        tones = random.integers(TONES, size=random.integers(1, 5)).tolist()
        frames = random.normal(scale=0.1, size=(4 * len(tones), WIDTH))
        for i, tone in enumerate(tones):
            frames[4 * i : 4 * i + 3, tone] += 2
        made.append({"frames": frames.round(3).tolist(), "tones": tones})
    path.write_text(json.dumps(made), encoding="utf-8")


def entry_point(folder: Path) -> None:
    """The metadata of an installed package that adds the task."""
    about = folder / "tones-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tones\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[subquad.tasks]\ntones = tests.outside_task:Tones\n")
