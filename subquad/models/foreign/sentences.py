"""What sentence-transformers keeps beside a body: its folder, the pooling, the maximum length."""

import json
from dataclasses import dataclass
from pathlib import Path

from subquad.errors import SubquadError
from subquad.models.foreign.about import CONFIG, About
from subquad.models.model import Pooling

_MODULES, _POOLING, _LIMITS = "modules.json", "1_Pooling", "sentence_bert_config.json"
#: Where the body was in older folders.
_INNER = "0_Transformer"
_KNOWN = ("Transformer", "Pooling", "Normalize")
_POOLINGS: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
}


@dataclass(frozen=True)
class Sentences:
    """``body``: the folder of the body; ``pooling`` and ``length``: None if nothing is said."""

    body: Path
    pooling: Pooling | None = None
    length: int | None = None


def body_of(folder: Path) -> Path:
    """The folder that the body is in: ``folder``, or one inside of it."""
    inner = folder / _INNER
    return inner if not (folder / CONFIG).exists() and (inner / CONFIG).exists() else folder


def read(folder: Path) -> Sentences:
    """Read what there is; a plain folder of transformers says nothing.

    Raises:
        SubquadError: a file is damaged, or a module or a pooling is not supported.
    """
    body = body_of(folder)
    _refuse_modules(folder / _MODULES)
    limits = body / _LIMITS
    length = About.read_file(limits).whole("max_seq_length", 0) if limits.exists() else 0
    where = folder / _POOLING / CONFIG
    pooling = _pooling(where) if where.exists() else None
    return Sentences(body, pooling, length or None)


def _pooling(where: Path) -> Pooling:
    found = About.read_file(where).found
    modes = [n for n, on in found.items() if n.startswith("pooling_mode_") and on is True]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise SubquadError(
            f"{where}: the pooling {', '.join(modes) or 'none'} is not supported; expected "
            f"{' or '.join(_POOLINGS)}"
        )
    return _POOLINGS[modes[0]]


def _refuse_modules(path: Path) -> None:
    """Refuse what would change the vectors, such as another layer behind the pooling."""
    if not path.exists():
        return
    try:
        types = [str(m["type"]).rpartition(".")[2] for m in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SubquadError(f"{path} cannot be read: {error!r}") from None
    if others := [name for name in types if name not in _KNOWN]:
        raise SubquadError(
            f"{path}: the module {', '.join(others)} is not supported; known are "
            f"{', '.join(_KNOWN)}"
        )
