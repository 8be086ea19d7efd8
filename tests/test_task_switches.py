"""No file outside ``subquad/tasks`` asks which task it has before it: a task answers for itself, so
that one from another package is served as those here are."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquad.tasks import TASKS, Task

ROOT = Path(__file__).parent.parent
#: The tasks, and what they derive from.
CLASSES = {
    base.__name__ for task in TASKS.values() for base in task.__mro__ if issubclass(base, Task)
}


def switches(path: Path, text: str) -> list[str]:
    """Where a file asks for a task's class or name."""
    if path.parts[:2] == ("subquad", "tasks"):
        return []
    return [f"{path}:{line}: {what}" for line, what in _found(ast.parse(text))]


def _found(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name, arguments = ast.unparse(node.func), [*map(ast.unparse, node.args)]
            if name in ("isinstance", "issubclass") and _names(node.args[1]) & CLASSES:
                yield node.lineno, f"{name} of a task"
            if name == "type" and arguments and arguments[0].split(".")[-1] == "task":
                yield node.lineno, "the type of a task"
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            of_task = any(ast.unparse(side).split(".")[-1] == "task" for side in sides)
            if of_task and any(_strings(side) & TASKS.keys() for side in sides):
                yield node.lineno, "a task by its name"
        elif isinstance(node, ast.MatchClass) and _names(node.cls) & CLASSES:
            yield node.cls.lineno, "match of a task"
        elif isinstance(node, ast.Attribute) and ast.unparse(node).endswith("task.__class__"):
            yield node.lineno, "the class of a task"


def _names(node: ast.AST) -> set[str]:
    """Every name in an expression, whatever stands before its dots."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _strings(node: ast.AST) -> set[str]:
    constants = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return {value for value in constants if isinstance(value, str)}


def test_no_file_asks_which_task_it_is() -> None:
    files = [*(ROOT / "subquad").rglob("*.py")]
    assert len(files) > 100
    found = [c for f in files for c in switches(f.relative_to(ROOT), f.read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(run.task, Language)",
        "isinstance(task, (str, classify.Classify))",
        "isinstance(task, Language | Pixels)",
        "issubclass(cls, Task)",
        "type(run.task) is Classify",
        "type(task).__name__",
        "run.task.__class__",
        "run.config.task == 'masked'",
        "config.task in ('classify', 'other')",
        "match task:\n    case Pixels():\n        pass",
    ],
)
def test_the_rule_bites(text: str) -> None:
    assert switches(Path("subquad/lab/x.py"), text)
    assert not switches(Path("subquad/tasks/x.py"), text)


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(made, TextOutput)",
        "start.task == config.task",
        "task_class('classify').defaults()",
        "type(model) is CausalModel",
        "name == 'classify'",
    ],
)
def test_the_rule_bites_nothing_else(text: str) -> None:
    assert not switches(Path("subquad/lab/x.py"), text)
