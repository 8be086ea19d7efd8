"""Pictures: IDX, NumPy, folders, digits; what is cut short or unsafe is refused."""

import gzip
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from subquad.data.images import open_images
from subquad.errors import SubquadError, UsageError

PIXELS = np.random.default_rng(0).integers(0, 256, size=(5, 4, 3), dtype=np.uint8)
LABELS = np.array([3, 1, 4, 1, 5], dtype=np.uint8)


def idx(array: np.ndarray[Any, Any], kind: int = 8) -> bytes:
    head = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_with_its_labels_beside_it(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(pack(idx(PIXELS)))
    assert open_images(path).labels is None
    assert "no labels" in open_images(path).detected
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS)))
    images = open_images(path)
    assert np.array_equal(images.pixels, PIXELS)
    assert images.labels == ("3", "1", "4", "1", "5")
    assert images.levels == 256
    assert "5 pictures of 3×4 pixels, IDX, labels from train-labels" in images.detected


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (idx(PIXELS)[:-1], "60 bytes and holds 59: it is cut short"),
        (idx(PIXELS) + b"x", "60 bytes and holds 61"),
        (idx(PIXELS)[:10], "cut short in its header"),
        (idx(LABELS), r"has 1 dimension\(s\) where pictures have 3 or 4"),
        (idx(PIXELS, kind=0x0D), "IDX type 0x0D"),
        (idx(PIXELS[:0]), "holds no pixels"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "it is cut short"),
    ],
)
def test_idx_that_is_not_whole(tmp_path: Path, content: bytes, found: str) -> None:
    (tmp_path / "a-idx3").write_bytes(content)
    with pytest.raises(SubquadError, match=found):
        open_images(tmp_path / "a-idx3")


def test_idx_labels_that_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(idx(PIXELS))
    (tmp_path / "labels").write_bytes(idx(LABELS[:4]))
    with pytest.raises(SubquadError, match=r"images holds 5 pictures, .*labels 4 labels"):
        open_images(tmp_path / "images")
    (tmp_path / "labels").write_bytes(b"nothing")
    with pytest.raises(SubquadError, match="labels is not an IDX file: it begins with 6e 6f"):
        open_images(tmp_path / "images")


def test_truncated_gzip(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx(PIXELS))[:-4])
    with pytest.raises(SubquadError, match="cut short"):
        open_images(tmp_path / "a.gz")


def test_numpy_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", PIXELS.astype(np.int64))
    assert np.array_equal(open_images(tmp_path / "a.npy").pixels, PIXELS)
    np.savez_compressed(tmp_path / "a.npz", x=PIXELS[..., None], Y=np.array(list("abcab")))
    images = open_images(tmp_path / "a.npz")
    assert images.pixels.shape == (5, 4, 3, 1)
    assert images.labels == ("a", "b", "c", "a", "b")
    assert "pixels = 'x', labels = 'y'" in images.detected


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (PIXELS / 255, "float64 values"),
        (PIXELS.astype(int) * 2, "values from"),
        (PIXELS.astype(int) - 256, "values from"),
        (PIXELS[0], r"shape \[4, 3\]"),
        (PIXELS[:, :, :, None].repeat(7, 3), r"shape \[5, 4, 3, 7\]"),
        (PIXELS[:0], "holds no pixels"),
        (PIXELS != 0, "bool values"),
    ],
)
def test_arrays_that_are_no_pictures(
    tmp_path: Path, array: np.ndarray[Any, Any], found: str
) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(SubquadError, match=found):
        open_images(tmp_path / "a.npy")


class Payload:
    """Touches a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_b29_a_pickle_in_an_array_is_not_run(tmp_path: Path, suffix: str) -> None:
    array = np.array([Payload(tmp_path / "ran")], dtype=object)
    path = tmp_path / f"a{suffix}"
    np.save(path, array) if suffix == ".npy" else np.savez(path, x=array)
    with pytest.raises(SubquadError, match="cannot be read"):
        open_images(path)
    assert not (tmp_path / "ran").exists()
    np.load(path, allow_pickle=True) if suffix == ".npy" else np.load(path, allow_pickle=True)["x"]
    assert (tmp_path / "ran").exists()  # it would have


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_numpy_files_that_are_not_whole(tmp_path: Path, name: str) -> None:
    save = np.save if name == "a.npy" else np.savez
    save(tmp_path / name, PIXELS)
    data = (tmp_path / name).read_bytes()
    for cut in (0, 5, len(data) // 2, len(data) - 1):
        (tmp_path / name).write_bytes(data[:cut])
        with pytest.raises(SubquadError, match="cannot be read"):
            open_images(tmp_path / name)
    np.savez(tmp_path / "b.npz", mfcc=PIXELS)
    with pytest.raises(SubquadError, match=r"no array called pixels .* it has: mfcc"):
        open_images(tmp_path / "b.npz")


def picture(path: Path, mode: str = "L", size: tuple[int, int] = (3, 4)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, 7 if mode == "L" else None).save(path)


def test_folder_of_pictures(tmp_path: Path) -> None:
    for name in ("b/2.png", "b/10.jpg", "a/1.png"):
        picture(tmp_path / name)
    (tmp_path / "notes.txt").touch()
    images = open_images(tmp_path)
    assert images.pixels.shape == (3, 4, 3)
    assert images.labels == ("a", "b", "b")
    picture(tmp_path / "b/3.png", "RGB")
    assert open_images(tmp_path).pixels.shape == (4, 4, 3, 3)
    picture(tmp_path / "0.png")
    with pytest.raises(SubquadError, match=r"both in class folders and beside them: .*0\.png"):
        open_images(tmp_path)


def test_folder_without_classes(tmp_path: Path) -> None:
    with pytest.raises(SubquadError, match="holds no pictures"):
        open_images(tmp_path)
    picture(tmp_path / "0.png")
    assert open_images(tmp_path).labels is None


def test_folder_with_what_does_not_fit(tmp_path: Path) -> None:
    picture(tmp_path / "a/1.png")
    picture(tmp_path / "b/2.png", size=(5, 4))
    with pytest.raises(SubquadError, match=r"a/1\.png is 3×4, .*b/2\.png is 5×4; one size"):
        open_images(tmp_path)
    picture(tmp_path / "b/2.png", "RGBA")
    with pytest.raises(SubquadError, match=r"b/2\.png has pixels of kind RGBA"):
        open_images(tmp_path)
    for content in (b"", b"GIF89a", (tmp_path / "a/1.png").read_bytes()[:-30]):
        (tmp_path / "b/2.png").write_bytes(content)
        with pytest.raises(SubquadError, match=r"b/2\.png is not a whole picture"):
            open_images(tmp_path)


def test_digits() -> None:
    images = open_images("digits")
    assert images.pixels.shape == (1797, 8, 8)
    assert images.labels is not None
    assert images.labels[:3] == ("0", "1", "2")
    assert images.levels == 17
    assert images.pixels.max() == 16


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n")
    with pytest.raises(UsageError, match="is none of: an IDX file"):
        open_images(tmp_path / "a.csv")
    with pytest.raises(SubquadError, match="no such file"):
        open_images(tmp_path / "b.npy")


def turned(path: Path, upright: Image.Image, orientation: int, how: Image.Transpose | None) -> None:
    """Save ``upright`` as a camera would that was held otherwise."""
    stored = upright if how is None else upright.transpose(how)
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(path, exif=exif, quality=100)


TURNS = [
    (1, None),
    (2, Image.Transpose.FLIP_LEFT_RIGHT),
    (3, Image.Transpose.ROTATE_180),
    (4, Image.Transpose.FLIP_TOP_BOTTOM),
    (5, Image.Transpose.TRANSPOSE),
    (6, Image.Transpose.ROTATE_90),
    (7, Image.Transpose.TRANSVERSE),
    (8, Image.Transpose.ROTATE_270),
]


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_photographs_stand_upright(tmp_path: Path, suffix: str) -> None:
    upright = Image.new("L", (32, 16), 0)
    upright.paste(255, (16, 0, 32, 8))  # the upper right quarter
    for orientation, how in TURNS:
        turned(tmp_path / f"{orientation}{suffix}", upright, orientation, how)
    images = open_images(tmp_path)
    assert images.pixels.shape == (8, 16, 32)
    for pixels in images.pixels:
        assert pixels[:8, 16:].min() > 200
        assert pixels.mean() < 70


def test_pictures_that_would_lose_something(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    for mode, said in (("RGBA", "kind RGBA"), ("LA", "kind LA"), ("I;16", "kind I;16")):
        Image.new(mode, (4, 4)).save(path)
        with pytest.raises(SubquadError, match=rf"a\.png has pixels of {said}"):
            open_images(path)
    for mode in ("P", "L", "RGB"):
        colour = (1, 2, 3) if mode == "RGB" else 0
        Image.new(mode, (4, 4)).save(path, transparency=colour)
        with pytest.raises(SubquadError, match=rf"transparent pixels \(kind {mode}\)"):
            open_images(path)
    frames = [Image.new("L", (4, 4), shade) for shade in (0, 90, 180)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    with pytest.raises(SubquadError, match="an animation of 3 frames"):
        open_images(path)
    path.write_bytes(png_of_16_bits(np.full((4, 4, 3), 300, dtype=np.uint16)))
    with pytest.raises(SubquadError, match="16 bits per channel"):
        open_images(path)


def png_of_16_bits(pixels: np.ndarray[Any, Any]) -> bytes:
    """A coloured PNG of 16 bits, which Pillow reads and cannot write."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def test_palettes_and_printers_colours_become_rgb(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), (250, 10, 20)).quantize(4).save(tmp_path / "1.png")
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "2.jpg", quality=100)
    images = open_images(tmp_path)
    assert images.pixels.shape == (2, 8, 8, 3)
    assert np.abs(images.pixels.astype(int) - [250, 10, 20]).max() < 25
