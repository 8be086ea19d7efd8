"""What other packages add: entry points, looked up and loaded only when they are asked for.

A package adds something by an entry point in its metadata, as in ``pyproject.toml``::

    [project.entry-points."subquad.tasks"]
    frames = "my_package.frames:Frames"
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from subquad.errors import SubquadError


def points(room: str) -> list[EntryPoint]:
    """The entry points for a room of this package, by name: those of the group ``subquad.ROOM``."""
    return sorted(entry_points(group="subquad." + room), key=lambda point: point.name)


def loaded(point: EntryPoint, kind: str) -> Any:
    """What an entry point stands for; ``kind`` says what it should be, for a refusal.

    Raises:
        SubquadError: it cannot be imported; the package and the reason are named.
    """
    try:
        return point.load()
    except Exception as error:  # whatever another package does when it is imported
        by = f" of {point.dist.name}" if point.dist is not None else ""
        reason = str(error).strip().splitlines()[:1]
        raise SubquadError(
            f"{kind} {point.name!r}{by} cannot be loaded from {point.value}: "
            f"{type(error).__name__}{': ' if reason else ''}{''.join(reason)}"
        ) from error
