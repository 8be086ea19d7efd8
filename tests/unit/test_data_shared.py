"""The data that people try the product on, where it is there."""

from pathlib import Path

import numpy as np
import pytest

from subquad.data.images import open_images
from subquad.data.labels import Labels
from subquad.data.source import ReadOptions, Source, open_source
from subquad.data.splits import repeated, text_hash

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def shared(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in ../shared/data")
    return DATA / name


def opened(name: str, *, labelled: bool = True) -> Source:
    return open_source(shared(name), ReadOptions(), labelled=labelled)


@pytest.mark.parametrize(
    ("name", "size", "classes"),
    [
        ("imdb-train.jsonl.gz", 25_000, ("neg", "pos")),
        ("agnews-train10k.csv", 10_000, ("0", "1", "2", "3")),
        ("agnews-test.csv", 7_600, ("0", "1", "2", "3")),
        ("sst2-train.tsv", 67_349, ("neg", "pos")),
        ("sst2-dev.tsv", 872, ("neg", "pos")),
        ("sst2-test.tsv", 1_821, ("neg", "pos")),
    ],
)
def test_every_row_of_a_public_set(name: str, size: int, classes: tuple[str, ...]) -> None:
    labels = [str(record.label) for record in opened(name).records()]
    assert len(labels) == size
    assert Labels.of(labels, name).names == classes


def test_imdb_duplicates_are_the_known_ones() -> None:
    train, test = (
        np.array([text_hash(r.text) for r in opened(f"imdb-{part}.jsonl.gz").records()], np.uint64)
        for part in ("train", "test")
    )
    assert repeated(train, test) == 123


def test_shakespeare() -> None:
    source = opened("tinyshakespeare.txt", labelled=False)
    assert [len(record.text) for record in source.records()] == [1_115_394]
    assert "".join(p.text for p in source.pieces()) == next(source.records()).text


def test_mnist() -> None:
    images = open_images(shared("mnist-t10k-images-idx3-ubyte.gz"))
    assert images.pixels.shape == (10_000, 28, 28)
    assert images.labels is not None
    assert images.labels[:5] == ("7", "2", "1", "0", "4")
