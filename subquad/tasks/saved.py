"""Loads ``config.json``, including files written by subquad 0.1."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from subquad.errors import SubquadError, UsageError
from subquad.models import ModelConfig
from subquad.tasks.config import PARTS, VERSION, Config, DataConfig, TrainConfig
from subquad.tasks.registry import task_class

Part = TypeVar("Part")


def load_config(path: Path) -> Config:
    """Read a ``config.json``.

    Raises:
        SubquadError: the file is missing, is not JSON, was written by a later version, has an
            unknown task or unknown fields.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SubquadError(f"{path.parent} is not a run: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise SubquadError(f"{path} is not valid JSON: {error}") from None
    if isinstance(found, dict) and "task" not in found and "model_type" in found:
        raise SubquadError(
            f"{path.parent} is not a run: it is a transformers model of type "
            f"{found['model_type']!r} (train --from can start from type 'fnet')"
        )
    try:
        version = found.get("version", 1)
        if version > VERSION:
            raise SubquadError(
                f"{path} was written by a later version of subquad (format {version}; this "
                f"version reads up to {VERSION})"
            )
        task = task_class(found["task"])
        if version == 1:
            found = _migrated(found)
        return Config(
            task=task.name,
            data=_part(DataConfig, found["data"]),
            model=_part(ModelConfig, found["model"]),
            training=_part(TrainConfig, found["training"]),
            options=_part(task.Options, found["options"]),
        )
    except UsageError as error:
        raise SubquadError(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise SubquadError(f"{path} is not a subquad configuration: {error}") from None


def _part(cls: type[Part], found: dict[str, Any]) -> Part:
    """Build a part of the configuration; lists in JSON become tuples."""
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in found.items()})


#: Task options that version 0.1 stored with the model and training settings.
_MOVED = {
    "model": ("pooling", "token_dropout", "mixture", "waves"),
    "training": ("class_weights", "label_smoothing", "mask_rate", "pairs"),
}


def _migrated(found: dict[str, Any]) -> dict[str, Any]:
    """Convert a configuration of version 0.1. Settings that did not apply to the task are reset to
    their defaults."""
    task = task_class(found["task"])
    made = {part: dict(found[part]) for part in PARTS[:-1]}
    moved = {name: made[part].pop(name) for part, names in _MOVED.items() for name in names}
    moved["level_cosines"] = moved.pop("waves")
    if task.name == "regress" and moved["token_dropout"] is None:
        moved["token_dropout"] = 0.0  # what None did
    usual = task.defaults()
    for part, values in made.items():
        values |= {n: getattr(getattr(usual, part), n) for n in values if n in task.unused}
    options = {f.name: moved[f.name] for f in fields(task.Options) if f.name in moved}
    return {"task": task.name, **made, "options": options}
