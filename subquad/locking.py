"""One process at a time works in a directory."""

import contextlib
import os
import platform
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from subquad.errors import SubquadError

try:
    import fcntl
except ImportError:  # Windows has other locks: there, nobody is kept out
    fcntl = None  # type: ignore[assignment]

#: Held as long as somebody works in a directory; holds the number of the process and its machine.
LOCK = ".lock"

#: Open locks of this process: (device, inode) of the directory → (descriptor, thread).
_held: dict[tuple[int, int], tuple[int, int]] = {}


@contextlib.contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Keep other processes that would write out of ``directory``, which is made if it is not there
    and removed again if it stayed empty. Those that only read are not concerned.

    The lock is the system's (``flock``): it ends with the process, however that ends, so that
    nobody is kept out by a file left behind. Whoever holds the directory may ask again in the same
    thread. Where the file system has no locks, nobody is kept out.

    Raises:
        SubquadError: another process, which is named, works there; or no file can be made there.
    """
    made = _made(directory)
    try:
        with _locked(directory):
            yield
    finally:
        for path in made:  # only empty ones can be removed
            with contextlib.suppress(OSError):
                path.rmdir()


def _made(directory: Path) -> list[Path]:
    """Make a directory; return those that were not there, the innermost first."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SubquadError(f"cannot write {directory}: {error.strerror or error}") from None
    return missing


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    within = os.open(directory, os.O_RDONLY)  # goes along when the directory is renamed
    try:
        found = os.fstat(within)
        key = found.st_dev, found.st_ino
        if key in _held and _held[key][1] == threading.get_ident():
            yield
            return
        descriptor = _taken(directory, within)
        _close_in_children()
        _held[key] = descriptor, threading.get_ident()
        try:
            yield
        finally:
            del _held[key]
            with contextlib.suppress(OSError):
                os.unlink(LOCK, dir_fd=within)
            os.close(descriptor)
    finally:
        os.close(within)


def _taken(directory: Path, within: int) -> int:
    """The descriptor of the lock file, which is ours from now on."""
    while True:
        try:
            descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o666, dir_fd=within)
        except OSError as error:
            raise SubquadError(f"cannot write {directory}: {error.strerror or error}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode("utf-8", "replace").split()
            os.close(descriptor)
            raise SubquadError(f"{directory} is in use by {_named(holder)}") from None
        except OSError:  # this file system has no locks
            return descriptor
        if _is_there(descriptor, within):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()} {platform.node()}\n".encode())
            return descriptor
        os.close(descriptor)  # who held it has removed it: whoever comes next makes another file


def _is_there(descriptor: int, within: int) -> bool:
    try:
        named, held = os.stat(LOCK, dir_fd=within), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)


def _named(holder: list[str]) -> str:
    if not holder:
        return "another process"
    if holder[0] == str(os.getpid()):
        return "another thread of this process"
    where = "" if holder[1:] in ([], [platform.node()]) else f" on {holder[1]}"
    return f"process {holder[0]}{where}: wait until it ends, or stop it"


@cache
def _close_in_children() -> None:
    """A process that is forked (to prepare batches) must not keep the lock when we have died."""
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    for descriptor, _ in _held.values():
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()
