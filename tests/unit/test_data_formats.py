"""One table says the same in every format."""

from pathlib import Path

import polars as pl
import pytest

from subquad.data.labels import Labels
from subquad.data.source import ReadOptions, open_source

COLUMNS = {
    "bool": (pl.Series([True, False, True]), ["true", "false", "true"]),
    "whole": (pl.Series([1, 2, -3], dtype=pl.Int16), ["1", "2", "-3"]),
    "float32": (pl.Series([0.1, 2.0, -0.7], dtype=pl.Float32), ["0.1", "2", "-0.7"]),
    "float64": (pl.Series([0.1, 2.0, 1e-3]), ["0.1", "2", "0.001"]),
    "decimal": (pl.Series(["1.50", "2", "0.25"]).cast(pl.Decimal(6, 2)), ["1.50", "2", "0.25"]),
    "category": (pl.Series(["b", "a", "b"], dtype=pl.Categorical), ["b", "a", "b"]),
}


def written(frame: pl.DataFrame, folder: Path) -> list[Path]:
    paths = [folder / f"a.{kind}" for kind in ("csv", "tsv", "jsonl", "parquet")]
    frame.write_csv(paths[0])
    frame.write_csv(paths[1], separator="\t")
    frame.write_ndjson(paths[2])
    frame.write_parquet(paths[3])
    return paths


@pytest.mark.parametrize("kind", COLUMNS)
def test_one_label_in_all_formats(tmp_path: Path, kind: str) -> None:
    series, expected = COLUMNS[kind]
    frame = pl.DataFrame({"text": ["a", "b", "c"], "label": series})
    for path in written(frame, tmp_path):
        source = open_source(path, ReadOptions(), labelled=True)
        assert [record.label for record in source.records()] == expected, path.suffix


def test_truth_is_one_label_however_it_is_spelt() -> None:
    labels = Labels.of(["True", "false", "TRUE", "False"], "f")
    assert labels.names == ("false", "true")
    names = ("true", "True", "TRUE", "false", "False", "FALSE")
    assert [labels.index(name, "f") for name in names] == [1, 1, 1, 0, 0, 0]
    old = Labels(("False", "True"))  # of a run of version 0.1
    assert [old.index(name, "f") for name in names] == [1, 1, 1, 0, 0, 0]
    assert Labels.of(["True", "Fake", "true"], "f").names == ("Fake", "True", "true")
