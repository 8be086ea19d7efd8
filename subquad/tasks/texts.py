"""What the text tasks share: one tokenizer per run, notes about what was read."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from subquad.data.batches import Examples
from subquad.data.cells import text_problem
from subquad.data.files import STDIN
from subquad.data.source import ReadOptions, Record, Source, open_source
from subquad.data.tokenizers import PAIR, Tokenizer
from subquad.errors import SubquadError, UsageError
from subquad.tasks.base import Input, Inputs
from subquad.tasks.config import Config, DataConfig

TOKENIZER, LABELS = "tokenizer.json", "labels.json"
#: Skipped rows that a note names.
NAMED = 5


def open_training(
    data: DataConfig,
    given: Source | None = None,
    *,
    labelled: bool,
    options: ReadOptions | None = None,
) -> Source:
    """The data of a training run, which is read several times: ``given`` is data in memory; None
    opens the file. ``options`` overrides how the configuration says it is read.

    Raises:
        UsageError: the data are standard input, which can be read only once.
    """
    if given is not None:
        return given
    if data.path == STDIN:
        raise UsageError("training reads its data several times: give a file instead of -")
    return open_source(data.path, options or data.reading(), labelled=labelled)


def text_inputs(path: str, data: DataConfig) -> Inputs:
    """The texts of a file as inputs for prediction. Standard input has one text per line unless a
    format is given."""
    if path == STDIN and data.format is None:
        data = replace(data, format="lines")
    source = open_source(path, data.reading(), labelled=False)
    outcomes = (
        Input(outcome.row, outcome.text) if isinstance(outcome, Record) else outcome
        for outcome in source.outcomes()
    )
    return Inputs(source.detected, outcomes, source.waits)


def texts_given(inputs: Iterable[Any], *, pairs: bool) -> Iterator[str]:
    """The texts that a program gives, a string being one text; with ``pairs``, two of each.

    Raises:
        SubquadError: what is no text, or empty, as in a file.
    """
    one = isinstance(inputs, str) or (pairs and isinstance(inputs, tuple))
    for place, item in enumerate([inputs] if one else inputs, start=1):
        parts = item if pairs and isinstance(item, tuple | list) and len(item) == 2 else (item,)
        for part in parts:
            if problem := text_problem(part, f"text {place}"):
                raise SubquadError(problem)
        yield PAIR.join(parts)


def tokenizer_for(data: DataConfig, training_texts: Iterable[str]) -> Tokenizer:
    """Train a tokenizer on the training texts, or load it if ``data.tokenizer`` is a file."""
    if data.tokenizer.endswith((".json", ".model")):
        return Tokenizer.load(Path(data.tokenizer))
    return Tokenizer.train(data.tokenizer, training_texts, data.vocabulary)


def chosen_texts(source: Source, chosen: Iterable[int]) -> Iterator[str]:
    """The texts of these records (indices from 0), in file order."""
    wanted = set(map(int, chosen))
    return (record.text for i, record in enumerate(source.records()) if i in wanted)


def before(source: Source, cut: int) -> Iterator[str]:
    """The texts of a source up to character ``cut``."""
    for record in source.pieces():
        if cut <= 0:
            return
        yield record.text[:cut]
        cut -= len(record.text)


def tokens_before(source: Source, tokenizer: Tokenizer, cut: int, *, starts: bool) -> int:
    """Number of tokens up to character ``cut``, counting a start token per text if ``starts``."""
    begun, seen, begins = 0, 0, True
    for record in source.pieces():
        if seen >= cut:
            break
        begun += begins
        begins = not record.more
        seen += len(record.text)
    return starts * begun + sum(len(row) for row in tokenizer.rows(before(source, cut)))


def reading(config: Config, source: Source) -> Config:
    """``config`` with the columns that were read from ``source``."""
    return replace(config, data=config.data.with_columns_of(source))


def notes(source: Source, examples: Examples, length: int | None) -> list[str]:
    """What was detected, skipped and cut."""
    cut = texts_cut(examples, length)
    return [source.detected, *filter(None, [skipped(source), cut_at(length, cut, len(examples))])]


def counts(source: Source, examples: Examples, length: int | None) -> dict[str, int]:
    """How many rows of a file were skipped, and how many texts were cut at ``length``."""
    return {"rows_skipped": source.skipped.count, "texts_cut": texts_cut(examples, length)}


def texts_cut(examples: Examples, length: int | None) -> int:
    """How many texts reach ``length``, where they are cut."""
    return 0 if length is None else int(np.count_nonzero(examples.tokens.lengths >= length))


def cut_at(length: int | None, cut: int, of: int) -> str:
    """A sentence that says how many texts were truncated; empty if none were."""
    if not cut:
        return ""
    return (
        f"{cut} of {of} texts reach the maximum length of {length} tokens and were truncated "
        "(--length)"
    )


def refuse_none_left(source: Source) -> None:
    """Refuse a file of which every row was skipped (``SubquadError``)."""
    if source.skipped.count:
        first = source.skipped.rows[0]
        raise SubquadError(
            f"{source.path}: all {source.skipped.count} rows were skipped; row {first.row}: "
            f"{first.reason}"
        )


def skipped(source: Source) -> str:
    """A sentence that says which rows were skipped in the last pass; empty if none were."""
    if not source.skipped.count:
        return ""
    some = "; ".join(f"row {bad.row}: {bad.reason}" for bad in source.skipped.rows[:NAMED])
    more = "; …" if source.skipped.count > NAMED else ""
    return f"{source.skipped.count} rows were skipped: {some}{more}"
