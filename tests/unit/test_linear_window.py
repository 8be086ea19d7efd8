"""The option ``window`` of linear attention: exact where it must be, stable, bounded, and
refused by name where nothing has it."""

import pytest
import torch
from torch import Tensor

from subquad.errors import UsageError
from subquad.generation.packing import unsupported
from subquad.mixers import CausalMixer, Mixer, build
from subquad.mixers.linear import CausalLinearAttention, LinearAttention, windowed
from subquad.models import CausalModel
from subquad.models.config import ModelConfig
from tests.checks import close

D, HEADS = 24, 3
directions = pytest.mark.parametrize("causal", [False, True])
maps = pytest.mark.parametrize("feature_map", ["elu+1", "hedgehog", "t2r"])


def mixer(name: str, causal: bool, **options: object) -> Mixer:
    """Mixers of one seed, with the weights of the projections in common."""
    torch.manual_seed(3)
    made = build(name, D, causal=causal, heads=HEADS, **options)
    torch.manual_seed(4)
    with torch.no_grad():
        made.get_submodule("projections.qkv").weight.normal_(0, 0.4)
        made.get_submodule("projections.out").weight.normal_(0, 0.4)
    return made


def rows(t: int, b: int = 2) -> Tensor:
    return torch.randn(b, t, D, generator=torch.Generator().manual_seed(t))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("t", [1, 15, 16, 17, 32])
@maps
@directions
def test_two_blocks_are_softmax_attention(causal: bool, feature_map: str, t: int, grad: bool):
    window = mixer("linear", causal, window=16, feature_map=feature_map)
    softmax = mixer("softmax", causal)
    softmax.load_state_dict(window.state_dict(), strict=False)
    with torch.set_grad_enabled(grad):
        found, expected = window(rows(t)).detach(), softmax(rows(t)).detach()
    close(found, expected, "the window alone", 1e-6)


@directions
def test_three_blocks_are_not(causal: bool):
    window, softmax = mixer("linear", causal, window=16), mixer("softmax", causal)
    softmax.load_state_dict(window.state_dict(), strict=False)
    with torch.no_grad():
        assert (window(rows(48)) - softmax(rows(48))).abs().max() > 1e-3


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("grad", [False, True])
@maps
@directions
def test_blocks_in_fp32_are_the_definition(
    causal: bool, feature_map: str, grad: bool, scale: float
):
    """Scores of several hundreds, whose exponentials overflow, and long sums."""
    options = {"window": 16, "feature_map": feature_map}
    x = scale * rows(700)
    mask = torch.rand(2, 700, generator=torch.Generator().manual_seed(0)) < 0.8
    exact = mixer("linear", causal, form="quadratic", **options).double()
    with torch.set_grad_enabled(grad):
        found = mixer("linear", causal, **options)(x, mask).detach()
        expected = exact(x.double(), mask).detach().float()
    close(found, expected, "in blocks", 1e-5 if scale <= 1 else 1e-4)


@pytest.mark.parametrize("t", [3, 4, 40])
@directions
def test_running_sums_are_the_product(causal: bool, t: int, monkeypatch: pytest.MonkeyPatch):
    window, x = mixer("linear", causal, window=2).double(), rows(t).double()
    expected = window(x).detach()
    monkeypatch.setattr(windowed, "MANY", 0)
    close(window(x).detach(), expected, "running sums", 1e-11)


@directions
def test_fused_attention_changes_nothing(causal: bool):
    """Without gradients torch's kernel is used, and it is seen to be."""
    window, x = mixer("linear", causal, window=16), rows(100)
    assert not windowed.served(x.unsqueeze(0))
    with torch.no_grad():
        assert windowed.served(x.unsqueeze(0))
        found = window(x)
    close(found, window(x).detach(), "fused", 1e-6)


def test_gamma_weighs_what_is_outside():
    """γ → 0 leaves the window alone; γ → ∞ leaves what is outside, where there is anything."""
    x, window = rows(40), mixer("linear", False, window=4)
    with torch.no_grad():
        window.get_parameter("window.balance").fill_(-60)
        changed = x.clone()
        changed[:, 20:] += 1
        same, near = window(changed)[:, :12] - window(x)[:, :12], window(x)
        assert same.abs().max() < 1e-6
        window.get_parameter("window.balance").fill_(2)
        assert (window(x) - near).abs().max() > 1e-2


@directions
def test_linear_in_length(causal: bool):
    from subquad.lab.instruments.flops import per_example

    window = mixer("linear", causal, window=16)
    spent = [per_example(window, lambda t=t: window(rows(t, 1)), t) for t in (256, 512)]
    assert 1.9 < spent[1] / spent[0] < 2.2


def test_the_state_is_bounded_and_a_step_reads_no_more_than_it():
    window = mixer("linear", True, window=8)
    assert isinstance(window, CausalMixer)
    with torch.no_grad():
        state, sizes = None, set()
        for t in range(50):
            _, state = window.scan(rows(1), state)
            sizes.add(state.nbytes)
            assert state.tensors()["held"].tolist() == [t + 1 if t < 15 else 8 + (t + 1) % 8] * 2
    k = D // HEADS
    assert sizes == {2 * 4 * (HEADS * (k * k + k + 2 * 2 * 8 * k) + 2)}


@directions
def test_what_is_explained_is_what_is_computed(causal: bool):
    window, x = mixer("linear", causal, window=4).double(), rows(30).double()
    mask = torch.rand(2, 30, generator=torch.Generator().manual_seed(1)) < 0.7
    for real in (None, mask):
        with torch.no_grad():
            shown = window.explain(x, real).attention
            assert shown is not None
            v = window.get_submodule("projections").split(x)[2]
            y = window.get_submodule("projections").merge(shown @ v)
            y = y if real is None else y.masked_fill(~real.unsqueeze(-1), 0)
            close(window(x, real), y, "the map, applied", 1e-10)
        sums = shown.sum(-1) if real is None else shown.sum(-1).mT[real]
        close(sums, torch.ones_like(sums), "each row sums to one", 1e-10)
    if causal:
        assert (shown.triu(1) == 0).all()


@pytest.mark.parametrize("window", [-1, True])
@directions
def test_a_window_is_a_number_of_tokens(causal: bool, window: object):
    with pytest.raises(ValueError, match=f"window={window}: it is a number of tokens"):
        build("linear", D, causal=causal, heads=HEADS, window=window)


def test_forms_without_a_window_are_refused():
    with pytest.raises(ValueError, match=r"form='native' .* auto, quadratic, sums with window=8"):
        LinearAttention(D, heads=HEADS, window=8, form="native")
    with pytest.raises(ValueError, match=r"form='recurrent' .* auto, quadratic, .* with window=8"):
        CausalLinearAttention(D, heads=HEADS, window=8, form="recurrent")


def test_states_with_and_without_a_window_are_told_apart():
    plain, window = CausalLinearAttention(D, heads=HEADS), mixer("linear", True, window=8)
    _, state = plain.scan(rows(3))
    with pytest.raises(TypeError, match="with a window continues a WindowState, not LinearState"):
        window.scan(rows(1), state)
    with pytest.raises(TypeError, match="continues a LinearState, not WindowState"):
        plain.scan(rows(1), window.scan(rows(3))[1])


def test_pages_and_onnx_operators_refuse_the_option_by_name():
    with pytest.raises(UsageError, match="a page has no code for window=8: use --to onnx"):
        mixer("linear", False, window=8).page_layer()
    with pytest.raises(UsageError, match=r"LinearAttention has no window \(window=8\)"):
        mixer("linear", True, window=8).for_graph("operator")


@pytest.mark.parametrize(
    ("options", "said"),
    [({"window": 8}, "window=8"), ({"feature_map": "t2r"}, "the feature map t2r")],
)
def test_the_engine_refuses_the_option_by_name(options: dict, said: str):
    config = ModelConfig(
        mixers=("linear",), layers=1, d=D, heads=HEADS, ff=48, mixer_options={"linear": options}
    )
    model = CausalModel(config, inputs=30, outputs=29, length=64)
    assert unsupported(model) == (
        f"layer 0 is CausalLinearAttention; the engine has no code for {said}"
    )
