"""The tasks, by name, and the configuration of a run."""

from subquad.tasks.base import Loss, Score, Task
from subquad.tasks.config import Config, DataConfig, TaskOptions, TrainConfig
from subquad.tasks.registry import TASKS, check, learning_tasks, register, task_class, task_names
from subquad.tasks.saved import load_config

__all__ = [
    "TASKS",
    "Config",
    "DataConfig",
    "Loss",
    "Score",
    "Task",
    "TaskOptions",
    "TrainConfig",
    "check",
    "learning_tasks",
    "load_config",
    "register",
    "task_class",
    "task_names",
]
