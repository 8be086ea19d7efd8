"""Folders of text files, and single text files. The class of a file is the folder it is in."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from subquad.data.files import ByteFile, Lines, inner_suffixes
from subquad.errors import SubquadError

#: Suffixes read as text inside a folder; "" is a name without one.
TEXT_SUFFIXES = (".txt", ".text", ".md", "")
#: Characters of one piece of a long text.
PIECE = 1 << 20


@dataclass(frozen=True)
class TextFiles:
    """One text per file, in the code-point order of their paths."""

    root: Path
    files: tuple[Path, ...]
    classes: tuple[str, ...] | None
    """Each file's class; None where there are none."""
    unread: int
    """Files of another kind, or outside every class folder."""

    @property
    def kind(self) -> str:
        if self.files == (self.root,):
            return "plain text"
        count = "1 text file" if len(self.files) == 1 else f"{len(self.files)} text files"
        inside = f" in the class folders {_few(sorted(set(self.classes)))}" if self.classes else ""
        unread = f" ({self.unread} other files are not read)" if self.unread else ""
        return f"folder of {count}{inside}{unread}"

    @classmethod
    def of_folder(cls, root: Path, *, labelled: bool) -> "TextFiles":
        """The text files under ``root``; where ``labelled``, those in a folder of their class.

        Raises:
            SubquadError: there are none.
        """
        everything = list(walk(root))
        files = [path for path in everything if inner_suffixes(path) in TEXT_SUFFIXES]
        if labelled:
            files = [path for path in files if path.parent != root]
        if not files:
            where = "class folders with text files" if labelled else "text files"
            kinds = ", ".join(sorted({p.suffix.lower() or "no suffix" for p in everything})[:8])
            raise SubquadError(
                f"{root} holds no {where} ({', '.join(TEXT_SUFFIXES[:3])}); it holds "
                f"{f'{len(everything)} files ({kinds})' if everything else 'nothing'}"
            )
        classes = tuple(class_of(root, path) for path in files) if labelled else None
        return cls(root, tuple(files), classes, len(everything) - len(files))

    @classmethod
    def of_file(cls, path: Path) -> "TextFiles":
        return cls(path, (path,), None, 0)


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(map(repr, names[:10])) + more


def walk(root: Path) -> Iterator[Path]:
    """Every file under ``root`` that is not hidden, in the code-point order of their paths."""
    found = []
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith((".", "__"))]
        found += [Path(folder, name) for name in names if not _is_hidden(name)]
    yield from sorted(found, key=lambda path: path.relative_to(root).as_posix())


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


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in ("thumbs.db", "desktop.ini")


def pieces(path: Path, encoding: str) -> Iterator[tuple[str, str]]:
    """(piece, problem) of a text file, each of about a megabyte and, where there are lines, of
    whole ones; a problem ends it."""
    if problem := _no_file(path):
        yield "", problem
        return
    held = ""
    for text, damaged in Lines(ByteFile(path), encoding).decoded():
        if damaged:
            yield "", _fault(path, encoding)
            return
        cut = text.rfind("\n") + 1 or (len(text) if len(held) > PIECE else 0)
        if cut:
            yield held + text[:cut], ""
            held = ""
        held += text[cut:]
    if held:
        yield held, ""


def _no_file(path: Path) -> str:
    """Why a name in a folder cannot be opened as a file; a pipe would be waited for without end."""
    if path.is_file():
        return ""
    if path.is_symlink():
        return f"is a link to {os.readlink(path)!r}, which is no file"
    return "is no file" if path.exists() else "is no longer there"


def _fault(path: Path, encoding: str) -> str:
    """Where the first byte is that the encoding does not allow."""
    lines = Lines(ByteFile(path), encoding)
    return next(fault for _ in lines if (fault := lines.take_fault()))


def whole(path: Path, encoding: str) -> tuple[str, str]:
    """(text, problem) of a whole text file."""
    parts = list(pieces(path, encoding))
    problem = parts[-1][1] if parts else ""
    return ("", problem) if problem else ("".join(text for text, _ in parts), "")
