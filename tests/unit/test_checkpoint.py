"""A run directory cannot be hurt: atomic writes, complete checkpoints, names, refusals."""

import errno
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from subquad import checkpoint, storage
from subquad.checkpoint import Progress
from subquad.errors import SubquadError


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.inner = nn.Linear(3, 3)

    def forward(self, tokens):
        return self.head(self.inner(self.embedding(tokens)))


def trained(model, steps=1):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.arange(5)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


def saved(run, model, optimizer, step=1, keep=2):
    checkpoint.save_checkpoint(run, model, optimizer, Progress(step, 0.5, None, 0), keep=keep)
    return checkpoint.checkpoints(run)[-1]


def fresh(model):
    return torch.optim.AdamW(model.parameters(), lr=0.1)


def test_b28_tied_weights_are_saved_once_and_stay_tied(tmp_path):
    model = Tied()
    path = saved(tmp_path, model, trained(model))
    names = checkpoint.read_tensors(path / checkpoint.MODEL).keys()
    assert names == {"embedding.weight", "inner.weight", "inner.bias"}
    other = Tied()
    optimizer = fresh(other)
    checkpoint.load_checkpoint(path, other, optimizer)
    assert other.head.weight is other.embedding.weight
    trained_on = [trained_step(m, o) for m, o in ((model, None), (other, optimizer))]
    assert torch.isfinite(trained_on[1])


def trained_step(model, optimizer):
    optimizer = optimizer or fresh(model)
    loss = model(torch.arange(5)).square().sum()
    loss.backward()
    optimizer.step()
    return loss


def test_a_restored_run_goes_on_exactly(tmp_path):
    model = Tied()
    optimizer = trained(model, 3)
    path = saved(tmp_path, model, optimizer, step=3)
    other = Tied()
    restored = fresh(other)
    progress = checkpoint.load_checkpoint(path, other, restored)
    assert progress == Progress(3, 0.5, None, 0)
    for m, o in ((model, optimizer), (other, restored)):
        m.zero_grad()
        trained_step(m, o)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


class Wrapper(nn.Module):
    """Prefixes names with ``module.``, as DDP does."""

    def __init__(self, module):
        super().__init__()
        self.module = module


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch's own
def test_b27_wrappers_never_leak_into_names(tmp_path):
    model = Tied()
    plain, wrapped = tmp_path / "plain.safetensors", tmp_path / "wrapped.safetensors"
    checkpoint.save_weights(model, plain)
    checkpoint.save_weights(Wrapper(torch.compile(model)), wrapped)
    names = checkpoint.read_tensors(plain).keys()
    assert checkpoint.read_tensors(wrapped).keys() == names
    checkpoint.load_weights(Wrapper(torch.compile(Tied())), plain)
    checkpoint.load_weights(Tied(), wrapped)


def test_b27_missing_and_unexpected_names_are_listed(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"inner.weight": torch.zeros(3, 4), "extra": torch.zeros(1)}, path)
    with pytest.raises(SubquadError) as caught:
        checkpoint.load_weights(Tied(), path)
    message = str(caught.value)
    assert "missing ['embedding.weight', 'inner.bias']" in message
    assert "unexpected ['extra']" in message
    assert "of another shape ['inner.weight']" in message


@pytest.mark.parametrize("name", [checkpoint.MODEL, checkpoint.OPTIMIZER, checkpoint.PROGRESS])
def test_b23_a_missing_or_cut_piece_is_refused_by_name(tmp_path, name):
    model = Tied()
    path = saved(tmp_path, model, trained(model))
    whole = (path / name).read_bytes()
    for damage in (whole[: len(whole) // 2], b"", None):
        if damage is None:
            (path / name).unlink()
        else:
            (path / name).write_bytes(damage)
        with pytest.raises(SubquadError, match=name.replace(".", r"\.")):
            checkpoint.load_checkpoint(path, Tied(), fresh(model))


class Payload:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (Path.touch, (Path(self.target),))


@pytest.mark.parametrize("name", [checkpoint.MODEL, checkpoint.OPTIMIZER, checkpoint.PROGRESS])
def test_b29_nothing_is_ever_unpickled(tmp_path, name):
    model = Tied()
    path = saved(tmp_path, model, trained(model))
    marker = tmp_path / "code-ran"
    (path / name).write_bytes(pickle.dumps(Payload(str(marker))))
    with pytest.raises(SubquadError, match=name.replace(".", r"\.")):
        checkpoint.load_checkpoint(path, Tied(), fresh(model))
    torch.save(Payload(str(marker)), path / name)
    with pytest.raises(SubquadError, match=name.replace(".", r"\.")):
        checkpoint.load_checkpoint(path, Tied(), fresh(model))
    assert not marker.exists()
    pickle.loads(pickle.dumps(Payload(str(marker))))  # the payload is a real one
    assert marker.exists()


def test_rotation_counts_numerically_and_never_first_deletes(tmp_path, monkeypatch):
    model = Tied()
    optimizer = trained(model)
    for step in (8, 9, 10, 100):
        saved(tmp_path, model, optimizer, step=step)
    names = [p.name for p in checkpoint.checkpoints(tmp_path)]
    assert names == ["step-00000010", "step-00000100"]

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage, "save_file", full)
    with pytest.raises(SubquadError, match="No space left on device"):
        saved(tmp_path, model, optimizer, step=101)
    assert [p.name for p in checkpoint.checkpoints(tmp_path)] == names
    assert [p.name for p in (tmp_path / checkpoint.CHECKPOINTS).iterdir()] == names


def test_x05_a_failed_write_keeps_what_was_there(tmp_path):
    path = tmp_path / "file"
    checkpoint.write_text(path, "old")

    def half(temporary):
        temporary.write_text("half of the n")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(SubquadError, match="what was there is kept"):
        checkpoint.write_atomically(path, half)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


#: No process has this number: Linux counts to 2^22.
DEAD = 1 << 24


def test_leftovers_of_a_killed_process_are_removed_and_never_taken(tmp_path):
    model = Tied()
    path = saved(tmp_path, model, trained(model))
    (tmp_path / checkpoint.CHECKPOINTS / f".part-{DEAD}-step-00000002").mkdir()
    (tmp_path / f".part-{DEAD}-model.safetensors").write_text("half")
    assert checkpoint.checkpoints(tmp_path) == [path]
    storage.remove_leftovers(tmp_path, tmp_path / checkpoint.CHECKPOINTS)
    assert not list(tmp_path.rglob(".part-*"))
    assert checkpoint.checkpoints(tmp_path) == [path]


def test_metrics_are_cut_to_the_step_and_a_torn_line_is_dropped(tmp_path):
    for step in (1, 2, 3):
        checkpoint.append_metrics(tmp_path, {"kind": "train", "step": step})
    with (tmp_path / checkpoint.METRICS).open("a") as f:
        f.write('{"kind": "tra')
    checkpoint.cut_metrics(tmp_path, 2)
    assert [m["step"] for m in checkpoint.read_metrics(tmp_path)] == [1, 2]
