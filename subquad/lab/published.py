"""The image models of Katharopoulos et al. 2020 and their published results (tables 1, 2 and 4),
which ``bench`` and the recipes reproduce."""

from dataclasses import dataclass

from subquad.lab.instruments.generation import CACHED, COPIED, RECOMPUTED, RECURRENT
from subquad.tasks import Config

#: The paper's methods of generation, and softmax with a cache that grows in place.
WAYS = (RECURRENT, CACHED, COPIED, RECOMPUTED)


@dataclass(frozen=True, kw_only=True)
class ImageModel:
    """A model that generates images pixel by pixel: its size, training and published results."""

    name: str
    layers: int
    length: int
    linear: tuple[float, float]
    """(bits per dimension, images per second on a GPU); the same for the two fields below."""
    softmax: tuple[float, float]
    stateful: tuple[float, float]
    """Softmax attention with a cache that is copied at every step."""
    batch: int
    budget: str

    def settings(self, config: Config) -> Config:
        """``config`` with the paper's model (width 256, 8 heads of 32, feed-forward 1,024) and
        optimiser."""
        return config.having(
            layers=self.layers,
            d=256,
            heads=8,
            ff=1024,
            mixture=10,
            dropout=0.0,
            optimizer="radam",
            lr=1e-4,
            schedule="constant",
            warmup=0.0,
            weight_decay=0.0,
            batch=self.batch,
            epochs=250.0,
            minutes=None,
        )


MNIST = ImageModel(
    name="MNIST",
    layers=8,
    length=784,
    linear=(0.644, 142.8),
    softmax=(0.621, 0.45),
    stateful=(0.621, 7.56),
    batch=10,
    budget="250 epochs, batch 10",
)
CIFAR10 = ImageModel(
    name="CIFAR-10",
    layers=16,
    length=3072,
    linear=(3.40, 17.85),
    softmax=(3.47, 0.004),
    stateful=(3.47, 0.32),
    batch=4,
    budget="7 days of a P40, batch 4",
)
