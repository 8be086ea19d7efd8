"""What other packages add: the entry points of a group, found by name and loaded only when used.

A package adds something by an entry point in its metadata, as in ``pyproject.toml``::

    [project.entry-points."subquad.tasks"]
    frames = "my_package.frames:Frames"
"""

from typing import Any

from subquad.errors import SubquadError


def names(group: str) -> list[str]:
    """The names in a group, sorted."""
    return sorted(found.name for found in _points(group))


def load(group: str, name: str) -> Any:
    """What the entry point ``name`` stands for.

    Raises:
        SubquadError: two packages have that name, or it cannot be imported; the package is named.
    """
    found = [point for point in _points(group) if point.name == name]
    owners = ", ".join(sorted(str(point.dist and point.dist.name) for point in found))
    if len(found) > 1:
        raise SubquadError(f"{owners} all add {name!r} to {group}: remove all but one")
    try:
        return found[0].load()
    except Exception as error:
        raise SubquadError(
            f"{name!r}, which {owners} adds to {group}, cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error


def _points(group: str) -> Any:
    from importlib import metadata  # read when asked: it looks through all installed packages

    return metadata.entry_points(group=group)
