"""Images as rows of pixels, learned causally, so that the model can draw new ones."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from subquad.data import digits
from subquad.data.batches import Examples
from subquad.data.ragged import Ragged
from subquad.data.splits import split
from subquad.errors import UsageError
from subquad.models import CausalModel, ModelConfig
from subquad.tasks.causal import CausalTask
from subquad.tasks.config import Config, DataConfig, TrainConfig


class Pixels(CausalTask):
    """A categorical distribution for each pixel, given those before it in raster order."""

    name: ClassVar[str] = "pixels"

    def __init__(self, config: Config) -> None:
        self.config = config
        self.shape = digits.SHAPE
        self.levels = digits.LEVELS
        #: Stands before the first pixel.
        self.start = self.levels

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(path=digits.NAME, length=digits.SHAPE[0] * digits.SHAPE[1]),
            model=ModelConfig(mixers=("linear",), layers=4, d=96, heads=4, ff=384, dropout=0.15),
            training=TrainConfig(epochs=24, batch=32, lr=3e-3),
        )

    @classmethod
    def fit(cls, config: Config, store: Path) -> tuple["Pixels", Examples, Examples]:
        if config.data.path != digits.NAME:
            raise UsageError(f"pixels learns from {digits.NAME!r}, not from {config.data.path!r}")
        task = cls(config)
        examples = task.examples(config.data.path, store)
        train, held = split(
            len(examples), config.data.validation, seed=0, labels=digits.load().labels
        )
        return task, examples.select(train), examples.select(held)

    def save(self, run: Path) -> None:
        """Nothing is learned from the data besides the weights."""

    @classmethod
    def load(cls, run: Path, config: Config) -> "Pixels":  # noqa: ARG003
        return cls(config)

    def examples(self, path: str, store: Path) -> Examples:  # noqa: ARG002
        if path != digits.NAME:
            raise UsageError(f"pixels learns from {digits.NAME!r}, not from {path!r}")
        images = digits.load().tokens
        return Examples(Ragged.of(np.append(self.start, images[i]) for i in range(len(images))))

    def model(self) -> nn.Module:
        return CausalModel(
            self.config.model,
            inputs=self.levels + 1,
            outputs=self.levels,
            length=self.config.data.length,
        )

    def units(self, bits: float, count: int, examples: Examples) -> dict[str, Any]:  # noqa: ARG002
        return {"bits_per_dim": bits / count}
