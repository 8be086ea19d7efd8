"""Files whole or not at all, by the umask, and numbers only."""

import os

import pytest
import torch
from safetensors.torch import save_file

from subquad import storage
from subquad.errors import SubquadError


@pytest.fixture
def umask():
    """Sets the umask; it is put back."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o002])
def test_whatever_writes_the_umask_decides(tmp_path, umask, mask):
    umask(mask)

    def folder(path):
        (path / "inner").mkdir(parents=True)
        save_file({"x": torch.zeros(1)}, path / "inner" / "x.safetensors")
        (path / "text").write_text("t")

    storage.write_tensors(tmp_path / "a.safetensors", {"x": torch.zeros(2)})
    storage.write_text(tmp_path / "b.txt", "b")
    storage.write_atomically(tmp_path / "c", folder)
    found = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(found) == 4
    assert {p.stat().st_mode & 0o777 for p in found} == {0o666 & ~mask}


def test_safetensors_alone_would_not(tmp_path, umask):
    """Why permissions are set at all; if this fails, setting them is no longer needed."""
    umask(0o022)
    save_file({"x": torch.zeros(1)}, tmp_path / "x")
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_refused_by_name(tmp_path, dtype, bad):
    tensor = torch.zeros(3, 5, dtype=dtype)
    tensor[2, 1] = bad
    path = tmp_path / "w.safetensors"
    save_file({"fine": torch.ones(2), "layer.weight": tensor, "ids": torch.arange(3)}, path)
    with pytest.raises(SubquadError, match=r"not finite numbers .*in layer\.weight: it cannot"):
        storage.read_tensors(path)


def test_numbers_of_every_kind_are_read(tmp_path):
    tensors = {
        "large": torch.full((2, 2), torch.finfo(torch.float32).max),
        "empty": torch.zeros(0),
        "mask": torch.tensor([True]),
        "f8": torch.ones(4).to(torch.float8_e4m3fn),
    }
    storage.write_tensors(tmp_path / "w", tensors)
    assert storage.read_tensors(tmp_path / "w").keys() == tensors.keys()


def test_leftovers_of_the_living_stay(tmp_path):
    (tmp_path / f".part-{os.getppid()}-file").touch()
    (tmp_path / f".part-{1 << 24}-file").touch()
    (tmp_path / f".part-{os.getpid()}-file").touch()
    storage.remove_leftovers(tmp_path, tmp_path / "not there")
    assert [p.name for p in tmp_path.iterdir()] == [f".part-{os.getppid()}-file"]


def test_refused_work_leaves_nothing_and_keeps_what_was_there(tmp_path):
    (tmp_path / "old").mkdir()

    def refused():
        with storage.nothing_left(tmp_path / "old", tmp_path / "new"):
            (tmp_path / "new").mkdir()
            raise SubquadError("no")

    with pytest.raises(SubquadError, match="no"):
        refused()
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
