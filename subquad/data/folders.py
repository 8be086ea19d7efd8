"""Folders of text files, and single text files. The class of a file is the folder it is in."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from subquad.data.files import ByteFile, Lines, inner_suffixes
from subquad.data.rows import BadRow, Record
from subquad.data.walking import Walked, class_of, counted, few, suffixes, walk
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
    left_out: str = ""
    """What else is in the folder, for people."""

    @property
    def kind(self) -> str:
        if self.files == (self.root,):
            return "plain text"
        count = "1 text file" if len(self.files) == 1 else f"{len(self.files)} text files"
        names = [repr(name) for name in sorted(set(self.classes or ()))]
        inside = f" in the class folders {few(names)}" if names else ""
        return f"folder of {count}{inside}{self.left_out and f' ({self.left_out})'}"

    @classmethod
    def of_folder(cls, root: Path, *, labelled: bool, every: bool = False) -> "TextFiles":
        """The text files under ``root``, told by their suffix, or with ``every`` all files; where
        ``labelled``, those in a folder of their class.

        Raises:
            SubquadError: there are none.
        """
        found = walk(root)
        files = [p for p in found.files if every or inner_suffixes(p) in TEXT_SUFFIXES]
        if labelled:
            files = [path for path in files if path.parent != root]
        left_out = _left_out(found, files, labelled=labelled, every=every)
        if not files:
            where = "class folders with text files" if labelled else "text files"
            raise SubquadError(
                f"{root} holds no {where} ({', '.join(TEXT_SUFFIXES[:3])}); "
                + (left_out or "there is nothing in it")
            )
        classes = tuple(class_of(root, path) for path in files) if labelled else None
        return cls(root, tuple(files), classes, left_out)

    @classmethod
    def of_file(cls, path: Path) -> "TextFiles":
        return cls(path, (path,), None)

    def records(self, encoding: str, *, in_pieces: bool) -> Iterator[Record | BadRow]:
        """Each file as a record, or ``in_pieces``: a long one as several, all but the last with
        ``more``; or why it is none."""
        read = pieces if in_pieces else _whole
        for i, path in enumerate(self.files):
            label = None if self.classes is None else self.classes[i]
            last: Record | None = None
            problem = ""
            for text, problem in read(path, encoding):
                if problem:
                    break
                if last is not None:
                    yield replace(last, more=True)
                last = Record(i + 1, text, label)
            if problem or last is None:
                yield BadRow(i + 1, 0, problem or "the text is empty")
            else:
                yield last


def _left_out(found: Walked, read: list[Path], *, labelled: bool, every: bool) -> str:
    """What is in the folder and not read, and how to have it read."""
    kept = set(read)
    unread = [path for path in found.files if path not in kept]
    odd = [path for path in unread if not labelled or path.parent != found.root]
    beside = [path for path in unread if labelled and path.parent == found.root]
    said = []
    if odd:
        hint = "" if every else "; --format text reads every file"
        said.append(f"not read as text: {counted(odd)} ({suffixes(odd)}){hint}")
    if beside:
        said.append(f"not read, as beside the class folders: {counted(beside)}")
    if labelled and (empty := found.without(read)):
        said.append(f"folders without texts: {few(empty)}")
    if passed_over := found.passed_over(unread):
        said.append(f"left out: {few(passed_over)}")
    return "; ".join(said)


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


def _whole(path: Path, encoding: str) -> Iterator[tuple[str, str]]:
    parts = list(pieces(path, encoding))
    problem = parts[-1][1] if parts else ""
    text = "" if problem else "".join(text for text, _ in parts)
    if text or problem:
        yield text, problem
