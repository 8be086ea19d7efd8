"""The tasks, by name."""

from subquad.errors import UsageError
from subquad.tasks.base import Loss, Score, Task
from subquad.tasks.classify import Classify
from subquad.tasks.config import Config, DataConfig, TrainConfig
from subquad.tasks.language import Language
from subquad.tasks.pixels import Pixels

__all__ = ["TASKS", "Config", "DataConfig", "Loss", "Score", "Task", "TrainConfig", "task_class"]

TASKS: dict[str, type[Task]] = {cls.name: cls for cls in (Classify, Language, Pixels)}


def task_class(name: str) -> type[Task]:
    """The task called ``name``.

    Raises:
        UsageError: no such task; those there are are listed.
    """
    if name not in TASKS:
        raise UsageError(f"task {name!r} is not one of {', '.join(TASKS)}")
    return TASKS[name]
