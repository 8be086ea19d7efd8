"""The tasks, by name."""

from subquad.errors import UsageError
from subquad.tasks.base import Loss, Score, Task
from subquad.tasks.classify import Classify
from subquad.tasks.config import Config, DataConfig, TrainConfig
from subquad.tasks.language import Language
from subquad.tasks.pixels import Pixels

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

TASKS: dict[str, type[Task]] = {cls.name: cls for cls in (Classify, Language, Pixels)}


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
    for name in ("class_weights", "label_smoothing"):
        if getattr(config.training, name) and task is not Classify:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} means nothing to the task {config.task}")
