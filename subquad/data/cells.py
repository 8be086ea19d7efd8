"""One cell of a table: is it a text, which label is it."""

import math
import re
from decimal import Decimal

from subquad.data.rows import shown

_WHOLE = re.compile(r"(-?\d+)\.0+", re.ASCII)


def text_problem(text: object, name: str) -> str:
    """Why a cell is no text; "" if it is one."""
    if text is None or text == "":
        return f"{name} is empty"
    if not isinstance(text, str):
        return f"{name} holds {shown(text)} ({type(text).__name__}), not a string"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as e:
            half = f"U+{ord(text[e.start]):04X}"
            return f"{name} holds half a surrogate pair ({half}), which is no character"
    return ""


def label_of(value: object, column: str) -> tuple[str, str]:
    """(label, problem) of a cell."""
    name = f"the label (column {column!r})"
    if isinstance(value, bool):
        return ("true" if value else "false"), ""
    if isinstance(value, int):
        return str(value), ""
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            return "", f"{name} is {value}"
        if value == int(value):
            return str(int(value)), ""
        return (f"{value:f}" if isinstance(value, Decimal) else str(value)), ""
    problem = text_problem(value, name)
    text = "" if problem else str(value)
    whole = _WHOLE.fullmatch(text)
    text = whole[1] if whole else text
    return ("0" if text == "-0" else text), problem
