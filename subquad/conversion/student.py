"""The model that another one is converted into: same embeddings, norms and feed-forward networks,
other mixers."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from subquad.conversion.recording import blocks_of
from subquad.errors import UsageError
from subquad.mixers import class_of
from subquad.models import ModelConfig, tables
from subquad.models.size import refuse_too_large
from subquad.run import Run
from subquad.tasks import Task


@dataclass(frozen=True)
class Student:
    """A model in the making.

    Args:
        task: the teacher's task, configured for the student.
        model: the student.
        layers: the teacher's layer that each of the student's layers stands for.
        changed: the student's layers whose mixer is another than the teacher's.
        kept: numbers of the new mixers that were copied from the old ones.
        of: numbers of the old mixers in these layers.
    """

    task: Task
    model: nn.Module
    layers: tuple[int, ...]
    changed: tuple[int, ...]
    kept: int
    of: int

    def sentence(self) -> str:
        """What was copied, for people."""
        share = (
            f"{self.kept:,} of the {self.of:,} numbers in the mixers of {len(self.changed)} layers"
        )
        if self.kept * 2 < self.of:
            return (
                f"only {share} could be copied: most of what pretraining taught these layers about "
                "mixing tokens is lost, and has to be learned again"
            )
        return f"{share} were copied"


def remade(task: Task, **changes: Any) -> Task:
    """The task with other values for fields of its configuration."""
    task = copy.copy(task)
    task.config = task.config.having(**changes)
    return task


def _model(task: Task, teacher: Run) -> nn.Module:
    """A new model where the teacher is.

    Raises:
        UsageError: it does not fit into memory.
    """
    refuse_too_large(task.model, teacher.device)
    return task.model().to(teacher.device).eval()


def _with(task: Task, model: ModelConfig) -> Task:
    """The task with other layers."""
    names = ("mixers", "hybrid", "layers", "mixer_options")
    return remade(task, **{name: getattr(model, name) for name in names})


def lengthened(teacher: Run, length: int | None) -> Run:
    """The teacher for rows of up to ``length`` tokens; learned positions beyond its own are copies
    of the first ones, as in Longformer (Beltagy et al. 2020, section 5)."""
    before = teacher.config.data.length
    if length is None or length == before:
        return teacher
    if length < 1:
        raise UsageError(f"--length {length}: it must be at least 1")
    task = remade(teacher.task, length=length)
    made = _model(task, teacher)
    whole = teacher.model.state_dict()
    with torch.no_grad():
        for name, tensor in made.state_dict(keep_vars=True).items():
            tensor.copy_(
                tables.positions(whole[name], len(tensor))
                if name.endswith("embedding.positions.weight")
                else whole[name]
            )
    return replace(teacher, config=task.config, task=task, model=made)


def chosen_layers(layers: int, of: int) -> tuple[int, ...]:
    """Which of a teacher's ``of`` layers a student of ``layers`` layers starts from: evenly spaced,
    always with the last one.

    Raises:
        UsageError: there are fewer than asked for.
    """
    if not 1 <= layers <= of:
        raise UsageError(f"--layers {layers}: the model has {of} layers, so choose 1 to {of}")
    return tuple((i + 1) * of // layers - 1 for i in range(layers))


def configured(
    model: ModelConfig,
    mixer: str,
    options: dict[str, Any],
    keep: tuple[int, ...],
    layers: tuple[int, ...],
    causal: bool,
) -> ModelConfig:
    """A teacher's configuration with ``mixer`` in all its ``layers`` but those in ``keep``, which
    stay as they are."""
    old = model.layer_mixers()
    mixers = tuple(old[i] if i in keep else mixer for i in layers)
    chosen = {name: o for name, o in model.mixer_options.items() if name in mixers}
    if mixer in mixers:
        same = model.attention_options(mixer, causal=causal)
        chosen[mixer] = class_of(mixer, causal=causal).imitates | same | options
    return replace(model, mixers=mixers, hybrid=None, layers=len(layers), mixer_options=chosen)


def build(
    teacher: Run,
    mixer: str,
    options: dict[str, Any],
    *,
    keep: tuple[int, ...] = (),
    layers: int | None = None,
) -> Student:
    """The student before it has learned anything: everything that both have is copied.

    Raises:
        UsageError: the mixer, its options or the layers do not fit the teacher.
    """
    of = teacher.config.model.layers
    chosen = chosen_layers(of if layers is None else layers, of)
    if any(not 0 <= i < of for i in keep):
        raise UsageError(
            f"--keep-softmax {','.join(str(i + 1) for i in keep)}: layers are 1 to {of}"
        )
    if gone := [str(i + 1) for i in keep if i not in chosen]:
        stay = ", ".join(str(i + 1) for i in chosen)
        raise UsageError(
            f"--keep-softmax {','.join(gone)}: --layers {layers} keeps only layers {stay}"
        )
    old = teacher.config.model.layer_mixers()
    causal = teacher.task.causal
    try:
        model = configured(teacher.config.model, mixer, options, keep, chosen, causal)
        model.check(causal=causal, length=teacher.config.data.length)
    except ValueError as error:
        raise UsageError(str(error)) from None
    task = _with(teacher.task, model)
    ours, theirs = model.mixing(), teacher.config.model.mixing()
    changed = tuple(i for i, layer in enumerate(chosen) if ours[i] != theirs[layer])
    if not changed:
        raise UsageError(
            f"{teacher.path} has {', '.join(dict.fromkeys(old))} in these layers already: "
            "nothing would be converted"
        )
    made = _model(task, teacher)
    kept, count = _copy(teacher.model, made, chosen, changed)
    return Student(task, made, chosen, changed, kept, count)


@torch.no_grad()
def _copy(
    teacher: nn.Module, student: nn.Module, layers: tuple[int, ...], changed: tuple[int, ...]
) -> tuple[int, int]:
    """Copy what has the same name and shape; returns how many numbers of the changed mixers were
    kept, of how many."""
    ours, theirs = blocks_of(student), blocks_of(teacher)
    inside = {id(p) for block in ours for p in block.state_dict(keep_vars=True).values()}
    whole = teacher.state_dict()
    for name, tensor in student.state_dict(keep_vars=True).items():
        if id(tensor) not in inside:
            tensor.copy_(whole[name])
    kept = count = 0
    for i, layer in enumerate(layers):
        old = theirs[layer].state_dict()
        for name, tensor in ours[i].state_dict(keep_vars=True).items():
            same = name in old and old[name].shape == tensor.shape
            if same:
                tensor.copy_(old[name])
            if i in changed and name.startswith("mixer."):
                kept += tensor.numel() if same else 0
        if i in changed:
            count += sum(t.numel() for n, t in old.items() if n.startswith("mixer."))
    return kept, count


@torch.no_grad()
def put_back(student: Student, teacher: Run, keep: tuple[int, ...]) -> Student:
    """The student with the teacher's mixer again in those of its layers that are in ``keep``."""
    old = teacher.config.model
    chosen = tuple(student.layers[i] for i in keep)
    now = student.task.config.model
    names = tuple(
        old.layer_mixers()[layer] if i in keep else now.layer_mixers()[i]
        for i, layer in enumerate(student.layers)
    )
    both = old.mixer_options | now.mixer_options
    model = replace(now, mixers=names, mixer_options={n: o for n, o in both.items() if n in names})
    task = _with(student.task, model)
    made = _model(task, teacher)
    before, theirs = student.model.state_dict(), blocks_of(teacher.model)
    for name, tensor in made.state_dict(keep_vars=True).items():
        if name in before and before[name].shape == tensor.shape:
            tensor.copy_(before[name])
    for i, layer in zip(keep, chosen, strict=True):
        blocks_of(made)[i].mixer.load_state_dict(theirs[layer].mixer.state_dict())
    changed = tuple(i for i in student.changed if i not in keep)
    return replace(student, task=task, model=made, changed=changed)
