"""Files that appear whole or not at all, with the permissions that the umask gives, and tensors
that are read only if every one of them is a number.

Everything that the package writes for keeps goes through here. Nothing is ever unpickled.
"""

import contextlib
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from subquad.errors import SubquadError

#: What is being written has this before its name, and the number of the process that writes it.
TEMPORARY = ".part-"


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """``write`` a file or directory under a temporary name beside ``path``, then rename it.

    Whatever goes wrong, the old ``path`` stays as it was. What was written is readable for those
    whom the umask allows, whichever library has written it.

    Raises:
        SubquadError: the disk is full or not writable.
    """
    path = path.resolve() if path.is_symlink() else path
    temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove(temporary)
        mode = _mode_by_umask(temporary)
        write(temporary)
        for file in [*temporary.rglob("*")] if temporary.is_dir() else [temporary]:
            if file.is_file() and file.stat().st_mode & 0o777 != mode:
                file.chmod(mode)
            _flush(file)
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    except (OSError, SafetensorError) as error:
        raise SubquadError(f"cannot write {path}: {error}; what was there is kept") from error
    finally:
        remove(temporary)


def _mode_by_umask(path: Path) -> int:
    """The permissions of a new file here. The umask cannot be read without being changed, for all
    threads; a file that is made and removed tells it."""
    with path.open("x") as file:
        mode = os.fstat(file.fileno()).st_mode & 0o777
    path.unlink()
    return mode


def _flush(path: Path) -> None:
    """Make sure that a file or directory entry is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Delete a file or a directory with all that is in it, as far as that is allowed."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def remove_leftovers(*directories: Path) -> None:
    """Delete what killed processes have left under temporary names; those of living ones stay."""
    for directory in directories:
        for path in directory.glob(f"{TEMPORARY}*") if directory.is_dir() else ():
            number = path.name.removeprefix(TEMPORARY).partition("-")[0]
            if not (number.isdecimal() and int(number) != os.getpid() and _lives(int(number))):
                remove(path)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


@contextlib.contextmanager
def nothing_left(*paths: Path) -> Iterator[None]:
    """Work that is refused takes with it those ``paths`` that were not there before."""
    new = [path for path in paths if not path.exists()]
    try:
        yield
    except SubquadError:
        for path in new:
            remove(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all."""
    write_atomically(path, lambda p: p.write_text(text, encoding="utf-8"))


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], about: dict[str, str] | None = None
) -> None:
    """Write contiguous ``tensors`` as one safetensors file, whole or not at all; ``about`` goes
    into its header."""
    write_atomically(path, lambda p: save_file(dict(tensors), p, metadata=about))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file.

    Raises:
        SubquadError: the file is missing, not whole, or holds NaN or infinity.
    """
    try:
        found = load_file(path)
    except FileNotFoundError:
        raise SubquadError(f"{path} is missing") from None
    except (SafetensorError, OSError) as error:
        raise SubquadError(f"{path} is damaged: {error}") from None
    refuse_no_numbers(path, found)
    return found


def refuse_no_numbers(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors read from ``path`` that hold NaN or infinity: whatever is computed with them
    means nothing. Costs one pass over memory, as reading them does.

    Raises:
        SubquadError: the tensors are named.
    """
    bad = sorted(name for name, tensor in tensors.items() if not _finite(tensor))
    if bad:
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        raise SubquadError(
            f"{path} holds values that are not finite numbers (NaN or infinity), in "
            f"{', '.join(bad[:3])}{more}: it cannot be used"
        )


def _finite(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    if tensor.element_size() == 1:  # 8-bit floats have no order of their own
        tensor = tensor.float()
    return all(math.isfinite(float(end)) for end in torch.aminmax(tensor))
