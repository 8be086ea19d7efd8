"""Models: positions, pooling, the stream, the state on disk, configurations that cannot be."""

from dataclasses import replace

import pytest
import torch

from subquad.errors import SubquadError
from subquad.mixers import names
from subquad.models import CausalModel, Classifier, ModelConfig, ModelState
from subquad.models.embeddings import real_positions

TINY = ModelConfig(layers=2, d=16, heads=2, ff=32, dropout=0.0)


def classifier(**changes):
    own = {k: changes.pop(k) for k in ("pooling", "token_dropout") if k in changes}
    return Classifier(replace(TINY, **changes), vocabulary=11, length=20, classes=3, **own).eval()


def causal(mixer, **changes):
    config = replace(TINY, mixers=(mixer,), **changes)
    return CausalModel(config, inputs=12, outputs=11, length=40).eval()


def test_positions_count_real_tokens():
    mask = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 1, 1, 1]]).bool()
    assert real_positions(mask.long(), mask).tolist() == [[0, 0, 1, 1, 2], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("pooling", ["mean", "cls", "attention", "pooler"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("mixer", names(causal=False))
def test_padding_and_batch_mates_change_nothing(mixer, norm, pooling):
    model = classifier(mixers=(mixer,), norm=norm, pooling=pooling)
    tokens = torch.randint(0, 11, (1, 7))
    alone = model(tokens)
    for left, right in ((0, 5), (5, 0), (2, 3)):
        padded = torch.nn.functional.pad(tokens, (left, right), value=4)
        mask = torch.nn.functional.pad(torch.ones(1, 7).bool(), (left, right), value=False)
        torch.testing.assert_close(model(padded, mask), alone, atol=2e-6, rtol=1e-5)
        mates = torch.cat([padded, torch.randint(0, 11, padded.shape)])
        both = torch.cat([mask, torch.ones_like(mask)])
        torch.testing.assert_close(model(mates, both)[:1], alone, atol=2e-6, rtol=1e-5)


def test_fixed_padding_is_the_same_in_every_batch():
    options = {"fnet": {"padding": "fixed", "length": 20}}
    model = classifier(mixers=("fnet",), mixer_options=options)
    tokens = torch.randint(0, 11, (1, 7))
    padded = torch.nn.functional.pad(tokens, (0, 6), value=4)
    mask = torch.arange(13).unsqueeze(0) < 7
    torch.testing.assert_close(model(padded, mask), model(tokens), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_an_empty_row_is_finite(pooling):
    model = classifier(mixers=("softmax",), pooling=pooling)
    logits = model(torch.zeros(2, 3).long(), torch.tensor([[False] * 3, [True] * 3]))
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("height", [1.0, 1e4, 1e30])
def test_b04_attention_pooling_is_a_softmax_whatever_the_scores(height):
    from subquad.models.pooling import AttentionPooling

    pooler = AttentionPooling(2)
    with torch.no_grad():
        pooler.inner.weight.copy_(torch.eye(2)), pooler.inner.bias.zero_()
        pooler.score.weight.copy_(torch.tensor([[height, 0.0]]))
    x = torch.tensor([[[3.0, 1.0], [-3.0, 2.0], [3.0, torch.nan]]])
    mask = torch.tensor([[True, True, False]])
    scores = (height * x[0, :2, 0].tanh()).double()
    expected = scores.softmax(0) @ x[0, :2].double()
    torch.testing.assert_close(pooler(x, mask)[0].double(), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_shared_mixers_are_one_to_the_optimiser_and_on_disk(causal, tmp_path):
    from subquad.checkpoint import load_weights, save_weights

    def make():
        config = replace(TINY, mixers=("fastformer",), share_mixers=True, layers=3)
        if causal:
            return CausalModel(config, inputs=12, outputs=11, length=40).eval()
        return Classifier(config, vocabulary=11, length=20, classes=3).eval()

    model, other = make(), make()
    names = [name for name, _ in model.named_parameters() if ".mixer." in name]
    assert names
    assert all("blocks.0.mixer." in name for name in names)
    save_weights(model, tmp_path / "w")
    load_weights(other, tmp_path / "w")
    tokens = torch.randint(0, 11, (2, 7))
    assert torch.equal(model(tokens), other(tokens))
    layers = (other if causal else other.encoder).blocks
    assert layers[0].mixer is layers[2].mixer


@pytest.mark.parametrize("pooling", ["mean", "cls", "attention", "pooler"])
@pytest.mark.parametrize("mixer", names(causal=False))
def test_token_dropout_leaves_tokens_out_and_the_others_in_their_places(mixer, pooling):
    """The same as hiding them; an empty row stays one."""
    model = classifier(mixers=(mixer,), pooling=pooling, token_dropout=0.5).train()
    tokens, mask = torch.randint(0, 11, (4, 9)), torch.ones(4, 9).bool()
    mask[1, 6:], mask[2] = False, False
    torch.manual_seed(0)
    found = model(tokens, mask)
    if model.cls is not None:
        tokens = torch.nn.functional.pad(tokens, (1, 0), value=model.cls)
        mask = torch.nn.functional.pad(mask, (1, 0), value=True)
    torch.manual_seed(0)
    kept = torch.rand(tokens.shape) >= 0.5
    kept[:, 0] |= pooling in ("cls", "pooler")
    hidden = kept & mask
    assert 0 < hidden.sum() < mask.sum()
    x = model.encoder(tokens, hidden, real_positions(tokens, mask))
    wanted = model.head(model.pool(x, hidden))
    torch.testing.assert_close(found, wanted, atol=2e-6, rtol=1e-5)
    assert torch.equal(model.eval()(tokens), model(tokens))


def test_token_dropout_under_fixed_padding_puts_padding_in_their_place():
    options = {"fnet": {"padding": "fixed", "length": 20}}
    model = classifier(mixers=("fnet",), mixer_options=options, token_dropout=0.5).train()
    tokens = torch.randint(1, 11, (2, 7))
    torch.manual_seed(0)
    found = model(tokens)
    torch.manual_seed(0)
    kept = torch.rand(tokens.shape) >= 0.5
    torch.testing.assert_close(model.eval()(tokens * kept), found, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
@pytest.mark.parametrize("mixer", names(causal=True))
def test_one_pass_equals_token_by_token(mixer, positions):
    model = causal(mixer, positions=positions)
    tokens = torch.randint(0, 11, (3, 9))
    whole, end = model.scan(tokens)
    state, steps = None, []
    for i in range(9):
        logits, state = model.scan(tokens[:, i : i + 1], state)
        steps.append(logits)
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=2e-6, rtol=1e-5)
    assert end.position.tolist() == state.position.tolist() == [9, 9, 9]


@pytest.mark.parametrize("mixer", names(causal=True))
def test_padded_prefill_continues_as_unpadded(mixer):
    model = causal(mixer)
    tokens = torch.randint(0, 11, (1, 5))
    _, state = model.scan(tokens)
    padded = torch.nn.functional.pad(tokens, (3, 2), value=7)
    mask = torch.nn.functional.pad(torch.ones(1, 5).bool(), (3, 2), value=False)
    _, after = model.scan(padded, mask=mask)
    new = torch.tensor([[2]])
    torch.testing.assert_close(model.scan(new, state)[0], model.scan(new, after)[0])


@pytest.mark.parametrize("mixer", names(causal=True))
def test_a_state_survives_disk_selection_and_cloning(mixer, tmp_path):
    model = causal(mixer)
    _, state = model.scan(torch.randint(0, 11, (3, 5)))
    state.save(tmp_path / "state.safetensors")
    again = ModelState.load(tmp_path / "state.safetensors")
    new = torch.randint(0, 11, (3, 1))
    assert torch.equal(model.scan(new, state)[0], model.scan(new, again)[0])
    assert again.nbytes == state.nbytes
    order = torch.tensor([2, 0, 2])
    picked = model.scan(new[order], state.select(order))[0]
    torch.testing.assert_close(picked, model.scan(new, state)[0][order])
    assert torch.equal(model.scan(new, state.clone().to("cpu"))[0], model.scan(new, state)[0])


def test_a_damaged_or_foreign_state_is_refused(tmp_path):
    path = tmp_path / "state.safetensors"
    _, state = causal("linear").scan(torch.zeros(1, 2).long())
    state.save(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SubquadError, match="cannot be read as a saved state"):
        ModelState.load(path)
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(SubquadError, match="not a saved state"):
        ModelState.load(path)
    with pytest.raises(TypeError, match="KVCache"):
        causal("softmax").scan(torch.zeros(1, 1).long(), state)


def test_learned_positions_end_with_both_numbers():
    with pytest.raises(ValueError, match="position 41 is beyond the 40"):
        causal("linear")(torch.zeros(1, 41).long())
    causal("linear", positions="sinusoidal")(torch.zeros(1, 41).long())


def test_a_tied_head_shares_the_embedding():
    model = causal("linear", tied=True)
    assert model.head is None
    assert model(torch.zeros(1, 3).long()).shape == (1, 3, 11)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mixers": ("fnet", "linear", "none")}, "3 mixers"),
        ({"heads": 3}, "d=16 is not divisible by heads=3"),
        ({"layers": 0}, "layers=0 must be at least 1"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"mixer_options": {"fnet": {}}}, "but the layers use"),
        ({"mixer_options": {"linear": {"depth": 2}}}, "no option 'depth'; it has: heads"),
        ({"share_mixers": True, "mixers": ("linear", "none")}, r"no two layers .* \(linear,none\)"),
        ({"mixers": ("fastformer",), "mixer_options": {"fastformer": {"columns": 0}}}, "columns=0"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(TINY, **changes).check(causal=False)


def test_a_mixer_without_a_causal_form_is_refused():
    with pytest.raises(ValueError, match="mixer 'fnet' has no causal form"):
        replace(TINY, mixers=("fnet",)).check(causal=True)


@pytest.mark.parametrize(
    ("hybrid", "layers", "attention"),
    [
        ("top:2", 12, [10, 11]),
        ("bottom:2", 12, [0, 1]),
        ("middle:2", 12, [5, 6]),
        ("middle:3", 12, [5, 6, 7]),
        ("mixed:3", 12, [0, 4, 8]),
        ("mixed:5", 12, [0, 2, 4, 7, 9]),  # the official code gives six
        ("mixed:0", 4, []),
        ("top:4", 4, [0, 1, 2, 3]),
    ],
)
def test_hybrids_have_exactly_the_attention_layers_asked_for(hybrid, layers, attention):
    config = replace(TINY, mixers=("fnet",), hybrid=hybrid, layers=layers)
    names = config.layer_mixers()
    assert [i for i, name in enumerate(names) if name == "softmax"] == attention
    assert set(names) <= {"softmax", "fnet"}
    assert len(names) == layers
    Classifier(config, vocabulary=11, length=20, classes=3)


@pytest.mark.parametrize("hybrid", ["top", "top:", "top:13", "top:-1", "sides:2", "top:x", "2"])
def test_a_hybrid_that_cannot_be_is_refused(hybrid):
    with pytest.raises(ValueError, match=r"is not top:N.*layers=12"):
        replace(TINY, mixers=("fnet",), hybrid=hybrid, layers=12).check(causal=False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_fnets_residual_stream_is_fp32_under_autocast(dtype):
    """FNet's output is some √(t·d) times its input: added in half precision, the input is lost."""
    model = classifier(mixers=("fnet",), projection=True, types=4, norm_eps=1e-12)
    seen = []
    for name, module in model.named_modules():
        if "norm" in name or name.endswith("mixer"):
            module.register_forward_hook(lambda _, given, out: seen.extend([given[0], out]))
    with torch.autocast("cpu", dtype):
        model(torch.randint(0, 11, (2, 7)))
    assert len(seen) >= 2 * (1 + 2 * 3)
    assert {tensor.dtype for tensor in seen} == {torch.float32}


def test_official_initialisation():
    model = classifier(mixers=("fnet",), d=64, ff=400, projection=True, initialisation="fnet")
    weights = model.state_dict()
    assert 0.015 < weights["encoder.blocks.0.ff.inner.bias"].std() < 0.025
    assert weights["encoder.blocks.0.ff.outer.bias"].abs().max() == 0
    assert 0.11 < weights["encoder.embedding.projection.weight"].std() < 0.14, "1/√64"
    assert classifier(d=64).state_dict()["encoder.blocks.0.ff.inner.bias"].abs().max() == 0


def test_types_are_added_and_refused_where_there_are_none():
    tokens, types = torch.randint(0, 11, (2, 7)), torch.ones(2, 7).long()
    model = classifier(types=2, pooling="pooler")
    assert not torch.equal(model(tokens), model(tokens, types=types))
    assert torch.equal(model(tokens), model(tokens, types=types * 0))
    with pytest.raises(ValueError, match="types=0"):
        classifier()(tokens, types=types)
