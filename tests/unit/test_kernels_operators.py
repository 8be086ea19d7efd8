"""The core as torch operators: opcheck, compile, export, tracing, refusals, no unwritten memory."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from subquad import kernels
from subquad.mixers import linear

if not kernels.status().native:
    pytest.skip(f"native core: {kernels.status().reason}", allow_module_level=True)

from subquad.kernels import linear_calls, loading, ops


def inputs(t: int = 9, *, grad: bool = True, dtype: torch.dtype = torch.float32) -> list:
    g = torch.Generator().manual_seed(t)
    q, k, v = (torch.randn(2, 3, t, w, generator=g).to(dtype) for w in (4, 4, 5))
    s0, z0 = torch.randn(2, 3, 4, 5, generator=g), torch.rand(2, 3, 4, generator=g) + 1
    decay = torch.rand(2, 3, t, generator=g)
    leaves = [x.requires_grad_(grad) for x in (q, k, v, s0, z0, decay)]
    mask = torch.rand(2, t, generator=g) < 0.7
    return [*leaves[:3], mask, *leaves[3:]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("optional", [False, True])
def test_opcheck(optional: bool) -> None:
    given = inputs()
    chosen = given if optional else [*given[:3], None, None, None, None]
    torch.library.opcheck(ops.causal_linear, (*chosen, "elu+1"))
    torch.library.opcheck(ops.all_linear, (*chosen[:4], "relu"))
    plain = [None if x is None else x.detach() for x in chosen]
    up = [torch.randn(2, 3, 9, 5), torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4)]
    torch.library.opcheck(ops.causal_linear_backward, (*up, *plain, "elu+1", optional))
    torch.library.opcheck(ops.all_linear_backward, (up[0], *plain[:4], "elu+1"))


def test_gradcheck() -> None:
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 5, 3, generator=g).double().requires_grad_() for _ in range(3))
    decay = torch.rand(1, 2, 5, generator=g).double().requires_grad_()
    s = torch.randn(1, 2, 3, 3, generator=g).double().requires_grad_()
    z = torch.rand(1, 2, 3, generator=g).double().requires_grad_()

    def causal(q, k, v, decay, s, z):
        state = linear.LinearState(s=s, z=z)
        out, after = kernels.causal_linear_attention(q, k, v, state=state, decay=decay)
        return out, after.s, after.z

    assert torch.autograd.gradcheck(causal, (q, k, v, decay, s, z))
    assert torch.autograd.gradcheck(kernels.linear_attention, (q, k, v))


def test_compile_and_export_keep_it_whole() -> None:
    """In a process of its own: the graphs are of the code that users run, without shape checks."""
    script = Path(__file__).parents[1] / "native" / "traced.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_double_backward_is_refused() -> None:
    q = torch.randn(1, 1, 4, 3, requires_grad=True)
    for out in (kernels.causal_linear_attention(q, q, q)[0], kernels.linear_attention(q, q, q)):
        (gradient,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
        with pytest.raises(RuntimeError, match="backward"):
            gradient.sum().backward()


def test_every_result_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = torch.Tensor.new_empty

    def nan_filled(self, *args, **kwargs):
        return empty(self, *args, **kwargs).fill_(float("nan"))

    monkeypatch.setattr(torch.Tensor, "new_empty", nan_filled)
    for t in (0, 1, 33, 600):
        given = inputs(t)
        results = [
            *linear_calls.run_causal(*given, "elu+1"),
            linear_calls.run_all(*given[:4], "elu+1"),
        ]
        up = torch.randn(2, 3, t, 5), torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4)
        results += ops.causal_linear_backward(*up, *given, "elu+1", True)
        results += ops.all_linear_backward(up[0], *given[:4], "elu+1")
        assert not any(x.isnan().any() for x in results)


def test_traced_and_watched_calls_go_through_the_dispatcher() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q = torch.randn(1, 2, 5, 4)
        out, after = kernels.causal_linear_attention(q, q, q)
    assert out.shape == (1, 2, 5, 4)
    assert after.s.shape == (1, 2, 4, 4)


def test_wrong_arguments_are_named() -> None:
    q = torch.randn(1, 2, 5, 4)
    call = inspect.unwrap(kernels.causal_linear_attention)  # without the tests' shape checks
    with pytest.raises(ValueError, match="k has shape"):
        call(q, q[:, :, :4], q)
    with pytest.raises(ValueError, match="mask has shape"):
        call(q, q, q, mask=torch.ones(1, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"mask is torch.float32"):
        call(q, q, q, mask=torch.ones(1, 5))
    with pytest.raises(ValueError, match="feature_map='cos'"):
        call(q, q, q, feature_map="cos")
    with pytest.raises(ValueError, match="decay has shape"):
        call(q, q, q, decay=torch.ones(3))
    with pytest.raises(ValueError, match=r"state.s has shape"):
        call(q, q, q, state=kernels.Sums(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 4)))


def test_turned_off_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    used = kernels.status().instruction_set
    monkeypatch.setenv(loading.VARIABLE, "torch")
    assert loading._load() == (None, "turned off by SUBQUAD_KERNELS=torch")
    monkeypatch.setenv(loading.VARIABLE, "mmx")
    assert "no such instruction set" in loading._load()[1]
    assert kernels.status().instruction_set == used


def test_without_the_core_torch_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, x = linear.CausalLinearAttention(4, heads=1), torch.randn(2, 70, 4)
    with torch.no_grad():
        right = mixer(x)
        monkeypatch.setattr(loading, "CORE", None)
        monkeypatch.setattr(loading, "REASON", "built without a C++ compiler")
        monkeypatch.setattr("subquad.kernels.linear.CORE", None)
        assert kernels.status().reason == "built without a C++ compiler"
        torch.testing.assert_close(mixer(x), right)
        mixer.form = "native"
        with pytest.raises(RuntimeError, match="native core is not in use"):
            mixer(x)


def test_every_instruction_set_gives_the_same() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, 300, 24)
    used, found = kernels.status().instruction_set, {}
    try:
        for name in ("baseline", "avx2", "avx512"):
            if loading.CORE.use(name):
                assert kernels.status().instruction_set == name
                found[name] = kernels.causal_linear_attention(q, k, v)
    finally:
        loading.CORE.use(used)
    for out, sums in found.values():
        torch.testing.assert_close(out, found["baseline"][0])
        torch.testing.assert_close(sums.s, found["baseline"][1].s, rtol=1e-4, atol=1e-4)


def test_import_subquad_loads_no_kernel() -> None:
    code = "import sys, subquad; print([m for m in sys.modules if m.startswith('subquad.kernels')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
