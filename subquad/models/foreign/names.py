"""Translates the tensors of a checkpoint to our names and back, by a table of modules.

A row of the table is (ours, theirs, …): ``{i}`` stands for the number of a layer. If a row has
several modules of theirs, ours is their concatenation along the rows, in this order (W_Q, W_K and
W_V of attention). Weights and biases of a module go together.
"""

import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from subquad.errors import SubquadError

#: (our module, their modules)
Row = tuple[str, ...]
Table = tuple[Row, ...]


def to_ours(table: Table, found: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Their tensors under our names.

    Raises:
        SubquadError: a tensor has no place in the table, or a part of a concatenation is missing.
    """
    made: dict[str, Tensor] = {}
    left = set(found)
    for ours, *theirs in table:
        for i in _layers(theirs[0], found):
            for kind in _kinds(theirs[0].format(i=i), found):
                parts = [_named(module.format(i=i), kind) for module in theirs]
                if missing := [name for name in parts if name not in found]:
                    raise SubquadError(f"{where} has no {', '.join(missing)}")
                made[_named(ours.format(i=i), kind)] = (
                    found[parts[0]] if len(parts) == 1 else torch.cat([found[n] for n in parts])
                )
                left -= set(parts)
    if left:
        raise SubquadError(f"{where} has tensors that are not supported: {_few(sorted(left))}")
    return made


def to_theirs(table: Table, given: Mapping[str, Tensor], d: int, family: str) -> dict[str, Tensor]:
    """Our tensors under their names, for a model of width ``d``.

    Raises:
        SubquadError: a tensor has no place in this family.
    """
    made: dict[str, Tensor] = {}
    for name, tensor in given.items():
        module, _, kind = name.rpartition(".")
        theirs = _row(table, module) or _row(table, name)
        if theirs is None:
            raise SubquadError(f"transformers' {family} has no place for {name}")
        kind = kind if _row(table, module) else ""
        for part, piece in zip(theirs, _pieces(tensor, len(theirs), d), strict=True):
            made[_named(part, kind)] = piece.contiguous().clone()
    return made


def _pieces(tensor: Tensor, count: int, d: int) -> tuple[Tensor, ...]:
    """The parts of a concatenation: equal ones, but for queries, keys and values, of which the
    latter two may be in fewer heads."""
    if count == 3:
        few = (len(tensor) - d) // 2
        return tensor.split([d, few, few])
    return tensor.chunk(count)


def _row(table: Table, module: str) -> list[str] | None:
    for ours, *theirs in table:
        pattern = re.escape(ours).replace(r"\{i\}", r"(\d+)")
        if match := re.fullmatch(pattern, module):
            i = match[1] if match.groups() else ""
            return [name.format(i=i) for name in theirs]
    return None


def _named(module: str, kind: str) -> str:
    return f"{module}.{kind}" if kind else module


def _layers(pattern: str, found: Iterable[str]) -> list[int]:
    """The layers that a pattern occurs in; [0] if it is outside of the layers."""
    if "{i}" not in pattern:
        return [0]
    regex = re.compile(re.escape(pattern).replace(r"\{i\}", r"(\d+)") + r"(\.|$)")
    return sorted({int(match[1]) for name in found if (match := regex.match(name))})


def _kinds(module: str, found: Iterable[str]) -> list[str]:
    """What a module consists of in the file: weight and bias, or the tensor itself ("")."""
    kinds = [kind for kind in ("weight", "bias") if f"{module}.{kind}" in found]
    return kinds + ([""] if module in found else [])


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
