"""The causal Fastformer where it is used: it trains, streams with a small state, and generates."""

from dataclasses import replace

import pytest
import torch

from subquad.generation import (
    Request,
    Sampling,
    continue_tokens,
    decoder_for,
    images,
    recompute_tokens,
    write,
)
from subquad.mixers.fastformer.causal import CausalFastformer
from subquad.tasks import task_class
from subquad.training import train


def small(task, path):
    usual = task_class(task).defaults()
    model = replace(usual.model, mixers=("fastformer",), layers=2, d=16, heads=2, ff=32)
    training = replace(usual.training, minutes=None, epochs=None, steps=30, evaluations=2, lr=1e-2)
    return replace(usual, data=replace(usual.data, path=str(path)), model=model, training=training)


def test_it_learns_text_and_writes(tmp_path):
    (tmp_path / "book.txt").write_text("It was a dark and stormy night. " * 200, encoding="utf-8")
    config = small("language", tmp_path / "book.txt")
    run = train(replace(config, data=replace(config.data, length=64)), tmp_path / "run")
    assert run.best()["bits_per_byte"] < 4.5, "nothing learned: eight bits are a guess"
    request = Request(prompts=["It was"], samples=2, length=20)
    written = write(run, request, Sampling(seed=1))
    assert all(one.text.startswith("It was") for one in written.texts)
    prompt = torch.tensor([[run.task.start, 40, 41]])
    streamed = continue_tokens(decoder_for(run.model, rows=1), prompt, 12, Sampling(seed=3))
    assert torch.equal(streamed, recompute_tokens(run.model, prompt, 12, Sampling(seed=3)))


def test_it_learns_pixels_and_draws(tmp_path):
    run = train(small("pixels", "digits"), tmp_path / "run")
    assert run.best()["bits_per_dim"] < 3.5
    drawn = images(run, 3, Sampling())
    assert drawn.pixels.shape == (3, 8, 8)


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_its_state_has_one_size(columns):
    mixer = CausalFastformer(8, heads=2, columns=columns)
    sizes = {mixer.scan(torch.randn(1, t, 8))[1].nbytes for t in (0, 1, 63, 64, 65, 500)}
    assert sizes == {columns * (8 + 2 + 2) * 4}


def test_switches_are_refused_by_name():
    for chosen, words in (
        ({"columns": 65}, "columns=65 is not a whole number from 1 to 64"),
        ({"columns": True}, "columns=True is not a whole number"),
    ):
        with pytest.raises(ValueError, match=words):
            CausalFastformer(8, heads=2, **chosen)
