"""FNet's controls and relatives: what the registry's own tests do not say."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from subquad.mixers import build, dense, fnet
from tests.checks import close, rows, same

F64, F32 = torch.float64, torch.float32


@pytest.mark.parametrize("name", ["dense", "random"])
def test_a_row_longer_than_the_matrix_is_refused_with_both_numbers(name: str) -> None:
    mixer = build(name, 8, causal=False, length=5)
    with pytest.raises(ValueError, match="up to 5 tokens, found 6"):
        mixer(rows(2, 6, F32))
    mask = torch.ones(2, 9, dtype=torch.bool)
    with pytest.raises(ValueError, match="up to 5 tokens, found 9"):
        mixer(rows(2, 9, F32), mask)
    mask[:, 1:5] = False  # five real tokens among nine fit
    close(mixer(rows(2, 9, F32), mask)[mask], mixer(rows(2, 9, F32)[:, mask[0]]).flatten(0, 1), "y")
    with pytest.raises(ValueError, match="length=0"):
        build(name, 8, causal=False, length=0)


def test_random_matrices_are_drawn_once_from_the_seed_and_are_no_parameters() -> None:
    made = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        made.append(build("random", 8, causal=False, length=64))
    assert not list(made[0].parameters())
    assert set(made[0].state_dict()) == {"time", "hidden"}
    same(made[0].time, made[1].time, "same seed")
    assert not torch.equal(made[0].time, made[2].time)
    assert abs(made[0].time.std().item() - 1 / 8) < 0.01, "variance 1/n"
    assert made[0].time.abs().max() < 2 / (0.87 * 8), "cut at two standard deviations"


@pytest.mark.parametrize("t", [1, 2, 5, 8])
def test_dense_forms_are_the_same(t: int) -> None:
    x, time, mask = rows(3, t, F64), torch.randn(9, 9, dtype=F64), torch.rand(3, t) < 0.6
    close(dense.packed(x, time, mask), dense.definition(x, time, mask), "masked", 1e-12)
    close(dense.packed(x, time), dense.definition(x, time), "whole", 1e-12)


@pytest.mark.parametrize("t", [1, 7, 97, 127, 509])
@pytest.mark.parametrize("transform", ["fourier", "hartley", "dct", "hadamard", "sequence"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_b22_every_length_under_autocast_in_fp32(t: int, transform: str, dtype) -> None:
    mixer, x = build("fnet", 8, causal=False, transform=transform), rows(2, t, F32)
    mask = torch.arange(t).expand(2, -1) < torch.tensor([[t], [max(1, t // 2)]])
    expected = [mixer(x), mixer(x, mask)]
    with torch.autocast("cpu", dtype):
        found = [mixer(x), mixer(x, mask)]
    for a, b in zip(found, expected, strict=True):
        same(a, b, "autocast")
    close(mixer(x.to(dtype)).float(), mixer(x.to(dtype).float()), "half precision in", 0.02)


def test_hadamard_of_a_power_of_two_is_its_own_inverse() -> None:
    x = rows(1, 16, F64)
    close(fnet.full(fnet.full(x, "hadamard"), "hadamard") / (16 * 8), x, "twice", 1e-12)


def test_products_use_no_fft_and_no_complex_number() -> None:
    mixer = build("fnet", 8, causal=False, form="products")
    seen = set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            seen.add(str(func))
            assert not (isinstance(out, torch.Tensor) and out.is_complex()), func
            return out

    with Watch():
        mixer(rows(2, 7, F32), torch.ones(2, 7, dtype=torch.bool))
    assert seen
    assert not [name for name in seen if "fft" in name]


@pytest.mark.parametrize("option", ["transform", "form", "padding"])
def test_an_unknown_choice_is_refused_by_name(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option}='no' is not one of"):
        build("fnet", 8, causal=False, **{option: "no"})
