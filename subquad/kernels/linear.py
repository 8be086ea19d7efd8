"""Linear attention by the native core: counterparts of the forms in ``subquad.mixers.linear``.

Feature map, sums, normaliser, division and cast are fused into one pass over memory. Inputs may
have any strides and be fp32, fp64, bf16 or fp16 (sums are fp32 or wider); nothing is copied. If
batch size times heads is less than the number of threads, the sequence is split among threads.
Results are bitwise reproducible for the same number of threads.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from subquad.kernels import linear_calls, ops
from subquad.kernels.core_calls import DTYPES, wide
from subquad.kernels.linear_calls import MAPS
from subquad.kernels.loading import CORE, REASON, traced
from subquad.shapes import Heads, Mask, Values

Form = Callable[..., Any]


@runtime_checkable
class SumsLike(Protocol):
    """S ``[b, h, k, m]`` and Z ``[b, h, k]`` of Eq. (10) and (11) of Katharopoulos et al. 2020."""

    @property
    def s(self) -> Tensor: ...
    @property
    def z(self) -> Tensor: ...


class Sums(NamedTuple):
    """S ``[b, h, k, m]`` and Z ``[b, h, k]`` after the last token."""

    s: Tensor
    z: Tensor


def causal_linear_attention(
    q: Heads,
    k: Heads,
    v: Values,
    *,
    feature_map: str = "elu+1",
    mask: Mask | None = None,
    state: SumsLike | None = None,
    decay: Tensor | None = None,
) -> tuple[Values, Sums]:
    """Causal linear attention.

    Args:
        q, k: ``[b, h, t, k]``, before the feature map.
        v: ``[b, h, t, m]``.
        feature_map: ``"elu+1"``, ``"relu"``, or ``"identity"`` if ``q`` and ``k`` are features.
        mask: ``[b, t]``, True at real tokens; masked tokens leave the state unchanged.
        state: the sums to continue from; None at the start.
        decay: γ, per head ``[h]`` or per position ``[b, h, t]``: S ← γS + φ(k) vᵀ, Z ← γZ + φ(k).

    Returns:
        Outputs ``[b, h, t, m]`` in the dtype of ``v``, and the sums after the last token.

    Raises:
        RuntimeError: the native core is not in use (the message says why), or forward-mode
            derivatives are requested, which it does not support.
        ValueError: a shape, dtype, device or feature map is invalid; the message names it.
    """
    q, k, v, dtype = _checked(q, k, v, mask, feature_map)
    s0 = z0 = None
    if state is not None:
        kept = wide(v.dtype)
        s0, z0 = state.s.to(kept), state.z.to(kept)
        _expect("state.s", s0, (*k.shape[:2], k.shape[3], v.shape[3]))
        _expect("state.z", z0, (*k.shape[:2], k.shape[3]))
    if decay is not None:
        decay = _per_position(decay.to(wide(v.dtype)), k)
    given = q, k, v, mask, s0, z0, decay
    form = _form(given, ops.causal_linear, ops.Causal.apply, linear_calls.run_causal)
    out, s, z = form(*given, feature_map)
    return out if out.dtype == dtype else out.to(dtype), Sums(s, z)


def linear_attention(
    q: Heads, k: Heads, v: Values, *, feature_map: str = "elu+1", mask: Mask | None = None
) -> Values:
    """Bidirectional linear attention: every token reads the sums over the whole sequence. Arguments
    and errors are those of ``causal_linear_attention``; returns ``[b, h, t, m]``."""
    q, k, v, dtype = _checked(q, k, v, mask, feature_map)
    given = q, k, v, mask
    form = _form(given, ops.all_linear, ops.All.apply, linear_calls.run_all)
    out = form(*given, feature_map)
    return out if out.dtype == dtype else out.to(dtype)


def _per_position(decay: Tensor, k: Tensor) -> Tensor:
    """Decay ``[h]`` or ``[b, h, t]`` as ``[b, h, t]``, without a copy."""
    b, h, t, _ = k.shape
    if decay.dim() == 1:
        _expect("decay", decay, (h,))
        return decay.view(1, h, 1).expand(b, h, t)
    _expect("decay", decay, (b, h, t))
    return decay


def _form(
    given: tuple[Tensor | None, ...], operator: Form, differentiable: Form, bare: Form
) -> Form:
    """How to call the core. torch's dispatcher costs more than a short sequence, so that it is used
    only for tracing, dispatch modes and tensor subclasses, and autograd only for gradients."""
    if forward_ad._current_level >= 0:
        raise RuntimeError(
            "the native core has no forward-mode derivatives; use the forms chunked or sums of "
            "subquad.mixers.linear"
        )
    if traced():
        return operator
    grad, wrapped = False, torch._C._functorch.is_functorch_wrapped_tensor
    for x in given:
        if x is None:
            continue
        if type(x) is not Tensor or wrapped(x):
            return operator
        grad = grad or x.requires_grad
    return differentiable if grad and torch.is_grad_enabled() else bare


def _expect(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    if x.shape != shape:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected {tuple(shape)}")
    if x.device.type != "cpu":
        raise ValueError(f"{name} is on {x.device}; the native core takes CPU tensors only")


def _checked(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, feature_map: str
) -> tuple[Tensor, Tensor, Tensor, torch.dtype]:
    """q, k, v in a common dtype, and the dtype of the result."""
    if CORE is None:
        raise RuntimeError(
            f"the native core is not in use: {REASON}; use the pure-torch forms in "
            "subquad.mixers.linear"
        )
    if (
        mask is None
        and q.shape == k.shape == v.shape
        and q.dtype == k.dtype == v.dtype
        and (q.dtype in DTYPES and feature_map in MAPS)
        and (q.dim() == 4 and q.shape[3] > 0)
        and q.device.type == k.device.type == v.device.type == "cpu"
    ):
        return q, k, v, v.dtype  # the common case, with little overhead for short sequences
    if feature_map not in MAPS:
        raise ValueError(f"feature_map={feature_map!r} is not one of {', '.join(MAPS)}")
    if q.dim() != 4 or q.shape[3] == 0:
        raise ValueError(f"q has shape {tuple(q.shape)}; expected [b, h, t, k]")
    _expect("q", q, tuple(q.shape))
    _expect("k", k, tuple(q.shape))
    _expect("v", v, (*q.shape[:3], max(v.shape[-1], 1)))
    if mask is not None:
        _expect("mask", mask, (q.shape[0], q.shape[2]))
        if mask.dtype != torch.bool:
            raise ValueError(f"mask is {mask.dtype}; expected torch.bool")
    dtype = v.dtype
    if not q.dtype == k.dtype == dtype:
        common = torch.promote_types(torch.promote_types(q.dtype, k.dtype), dtype)
        q, k, v = q.to(common), k.to(common), v.to(common)
    if v.dtype not in DTYPES:
        raise ValueError(f"dtype {v.dtype} is not one of {', '.join(map(str, DTYPES))}")
    return q, k, v, dtype
