"""``subquad.train``: learn from data that a program holds, or from a file."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from subquad import training
from subquad.configuring import configure, from_arguments
from subquad.data import digits, memory
from subquad.data import images as pictures
from subquad.errors import UsageError
from subquad.run import Run
from subquad.tasks import task_class

#: Settings that mean something to files only.
_READING = ("text", "label", "pair", "format", "encoding", "header", "quotes", "labels_separator")


def train(
    data: str | Path | None = None,
    *,
    task: str,
    texts: Iterable[str] | None = None,
    labels: Iterable[Any] | None = None,
    pairs: Iterable[str] | None = None,
    images: Any = None,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Callable[[dict[str, Any], float], None] | None = None,
    **options: Any,
) -> Run:
    """Train a model, as ``subquad train`` does, and return the run.

    >>> run = subquad.train(task="classify", texts=texts, labels=labels, mixer="fastformer")
    >>> run.predict(["free money"])

    Args:
        data: a file or folder, as the command reads it; or else what is learned from is given as
        texts: a list of strings (classify, regress, language, masked),
        labels: a class or number for each text, or a class for each image,
        pairs: a second text for each (``pooling="pooler"``),
        images: whole numbers 0..255, ``[n, h, w]`` or ``[n, h, w, c]`` (pixels).
        out: the run directory; None = a temporary one, which is removed with the run.
        resume: continue what is in ``out``.
        watch: called with each line of ``metrics.jsonl`` and the part of the budget that is spent.
        options: settings, called as the command's flags are: ``mixer="fnet"``, ``epochs=2``,
            ``mixer_option={"padding": "fixed"}``; ``--from`` is ``start``.

    Raises:
        UsageError: an argument that cannot be; it is named.
        SubquadError: a text or label that cannot be used; its row is named, from 1.
    """
    held = {"texts": texts, "labels": labels, "pairs": pairs, "images": images}
    given = {name: values for name, values in held.items() if values is not None}
    _check(data, task, given)
    if given and (reads := next((name for name in _READING if options.get(name) is not None), "")):
        raise UsageError(f"{reads} says how a file is read, and {', '.join(given)} are given")
    path = memory.WHERE if given else str(data)
    if isinstance(data, Path) and path == digits.NAME:  # a path is never the built-in set
        path = f"./{path}"
    config = configure(task, path, from_arguments(task, options))
    source: Any = None
    if "images" in given:
        source = pictures.of_arrays(images, labels)
    elif given:
        assert texts is not None
        source = memory.held(texts, labels, pairs=pairs, on_bad_row=config.data.on_bad_row)
        if pairs is not None:
            config = replace(config, data=replace(config.data, pair=memory.PAIR))
    kept = None if out is not None else Temporary()
    place = out if kept is None else kept.path / "run"
    usual = {} if watch is None else {"watch": watch}
    run = training.train(config, place, given=source, resume=resume, **usual)  # type: ignore[arg-type]
    return run if kept is None else replace(run, kept=kept)


def _check(data: str | Path | None, task: str, given: dict[str, Any]) -> None:
    takes = task_class(task).takes
    if data is not None and given:
        raise UsageError(f"give a file or {', '.join(given)}, not both")
    if data is None and not given:
        raise UsageError(f"give a file, or {' and '.join(takes) or 'nothing else'}")
    for name in given:
        if name not in takes:
            known = f"it takes {', '.join(takes)}" if takes else "it reads files only"
            raise UsageError(f"{name} means nothing to the task {task}: {known}")
    if given and takes[0] not in given:
        raise UsageError(f"{', '.join(given)} without {takes[0]}")
    if takes[:2] == ("texts", "labels") and given and "labels" not in given:
        raise UsageError(f"the task {task} needs labels, one for each text")


class Temporary:
    """A directory that is removed when this is forgotten, or when Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="subquad-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
