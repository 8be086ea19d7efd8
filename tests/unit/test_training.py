"""The training loop keeps its promises: exact resume and accumulation, finite losses, signals."""

import math
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from subquad import checkpoint
from subquad.data.batches import collate
from subquad.errors import Interrupted, SubquadError, UsageError
from subquad.optimiser import learning_rate, optimiser
from subquad.tasks import Config, Loss, task_class
from subquad.tasks.classify import Classify
from subquad.training import train


def tiny(task: str = "classify", **training: object) -> Config:
    """A model that trains in a moment, with dropout, so that random state matters."""
    mixer = "linear" if task == "pixels" else "fastformer"
    budget = {"steps": 12, "epochs": None, "minutes": None}
    settings = {"batch": 8, "evaluations": 2, "precision": "fp32"}
    shape = {"mixers": (mixer,), "layers": 1, "d": 16, "heads": 2, "ff": 16, "dropout": 0.3}
    config = task_class(task).defaults().having(path="digits", length=64, **shape)
    return config.having(**budget | settings | training)


def undisturbed(config: Config) -> Config:
    """Without dropout of any kind."""
    names = filter(config.part_of, ("dropout", "token_dropout"))
    return config.having(**dict.fromkeys(names, 0.0))


def weights(run):
    return {name: t.clone() for name, t in run.model.state_dict().items()}


def losses(path):
    return [(m["step"], m["loss"]) for m in checkpoint.read_metrics(path)]


def assert_same_run(a, b):
    assert losses(a.path) == losses(b.path)
    last = [checkpoint.checkpoints(r.path)[-1] for r in (a, b)]
    for name in (checkpoint.MODEL, checkpoint.OPTIMIZER):
        one, two = (checkpoint.read_tensors(path / name) for path in last)
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one)
    mine, other = weights(a), weights(b)
    assert all(torch.equal(mine[name], other[name]) for name in mine)


class Stop(Exception):
    """Raised by a watcher in the middle of a run, as a crash would be."""


def crash_at(step):
    def watch(line, spent):  # noqa: ARG001
        if line["kind"] == "train" and line["step"] == step:
            raise Stop

    return watch


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("task", ["classify", "pixels"])
def test_resume_is_bit_exact(tmp_path, task, accumulate, precision):
    config = tiny(task, accumulate=accumulate, precision=precision, save_every=1)
    whole = train(config, tmp_path / "whole")
    with pytest.raises(Stop):
        train(config, tmp_path / "broken", watch=crash_at(8))
    resumed_from = checkpoint.checkpoints(tmp_path / "broken")[-1].name
    assert resumed_from == "step-00000007"
    assert_same_run(whole, train(config, tmp_path / "broken", resume=True))


def test_resume_goes_on_mid_epoch_with_the_same_rows(tmp_path, monkeypatch):
    seen = []

    def spy(examples, rows):
        seen.append(tuple(rows))
        return collate(examples, rows)

    monkeypatch.setattr("subquad.data.batches.collate", spy)
    config = tiny(save_every=1, evaluations=1)
    train(config, tmp_path / "whole")
    whole, seen = seen, []
    with pytest.raises(Stop):
        train(config, tmp_path / "broken", watch=crash_at(6))
    del seen[-1]  # the step that was lost
    train(config, tmp_path / "broken", resume=True)
    assert seen == whole


def test_resume_without_a_checkpoint_starts(tmp_path):
    run = train(tiny(steps=2), tmp_path / "run", resume=True)
    assert len(losses(run.path)) == 4


def test_resume_of_a_finished_run_changes_nothing(tmp_path):
    config = tiny(steps=4)
    before = weights(train(config, tmp_path / "run"))
    after = weights(train(config, tmp_path / "run", resume=True))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_taken_directory_is_refused(tmp_path):
    train(tiny(steps=2), tmp_path / "run")
    with pytest.raises(UsageError, match="already holds a run"):
        train(tiny(steps=2), tmp_path / "run")


def test_resume_refuses_another_configuration(tmp_path):
    train(tiny(steps=2), tmp_path / "run")
    with pytest.raises(UsageError, match="steps was 2, is 3"):
        train(tiny(steps=3), tmp_path / "run", resume=True)


def test_b25_resume_refuses_a_checkpoint_without_its_optimiser(tmp_path):
    config = tiny(save_every=1)
    with pytest.raises(Stop):
        train(config, tmp_path / "run", watch=crash_at(4))
    last = checkpoint.checkpoints(tmp_path / "run")[-1]
    (last / checkpoint.OPTIMIZER).unlink()
    with pytest.raises(SubquadError, match=r"optimizer\.safetensors is missing"):
        train(config, tmp_path / "run", resume=True)


def test_resume_refuses_changed_data(tmp_path):
    config = tiny(steps=4, save_every=1)
    with pytest.raises(Stop):
        train(config, tmp_path / "run", watch=crash_at(3))
    (tmp_path / "run" / "data.json").write_text('{"examples": 7, "sha256": "0"}\n')
    with pytest.raises(SubquadError, match="has changed"):
        train(config, tmp_path / "run", resume=True)


def gradient(task, model, batches):
    model.zero_grad()
    count = 0
    for batch in batches:
        loss = task.loss(model, batch)
        loss.total.backward()
        count += loss.count
    return torch.cat([p.grad.flatten() / count for p in model.parameters()])


@pytest.mark.parametrize("task", ["classify", "pixels"])
def test_accumulation_is_weighted(task, tmp_path):
    """1×32 equals 4×8, also when the small batches hold different numbers of tokens."""
    config = undisturbed(tiny(task))
    fitted, examples, _ = task_class(task).fit(config, tmp_path)
    model = fitted.model().double()
    rows = np.arange(32)
    whole = gradient(fitted, model, [collate(examples, rows)])
    parts = gradient(fitted, model, [collate(examples, rows[i : i + 8]) for i in range(0, 32, 8)])
    uneven = gradient(fitted, model, [collate(examples, rows[:3]), collate(examples, rows[3:])])
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(uneven, whole, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("task", ["classify", "pixels"])
def test_how_a_step_is_cut_changes_nothing(task, tmp_path):
    """``--batch 8`` and ``--batch 2 --accumulate 4`` meet the same rows in every step."""
    made = []
    for batch, accumulate in ((8, 1), (2, 4), (3, 3)):
        config = tiny(task, batch=batch, accumulate=accumulate, steps=None, epochs=0.02)
        made.append(train(undisturbed(config), tmp_path / f"{batch}x{accumulate}"))
    whole, cut, another = (np.array(losses(run.path)) for run in made)
    np.testing.assert_allclose(cut, whole, rtol=1e-4)
    assert another.shape != whole.shape or not np.allclose(another, whole, rtol=1e-4)
    mine, other = weights(made[0]), weights(made[1])
    for name, tensor in mine.items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-4)


def test_x17_a_loss_that_is_not_finite_stops_the_run(tmp_path, monkeypatch):
    original, calls = Classify.loss, []

    def poisoned(self, model, batch):
        calls.append(batch)
        loss = original(self, model, batch)
        return Loss(loss.total * math.nan, loss.count) if len(calls) == 5 else loss

    monkeypatch.setattr(Classify, "loss", poisoned)
    config = tiny(save_every=1)
    with pytest.raises(SubquadError, match=r"loss is not finite at step 5 \(training rows \["):
        train(config, tmp_path / "run")
    assert checkpoint.checkpoints(tmp_path / "run")[-1].name == "step-00000004"


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_b40_a_signal_finishes_the_step_saves_and_resumes(tmp_path, which):
    config = tiny()

    def watch(line, spent):  # noqa: ARG001
        if line["kind"] == "train" and line["step"] == 5:
            os.kill(os.getpid(), which)

    with pytest.raises(Interrupted, match="saved at step 5") as caught:
        train(config, tmp_path / "run", watch=watch)
    assert caught.value.signal == which
    assert checkpoint.checkpoints(tmp_path / "run")[-1].name == "step-00000005"
    resumed = train(config, tmp_path / "run", resume=True)
    assert_same_run(train(config, tmp_path / "whole"), resumed)


def test_b40_a_second_signal_stops_at_once(tmp_path):
    def watch(line, spent):  # noqa: ARG001
        if line["kind"] == "train" and line["step"] == 5:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(tiny(save_every=2), tmp_path / "run", watch=watch)
    assert checkpoint.checkpoints(tmp_path / "run")[-1].name == "step-00000004"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_budgets(tmp_path):
    with pytest.raises(UsageError, match="exactly one"):
        train(tiny(epochs=1.0), tmp_path / "a")
    with pytest.raises(UsageError, match="steps=0 must be a number above zero"):
        train(tiny(steps=0), tmp_path / "b")
    run = train(tiny(steps=None, minutes=0.03), tmp_path / "c")
    assert losses(run.path)[-1][0] > 1


def test_patience_stops_early(tmp_path):
    config = tiny(steps=40, evaluations=40, patience=3, lr=1e-12)
    run = train(config, tmp_path / "run")
    assert losses(run.path)[-1][0] == 4


def test_best_weights_are_kept_not_the_last(tmp_path):
    run = train(tiny(steps=30, evaluations=10, lr=0.05), tmp_path / "run")
    lines = [m for m in checkpoint.read_metrics(run.path) if m["kind"] == "validation"]
    assert run.best()["accuracy"] == max(m["accuracy"] for m in lines)
    fitted, _, held_out = Classify.fit(run.config, tmp_path / "store")
    del fitted
    from subquad.run import score

    measured = score(run.task, run.model, held_out, run.config)
    assert measured["accuracy"] == run.best()["accuracy"]


def test_learning_rate_rises_and_falls():
    t = replace(tiny().training, lr=1.0, warmup=0.1)
    assert learning_rate(t, 0.05) == pytest.approx(0.5)
    assert learning_rate(t, 0.1) == pytest.approx(1.0)
    assert learning_rate(t, 0.55) == pytest.approx(0.5)
    assert learning_rate(t, 1.0) == 0


def test_weight_decay_spares_embeddings_biases_and_norms(tmp_path):
    fitted, _, _ = Classify.fit(tiny(), tmp_path)
    model = fitted.model()
    groups = optimiser(model, tiny().training).param_groups
    names = {id(p): n for n, p in model.named_parameters()}
    spared = {names[id(p)] for p in groups[1]["params"]}
    assert "encoder.embedding.tokens.weight" in spared
    assert all("weight" not in n or "norm" in n or "embedding" in n for n in spared)
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lr": -1.0}, "lr=-1.0 must be a number above zero"),
        ({"lr": math.nan}, "lr=nan must be a number above zero"),
        ({"clip": 0.0}, "clip=0.0"),
        ({"batch": 0}, "batch=0 must be a number of at least 1"),
        ({"accumulate": 0}, "accumulate=0"),
        ({"evaluations": 0}, "evaluations=0"),
        ({"keep": 0}, "keep=0"),
        ({"save_every": 0}, "save_every=0"),
        ({"patience": 0}, "patience=0"),
        ({"workers": -1}, "workers=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**63}, "below 2"),
        ({"warmup": 1.0}, "warmup=1.0 must be at least 0 and below 1"),
        ({"weight_decay": math.nan}, "weight_decay=nan"),
        ({"steps": None, "epochs": math.inf}, "epochs=inf"),
    ],
)
def test_numbers_that_cannot_be_are_refused_before_any_work(tmp_path, changes, words):
    with pytest.raises(UsageError, match=words):
        train(tiny(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("changes", [{"length": 0}, {"validation": 1.0}, {"validation": math.nan}])
def test_data_settings_that_cannot_be_are_refused(tmp_path, changes):
    config = tiny()
    with pytest.raises(UsageError, match=next(iter(changes))):
        train(replace(config, data=replace(config.data, **changes)), tmp_path / "run")
