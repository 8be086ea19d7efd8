"""``bench``: causal attention on its own: softmax and every implementation of linear attention."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from subquad.lab.instruments.memory import resident_peak
from subquad.mixers import linear

HEADS, WIDTH = 8, 64


def _softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _first(form: Callable[..., tuple[Tensor, object]], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return form(q, k, v)[0]


def native(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from subquad.kernels import causal_linear_attention

    return causal_linear_attention(q, k, v)[0]


#: Implementations of causal attention by name; ``softmax`` is the baseline.
FORMS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "softmax": _softmax,
    "native": native,
    "chunked": partial(_first, linear.chunked),
}


def forms() -> list[str]:
    """The implementations that are available in this installation."""
    from subquad.kernels import status

    return [name for name in FORMS if name != "native" or status().native]


def inputs(t: int, grad: bool, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Random q, k and v, each ``[1, 8, t, 64]``."""
    return [torch.randn(1, HEADS, t, WIDTH).to(dtype).requires_grad_(grad) for _ in range(3)]


def call(form: str, given: list[Tensor], backward: bool) -> Callable[[], object]:
    """A function that runs one forward pass of ``form``, or with ``backward`` both passes."""

    def run() -> None:
        if not backward:
            with torch.no_grad():
                FORMS[form](*given)
            return
        torch.autograd.grad(FORMS[form](*given).sum(), given)

    return run


def prepared(form: str, t: int, backward: bool) -> Callable[[], object]:
    """The same as ``call``, on newly made inputs."""
    return call(form, inputs(t, backward), backward)


def peak_memory(form: str, t: int, backward: bool) -> int:
    """Peak memory of one call in bytes, inputs not counted (Linux only)."""
    return resident_peak(prepared, (form, 32, backward), (form, t, backward))


def bf16_error(t: int = 4096) -> float:
    """Largest error of the native kernel on bf16 inputs, relative to the largest output of an fp64
    computation on the same inputs."""
    q, k, v = inputs(t, False, torch.bfloat16)
    exact = linear.chunked(q.double(), k.double(), v.double())[0]
    found = native(q, k, v).double()
    return ((found - exact).abs().max() / exact.abs().max()).item()
