"""The checks: each takes a function that makes a mixer, and fails if a promise is broken.

``test_properties`` runs them on everything in the registry; ``test_teeth`` runs them on mixers that
are broken on purpose and sees them fail.
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.func import functional_call

from subquad.mixers import CausalMixer
from tests.cases import D, Make

#: Largest difference allowed, in units of the largest expected value.
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 3e-2}


def close(found: Tensor, expected: Tensor, what: str, tolerance: float | None = None) -> None:
    """Equal up to the precision of the dtype, and finite."""
    assert found.shape == expected.shape, f"{what}: {found.shape} is not {expected.shape}"
    assert found.dtype == expected.dtype, f"{what}: {found.dtype} is not {expected.dtype}"
    assert found.isfinite().all(), f"{what}: not finite"
    tolerance = tolerance or TOLERANCE[found.dtype]
    if found.numel():
        scale = max(expected.abs().max().item(), 1e-3)
        error = (found.double() - expected.double()).abs().max().item() / scale
        assert error <= tolerance, f"{what}: off by {error:.1e}, allowed {tolerance:.0e}"


def same(found: Tensor, expected: Tensor, what: str) -> None:
    """Equal to the last bit."""
    assert torch.equal(found, expected), f"{what}: not the same to the last bit"


def rows(b: int, t: int, dtype: torch.dtype, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(b, t, D, generator=generator, dtype=torch.float64).to(dtype)


def dtype_of(module: torch.nn.Module, default: torch.dtype) -> torch.dtype:
    return next((p.dtype for p in module.parameters()), default)


def holes(t: int, pads: int, where: str) -> Tensor:
    """A mask ``[t + pads]`` whose ``pads`` padded positions lie left, right, inside or anywhere."""
    real = torch.ones(t + pads, dtype=torch.bool)
    if where == "left":
        real[:pads] = False
    elif where == "right":
        real[t:] = False
    elif where == "inside":
        real[t // 2 : t // 2 + pads] = False
    else:
        real[torch.randperm(t + pads, generator=torch.Generator().manual_seed(t))[:pads]] = False
    return real


def _gradients(module, x: Tensor, mask: Tensor | None, real: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Of a loss over the real outputs, with respect to the input and the parameters."""
    x = x.clone().requires_grad_()
    weight = rows(x.shape[0], int(real.sum()), x.dtype, seed=9)
    loss = (module(x, mask)[:, real] * weight).sum()
    gx, *rest = torch.autograd.grad(
        loss, [x, *module.parameters()], allow_unused=True, materialize_grads=True
    )
    return gx, rest


def padding_changes_nothing(
    make: Make, dtype: torch.dtype, t: int, *, where: str, garbage: float, pads: int = 3
) -> None:
    """Padded = unpadded: outputs, gradients and what comes after, whatever the padding holds."""
    module, x = make(), rows(2, t, dtype)
    real = holes(t, pads, where)
    padded = torch.full((2, t + pads, D), garbage, dtype=dtype)
    padded[:, real] = x
    mask = real.expand(2, -1)
    with torch.no_grad():
        y, y_padded = module(x), module(padded, mask)
    close(y_padded[:, real], y, "real outputs")
    assert (y_padded[:, ~real] == 0).all(), "outputs at padding are not zero"
    gx, weights = _gradients(module, x, None, torch.ones(t, dtype=torch.bool))
    gx_padded, weights_padded = _gradients(module, padded, mask, real)
    close(gx_padded[:, real], gx, "gradients of real inputs")
    assert (gx_padded[:, ~real] == 0).all(), "gradients reach the padding"
    for found, expected in zip(weights_padded, weights, strict=True):
        close(found, expected, "gradients of the weights", 4 * TOLERANCE[dtype])
    if isinstance(module, CausalMixer):
        more = rows(2, 4, dtype, seed=2)
        with torch.no_grad():
            expected = module.scan(more, module.scan(x)[1])[0]
            found = module.scan(more, module.scan(padded, mask=mask)[1])[0]
        close(found, expected, "outputs after the padded row")


@torch.no_grad()
def alone_is_in_a_batch(make: Make, dtype: torch.dtype, t: int) -> None:
    """Alone = in a batch, beside rows of other lengths, in any order of the rows."""
    module, x = make(), rows(4, t, dtype)
    mask = torch.stack([holes(n, t - n, "right") for n in (t, max(1, t // 2), 1, 0)])
    batch = module(x, mask)
    for i, n in enumerate((t, max(1, t // 2), 1)):
        close(batch[i : i + 1, :n], module(x[i : i + 1, :n]), f"row of {n} alone")
        found = module(x[i : i + 1], mask[i : i + 1])
        close(found, batch[i : i + 1], f"row of {n} alone with its padding")
    order = torch.tensor([2, 0, 3, 1])
    close(module(x[order], mask[order]), batch[order], "rows in another order")


def pieces(t: int, cuts) -> list[slice]:
    bounds = [0, *sorted(set(cuts) & set(range(1, t))), t]
    return [slice(a, b) for a, b in itertools.pairwise(bounds)]


@torch.no_grad()
def splits_change_nothing(
    make: Make, dtype: torch.dtype, t: int, cuts, mask: Tensor | None = None
) -> None:
    """One pass = any split (= token by token, if every position is cut); and what comes after."""
    module, x, more = make(), rows(2, t, dtype), rows(2, 3, dtype, seed=2)
    expected, end = module.scan(x, mask=mask)
    same(module(x, mask), expected, "forward is scan")
    state, found = None, []
    for piece in pieces(t, cuts):
        y, state = module.scan(x[:, piece], state, None if mask is None else mask[:, piece])
        found.append(y)
    close(torch.cat(found, dim=1), expected, "outputs by pieces")
    close(module.scan(more, state)[0], module.scan(more, end)[0], "outputs after the pieces")


@torch.no_grad()
def reused_is_fresh(make: Make, dtype: torch.dtype, t: int) -> None:
    """Fresh = reused: what a module was called with before leaves no trace."""
    x = rows(2, t, dtype)
    mask = holes(t - t // 2, t // 2, "right").expand(2, -1)
    expected, expected_masked = make()(x), make()(x, mask)
    module = make()
    module(100 * rows(3, t + 5, dtype, seed=3))
    module(rows(1, 1, dtype, seed=4), torch.ones(1, 1, dtype=torch.bool))
    kept = x.clone()
    same(module(x), expected, "reused module")
    same(module(x, mask), expected_masked, "reused module under a mask")
    same(module(x), expected, "third call")
    same(x, kept, "the input itself")


def state_is_not_changed(make: Make, dtype: torch.dtype, t: int) -> None:
    """``scan`` never changes the state it was given, and a state can be continued many times."""
    module = make()
    with torch.no_grad():
        _, state = module.scan(rows(2, t, dtype))
        before = state.clone()
        first = module.scan(rows(2, 1, dtype, seed=2), state)[0]
        module.scan(100 * rows(2, 5, dtype, seed=3), state)
        again = module.scan(rows(2, 1, dtype, seed=2), state)[0]
    for name, tensor in state.tensors().items():
        same(tensor, before.tensors()[name], f"state {name}")
    same(again, first, "a second step from one state")
    swapped = state.select(torch.tensor([1, 0, 1]))
    step = rows(2, 1, dtype, seed=2)[[1, 0, 1]]
    close(module.scan(step, swapped)[0], first[[1, 0, 1]], "selected rows of the state")


@torch.no_grad()
def saved_is_kept(make: Make, other: Make, dtype: torch.dtype, t: int) -> None:
    """Saved and loaded = kept: weights into a module made differently, and the state."""
    module, x, more = make(), rows(2, t, dtype), rows(2, 3, dtype, seed=2)
    loaded = other()
    with tempfile.TemporaryDirectory() as folder:
        save_file(module.state_dict(), Path(folder, "w"))
        loaded.load_state_dict(load_file(Path(folder, "w")))
        same(loaded(x), module(x), "outputs of loaded weights")
        if isinstance(module, CausalMixer):
            _, state = module.scan(x)
            held = {name: tensor.contiguous() for name, tensor in state.tensors().items()}
            save_file(held, Path(folder, "s"))
            back = type(state)(**load_file(Path(folder, "s")))
            assert back.nbytes == state.nbytes
            same(loaded.scan(more, back)[0], module.scan(more, state)[0], "the loaded state")


def never_looks_ahead(make: Make, dtype: torch.dtype, t: int) -> None:
    """The output at i is the same, and has no gradient, whatever comes after i."""
    module = make()
    x = rows(1, t, dtype).requires_grad_()
    y = module(x)
    for i in {0, t // 2, t - 2} & set(range(t - 1)):
        changed = x.detach().clone()
        changed[:, i + 1 :] = 50 * rows(1, t - i - 1, dtype, seed=5)
        close(module(changed)[:, : i + 1].detach(), y[:, : i + 1].detach(), f"up to {i}")
        (gx,) = torch.autograd.grad(y[:, : i + 1].sum(), x, retain_graph=True)
        assert (gx[:, i + 1 :] == 0).all(), f"outputs up to {i} have gradients from later tokens"


def looks_everywhere(make: Make, dtype: torch.dtype, t: int, *, causal: bool) -> None:
    """Every output depends on every token it may read: the test that a mixer mixes."""
    module = make()
    x = rows(1, t, dtype)
    weight = rows(1, 1, dtype, seed=6)[0, 0]
    for j in {0, t // 2, t - 1}:
        bumped = x.clone()
        bumped[:, j] += 1
        change = ((module(bumped) - module(x)) @ weight).abs()[0]
        for i in {0, t // 2, t - 1}:
            if j <= i or not causal:
                assert change[i] > 1e-9, f"output {i} does not depend on token {j} of {t}"


def gradients_are_right(make: Make) -> None:
    """Analytic = numeric gradients in double precision: inputs, weights, and through the state."""
    module, x = make(), rows(2, 5, torch.float64).requires_grad_()
    mask = torch.tensor([[True, True, False, True, True], [False, True, True, False, False]])
    names = [name for name, _ in module.named_parameters()]

    def forward(x: Tensor, *weights: Tensor) -> Tensor:
        return functional_call(module, dict(zip(names, weights, strict=True)), (x, mask))

    assert torch.autograd.gradcheck(forward, (x, *module.parameters()), fast_mode=True)
    one = x[:1, :4].detach().requires_grad_()
    assert torch.autograd.gradcheck(module, (one, mask[:1, :4]))
    if isinstance(module, CausalMixer):

        def halves(x: Tensor) -> Tensor:
            y, state = module.scan(x[:, :2], mask=mask[:, :2])
            return torch.cat([y, module.scan(x[:, 2:], state, mask[:, 2:])[0]], dim=1)

        assert torch.autograd.gradcheck(halves, x, fast_mode=True)


def empty_rows_are_zero(make: Make, dtype: torch.dtype, t: int) -> None:
    """A row without real tokens is zero, and no gradient anywhere is NaN because of it."""
    module, x = make(), rows(3, t, dtype).requires_grad_()
    mask = torch.ones(3, t, dtype=torch.bool)
    mask[1] = False
    y = module(x, mask)
    assert (y[1] == 0).all(), "an empty row is not zero"
    expected = module(x[[0, 2]])
    close(y[[0, 2]].detach(), expected.detach(), "rows beside the empty one")
    if y.requires_grad:
        gradients = torch.autograd.grad(
            y.square().sum(), [x, *module.parameters()], allow_unused=True, materialize_grads=True
        )
        assert all(g.isfinite().all() for g in gradients), "gradients are not finite"
        assert (gradients[0][1] == 0).all(), "gradients reach the empty row"


@torch.no_grad()
def long_half_precision_agrees(make: Make, t: int = 4096, tail: int = 32) -> None:
    """In bf16: one pass = pieces of eight and then single tokens, still after ``t`` steps. The
    input changes sides half-way: a sum that has stopped absorbing would not follow."""
    module, x = make(), rows(2, t, torch.bfloat16)
    x[:, : t // 2] += 2
    x[:, t // 2 :] -= 2
    expected = module.scan(x)[0]
    state, found = None, []
    for piece in pieces(t, [*range(0, t - tail, 8), *range(t - tail, t)]):
        y, state = module.scan(x[:, piece], state)
        found.append(y)
    close(torch.cat(found, 1), expected, f"bf16 after {t} steps")


@torch.no_grad()
def sums_are_wide(make: Make) -> None:
    """A state of fixed size sums over the row, so it is fp32 or wider, and holds only itself,
    also under autocast. (A cache only stores activations: it may keep their dtype.)"""
    for autocast in (False, True):
        module = make()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            _, short = module.scan(rows(1, 3, dtype_of(module, torch.float32)))
            _, long = module.scan(rows(1, 200, dtype_of(module, torch.float32)))
        if short.nbytes == long.nbytes:
            for name, tensor in long.tensors().items():
                assert torch.finfo(tensor.dtype).bits >= 32, f"{name} is {tensor.dtype}"
                held = tensor.untyped_storage().nbytes()
                assert held == tensor.nbytes, f"{name} keeps {held} bytes alive"


@torch.no_grad()
def agrees_with_reference(make: Make, reference, options: dict, t: int, mask: Tensor) -> None:
    """The paper's loops over the real tokens of each row, within 1e-10 in double precision."""
    module, x = make(), rows(len(mask), t, torch.float64)
    weights = {name: w.numpy() for name, w in module.state_dict().items()}
    found = module(x, mask)
    for i, real in enumerate(mask):
        expected = torch.zeros_like(x[i])
        if real.any():
            expected[real] = torch.from_numpy(
                np.asarray(reference(x[i, real].numpy(), weights, **options))
            )
        close(found[i], expected, f"row {i}", 1e-10)
    if mask.all():
        close(module(x), found, "no mask", 1e-10)
