"""Generation: what is drawn depends on the seed alone, and not on how it is computed."""

from dataclasses import replace

import pytest
import torch

from subquad.errors import UsageError
from subquad.generation import Sampling, continue_tokens, draw, images, recompute_tokens, texts
from subquad.mixers import names
from subquad.models import CausalModel, ModelConfig
from subquad.tasks import task_class
from subquad.training import train


def model(mixer="linear"):
    config = ModelConfig(mixers=(mixer,), layers=2, d=16, heads=2, ff=32, positions="sinusoidal")
    made = CausalModel(config, inputs=12, outputs=11, length=40).eval()
    with torch.no_grad():  # sharper than fresh weights, so that tokens differ
        for p in made.parameters():
            p.mul_(8)
    return made


@pytest.mark.parametrize("mixer", names(causal=True))
def test_recurrent_generation_equals_recomputation(mixer):
    made, start = model(mixer), torch.full((5, 1), 11)
    sampling = Sampling(seed=3)
    recurrent, state = continue_tokens(made, start, 30, sampling)
    assert torch.equal(recurrent, recompute_tokens(made, start, 30, sampling))
    assert state.position.tolist() == [30] * 5
    assert len(set(map(tuple, recurrent.tolist()))) > 1 or mixer == "none"


def test_a_sample_is_the_same_alone_and_in_a_batch():
    made = model()
    many, _ = continue_tokens(made, torch.full((6, 1), 11), 20, Sampling(seed=1))
    few, _ = continue_tokens(made, torch.full((2, 1), 11), 20, Sampling(seed=1))
    other, _ = continue_tokens(made, torch.full((2, 1), 11), 20, Sampling(seed=2))
    assert torch.equal(many[:2], few)
    assert not torch.equal(few, other)


def test_generation_continues_from_a_state():
    made = model()
    prompt = torch.randint(0, 11, (2, 7))
    whole, _ = continue_tokens(made, prompt, 10, Sampling(temperature=0.0))
    _, state = made.scan(prompt[:, :4])
    resumed, _ = continue_tokens(made, prompt[:, 4:], 10, Sampling(temperature=0.0), state)
    assert torch.equal(whole, resumed)


def test_the_linear_state_does_not_grow():
    made = model()
    sizes = {
        continue_tokens(made, torch.full((1, 1), 11), n, Sampling())[1].nbytes for n in (2, 30)
    }
    assert len(sizes) == 1


def test_draw_follows_the_distribution():
    logits = torch.log(torch.tensor([0.5, 0.3, 0.2])).expand(10_000, 3)
    u = (torch.arange(10_000) + 0.5) / 10_000
    share = torch.bincount(draw(logits, u, 1.0), minlength=3) / 10_000
    torch.testing.assert_close(share, torch.tensor([0.5, 0.3, 0.2]), atol=2e-4, rtol=0)
    assert draw(logits[:2], u[:2], 0.0).tolist() == [0, 0]
    assert draw(logits[:1], torch.tensor([1.0]), 1.0).tolist() == [2]
    never = torch.tensor([[0.0, -torch.inf, 0.0]]).expand(100, 3)
    assert 1 not in draw(never, torch.linspace(0, 0.999, 100), 1.0)


def test_a_temperature_that_cannot_be_is_refused():
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="must be a number of at least 0"):
            Sampling(temperature=bad)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language")
    (folder / "book.txt").write_text("abcd " * 200)
    c = task_class("language").defaults()
    c = replace(
        c,
        data=replace(c.data, path=str(folder / "book.txt"), length=32),
        model=replace(c.model, layers=1, d=32, heads=2, ff=32, dropout=0.0),
        training=replace(c.training, minutes=None, steps=120, lr=1e-2, batch=8),
    )
    return train(c, folder / "run")


def test_texts_begin_with_the_prompt_and_continue_it(run):
    made = texts(run, "abcd ab", 2, 10, Sampling(temperature=0.0))
    assert made.texts == ["abcd abcd abcd ab"] * 2
    assert made.tokens == 20


def test_texts_beyond_the_positions_are_refused(run):
    with pytest.raises(UsageError, match="beyond the 32 positions"):
        texts(run, "ab", 1, 31, Sampling())
    assert texts(run, "ab", 1, 30, Sampling()).tokens == 30


def test_images_need_a_pixel_run(run):
    with pytest.raises(UsageError, match="only pixels runs draw"):
        images(run, 1, Sampling())
