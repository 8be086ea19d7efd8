"""The baselines of generation draw the same tokens, at the cost that they are there to show."""

import pytest
import torch

from subquad.generation import (
    CopyingDecoder,
    RecomputingDecoder,
    Sampling,
    TorchDecoder,
    continue_tokens,
)
from subquad.mixers import names
from tests.unit.test_generation import model


@pytest.mark.parametrize("kind", [RecomputingDecoder, CopyingDecoder])
@pytest.mark.parametrize("mixer", names(causal=True))
def test_they_draw_the_same_tokens(mixer, kind):
    made, prompt = model(mixer), torch.randint(0, 11, (3, 5))
    how = Sampling(seed=2, repetition_penalty=1.2)
    expected = continue_tokens(TorchDecoder(made), prompt, 20, how)
    assert torch.equal(continue_tokens(kind(made), prompt, 20, how), expected)


@pytest.mark.parametrize("kind", [RecomputingDecoder, CopyingDecoder])
def test_their_rows_can_be_selected(kind):
    made, prompt = model("softmax"), torch.randint(0, 11, (3, 5))
    decoder, expected = kind(made), TorchDecoder(made)
    for one in (decoder, expected):
        one.read(prompt)
        one.select(torch.tensor([2, 0, 0]))
    tokens = torch.tensor([[1], [2], [3]])
    torch.testing.assert_close(decoder.read(tokens), expected.read(tokens))


def test_a_copied_cache_has_no_room_to_grow_in_place():
    prompt = torch.randint(0, 11, (2, 5))
    spare = {}
    for decoder in (CopyingDecoder(model("softmax")), TorchDecoder(model("softmax"))):
        continue_tokens(decoder, prompt, 9, Sampling())
        keys = decoder.state().layers[0].tensors()["k"]
        spare[decoder.name] = keys.untyped_storage().nbytes() - keys.nbytes
    assert spare["copied state"] == 0 < spare["torch scan"]


def test_recomputation_reads_the_whole_prefix_for_each_token():
    made, lengths = model("softmax"), []
    made.register_forward_pre_hook(lambda _, inputs: lengths.append(inputs[0].shape[1]))
    decoder = RecomputingDecoder(made)
    continue_tokens(decoder, torch.zeros(1, 1, dtype=torch.long), 5, Sampling())
    assert lengths == [1, 2, 3, 4, 5]
    assert decoder.nbytes == 0
