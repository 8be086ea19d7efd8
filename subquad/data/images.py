"""Pictures for pixels: IDX (the format of MNIST), NumPy arrays, folders of PNG and JPEG, and the
built-in digits. Nothing is ever unpickled."""

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.data import digits, idx
from subquad.data.files import ByteFile, named
from subquad.data.targets import Classes
from subquad.data.walking import Walked, class_of, counted, few, suffixes, walk
from subquad.errors import SubquadError, UsageError

Pixels = npt.NDArray[np.uint8]

PICTURES = (".png", ".jpg", ".jpeg")
#: Names under which an .npz keeps its pictures and its labels.
_PIXELS = ("pixels", "images", "x", "x_train", "data", "arr_0")
_LABELS = ("labels", "label", "y", "y_train", "targets", "arr_1")


@dataclass(frozen=True)
class Images:
    """``pixels`` uint8 ``[n, h, w]`` or ``[n, h, w, c]`` in ``levels`` levels; ``labels``: the
    name of each one's class, where there are classes; ``detected``: one line for people."""

    pixels: Pixels
    labels: tuple[str, ...] | None
    levels: int
    detected: str

    def __post_init__(self) -> None:
        assert self.pixels.dtype == np.uint8
        assert self.pixels.ndim in (3, 4)
        assert self.labels is None or len(self.labels) == len(self.pixels)

    def __len__(self) -> int:
        return len(self.pixels)


def open_images(path: str | Path) -> Images:
    """Pictures from an IDX file (its labels from the file beside it), an ``.npy`` or ``.npz``, a
    folder (a class per sub-folder, if there are any), or ``digits``.

    Raises:
        SubquadError: missing, empty, cut short, of mixed sizes, or not of bytes.
        UsageError: the kind of file is not known.
    """
    if str(path) == digits.NAME:
        return _digits()
    path = named(path)
    if not path.exists():
        raise SubquadError(f"{path}: no such file or folder")
    if path.is_dir():
        return _of_folder(path)
    if path.suffix.lower() in (".npy", ".npz"):
        return _of_numpy(path)
    if path.suffix.lower() in PICTURES:
        (picture,) = _pictures([path])
        return Images(picture[None], None, 256, f"{path}: one picture, {_size(picture[None])}")
    file = ByteFile(path)
    if idx.is_idx(file):
        return _of_idx(file)
    raise UsageError(
        f"{path} is none of: an IDX file (.gz too), .npy, .npz, a picture "
        f"({'/'.join(PICTURES)}) or a folder of them, or the name {digits.NAME}"
    )


def of_arrays(pixels: Any, labels: Any = None, where: str = "in memory") -> Images:
    """Pictures that a program holds: whole numbers 0..255 ``[n, h, w]`` or ``[n, h, w, c]``, and
    the class of each, where there are classes.

    Raises:
        SubquadError: they are no such pictures, or the labels are not one name or number each.
    """
    found, path = _bytes(np.asarray(pixels), Path(where)), Path(where)
    names = None if labels is None else _same_number(found, np.asarray(labels), path, path)
    said = "no labels" if names is None else "with labels"
    return Images(found, names, 256, f"{where}: {_size(found)}, {said}")


def _digits() -> Images:
    examples = digits.load()
    pixels = examples.tokens.values.astype(np.uint8).reshape(-1, *digits.SHAPE)
    labels = tuple(map(str, examples.answers(Classes).tolist()))
    detected = f"{digits.NAME}: {_size(pixels)}, built in, with labels"
    if other := digits.also_here():
        detected += f" ({other})"
    return Images(pixels, labels, digits.LEVELS, detected)


def _of_idx(file: ByteFile) -> Images:
    pixels = _checked(idx.read(file, what="pictures", dimensions=(3, 4)), file.path)
    beside = idx.labels_beside(file.path)
    if beside is None:
        return Images(pixels, None, 256, f"{file.path}: {_size(pixels)}, IDX, no labels beside it")
    found = idx.read(ByteFile(beside), what="labels", dimensions=(1,))
    labels = _same_number(pixels, found, file.path, beside)
    detected = f"{file.path}: {_size(pixels)}, IDX, labels from {beside.name}"
    return Images(pixels, labels, 256, detected)


def _of_numpy(path: Path) -> Images:
    try:
        names, arrays = _arrays(path)
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise SubquadError(f"{path} cannot be read: {reason} (pickles never are)") from None
    if "" in arrays:
        pixels = _bytes(arrays[""], path)
        return Images(pixels, None, 256, f"{path}: {_size(pixels)}, .npy, no labels")
    name = next((name for name in _PIXELS if name in arrays), None)
    if name is None:
        raise SubquadError(
            f"{path} has no array called {' or '.join(_PIXELS[:3])}; it has: "
            + ", ".join(names[:8])
            + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        )
    pixels = _bytes(arrays[name], path)
    other = next((name for name in _LABELS if name in arrays), None)
    labels = None if other is None else _same_number(pixels, arrays[other], path, path)
    detected = f"{path}: {_size(pixels)}, .npz, pixels = {name!r}, " + (
        "no labels" if other is None else f"labels = {other!r}"
    )
    return Images(pixels, labels, 256, detected)


def _arrays(path: Path) -> tuple[list[str], dict[str, npt.NDArray[Any]]]:
    """All names, and the arrays of pixels or labels by theirs; "" is the one of an ``.npy``."""
    with path.open("rb") as f:
        loaded = np.load(f, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return [""], {"": loaded}
        names = loaded.files
        wanted = [name for name in names if name.lower() in _PIXELS + _LABELS]
        return names, {name.lower(): loaded[name] for name in wanted}


def _bytes(array: npt.NDArray[Any], path: Path) -> Pixels:
    """Whole numbers 0..255 as bytes."""
    if array.dtype.kind not in "ui":
        raise SubquadError(
            f"{path} holds {array.dtype} values; pixels are whole numbers 0..255 (uint8)"
        )
    if array.size and (array.min() < 0 or array.max() > 255):
        raise SubquadError(
            f"{path} holds values from {array.min()} to {array.max()}; pixels are 0..255"
        )
    return _checked(array.astype(np.uint8), path)


def _checked(pixels: npt.NDArray[Any], path: Path) -> Pixels:
    if pixels.ndim not in (3, 4) or (pixels.ndim == 4 and pixels.shape[3] not in (1, 2, 3, 4)):
        raise SubquadError(
            f"{path} has shape {list(pixels.shape)}; pictures are [n, height, width] or "
            "[n, height, width, channels]"
        )
    if 0 in pixels.shape:
        raise SubquadError(f"{path} holds no pixels: its shape is {list(pixels.shape)}")
    return pixels


def _same_number(
    pixels: Pixels, labels: npt.NDArray[Any], path: Path, beside: Path
) -> tuple[str, ...]:
    if labels.ndim != 1 or labels.dtype.kind not in "uiUb":
        raise SubquadError(
            f"{beside}: the labels are {labels.dtype} {list(labels.shape)}; one whole number or "
            "name per picture is wanted"
        )
    if len(labels) != len(pixels):
        raise SubquadError(f"{path} holds {len(pixels)} pictures, {beside} {len(labels)} labels")
    names = np.where(labels, "true", "false") if labels.dtype.kind == "b" else labels
    return tuple(map(str, names.tolist()))


def _of_folder(root: Path) -> Images:
    found = walk(root)
    files = [path for path in found.files if path.suffix.lower() in PICTURES]
    inside = [path for path in files if path.parent != root]
    used = inside or files
    left_out = _left_out(found, used, classes=bool(inside))
    if not used:
        raise SubquadError(
            f"{root} holds no pictures ({', '.join(PICTURES)})" + (left_out and f": {left_out}")
        )
    if inside and len(inside) < len(files):
        loose = next(path for path in files if path.parent == root)
        raise SubquadError(f"{root} has pictures both in class folders and beside them: {loose}")
    pixels = _stacked(used, list(_pictures(used)))
    labels = tuple(class_of(root, path) for path in used) if inside else None
    classes = f"{len(set(labels))} class folders" if labels else "no class folders"
    detected = f"{root}: {_size(pixels)}, {classes}" + (left_out and f" ({left_out})")
    return Images(pixels, labels, 256, detected)


def _left_out(found: Walked, read: list[Path], *, classes: bool) -> str:
    """What else is in the folder."""
    kept = set(read)
    unread = [path for path in found.files if path not in kept]
    said = [f"not read: {counted(unread)} ({suffixes(unread)})"] if unread else []
    if classes and (empty := found.without(read)):
        said.append(f"folders without pictures: {few(empty)}")
    if passed_over := found.passed_over(unread):
        said.append(f"left out: {few(passed_over)}")
    return "; ".join(said)


def _pictures(files: Sequence[Path]) -> Iterator[Pixels]:
    """Every picture, upright: grey ones as ``[h, w]``, all others as RGB ``[h, w, 3]``."""
    from PIL import Image, ImageOps

    for path in files:
        try:
            with Image.open(path, formats=("PNG", "JPEG")) as picture:
                if problem := _unusable(picture, path):
                    raise SubquadError(f"{path} {problem}")
                mode = "L" if picture.mode in ("1", "L") else "RGB"
                upright = ImageOps.exif_transpose(picture)
                yield np.asarray(upright.convert(mode), dtype=np.uint8)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as e:
            raise SubquadError(f"{path} is not a whole picture: {e}") from None


def _unusable(picture: Any, path: Path) -> str:
    """Why a picture would lose something as 8-bit grey or RGB; "" if it does not."""
    wanted = "8-bit grey (L) or RGB without transparency is wanted"
    if picture.mode not in ("1", "L", "P", "RGB", "CMYK", "YCbCr"):
        return f"has pixels of kind {picture.mode}; {wanted}"
    if picture.format != "PNG":
        return ""
    if "transparency" in picture.info:
        return f"has transparent pixels (kind {picture.mode}); {wanted}"
    if getattr(picture, "is_animated", False):
        return f"is an animation of {picture.n_frames} frames; one picture is wanted"
    with path.open("rb") as f:
        depth = f.read(25)[24]  # of the header chunk, which comes first
    return f"has {depth} bits per channel; {wanted}" if depth > 8 else ""


def _stacked(files: Sequence[Path], pictures: list[Pixels]) -> Pixels:
    """All of one size; where some are grey and some RGB, all RGB."""
    for path, picture in zip(files, pictures, strict=True):
        if picture.shape[:2] != pictures[0].shape[:2]:
            raise SubquadError(
                f"pictures of different sizes: {files[0]} is {_by(pictures[0])}, {path} is "
                f"{_by(picture)}; one size is wanted"
            )
    if len({picture.ndim for picture in pictures}) == 2:
        pictures = [
            picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
            for picture in pictures
        ]
    return np.stack(pictures)


def _by(picture: Pixels) -> str:
    return f"{picture.shape[1]}×{picture.shape[0]}"


def _size(pixels: Pixels) -> str:
    colour = "" if pixels.ndim == 3 else f" in {pixels.shape[3]} channels"
    return f"{len(pixels)} pictures of {_by(pixels[0])} pixels{colour}"
