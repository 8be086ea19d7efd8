"""B23: a run killed at any instant loses nothing but the steps since its last checkpoint."""

import multiprocessing
import os
import random
import time
from dataclasses import replace

import pytest
import torch

from subquad import checkpoint
from subquad.tasks import task_class
from subquad.training import train


def config(steps):
    c = task_class("classify").defaults()
    budget = {"steps": steps, "epochs": None, "save_every": 1, "evaluations": 2, "batch": 4}
    return replace(
        c,
        data=replace(c.data, path="digits", length=64),
        model=replace(c.model, layers=1, d=8, heads=2, ff=8),
        training=replace(c.training, precision="fp32", **budget),
    )


@pytest.fixture(scope="module")
def context():
    """Children that start at once: the server has imported everything already. They use one
    thread as this process does: other numbers of threads add up in another order."""
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["subquad.training", "sklearn.datasets"])
    return context


def newest(out):
    saved = checkpoint.checkpoints(out)
    return int(saved[-1].name.removeprefix("step-")) if saved else 0


def wait_for_a_step(child, out, after):
    deadline = time.monotonic() + 60
    while child.is_alive() and newest(out) <= after:
        assert time.monotonic() < deadline, "a minute without a step"
        time.sleep(0.005)


def killed_until_done(context, out, steps, kills):
    """Start, kill at a random moment, start again…; returns at which steps the kills came."""
    moments = random.Random(0)
    at = []
    while len(at) < kills:
        child = context.Process(target=train, args=(config(steps), out), kwargs={"resume": True})
        child.start()
        if moments.random() < 0.8:  # the others come while the run begins
            wait_for_a_step(child, out, at[-1] if at else 0)
        child.join(moments.uniform(0.0, 0.2))
        assert child.is_alive(), f"the run ended after {len(at)} kills of {kills}: {child.exitcode}"
        child.kill()
        child.join()
        saved = checkpoint.checkpoints(out)
        at.append(newest(out))
        for path in saved:
            for name in (checkpoint.MODEL, checkpoint.OPTIMIZER):
                assert checkpoint.read_tensors(path / name)
    return at


@pytest.mark.parametrize(
    ("kills", "steps"), [(20, 400), pytest.param(200, 3000, marks=pytest.mark.long)]
)
def test_b23_kills_cost_nothing(tmp_path, context, kills, steps):
    torch.set_num_threads(1)
    at = killed_until_done(context, tmp_path / "killed", steps, kills)
    assert at == sorted(at), "a restart went backwards"
    assert len(set(at)) > kills // 2, "the kills came before anything was saved"
    broken = train(config(steps), tmp_path / "killed", resume=True)
    unbroken = config(steps)
    unbroken = replace(unbroken, training=replace(unbroken.training, save_every=None))
    whole = train(unbroken, tmp_path / "whole")
    mine, other = broken.model.state_dict(), whole.model.state_dict()
    assert all(torch.equal(mine[name], other[name]) for name in other)
    losses = [
        [(m["kind"], m["step"], m["loss"]) for m in checkpoint.read_metrics(run.path)]
        for run in (broken, whole)
    ]
    assert losses[0] == losses[1]
    assert not list((tmp_path / "killed").rglob(".part-*"))
