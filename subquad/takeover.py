"""Copies what a run starts from (``transfer``) into a new model, and says what is kept and new."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from subquad.errors import SubquadError
from subquad.models import ModelConfig, tables
from subquad.tasks import Config, task_class
from subquad.transfer import Start, opened


@dataclass(frozen=True)
class Taken:
    """What a model has taken over."""

    sentence: str
    new: tuple[str, ...]
    """The names of the parameters that start anew."""
    pretrained: bool
    """Whether they meet a body that was pretrained."""


def take_over(model: nn.Module, config: Config) -> Taken:
    """Copy the body into ``model``.

    Raises:
        SubquadError: a part of the body is missing, of another shape, as from another tokenizer, or
            would be left behind.
    """
    assert config.training.start is not None
    start = opened(config.training.start)
    task = task_class(config.task)
    goes_on = start.task == config.task and task.keeps_heads
    heads = set() if goes_on else {*start.heads, *task.heads}
    wanted, there = _tensors(model), _resized(start.tensors, _tensors(model))
    changed = _changed(config.model, start.model)
    # The pooler belongs to the body only where both have one.
    free = heads | {"pooler"}

    def optional(name: str) -> bool:
        return _module(name) in free or _layer_of_mixer(name) in changed

    same = {n for n in wanted if n in there and wanted[n].shape == there[n].shape}
    kept = [n for n in wanted if _module(n) not in heads and n in same]
    absent = [n for n in wanted if n not in there and not optional(n)]
    unread = [n for n in there if n not in wanted and not optional(n)]
    wrong = [n for n in wanted if n in there and n not in same and not optional(n)]
    if absent or wrong or unread:
        why = [f"it has no {', '.join(absent)}"] if absent else []
        why += [f"nothing here reads its {', '.join(unread)}"] if unread else []
        why += [
            f"{n} is {list(there[n].shape)} there and {list(wanted[n].shape)} here" for n in wrong
        ]
        raise SubquadError(f"{start.path} cannot start this run: {'; '.join(why)}")
    with torch.no_grad():
        for name in kept:
            wanted[name].copy_(there[name])
    new = tuple(name for name in wanted if name not in kept)
    return Taken(_said(start, config, wanted, kept, changed), new, start.pretrained)


def _said(
    start: Start, config: Config, wanted: dict[str, Tensor], kept: list[str], changed: set[int]
) -> str:
    count = sum(wanted[name].numel() for name in kept)
    parts = sorted({*map(_module, wanted)} - {*map(_module, kept)})
    text = f"from {start.path}: {count:,} numbers of its body kept; new: "
    if changed:
        used = config.model.layer_mixers()
        mixers = ", ".join(dict.fromkeys(used[i] for i in sorted(changed)))
        inside = [n for n in wanted if _layer_of_mixer(n) in changed]
        stay = sum(wanted[n].numel() for n in inside if n in kept)
        of = sum(wanted[n].numel() for n in inside)
        parts.append(
            f"the mixers of {len(changed)} layers ({mixers}: {stay:,} of {of:,} numbers kept), "
            "which `subquad convert` would first teach from the old ones"
        )
    places = next((n for n in wanted if n.endswith(_POSITIONS)), None)
    text += ", ".join(parts) or "nothing"
    if places is not None and places in start.tensors:
        had, has = len(start.tensors[places]), len(wanted[places])
        if has > had:
            text += f"; positions {had + 1:,} to {has:,} are copies of the first {had:,}"
    return text


_POSITIONS = "embedding.positions.weight"
_MIXER = re.compile(r"(?:^|\.)blocks\.(\d+)\.mixer\.")


def _layer_of_mixer(name: str) -> int | None:
    """The layer, from 0, whose mixer a tensor belongs to; None if it is not of a mixer."""
    match = _MIXER.search(name)
    return int(match[1]) if match else None


def _changed(now: ModelConfig, before: ModelConfig) -> set[int]:
    """The layers with another mixer, or the same with other options."""
    pairs = zip(now.mixing(), before.mixing(), strict=True)
    return {i for i, (ours, theirs) in enumerate(pairs) if ours != theirs}


def _resized(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with as many positions as are wanted."""
    made = dict(found)
    for name in found.keys() & wanted.keys():
        if name.endswith(_POSITIONS):
            made[name] = tables.positions(found[name], len(wanted[name]))
    return made


def _module(name: str) -> str:
    """The part of the model that a tensor belongs to: ``head.weight`` → ``head``."""
    return name.partition(".")[0]


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors, each once, as a file of weights has them."""
    found, seen = {}, set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor
    return found
