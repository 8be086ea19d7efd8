"""The files of a folder, and what of it is left out, by name: nothing is dropped in silence."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from subquad.errors import SubquadError

#: What systems leave in folders; nobody means it to be read.
_HIDDEN_FOLDERS = ("__macosx", "__pycache__")
_HIDDEN_FILES = ("thumbs.db", "desktop.ini")
#: Names listed in a message before it says how many more there are.
NAMED = 10


@dataclass
class Walked:
    """What ``walk`` found. ``files`` are in the code-point order of their paths."""

    root: Path
    files: list[Path] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    """The names of the folders just below ``root``, in order."""
    left_out: list[str] = field(default_factory=list)
    """Folders that were not looked into, with the reason."""

    def without(self, read: Sequence[Path]) -> list[str]:
        """The folders just below ``root`` of which no file is among those ``read``."""
        full = {path.relative_to(self.root).parts[0] for path in read}
        return [name for name in self.folders if name not in full]

    def passed_over(self, unread: Sequence[Path]) -> list[str]:
        """``left_out``, and those of the ``unread`` files that are links to nothing: nobody can say
        whether they were to be folders."""
        broken = [path.relative_to(self.root).as_posix() for path in unread if not path.exists()]
        return [*self.left_out, *(f"{name} (a link to nothing)" for name in broken)]


def walk(root: Path) -> Walked:
    """Every file under ``root`` that is not hidden; linked folders are followed, but for one that
    leads back to a folder that it is in.

    Raises:
        SubquadError: a folder cannot be opened.
    """
    found = Walked(root)
    found.files.extend(_files(root, found, ()))
    found.files.sort(key=lambda path: path.relative_to(root).as_posix())
    found.folders.sort()
    found.left_out.sort()
    return found


def _files(folder: Path, found: Walked, above: tuple[tuple[int, int], ...]) -> Iterator[Path]:
    """``above`` are the folders that lead here, each by its device and number."""
    try:
        here = folder.stat()
        entries = list(os.scandir(folder))
    except OSError as error:
        raise SubquadError(f"{folder}: {error.strerror or error}") from None
    inside = (*above, (here.st_dev, here.st_ino))
    for entry in entries:
        path = folder / entry.name
        name = path.relative_to(found.root).as_posix()
        if not _is_folder(entry):
            if not _is_hidden(entry.name):
                yield path
            continue
        if _is_hidden(entry.name):
            found.left_out.append(f"{name} (hidden)")
            continue
        about = path.stat()
        if (about.st_dev, about.st_ino) in inside:
            found.left_out.append(f"{name} (a link to a folder that it is in)")
            continue
        if folder == found.root:
            found.folders.append(entry.name)
        yield from _files(path, found, inside)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in (*_HIDDEN_FOLDERS, *_HIDDEN_FILES)


def class_of(root: Path, path: Path) -> str:
    """The name of the folder just below ``root``, in UTF-8 whatever the locale.

    Raises:
        SubquadError: the name is not UTF-8.
    """
    name = os.fsencode(path.relative_to(root).parts[0])
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise SubquadError(f"{root}: the name of the class folder {name!r} is not UTF-8") from None


def few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def counted(files: Sequence[Path]) -> str:
    """``1 file``, ``2 files``."""
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def suffixes(files: Sequence[Path]) -> str:
    """The kinds of some files, for people."""
    return few(sorted({path.suffix.lower() or "no suffix" for path in files}))
