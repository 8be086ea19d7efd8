"""What a mixer is given, looked at before it is used: an error that names the argument, what it is
and what it must be, instead of one from the middle of a formula."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def guard(mixer: type) -> None:
    """Let a class of mixers look at its arguments. Sizes and dtypes only: nothing is computed, and
    while a compiler or exporter traces, nothing is looked at."""
    own = vars(mixer)
    for name, wrapped in (("forward", _forward), ("scan", _scan)):
        method = own.get(name)
        if method is not None and not getattr(method, "__isabstractmethod__", False):
            setattr(mixer, name, wrapped(method))
    init: Any = mixer.__init__  # type: ignore[misc]
    if init is not nn.Module.__init__ and not hasattr(init, "remembers"):
        mixer.__init__ = _made(init)  # type: ignore[misc]


def _made(method: Callable[..., None]) -> Callable[..., None]:
    """Remember the width; a mixer that is made of another's parts has none to remember."""

    @functools.wraps(method)
    def init(self: Any, d: Any, *more: Any, **options: Any) -> None:
        method(self, d, *more, **options)
        self.width_given = d if isinstance(d, int) else None

    init.remembers = True  # type: ignore[attr-defined]
    return init


def _forward(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def forward(self: Any, x: Tensor, mask: Tensor | None = None) -> Any:
        _check(self, x, mask)
        return method(self, x, mask)

    return forward


def _scan(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def scan(self: Any, x: Tensor, state: Any = None, mask: Tensor | None = None) -> Any:
        _check(self, x, mask)
        return method(self, x, state, mask)

    return scan


def _check(mixer: Any, x: Tensor, mask: Tensor | None) -> None:
    """Raises:
    ValueError: ``x`` is no ``[b, t, d]`` of floating-point numbers, or ``mask`` no bool ``[b, t]``.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    d = getattr(mixer, "width_given", None)
    if x.dim() != 3 or (d is not None and x.shape[2] != d) or not x.is_floating_point():
        raise ValueError(
            f"x is {_named(x)}; {type(mixer).__name__} mixes floating-point numbers of shape "
            f"[b, t, {'d' if d is None else d}]"
        )
    if mask is not None and (mask.dtype != torch.bool or mask.shape != x.shape[:2]):
        raise ValueError(
            f"mask is {_named(mask)}; it must be torch.bool of shape {list(x.shape[:2])}, True at "
            "real tokens"
        )


def _named(x: Tensor) -> str:
    return f"{x.dtype} of shape {list(x.shape)}"
