"""The tasks, by name."""

from subquad.errors import UsageError
from subquad.tasks.base import Loss, Score, Task
from subquad.tasks.classify import Classify
from subquad.tasks.config import Config, DataConfig, TrainConfig
from subquad.tasks.language import Language
from subquad.tasks.masked import MaskedText
from subquad.tasks.pixels import Pixels
from subquad.tasks.regress import Regress

__all__ = [
    "TASKS",
    "Config",
    "DataConfig",
    "Loss",
    "Score",
    "Task",
    "TrainConfig",
    "check",
    "task_class",
]

TASKS: dict[str, type[Task]] = {
    cls.name: cls for cls in (Classify, Language, MaskedText, Pixels, Regress)
}


def task_class(name: str) -> type[Task]:
    """The task called ``name``.

    Raises:
        UsageError: no such task; those there are are listed.
    """
    if name not in TASKS:
        raise UsageError(f"task {name!r} is not one of {', '.join(TASKS)}")
    return TASKS[name]


def check(config: Config) -> None:
    """Refuse a configuration that cannot be, before any work is done.

    Raises:
        UsageError: naming the setting, what was found and what would be right.
    """
    task = task_class(config.task)
    try:
        config.data.check()
        config.training.check()
        config.model.check(causal=task.causal, length=config.data.length)
    except ValueError as error:
        raise UsageError(str(error)) from None
    for name in ("mixture", "waves"):
        if getattr(config.model, name) and task is not Pixels:
            raise UsageError(f"--{name} is for pixels; the task {config.task} predicts tokens")
    usual = TrainConfig()
    for only, names in _ONLY.items():
        for name in names:
            if getattr(config.training, name) != getattr(usual, name) and task is not only:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} means nothing to the task {config.task}")
    pairs = issubclass(task, Classify) and config.model.pooling == "pooler"
    if config.data.pair is not None and not pairs:
        raise UsageError("--pair is for the tasks classify and regress with --pooling pooler")
    if task is MaskedText:
        for name, right in (("pooling", "pooler"), ("token_dropout", 0.0)):
            if (found := getattr(config.model, name)) != right:
                raise UsageError(
                    f"{name}={found!r} means nothing to the task masked: it is {right}"
                )


#: Settings of training that only one task understands.
_ONLY: dict[type[Task], tuple[str, ...]] = {
    Classify: ("class_weights", "label_smoothing"),
    MaskedText: ("mask_rate", "pairs"),
}
