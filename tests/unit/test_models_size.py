"""The size of a model is known before it is made, and what cannot be is refused."""

from dataclasses import replace

import pytest
import torch

from subquad.errors import UsageError
from subquad.mixers import names
from subquad.models import size
from subquad.models.size import free_memory, refuse_too_large, size_of
from subquad.tasks import learning_tasks, task_class
from tests.e2e.conftest import ROWS, TINY, csv


def fitted(task, tmp_path):
    data = csv(tmp_path / "a.csv", [(t, i % 7) for i, (t, _) in enumerate(ROWS)])
    text = tmp_path / "a.txt"
    text.write_text("one line and\nanother one\n\n" * 40)
    path = {"classify": data, "regress": data, "pixels": "digits"}.get(task, text)
    config = task_class(task).defaults()
    small = {"layers": 2, "d": 16, "heads": 2, "ff": 16}
    config = replace(
        config,
        data=replace(config.data, path=str(path), length=64),
        model=replace(config.model, **small),
    )
    return task_class(task).fit(config, tmp_path / "store")[0]


@pytest.mark.parametrize("task", learning_tasks())
def test_the_size_is_that_of_the_model_made_and_nothing_is_drawn(task, tmp_path):
    task = fitted(task, tmp_path)
    for mixer in names(causal=task.causal):
        model = replace(task.config.model, mixers=(mixer,))
        task.config = replace(task.config, model=model)
        made = task.model()
        before = torch.get_rng_state()
        found = size_of(task.model)
        assert torch.equal(torch.get_rng_state(), before)
        assert found.parameters == sum(p.numel() for p in made.parameters())
        tensors = [*made.parameters(), *made.buffers()]
        assert found.nbytes == sum(t.nbytes for t in tensors)
        assert all(p.device.type == "cpu" for p in task.model().parameters())


def test_what_is_free_decides(monkeypatch):
    def make():
        return torch.nn.Linear(1000, 1000)

    monkeypatch.setattr(size, "free_memory", lambda _: 8_008_000)
    refuse_too_large(make, torch.device("cpu"), copies=2)
    monkeypatch.setattr(size, "free_memory", lambda _: 8_007_999)
    with pytest.raises(UsageError, match=r"1,001,000 parameters need 7\.6 MiB .* 7\.6 MiB of mem"):
        refuse_too_large(make, torch.device("cpu"), copies=2)
    monkeypatch.setattr(size, "free_memory", lambda _: None)
    refuse_too_large(make, torch.device("cpu"), copies=2)


def test_this_machine_tells_what_is_free():
    assert 1 << 24 < free_memory(torch.device("cpu")) < 1 << 50


HUGE = ["--d", "1048576", "--layers", "4", "--heads", "2", "--ff", "4194304"]


@pytest.mark.parametrize("verb", [["train"], ["compare", "--mixers", "fastformer", "--seeds", "1"]])
def test_too_large_a_model_is_refused_with_its_size_and_leaves_nothing(tmp_path, capsys, verb):
    from subquad.cli import run

    data, out = csv(tmp_path / "a.csv"), tmp_path / "new" / "out"
    given = [verb[0], data, "--task", "classify", "--out", out, *verb[1:], *TINY, *HUGE]
    assert run([str(word) for word in given]) == 2
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("subquad: ")]
    assert "parameters need" in line
    assert "TiB" in line
    assert "--layers" in line
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
