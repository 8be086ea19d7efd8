"""Checks of a mixer's arguments, so that a wrong tensor gets an error that says what it is and what
it must be, rather than one from deep inside a formula."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def guard(mixer: type) -> None:
    """Make a mixer class check the shapes and dtypes of its arguments, except while a compiler or
    exporter is tracing."""
    own = vars(mixer)
    for name, wrapped in (("forward", _forward), ("scan", _scan)):
        method = own.get(name)
        if method is not None and not getattr(method, "__isabstractmethod__", False):
            setattr(mixer, name, wrapped(method))
    init: Any = mixer.__init__  # type: ignore[misc]
    if init is not nn.Module.__init__ and not hasattr(init, "remembers"):
        mixer.__init__ = _made(init)  # type: ignore[misc]


def _made(method: Callable[..., None]) -> Callable[..., None]:
    """Record the width ``d`` for the checks; a mixer made of another's parts has none to record."""

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
    ValueError: ``x`` is not floating-point ``[b, t, d]``, or ``mask`` is not bool ``[b, t]``.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    d = getattr(mixer, "width_given", None)
    if x.dim() != 3 or (d is not None and x.shape[2] != d) or not x.is_floating_point():
        raise ValueError(
            f"x is {_named(x)}; {type(mixer).__name__} takes floating-point tensors of shape "
            f"[b, t, {'d' if d is None else d}]"
        )
    if mask is not None and (mask.dtype != torch.bool or mask.shape != x.shape[:2]):
        raise ValueError(
            f"mask is {_named(mask)}; it must be torch.bool of shape {list(x.shape[:2])}, "
            "with True at real tokens"
        )


def _named(x: Tensor) -> str:
    return f"{x.dtype} of shape {list(x.shape)}"
