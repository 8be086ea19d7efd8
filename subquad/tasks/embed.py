"""One vector per text: a model without a head, made by converting or loading another one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from subquad.data.batches import Batch, Examples
from subquad.data.source import Source
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError
from subquad.mixers import ATTENTION
from subquad.models import ModelConfig, foreign
from subquad.models.embedder import Embedder
from subquad.tasks.base import Loss, Score
from subquad.tasks.config import Config, DataConfig, TaskOptions, TrainConfig
from subquad.tasks.pooled import PooledOptions, PooledTask
from subquad.tasks.texts import TOKENIZER


class Embed(PooledTask):
    """The vectors of texts. Such a run is not trained by itself."""

    name: ClassVar[str] = "embed"
    score = Score("loss", higher_is_better=False)
    usage: ClassVar[str] = "embed RUN FILE"
    heads: ClassVar[tuple[str, ...]] = ()
    learns: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ()
    Options: ClassVar[type[TaskOptions]] = PooledOptions

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(length=512),
            model=ModelConfig(mixers=(ATTENTION,)),
            training=TrainConfig(epochs=1, precision="fp32"),
            options=PooledOptions(special_tokens=True),
        )

    @classmethod
    def fit(
        cls,
        config: Config,  # noqa: ARG003
        store: Path,  # noqa: ARG003
        given: Source | None = None,  # noqa: ARG003
    ) -> tuple["Embed", Examples, Examples]:
        raise UsageError(
            "the task embed is not trained from data: `subquad convert` makes such a run, and "
            "`subquad embed` also reads a folder of transformers; to learn from labels, use "
            "--task classify or --task regress, with --from"
        )

    @classmethod
    def of(cls, body: foreign.Body) -> "Embed":
        """The task of a loaded body."""
        usual = cls.defaults()
        options = replace(usual.options, pooling=body.pooling)
        data = replace(usual.data, length=body.length, tokenizer=str(body.tokenizer))
        config = replace(usual, data=data, model=body.config, options=options)
        return cls(config, None, Tokenizer.load(body.tokenizer))

    def save(self, run: Path) -> None:
        assert self.tokenizer is not None
        self.tokenizer.save(run / TOKENIZER)

    @classmethod
    def load(cls, run: Path, config: Config) -> "Embed":
        return cls(config, None, Tokenizer.load(run / TOKENIZER))

    def model(self) -> Embedder:
        assert self.tokenizer is not None
        return Embedder(
            self.config.model,
            vocabulary=len(self.tokenizer),
            length=self.config.data.length,
            pooling=self.config.options.pooling,
        )

    def examples(self, path: str, store: Path) -> Examples:  # noqa: ARG002
        raise self.cannot("evaluate")

    def loss(self, model: nn.Module, batch: Batch) -> Loss:  # noqa: ARG002
        raise self.cannot("train")

    def evaluate(
        self,
        model: nn.Module,  # noqa: ARG002
        examples: Examples,  # noqa: ARG002
        batches: Iterator[Batch],  # noqa: ARG002
    ) -> dict[str, Any]:
        raise self.cannot("evaluate")

    def inputs(self, path: str) -> Any:  # noqa: ARG002
        raise self.cannot("predict")

    def about(self, model: nn.Module) -> dict[str, Any]:  # noqa: ARG002
        return {"outputs": f"one vector per text, pooled by {self.config.options.pooling}"}
