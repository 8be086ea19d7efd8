"""The tasks by name: built-in ones, registered ones, and those of installed packages."""

from subquad import plugins
from subquad.errors import SubquadError, UsageError
from subquad.tasks.base import Task
from subquad.tasks.classify import Classify
from subquad.tasks.config import PARTS, Config
from subquad.tasks.embed import Embed
from subquad.tasks.language import Language
from subquad.tasks.masked import MaskedText
from subquad.tasks.pixels import Pixels
from subquad.tasks.regress import Regress

#: Other packages add tasks as entry points of the group ``subquad.tasks``.
GROUP = "tasks"

TASKS: dict[str, type[Task]] = {}


def register(task: type[Task]) -> type[Task]:
    """Register a task under its name; can be used as a decorator.

    Raises:
        SubquadError: the name is already taken, or an option has the name of a common setting.
    """
    if TASKS.get(task.name, task) is not task:
        raise SubquadError(f"the task {task.name!r} already exists: {TASKS[task.name].__name__}")
    own = set(task.Options.__dataclass_fields__)
    usual = task.defaults()
    for part in PARTS[:-1]:
        if taken := sorted(own & set(vars(getattr(usual, part)))):
            raise SubquadError(
                f"the task {task.name!r} has an option {taken[0]!r}, which is the name of a common "
                f"setting ({part}); rename it"
            )
    TASKS[task.name] = task
    return task


def task_names() -> list[str]:
    """The names of all tasks, including those of packages that are not loaded yet."""
    return list(dict.fromkeys([*TASKS, *(point.name for point in plugins.points(GROUP))]))


def learning_tasks() -> list[str]:
    """The names of the tasks that can be trained."""
    return [name for name in task_names() if name not in TASKS or TASKS[name].learns]


def task_class(name: str) -> type[Task]:
    """The task called ``name``.

    Raises:
        UsageError: there is no such task; the message lists the known ones.
        SubquadError: the package that provides it cannot be loaded, or provides something else.
    """
    if name in TASKS:
        return TASKS[name]
    points = [point for point in plugins.points(GROUP) if point.name == name]
    if not points:
        raise UsageError(f"task {name!r} is not one of {', '.join(task_names())}")
    for point in points:  # if two have the same name, registering the second one fails
        found = plugins.loaded(point, "task")
        if not (isinstance(found, type) and issubclass(found, Task) and found.name == name):
            raise SubquadError(f"task {name!r}: {point.value} is not a task of that name")
        register(found)
    return TASKS[name]


def check(config: Config) -> None:
    """Check a configuration before any work is done.

    Raises:
        UsageError: a setting is invalid; the message names it and says what is allowed.
    """
    task = task_class(config.task)
    assert isinstance(config.options, task.Options), f"{config.options} are not {task.name}'s"
    try:
        config.data.check()
        config.training.check()
        config.model.check(causal=task.causal, length=config.data.length)
        config.options.check()
        task.check(config)
    except ValueError as error:
        raise UsageError(str(error)) from None
    usual = task.defaults()
    for part in PARTS[:-1]:
        found, right = (vars(getattr(c, part)) for c in (config, usual))
        for name in sorted(task.unused & found.keys()):
            if found[name] != right[name]:
                raise UsageError(meaningless(task.name, name))


def meaningless(task: str, field: str) -> str:
    """That ``field`` is no option of ``task``, and of which tasks it is one."""
    having = [name for name in task_names() if has(task_class(name), field)]
    flag = f"--{field.replace('_', '-')}"
    if not having:
        return f"there is no option {flag}"
    return f"{flag} is an option of {', '.join(having)}, not of {task}"


def has(task: type[Task], field: str) -> bool:
    """Whether ``field`` is a setting of this task."""
    return field not in task.unused and task.defaults().part_of(field) is not None


for _task in (Classify, Embed, Language, MaskedText, Pixels, Regress):
    register(_task)
