"""Generation: what is drawn depends on the seed alone, and not on how it is computed."""

import pytest
import torch

from subquad.errors import UsageError
from subquad.generation import (
    Sampling,
    Streams,
    TorchDecoder,
    continue_tokens,
    decoder_for,
    engine_refuses,
    recompute_tokens,
)
from subquad.kernels import loading, status
from subquad.mixers import names
from subquad.models import CausalModel, ModelConfig


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
    how = Sampling(seed=3)
    decoder = decoder_for(made, rows=5)
    recurrent = continue_tokens(decoder, start, 30, how)
    assert torch.equal(recurrent, recompute_tokens(made, start, 30, how))
    assert decoder.state().position.tolist() == [30] * 5
    assert len(set(map(tuple, recurrent.tolist()))) > 1 or mixer == "none"


@pytest.mark.parametrize("mixer", ["linear", "softmax"])
def test_a_sample_is_the_same_alone_and_in_a_batch(mixer):
    made = model(mixer)

    def drawn(rows, seed):
        return continue_tokens(
            decoder_for(made, rows=rows), torch.full((rows, 1), 11), 20, Sampling(seed=seed)
        )

    assert torch.equal(drawn(6, 1)[:2], drawn(2, 1))
    assert not torch.equal(drawn(2, 1), drawn(2, 2))


@pytest.mark.parametrize("mixer", ["linear", "softmax"])
def test_generation_continues_from_a_state(mixer):
    made, how = model(mixer), Sampling(temperature=0.0)
    prompt = torch.randint(0, 11, (2, 7))
    whole = continue_tokens(decoder_for(made, rows=2), prompt, 10, how)
    _, state = made.scan(prompt[:, :4])
    resumed = continue_tokens(decoder_for(made, rows=2, state=state), prompt[:, 4:], 10, how)
    assert torch.equal(whole, resumed)


@pytest.mark.parametrize("mixer", ["linear", "softmax"])
def test_prompts_of_different_lengths_are_padded_out_of_sight(mixer):
    made, how = model(mixer), Sampling(seed=2, repetition_penalty=1.3)
    long, short = torch.randint(0, 11, (1, 12)), torch.randint(0, 11, (1, 3))
    padded = torch.cat([torch.zeros(1, 9, dtype=torch.long), short], dim=1)
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[1, :9] = False
    both = continue_tokens(decoder_for(made, rows=2), torch.cat([long, padded]), 15, how, mask=mask)
    streams = Streams.fresh(1, first=1)
    alone = continue_tokens(decoder_for(made, rows=1), short, 15, how, streams=streams)
    assert torch.equal(both[1:], alone)


@pytest.mark.parametrize("mixer", ["linear", "softmax"])
def test_a_repetition_penalty_knows_the_prompt(mixer):
    made, streams = model(mixer), Streams.fresh(1)
    prompt, how = torch.tensor([[11, 3, 5, 3]]), Sampling(repetition_penalty=1.5)
    drawn = continue_tokens(decoder_for(made, rows=1), prompt, 3, how, streams=streams)
    held = {3, 5} | set(drawn[0].tolist())  # the start token 11 is no token of a text
    assert set(streams.seen[0].nonzero().flatten().tolist()) == held


def test_the_linear_state_does_not_grow():
    made, sizes = model(), set()
    for n in (2, 30):
        decoder = decoder_for(made, rows=1)
        continue_tokens(decoder, torch.full((1, 1), 11), n, Sampling())
        sizes.add(decoder.nbytes)
    assert len(sizes) == 1


def test_what_the_engine_cannot_run_is_served_by_torch(monkeypatch):
    if status().native:
        assert engine_refuses(model("linear")) is None
        assert "layer 0 is CausalSoftmaxAttention" in engine_refuses(model("softmax"))
    assert isinstance(decoder_for(model("softmax"), rows=1), TorchDecoder)
    monkeypatch.setattr(loading, "CORE", None)
    monkeypatch.setattr(loading, "REASON", "built without a C++ compiler")
    assert engine_refuses(model("linear")) == "built without a C++ compiler"
    assert isinstance(decoder_for(model("linear"), rows=1), TorchDecoder)
    with pytest.raises(UsageError, match=r"cannot run this model: built without a C\+\+ compiler"):
        decoder_for(model("linear"), rows=1, weights="int8")


@pytest.mark.parametrize("mixer", names(causal=True))
def test_a_fork_leaves_the_original_untouched(mixer):
    """B18: reading on after a fork must not reach the state it was forked from."""
    made = model(mixer)
    with torch.inference_mode():
        _, before = made.scan(torch.randint(0, 11, (1, 9)))
        _, before = made.scan(torch.randint(0, 11, (1, 1)), before)  # has room to grow, if any
        kept = before.clone()
        one, _ = made.scan(torch.tensor([[1, 2, 3]]), before)
        two, _ = made.scan(torch.tensor([[4, 5, 6]]), before)
        again, _ = made.scan(torch.tensor([[1, 2, 3]]), before)
    assert torch.equal(one, again)
    assert not torch.equal(one, two)
    for layer, same in zip(before.layers, kept.layers, strict=True):
        for name, tensor in layer.tensors().items():
            assert torch.equal(tensor, same.tensors()[name])
