"""The registry, its refusals, and the faults that users reported in libraries of this kind."""

import copy
import dataclasses
import inspect
import re

import pytest
import torch

from subquad import mixers
from subquad.kernels import status
from subquad.mixers import MIXERS, CausalMixer, State, build, names, options
from subquad.mixers.base import head_width
from subquad.mixers.fnet import FNet
from subquad.mixers.linear import (
    CAUSAL_FORMS,
    CausalLinearAttention,
    LinearAttention,
    bidirectional,
)
from subquad.mixers.pooling import pool
from tests.cases import CASES, CAUSAL, MIXING, Case, D
from tests.checks import close, rows, same

F64, F32, BF16 = torch.float64, torch.float32, torch.bfloat16
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_causal = pytest.mark.parametrize("case", CAUSAL, ids=str)


def test_names_are_the_registrys() -> None:
    for causal in (False, True):
        assert names(causal=causal) == [n for n, e in MIXERS.items() if e.cls(causal)]
    assert {"softmax", "linear", "fnet", "fastformer", "none"} <= set(MIXERS)


def test_every_entry_says_what_it_costs_and_who_made_it() -> None:
    for entry in MIXERS.values():
        assert entry.cost
        assert entry.source
        assert entry.bidirectional or entry.causal


def test_the_type_says_whether_a_mixer_can_generate() -> None:
    for entry in MIXERS.values():
        assert entry.causal is None or issubclass(entry.causal, CausalMixer)


@pytest.mark.parametrize("causal", [False, True])
def test_an_unknown_mixer_lists_those_of_its_direction(causal: bool) -> None:
    for call in (lambda: build("conv", 8, causal=causal), lambda: options("conv", causal=causal)):
        with pytest.raises(ValueError, match="'conv' is not one of") as caught:
            call()
        assert str(caught.value).endswith("one of " + ", ".join(names(causal=causal)))


def test_a_direction_that_is_not_there_lists_those_that_have_it() -> None:
    for name in set(MIXERS) - set(names(causal=True)):
        with pytest.raises(ValueError, match=f"{name!r} has no causal form") as caught:
            build(name, 8, causal=True)
        assert str(caught.value).endswith("with one: " + ", ".join(names(causal=True)))


@every_case
def test_an_unknown_option_lists_the_right_ones(case: Case) -> None:
    known = options(case.name, causal=case.causal)
    with pytest.raises(ValueError, match="has no option 'depth'") as caught:
        build(case.name, 8, causal=case.causal, depth=3)
    assert str(caught.value).endswith("it has: " + (", ".join(known) or "none"))


@every_case
def test_options_are_the_constructors_own(case: Case) -> None:
    parameters = inspect.signature(case.cls).parameters
    for name, default in options(case.name, causal=case.causal).items():
        assert parameters[name].default is default
    assert isinstance(case(), case.cls)


@pytest.mark.parametrize(("d", "heads"), [(8, 3), (8, 0), (8, -2), (4, 8)])
def test_heads_must_divide_the_width(d: int, heads: int) -> None:
    with pytest.raises(ValueError, match=re.escape(f"d={d} is not divisible by heads={heads}")):
        head_width(d, heads)
    for case in CASES:
        if "heads" in case.options:
            with pytest.raises(ValueError, match=f"heads={heads}"):
                build(case.name, d, causal=case.causal, **case.options | {"heads": heads})
    assert head_width(12, 3) == 4


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"form": "fast"}, "form='fast' is not one of auto, quadratic, chunked, recurrent, native"),
        ({"feature_map": "cos"}, r"feature_map='cos' is not one of elu\+1, relu"),
    ],
)
def test_linear_refuses_by_name(chosen: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CausalLinearAttention(8, heads=2, **chosen)


@pytest.mark.parametrize(
    "chosen", [{"padding": "fixed"}, {"length": 5}, {"padding": "own-length", "length": 5}]
)
def test_fnet_refuses_a_length_that_does_not_belong(chosen: dict) -> None:
    with pytest.raises(ValueError, match="'fixed' needs a length, 'own-length' takes none"):
        FNet(8, **chosen)


@every_causal
def test_a_state_of_another_mixer_is_refused(case: Case) -> None:
    @dataclasses.dataclass(frozen=True)
    class Foreign(State):
        pass

    with pytest.raises(TypeError, match="not Foreign"):
        case().scan(rows(1, 2, F64), Foreign())


@every_causal
def test_a_state_is_frozen_and_batch_first(case: Case) -> None:
    _, state = case().scan(rows(3, 4, F64))
    for name, tensor in state.tensors().items():
        assert len(tensor) == 3
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(state, name, tensor)
    assert state.nbytes == 3 * state.select(torch.tensor([1])).nbytes
    for name, tensor in state.detach().to("cpu").tensors().items():
        same(tensor, state.tensors()[name].detach(), name)


def test_linear_state_has_one_size() -> None:
    mixer = CausalLinearAttention(8, heads=2)
    sizes = {mixer.scan(rows(1, t, F32))[1].nbytes for t in (0, 1, 63, 64, 65, 500)}
    assert sizes == {2 * (4 * 4 + 4) * 4}


@pytest.mark.parametrize("dtype", [torch.float16, BF16], ids=str)
def test_b02_long_sums_stay_finite_in_half_precision(dtype: torch.dtype) -> None:
    """φ(k) = 6 leaves fp16 at 10 923 tokens, and bf16 stops counting at 256."""
    t = 1_000_000
    q = k = torch.full((1, 1, t, 4), 5.0, dtype=dtype)
    v = torch.ones(1, 1, t, 2, dtype=dtype)
    with torch.autocast("cpu", dtype):
        assert torch.equal(bidirectional(q, k, v), v)
    mixer = LinearAttention(8, heads=2)
    with torch.autocast("cpu", dtype):
        assert mixer(10 * rows(1, 20_000, F32)).isfinite().all()


@pytest.mark.parametrize(("dtype", "high"), [(torch.float16, 1e4), (F32, 89.0), (F32, 1e30)])
def test_b04_weights_are_a_softmax_whatever_the_scores(dtype: torch.dtype, high: float) -> None:
    x = torch.tensor([[[1.0, 3.0], [5.0, 7.0], [9.0, 9.0]]], dtype=dtype)
    scores = torch.tensor([[[high], [0.0], [high]]], dtype=dtype)
    mask = torch.tensor([[True, True, False]])
    assert pool(x, scores, mask).tolist() == [[[1.0, 3.0]]]
    assert pool(x, -scores, mask).tolist() == [[[5.0, 7.0]]]
    low = torch.full_like(scores, -high)
    assert pool(x, low, mask).tolist() == [[[3.0, 5.0]]]


def test_b08_a_state_goes_on_absorbing() -> None:
    """A sum of ones in bf16 stops at 256. With φ(0) = 1 the state counts the tokens."""
    zeros, ones = torch.zeros(1, 1, 700, 2, dtype=BF16), torch.ones(1, 1, 700, 2, dtype=BF16)
    for name, form in CAUSAL_FORMS.items():
        if name == "native" and not status().native:
            continue
        y, end = form(zeros, zeros, ones)
        assert end.z.dtype == end.s.dtype == F32
        assert (end.z == 700).all()
        assert (end.s == 700).all()
        assert torch.equal(y, ones)


@every_case
def test_b09_padding_never_enters_the_normaliser(case: Case) -> None:
    """``[a, b, c]`` against ``[PAD, PAD, a, b, c]``, and again with another PAD."""
    mixer, x = case(), rows(1, 3, F64)
    mask = torch.tensor([[False, False, True, True, True]])
    for pad in (0.0, 1.0, -40.0):
        padded = torch.cat([torch.full((1, 2, D), pad, dtype=F64), x], dim=1)
        close(mixer(padded, mask)[:, 2:], mixer(x), f"PAD = {pad}")


@every_case
def test_b11_a_single_row_is_masked_too(case: Case) -> None:
    mixer, x = case(), rows(2, 5, F64)
    mask = torch.tensor([[False, False, True, True, True], [True] * 5])
    close(mixer(x[:1], mask[:1]), mixer(x, mask)[:1], "one row")


def test_b12_a_text_does_not_depend_on_the_batch_it_came_in() -> None:
    x = rows(1, 5, F64)
    padded = torch.cat([x, torch.zeros(1, 3, D, dtype=F64)], dim=1)
    mask = torch.arange(8).expand(1, -1) < 5
    close(FNet(D)(padded, mask)[:, :5], FNet(D)(x), "5 of 8")
    assert (FNet(D)(padded)[:, :5] - FNet(D)(x)).abs().max() > 1


@pytest.mark.parametrize("t", [1, 2, 29, 30, 31, 64, 127])
@every_causal
def test_b14_the_step_loop_equals_the_full_pass_and_itself(case: Case, t: int) -> None:
    mixer, x = dataclasses.replace(case, dtype=F32)(), rows(2, t, F32)

    def loop() -> torch.Tensor:
        state, found = None, []
        for i in range(t):
            y, state = mixer.scan(x[:, i : i + 1], state)
            found.append(y)
        return torch.cat(found, dim=1)

    first = loop()
    same(loop(), first, "a second loop")
    assert (first - mixer(x)).abs().max() <= 1e-5


@every_causal
def test_b18_a_kept_state_can_be_continued_and_differentiated_many_times(case: Case) -> None:
    mixer = case()
    x = rows(2, 3, F64).requires_grad_()
    _, state = mixer.scan(x)
    first, second = (mixer.scan(rows(2, 2, F64, seed=2), state)[0] for _ in range(2))
    same(first, second, "the second continuation")
    if case.cls.mixes:
        one, two = (torch.autograd.grad(y.sum(), x, retain_graph=True)[0] for y in (first, second))
        same(one, two, "the gradient through the state")
        assert (one != 0).any()


@every_case
def test_b19_the_same_twice_and_in_a_copy(case: Case) -> None:
    mixer, x = case().eval(), rows(2, 9, F64)
    expected = mixer(x)
    same(mixer(x), expected, "again")
    same(copy.deepcopy(mixer)(x), expected, "a copy")
    same(mixer.train()(x), expected, "in training: a mixer draws nothing")


@pytest.mark.parametrize("t", [8191, 4099])
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name != "softmax" and "length" not in c.options], ids=str
)
def test_b21_any_length(case: Case, t: int) -> None:
    mixer = dataclasses.replace(case, dtype=F32)()
    assert mixer(rows(1, t, F32)).isfinite().all()


def test_b07_long_rows_equal_their_pieces() -> None:
    mixer, x = CausalLinearAttention(4, heads=1), torch.randn(1, 131_072, 4)
    with torch.no_grad():
        expected, end = mixer.scan(x)
        state, found = None, []
        for piece in x.split(2048, dim=1):
            y, state = mixer.scan(piece, state)
            found.append(y)
    close(torch.cat(found, dim=1), expected, "pieces", 1e-4)
    close(state.z, end.z, "z", 1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, BF16], ids=str)
@pytest.mark.parametrize(("t", "d"), [(7, 5), (192, 6), (1, 1), (13, 768)])
def test_b22_any_length_and_width_in_half_precision(t: int, d: int, dtype: torch.dtype) -> None:
    x, mask = torch.randn(2, t, d).to(dtype), torch.rand(2, t) < 0.8
    for m in (None, mask):
        expected = FNet(d)(x.double(), m)
        assert FNet(d)(x, m).dtype == dtype
        close(FNet(d)(x, m).double(), expected, "half precision", 2e-2)
        with torch.autocast("cpu", dtype):
            close(FNet(d)(x.float(), m), expected.float(), "fp32 under autocast", 1e-5)


@pytest.mark.parametrize("case", MIXING, ids=str)
def test_x16_a_mask_is_honoured_or_refused(case: Case) -> None:
    """What is hidden changes what the others get, and gets nothing itself."""
    mixer, x = case(), rows(1, 6, F64)
    mask = torch.tensor([[True, False, True, True, True, True]])
    found, unmasked = mixer(x, mask), mixer(x)
    assert (found[:, 1] == 0).all()
    assert ((found - unmasked)[:, 2:].abs().amax(-1) > 1e-6).all()


def test_everything_public_is_there() -> None:
    assert all(hasattr(mixers, name) for name in mixers.__all__)
