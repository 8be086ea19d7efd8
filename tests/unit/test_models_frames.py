"""Rows of frames: the front end beside the embedding, under the models that take either."""

from dataclasses import replace

import pytest
import torch

from subquad.mixers import names
from subquad.models import CausalModel, Classifier, Embedding, Encoder, Frames, ModelConfig

WIDTH = 5
TINY = ModelConfig(layers=2, d=16, heads=2, ff=32, dropout=0.0)


def classifier(pooling="mean", token_dropout=0.0, **changes):
    config = replace(TINY, **changes)
    front = Frames(config, width=WIDTH, length=20)
    own = {"pooling": pooling, "token_dropout": token_dropout}
    return Classifier(config, front=front, classes=3, **own).eval()


def causal(mixer, **changes):
    config = replace(TINY, mixers=(mixer,), **changes)
    return CausalModel(config, front=Frames(config, width=WIDTH, length=40), outputs=7).eval()


@pytest.mark.parametrize("pooling", ["mean", "attention", "pooler"])
@pytest.mark.parametrize("mixer", names(causal=False))
def test_padding_and_batch_mates_change_nothing(mixer, pooling):
    model = classifier(mixers=(mixer,), pooling=pooling)
    frames = torch.randn(1, 7, WIDTH)
    alone = model(frames)
    for left, right in ((0, 3), (2, 0), (2, 5)):
        padded = torch.nn.functional.pad(frames, (0, 0, left, right), value=9.0)
        mask = torch.nn.functional.pad(torch.ones(1, 7).bool(), (left, right), value=False)
        both = torch.cat([padded, torch.randn_like(padded)])
        masks = torch.cat([mask, torch.ones_like(mask)])
        torch.testing.assert_close(model(both, masks)[:1], alone, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_vector_is_linear_map_place_norm_and_projection(positions, norm):
    config = replace(TINY, positions=positions, norm=norm, projection=True, types=2)
    front = Frames(config, width=WIDTH, length=9).eval()
    token = Embedding(config, vocabulary=4, length=9).eval()
    token.load_state_dict(
        {k: v for k, v in front.state_dict().items() if "frames" not in k}
        | {"tokens.weight": front.frames(torch.eye(4, WIDTH)).detach()}
    )
    places = torch.arange(4).expand(1, 4)
    as_frames = front(torch.eye(4, WIDTH).unsqueeze(0), places)
    torch.testing.assert_close(as_frames, token(torch.arange(4).unsqueeze(0), places))


def test_a_fixed_length_fills_up_with_silence():
    options = {"fnet": {"padding": "fixed", "length": 20}}
    model = classifier(mixers=("fnet",), mixer_options=options)
    frames = torch.randn(1, 7, WIDTH)
    mask = torch.arange(9).unsqueeze(0) < 7
    padded = torch.nn.functional.pad(frames, (0, 0, 0, 2), value=5.0)
    torch.testing.assert_close(model(padded, mask), model(frames), atol=2e-5, rtol=1e-4)


def test_some_frames_are_left_out_in_training():
    model = classifier(token_dropout=0.5).train()
    frames = torch.randn(2, 12, WIDTH)
    assert not torch.equal(model(frames), model(frames))
    assert torch.equal(model.eval()(frames), model(frames))


@pytest.mark.parametrize("mixer", names(causal=True))
def test_a_causal_model_streams_frames(mixer):
    model = causal(mixer)
    frames = torch.randn(2, 11, WIDTH)
    whole, end = model.scan(frames)
    first, state = model.scan(frames[:, :4], model.empty_state(2))
    rest, last = model.scan(frames[:, 4:], state)
    torch.testing.assert_close(torch.cat([first, rest], 1), whole, atol=2e-5, rtol=1e-4)
    assert last.position.tolist() == end.position.tolist() == [11, 11]


def test_what_frames_cannot_have_is_refused():
    with pytest.raises(ValueError, match="adds a token"):
        classifier(pooling="cls")
    with pytest.raises(ValueError, match="needs a token embedding whose weights"):
        causal("linear", tied=True)
    with pytest.raises(ValueError, match="position 21 is beyond the 20"):
        classifier()(torch.randn(1, 21, WIDTH))


def test_weights_begin_as_all_others_do():
    torch.manual_seed(0)
    model = Encoder(replace(TINY, d=256), Frames(replace(TINY, d=256), width=64, length=8))
    from subquad.models.block import initialise

    initialise(model)
    front = model.embedding
    assert isinstance(front, Frames)
    assert abs(float(front.frames.weight.detach().std()) - 0.02) < 0.002
    assert not front.frames.bias.any()
