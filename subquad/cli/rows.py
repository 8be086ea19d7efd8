"""Predictions as CSV or JSON lines."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from subquad.errors import UsageError
from subquad.storage import write_text


def csv_lines(answers: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A header, then a line per answer. The first good answer determines the columns: the label and
    its probability or, where a row can have several labels, all of them in one cell and the
    probability of each class. The last column is the error of a row that could not be read."""
    columns: list[str] = []
    waiting: list[dict[str, Any]] = []
    for answer in answers:
        waiting.append(_flat(answer))
        if not columns and "error" not in answer:
            columns = [*waiting[-1], "error"]
            yield _line(columns)
        if columns:
            yield from (_line([row.get(name, "") for name in columns]) for row in waiting)
            waiting.clear()
    if waiting:
        yield _line(["row", "error"])
        yield from (_line([row["row"], row["error"]]) for row in waiting)


def _flat(answer: dict[str, Any]) -> dict[str, Any]:
    chances = answer.get("probabilities", {})
    flat = {name: value for name, value in answer.items() if name != "probabilities"}
    if "labels" in answer:
        return (
            flat | {"labels": ";".join(flat["labels"])} | {f"p({n})": p for n, p in chances.items()}
        )
    return flat | {"probability": chances[answer["label"]]} if chances else flat


def _line(values: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def check_suffix(path: Path) -> None:
    """Raises:
    UsageError: the file name ends in neither .csv nor .jsonl.
    """
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise UsageError(f"--errors {path}: the file name must end in .csv or .jsonl")


def write_rows(path: Path, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """Write rows as CSV or JSON lines, depending on the file name. The write is atomic."""
    if path.suffix.lower() == ".csv":
        lines = [_line(columns), *(_line([row[name] for name in columns]) for row in rows)]
    else:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    write_text(path, "".join(f"{line}\n" for line in lines))
