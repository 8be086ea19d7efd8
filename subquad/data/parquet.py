"""Parquet through polars, a slice at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from subquad.data.rows import Row
from subquad.errors import SubquadError

#: Rows held in memory at a time.
SLICE = 20_000

#: 0.1 of 32 bits is 0.1 to whoever wrote it, and not 0.10000000149011612.
_AS_WRITTEN = pl.col(pl.Float32).cast(pl.String).cast(pl.Float64)

#: What polars raises on a damaged file; a panic of its core is one.
_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


@dataclass(frozen=True)
class ParquetTable:
    """The named columns of a Parquet file, no others are read. Categories come as their names."""

    path: Path
    columns: tuple[str, ...]
    size: int
    kind: str = "Parquet"

    @classmethod
    def open(cls, path: Path) -> "ParquetTable":
        """Read the schema.

        Raises:
            SubquadError: this is not a whole Parquet file.
        """
        try:
            frame = pl.scan_parquet(path, glob=False)
            columns = tuple(frame.collect_schema().names())
            size = int(frame.select(pl.len()).collect().item())
        except _ERRORS as e:
            raise _unreadable(path, e) from None
        return cls(path, columns, size)

    def only(self, *columns: str | None) -> "ParquetTable":
        return replace(self, columns=tuple(c for c in columns if c is not None))

    def rows(self) -> Iterator[Row]:
        for start in range(0, self.size, SLICE):
            try:
                frame = pl.scan_parquet(self.path, glob=False).select(self.columns)
                part = frame.slice(start, SLICE).collect().with_columns(_AS_WRITTEN)
            except _ERRORS as e:
                raise _unreadable(self.path, e) from None
            for row, cells in enumerate(part.iter_rows(named=True), start=start + 1):
                yield Row(row, 0, cells)


def _unreadable(path: Path, error: BaseException) -> SubquadError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return SubquadError(f"{path} cannot be read as Parquet: {reason}")
