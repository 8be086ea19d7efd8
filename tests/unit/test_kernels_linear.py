"""The native core against the definition in fp64: outputs, states, all gradients, odd shapes."""

import itertools

import pytest
import torch
from torch import Tensor

from subquad import kernels
from subquad.mixers import linear
from subquad.mixers.linear import feature_maps

if not kernels.status().native:
    pytest.skip(f"native core: {kernels.status().reason}", allow_module_level=True)

PHI = {"elu+1": feature_maps.elu_plus_one, "relu": feature_maps.relu, "identity": lambda x: x}
#: Relative to the largest element, per dtype of the inputs.
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-4, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def draw(
    t: int, k: int = 8, m: int | None = None, *, b: int = 2, h: int = 2, seed: int = 0
) -> dict:
    """Inputs in fp64, with everything optional present."""
    g = torch.Generator().manual_seed(seed)
    m = k if m is None else m

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    return {
        "q": normal(b, h, t, k),
        "k": normal(b, h, t, k),
        "v": normal(b, h, t, m),
        "mask": torch.rand(b, t, generator=g) < 0.8,
        "s": normal(b, h, k, m),
        "z": normal(b, h, k).abs() + 1,
        "decay": torch.rand(b, h, t, generator=g, dtype=torch.float64) * 0.5 + 0.5,
        "dout": normal(b, h, t, m),
        "ds": normal(b, h, k, m),
        "dz": normal(b, h, k),
    }


WANTED = ("q", "k", "v", "s", "z", "decay")


def gradients(form, x: dict, feature_map: str, *, optional: bool = True) -> dict[str, Tensor]:
    """Outputs, states and gradients of ``form`` on leaves made from ``x``."""
    leaves = {n: x[n].detach().clone().requires_grad_() for n in WANTED if optional or n in "qkv"}
    state = linear.LinearState(s=leaves["s"], z=leaves["z"]) if optional else None
    extra = {"mask": x["mask"], "state": state, "decay": leaves["decay"]} if optional else {}
    name = {} if form is not kernels.causal_linear_attention else {"feature_map": feature_map}
    phi = name or {"phi": PHI[feature_map]}
    out, after = form(leaves["q"], leaves["k"], leaves["v"], **phi, **extra)
    loss = (out.double() * x["dout"]).sum()
    loss = loss + (after.s.double() * x["ds"]).sum() + (after.z.double() * x["dz"]).sum()
    loss.backward()
    made = {f"d{n}": torch.zeros_like(p) if p.grad is None else p.grad for n, p in leaves.items()}
    return {"out": out, "s": after.s, "z": after.z} | made


def agree(found: dict[str, Tensor], right: dict[str, Tensor], tolerance: float) -> None:
    for name, reference in right.items():
        error = (found[name].double() - reference.double()).abs()
        scale = reference.abs().max().clamp(min=1) if reference.numel() else 1
        assert error.numel() == 0 or error.max() <= tolerance * scale, (name, error.max() / scale)


def low(x: dict, dtype: torch.dtype) -> tuple[dict, dict]:
    """Inputs rounded to ``dtype`` (states and decay to what is kept), and the same in fp64."""
    kept = torch.promote_types(dtype, torch.float32)
    to = {n: kept if n in ("s", "z", "decay") else dtype for n in WANTED}
    rounded = {n: v.to(to[n]) if n in to else v for n, v in x.items()}
    return rounded, {n: v.double() if n in to else v for n, v in rounded.items()}


LENGTHS = (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 130)


@pytest.mark.parametrize("t", LENGTHS)
@pytest.mark.parametrize("feature_map", ["elu+1", "identity"])
def test_all_gradients_exact_in_fp64(t: int, feature_map: str) -> None:
    x = draw(t, k=5, m=3)
    x["q"], x["k"] = (x["q"].abs(), x["k"].abs()) if feature_map == "identity" else (x["q"], x["k"])
    right = gradients(linear.quadratic, x, feature_map)
    agree(gradients(kernels.causal_linear_attention, x, feature_map), right, 1e-11)


@pytest.mark.parametrize(("t", "k", "m"), [(1000, 8, 17), (4097, 3, 2), (600, 64, 64)])
def test_long_rows_against_the_recurrence(t: int, k: int, m: int) -> None:
    rounded, exact = low(draw(t, k, m, b=1), torch.float32)
    right = gradients(linear.chunked, exact, "elu+1")
    agree(gradients(kernels.causal_linear_attention, rounded, "elu+1"), right, 2e-4)


@pytest.mark.parametrize("k", [1, 3, 8, 17, 32, 64, 96, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_head_sizes_and_dtypes(k: int, dtype: torch.dtype) -> None:
    for m in {k, 8, 96}:
        rounded, exact = low(draw(70, k, m, b=1), dtype)
        right = gradients(linear.quadratic, exact, "elu+1", optional=False)
        found = gradients(kernels.causal_linear_attention, rounded, "elu+1", optional=False)
        agree(found, right, TOLERANCE[dtype])


@pytest.mark.parametrize("form", ["quadratic", "chunked", "recurrent"])
def test_torch_forms_agree_with_decay(form: str) -> None:
    for t in (0, 1, 5, 64, 65, 130):
        x = draw(t, 4, 3)
        right = gradients(kernels.causal_linear_attention, x, "elu+1")
        agree(gradients(linear.CAUSAL_FORMS[form], x, "elu+1"), right, 1e-11)


def test_decay_of_zero_and_per_head() -> None:
    x = draw(80, 4)
    x["decay"][:, :, 7] = 0
    x["decay"][0, 0, 30:34] = 1e-6
    right = gradients(linear.quadratic, x, "elu+1")
    agree(gradients(kernels.causal_linear_attention, x, "elu+1"), right, 1e-11)
    x["decay"] = torch.tensor([0.9, 1.0], dtype=torch.float64)
    right = gradients(linear.recurrent, x, "elu+1")
    agree(gradients(kernels.causal_linear_attention, x, "elu+1"), right, 1e-11)


@pytest.mark.parametrize("feature_map", ["elu+1", "relu", "identity"])
def test_bidirectional(feature_map: str) -> None:
    for t, dtype in itertools.product((0, 1, 33, 130), (torch.float64, torch.float32)):
        x, exact = low(draw(t, 5, 3), dtype)
        for source in (x, exact):
            if feature_map == "identity":
                source["q"], source["k"] = source["q"].abs(), source["k"].abs()
        results = []
        for form, source in ((linear.bidirectional, exact), (None, x)):
            q, k, v = (source[n].clone().requires_grad_() for n in "qkv")
            if form:
                out = form(q, k, v, phi=PHI[feature_map], mask=x["mask"])
            else:
                out = kernels.linear_attention(q, k, v, feature_map=feature_map, mask=x["mask"])
            (out.double() * x["dout"]).sum().backward()
            results.append({"out": out, "dq": q.grad, "dk": k.grad, "dv": v.grad})
        agree(results[1], results[0], TOLERANCE[dtype])


def test_any_strides() -> None:
    """Transposed, sliced, reversed order of dimensions, expanded inputs and gradients."""
    x = draw(45, 6, b=3)
    right = gradients(linear.quadratic, x, "elu+1", optional=False)
    packed = torch.stack([x["q"], x["k"], x["v"]], dim=-1).permute(2, 4, 0, 1, 3).contiguous()
    views = [packed[:, i].permute(1, 2, 0, 3) for i in range(3)]  # strides of [t, 3, b, h, k]
    odd = torch.randn(3, 2, 45, 12, dtype=torch.float64)[..., ::2]
    odd.copy_(views[0])
    out, _ = kernels.causal_linear_attention(odd, views[1], views[2])
    agree({"out": out}, {"out": right["out"]}, 1e-11)

    one = x["q"][:1, :1].requires_grad_()
    results = []
    for form in (linear.quadratic, kernels.causal_linear_attention):
        wide = one.expand(3, 2, -1, -1)
        out, after = form(wide, wide, wide)
        loss = out.sum() + after.z.sum()  # gradients of a sum are expanded: strides of zero
        results.append(torch.autograd.grad(loss, one)[0])
    agree({"d": results[1]}, {"d": results[0]}, 1e-11)


def test_few_rows_split_time_and_same_bits_again() -> None:
    x = draw(2000, 8, b=1, h=1)
    threads = torch.get_num_threads()
    right = gradients(linear.chunked, x, "elu+1")
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            found = [gradients(kernels.causal_linear_attention, x, "elu+1") for _ in range(2)]
            agree(found[0], right, 1e-11)
            assert all(torch.equal(found[0][name], found[1][name]) for name in right)
    finally:
        torch.set_num_threads(threads)


def test_nothing_seen_gives_zero_not_nan() -> None:
    q = torch.randn(1, 1, 6, 4, requires_grad=True)
    v = torch.full((1, 1, 6, 4), 1.0, requires_grad=True)
    mask = torch.zeros(1, 6, dtype=torch.bool)
    out, after = kernels.causal_linear_attention(q, q, v, mask=mask)
    both = out.sum() + kernels.linear_attention(q, q, v, mask=mask).sum()
    both.backward()
    assert not out.any()
    assert not after.z.any()
    assert not q.grad.any()
    assert not v.grad.any()


@pytest.mark.parametrize("constant", [False, True])
def test_state_after_100_000_tokens(constant: bool) -> None:
    g = torch.Generator().manual_seed(1)
    t = 100_000
    q, k, v = (torch.randn(1, 1, t, 8, generator=g) for _ in range(3))
    if constant:
        k, v = torch.full_like(k, 0.1), torch.full_like(v, 0.7)
    _, found = kernels.causal_linear_attention(q, k, v)
    phi_k = feature_maps.elu_plus_one(k.double())
    s, z = phi_k.mT @ v.double(), phi_k.sum(2)
    assert (found.s - s).norm() / s.norm() < 1e-3
    assert (found.z - z).norm() / z.norm() < 1e-3
