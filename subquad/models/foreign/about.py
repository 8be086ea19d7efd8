"""Reads a ``config.json`` of ``transformers``: typed fields, and refusals that name a field."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subquad.errors import SubquadError

CONFIG = "config.json"


@dataclass(frozen=True)
class About:
    """The settings in a ``config.json``; an absent or null one has transformers' default."""

    where: Path
    found: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> "About":
        """The ``config.json`` of a folder; raises as ``read_file``."""
        return cls.read_file(folder / CONFIG)

    @classmethod
    def read_file(cls, where: Path) -> "About":
        """Raises ``SubquadError`` if the file is missing or is not a JSON object."""
        try:
            found = json.loads(where.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SubquadError(f"{where} cannot be read: {error}") from None
        if not isinstance(found, dict):
            raise SubquadError(f"{where} is not a JSON object")
        return cls(where, found)

    def whole(self, name: str, usual: int) -> int:
        """A whole number of at least 0."""
        value = self._value(name, usual)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SubquadError(f"{self.where}: {name} is {value!r}; expected a whole number")
        return value

    def number(self, name: str, usual: float) -> float:
        """A number of at least 0."""
        value = self._value(name, usual)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise SubquadError(f"{self.where}: {name} is {value!r}; expected a number")
        return float(value)

    def token(self, name: str) -> int | None:
        """The id of a token, the first one if there are several; None if there is none."""
        value = self.found.get(name)
        value = value[0] if isinstance(value, list) and value else value
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def one_of(self, name: str, usual: Any, known: Sequence[Any]) -> Any:
        """One of the ``known`` values; others are not supported.

        Raises:
            SubquadError: it is another one.
        """
        value = self._value(name, usual)
        if value not in known:
            raise SubquadError(
                f"{self.where}: {name} is {value!r}, which is not supported; expected "
                f"{' or '.join(repr(k) for k in known)}"
            )
        return value

    def _value(self, name: str, usual: Any) -> Any:
        value = self.found.get(name)
        return usual if value is None else value
