"""Which column is the text and which the label: as asked, or by their usual names, or by shape."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from subquad.data.rows import shown
from subquad.errors import UsageError

TEXTS = (
    *("text", "sentence", "review", "content", "document", "comment", "message", "tweet"),
    *("body", "utterance", "post", "article", "question", "sms", "string", "input", "description"),
    *("review_text", "reviewtext", "full_text", "text_a", "sentence1", "title", "headline"),
)
LABELS = (
    *("label", "labels", "class", "category", "sentiment", "target", "intent", "topic", "emotion"),
    *("polarity", "rating", "stars", "score", "output", "tag", "gold_label", "y", "label_text"),
)
#: Names of columns that number the rows; never taken by shape.
_NUMBERS = ("", "id", "idx", "index", "unnamed: 0", "row")

Cells = Mapping[str, object]


def choose(
    path: Path,
    columns: Sequence[str],
    sample: Sequence[Cells],
    *,
    text: str | None,
    label: str | None,
    labelled: bool,
    header: bool = True,
) -> tuple[str, str | None]:
    """(text column, label column or None).

    Raises:
        UsageError: an asked column is absent or double; none was asked and none can be told; the
            columns there are get listed.
    """
    asked = {"text": text, "label": label if labelled else None}
    for option, name in asked.items():
        if name is not None:
            check(path, columns, option, name)
    free = [c for c in columns if c.strip().lower() not in _NUMBERS]
    text_name = text or _usual(columns, TEXTS, {asked["label"]})
    label_name = asked["label"] or (_usual(columns, LABELS, {text_name}) if labelled else None)
    if text_name is None:
        text_name = _only_other(free, label_name) or _longer(path, free, sample, header)
    if labelled and label_name is None:
        label_name = _only_other(free, text_name)
    _demand(path, columns, "text", text_name)
    if labelled:
        _demand(path, columns, "label", label_name)
    if text_name == label_name:
        raise UsageError(f"{path}: column {text_name!r} cannot be both text and label")
    assert text_name is not None
    return text_name, label_name


def check(path: Path, columns: Sequence[str], option: str, name: str) -> None:
    """Refuse a column that is absent or double (``UsageError``)."""
    times = columns.count(name)
    if times == 0:
        raise UsageError(f"{path} has no column {name!r} (--{option}); it has: {_list(columns)}")
    if times > 1:
        raise UsageError(f"{path} has {times} columns named {name!r}: rename all but one")


def _demand(path: Path, columns: Sequence[str], option: str, name: str | None) -> None:
    if name is None:
        raise UsageError(
            f"{path}: which column is the {option} cannot be told; it has: {_list(columns)}; "
            f"name one with --{option}, or pass --no-header if the first line is a row"
        )
    check(path, columns, option, name)


def _usual(columns: Sequence[str], names: Sequence[str], taken: set[str | None]) -> str | None:
    known = {c.strip().lower(): c for c in reversed(columns) if c not in taken}
    return next((known[name] for name in names if name in known), None)


def _only_other(free: Sequence[str], taken: str | None) -> str | None:
    others = [c for c in free if c != taken]
    return others[0] if len(others) == 1 else None


def _longer(path: Path, free: Sequence[str], sample: Sequence[Cells], header: bool) -> str | None:
    """Of two columns with unknown names, the one with the longer texts; None if that is not
    plain. A first line that looks like a row is no header, and taking it for one would lose it.
    """
    if len(free) != 2 or not sample:
        return None
    mean = {c: sum(len(str(cells.get(c) or "")) for cells in sample) / len(sample) for c in free}
    short, long = sorted(free, key=lambda c: mean[c])
    if mean[long] < 2 * mean[short]:
        return None
    if not header:
        return long
    labels = {str(cells.get(short)) for cells in sample}
    if short in labels or len(long) > 40 or len(long.split()) > 3 or _is_number(short):
        raise UsageError(
            f"{path}: the first line ({shown(long)}, {shown(short)}) looks like a row, not like "
            "names; pass --no-header, or --text and --label"
        )
    return long


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _list(columns: Sequence[str]) -> str:
    names = ", ".join(shown(c) for c in columns[:20])
    return names + (f" and {len(columns) - 20} more" if len(columns) > 20 else "")
