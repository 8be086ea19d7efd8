"""Which reader a file gets: as asked, else by its name; standard input by its first line."""

import codecs
from pathlib import Path

from subquad.data.csvs import CsvTable
from subquad.data.files import ByteFile, inner_suffixes
from subquad.data.folders import TextFiles
from subquad.data.jsonl import JsonTable, LineTable
from subquad.data.parquet import ParquetTable
from subquad.data.rows import Table
from subquad.errors import UsageError

FORMATS = ("csv", "tsv", "jsonl", "parquet", "text", "lines")

_BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_SAVE = "save the table as CSV (UTF-8)"
_UNPACK = "unpack it first"
_UNSAFE = "pickles can run code and are never read"
_REFUSED = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), _SAVE),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".bz2", ".xz", ".7z"), _UNPACK),
    **dict.fromkeys((".pkl", ".pickle", ".pt", ".pth", ".joblib"), _UNSAFE),
    **dict.fromkeys((".npy", ".npz", ".png", ".jpg"), "arrays and pictures are for pixels"),
    **dict.fromkeys((".pdf", ".docx", ".doc", ".html"), "save it as plain text (.txt)"),
}


def open_table(
    file: ByteFile, asked: str | None, encoding: str, *, header: bool, quotes: bool | None
) -> Table | TextFiles:
    """The reader of a file, its columns known.

    Raises:
        UsageError: the format is not known, or not read from where it is.
        SubquadError: the file is empty or not of that format.
    """
    name = asked or (_of_stdin(file) if file.is_stdin else _of_name(file.path))
    if name not in FORMATS:
        raise UsageError(f"--format {name!r} is not one of {', '.join(FORMATS)}")
    if file.is_stdin and name not in ("jsonl", "lines"):
        raise UsageError(f"standard input is read as jsonl or lines; save the {name} to a file")
    if name not in ("csv", "tsv") and (not header or quotes is not None):
        option = "--quotes" if header else "--no-header"
        raise UsageError(f"{option} is for CSV and TSV, but {file.path} is read as {name}")
    if name == "parquet":
        if encoding != "utf-8":
            raise UsageError(f"{file.path}: Parquet is always UTF-8, --encoding does not apply")
        if file.compression:
            raise UsageError(
                f"{file.path}: Parquet is compressed inside; unpack {file.path.suffix}"
            )
        return ParquetTable.open(file.path)
    if name in ("csv", "tsv"):
        usual = "," if name == "csv" else "\t"
        return CsvTable.open(file, encoding, usual, header=header, quotes=quotes)
    if name == "jsonl":
        return JsonTable.open(file, encoding)
    return LineTable(file, encoding) if name == "lines" else TextFiles.of_file(file.path)


def _of_stdin(file: ByteFile) -> str:
    head = file.head().removeprefix(codecs.BOM_UTF8).lstrip()
    return "jsonl" if head.startswith(b"{") else "lines"


def _of_name(path: Path) -> str:
    suffix = inner_suffixes(path)
    if suffix in _REFUSED:
        raise UsageError(f"{path}: {suffix} is not read as text; {_REFUSED[suffix]}")
    return _BY_SUFFIX.get(suffix, "text")
