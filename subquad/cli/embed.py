"""``subquad embed``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from subquad.cli.console import json_flag, result, say
from subquad.cli.flags import reading_flags
from subquad.errors import UsageError
from subquad.storage import write_atomically

_SUFFIXES = (".npy", ".parquet", ".jsonl")


@click.command()
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN|FOLDER")
@click.argument("file")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Output: .npy (float32 [rows, d]), .parquet or .jsonl (row and vector).",
)
@click.option(
    "--normalise/--no-normalise",
    default=True,
    help="Scale each vector to length 1, so that products are cosines.  [default: normalise]",
)
@json_flag
def command(
    run: Path, file: str, out: Path, normalise: bool, as_json: bool, **reading: Any
) -> None:
    """Write one vector per row of FILE: what the model of RUN, or of a FOLDER of transformers,
    computes for a whole text before its last layer. FILE is read as in `train`.

    The rows are in order and complete: a row that cannot be read stops the command, unless
    --on-bad-row skip leaves it out.
    """
    from subquad.models.foreign.hub import folder_of
    from subquad.run import load

    if out.suffix not in _SUFFIXES:
        raise UsageError(f"--out {out}: the file name must end in {', '.join(_SUFFIXES)}")
    opened = load(folder_of(str(run))).reading(**reading)
    texts, rows, detected = opened.texts(file)
    say(detected)
    vectors = opened.embed(texts, normalise=normalise)
    write_atomically(out, lambda path: _write(path, out.suffix, rows, vectors))
    n, d = vectors.shape
    say(f"{n:,} {'vector' if n == 1 else 'vectors'} of {d} numbers written to {out}")
    result({"rows": n, "d": d, "out": str(out)}, as_json=as_json, text=str(out))


reading_flags(command, without="label")


def _write(path: Path, kind: str, rows: Sequence[int], vectors: npt.NDArray[np.float32]) -> None:
    if kind == ".npy":
        with path.open("wb") as file:  # NumPy would append .npy to a temporary name
            np.save(file, vectors, allow_pickle=False)
    elif kind == ".parquet":
        import polars

        width = vectors.shape[1]
        vector = polars.Series("vector", vectors, polars.Array(polars.Float32, width))
        polars.DataFrame([polars.Series("row", rows, polars.Int64), vector]).write_parquet(path)
    else:
        lines = (
            json.dumps({"row": row, "vector": [float(f"{x:.7g}") for x in vector]})
            for row, vector in zip(rows, vectors, strict=True)
        )
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
