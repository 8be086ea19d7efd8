"""Causal modelling of images as sequences of pixels, so that the model can generate new ones."""

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from subquad.data import digits
from subquad.data.batches import Examples
from subquad.data.images import Images, open_images
from subquad.data.ragged import Ragged
from subquad.data.splits import Rows, split
from subquad.errors import SubquadError, UsageError
from subquad.models import CausalModel, ModelConfig, shared_levels
from subquad.tasks import logistics
from subquad.tasks.causal import CausalTask
from subquad.tasks.config import Config, DataConfig, TaskOptions, TrainConfig, at_least
from subquad.tasks.outputs import PictureOutput

SHAPE = "images.json"


@dataclass(frozen=True, kw_only=True)
class PixelsOptions(TaskOptions):
    """Options of ``pixels``."""

    mixture: int = field(default=0, metadata={"body": True})
    """Predict pixel values with a mixture of this many discretised logistics (10 in the papers); 0
    for a softmax over the levels."""
    level_cosines: int = field(default=0, metadata={"body": True})
    """Number of cosine features that the embeddings of all grey levels share, so that similar
    levels get similar embeddings; 0 for none."""

    def check(self) -> None:
        super().check()
        at_least(self, 0, "mixture", "level_cosines")


@dataclass(frozen=True)
class Format:
    """What every image of a run has in common."""

    shape: tuple[int, ...]
    """Height, width, and channels if there are any."""
    levels: int
    """Values of a pixel run from 0 to ``levels - 1``."""

    @property
    def length(self) -> int:
        return math.prod(self.shape)


class Pixels(CausalTask):
    """Predicts each pixel (or, in colour images, each channel of a pixel) from those before it in
    raster order, by a softmax over the levels or a mixture of discretised logistics."""

    name: ClassVar[str] = "pixels"
    Options: ClassVar[type[TaskOptions]] = PixelsOptions
    takes: ClassVar[tuple[str, ...]] = ("images", "labels")
    unused: ClassVar[frozenset[str]] = frozenset(
        [
            *("text", "label", "pair", "format", "encoding", "on_bad_row", "header", "quotes"),
            *("tokenizer", "vocabulary", "types"),
        ]
    )

    def __init__(self, config: Config, images: Format) -> None:
        self.config = replace(config, data=replace(config.data, length=images.length))
        self.images = images
        #: The token before the first pixel.
        self.start = images.levels

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(path=digits.NAME, length=digits.SHAPE[0] * digits.SHAPE[1]),
            model=ModelConfig(mixers=("linear",), layers=4, d=96, heads=4, ff=384, dropout=0.15),
            training=TrainConfig(epochs=22, batch=32, lr=3e-3),
            options=PixelsOptions(),
        )

    @classmethod
    def check(cls, config: Config) -> None:
        if config.options.mixture and config.model.tied:
            raise ValueError("--mixture cannot be combined with --tied: a mixture has its own head")

    @classmethod
    def fit(
        cls,
        config: Config,
        store: Path,  # noqa: ARG003
        given: Images | None = None,
    ) -> tuple["Pixels", Examples, Examples]:
        found = open_images(config.data.path) if given is None else given
        task = cls(config, Format(found.pixels.shape[1:], found.levels))
        if config.data.length not in (cls.defaults().data.length, task.images.length):
            raise UsageError(
                f"--length is for texts; these images have {task.images.length} pixels"
            )
        train, held = _split(found, config.data.validation)
        if not len(train):
            raise SubquadError(
                f"{config.data.path} has {len(found)} images, which is too few to train on"
            )
        task.notes = [found.detected]
        return task, task._rows(found, train), task._rows(found, held)

    def save(self, run: Path) -> None:
        about = {"shape": self.images.shape, "levels": self.images.levels}
        (run / SHAPE).write_text(json.dumps(about) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, run: Path, config: Config) -> "Pixels":
        try:
            about = json.loads((run / SHAPE).read_text(encoding="utf-8"))
            images = Format(tuple(map(int, about["shape"])), int(about["levels"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SubquadError(f"{run / SHAPE} cannot be read: {error}") from None
        return cls(config, images)

    def examples(self, path: str, store: Path) -> Examples:  # noqa: ARG002
        found = open_images(path)
        if Format(found.pixels.shape[1:], found.levels) != self.images:
            raise UsageError(
                f"{path} has images of {_words(found.pixels.shape[1:], found.levels)}, but this "
                f"run was trained on {_words(self.images.shape, self.images.levels)}"
            )
        self.notes = [found.detected]
        if path == self.config.data.path == digits.NAME:  # only those that training did not see
            return self._rows(found, _split(found, self.config.data.validation)[1])
        return self._rows(found, np.arange(len(found)))

    def _rows(self, found: Images, rows: Rows) -> Examples:
        """The start token, then the pixels in raster order."""
        flat = found.pixels[rows].reshape(len(rows), self.images.length).astype(np.int32)
        starts = np.full((len(rows), 1), self.start, dtype=np.int32)
        offsets = np.arange(len(rows) + 1, dtype=np.int64) * (self.images.length + 1)
        return Examples(Ragged(np.concatenate([starts, flat], axis=1).ravel(), offsets))

    def model(self) -> nn.Module:
        mixture = self.config.options.mixture
        made = CausalModel(
            self._shape(),
            inputs=self.images.levels + 1,
            outputs=logistics.PARTS * mixture or self.images.levels,
            length=self.images.length,
        )
        if mixture:
            assert made.head is not None
            logistics.spread(made.head)
        if self.config.options.level_cosines:
            shared_levels.share(made, self.images.levels, self.config.options.level_cosines)
        return made

    def _shape(self) -> ModelConfig:
        """The model's configuration, completed with the number of values per row of an image, for
        mixers that need it.

        Raises:
            UsageError: an option of a mixer does not fit these images.
        """
        row = math.prod(self.images.shape[1:])
        try:
            model = self.config.model.with_data(causal=True, row=row)
            model.check(causal=True, length=self.images.length)
        except ValueError as error:
            raise UsageError(f"these images have {row} values per row: {error}") from None
        return model

    def nats(self, logits: Tensor, target: Tensor, counted: Tensor) -> Tensor:
        if not self.config.options.mixture:
            return super().nats(logits, target, counted)
        found = logistics.log_probability(logits, target, self.images.levels)
        return -found.masked_fill(~counted, 0).sum()

    def units(self, bits: float, count: int, examples: Examples) -> dict[str, Any]:  # noqa: ARG002
        return {"bits_per_dim": bits / count}

    def generates(self) -> PictureOutput:
        images, mixture = self.images, self.config.options.mixture
        return PictureOutput(images.shape, images.levels, self.start, mixture)

    def page(self) -> PictureOutput:
        shape = self.images.shape
        if len(shape) == 3 and shape[2] != 3:
            found = "×".join(map(str, shape))
            raise UsageError(f"a page can only draw grey and RGB images; these are {found}")
        return self.generates()

    def floors(self) -> tuple[str, ...]:
        return ("each pixel alone", "the pixel before")


def _split(found: Images, share: float) -> tuple[Rows, Rows]:
    classes = None if found.labels is None else np.unique(found.labels, return_inverse=True)[1]
    return split(len(found), share, seed=0, labels=classes)


def _words(shape: tuple[int, ...], levels: int) -> str:
    return f"{'×'.join(map(str, shape))} in {levels} levels"
