"""The rules of the house, each as a function from source text to complaints, so that
``test_the_rules_bite`` can show every rule a file that breaks it."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from subquad.mixers import MIXERS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "subquad"
FILES = sorted(PACKAGE.rglob("*.py"))

#: Imports point down only. Rooms on one line do not know each other.
ORDER = [
    {"shapes", "errors"},
    {"storage", "locking", "signals", "plugins"},
    {"kernels"},
    {"mixers"},
    {"models"},
    {"data"},
    {"tasks"},
    {"checkpoint"},
    {"transfer"},
    {"run", "takeover"},
    {"configuring"},
    {"optimiser"},
    {"conversion"},
    {"training"},
    {"fitting"},
    {"estimator"},
    {"generation"},
    {"lab", "export"},
    {"cli"},
    {"__main__"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}


def room_of(path: Path) -> str:
    parts = path.with_suffix("").relative_to("subquad").parts
    return "" if parts == ("__init__",) else parts[0]


def imports(tree: ast.Module, path: Path) -> list[tuple[str, bool, int]]:
    """(room imported, whether inside a function, line) for every import from subquad."""
    found = []
    within = {
        id(node)
        for f in ast.walk(tree)
        if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(f)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "subquad" and len(parts) > 1:
                found.append((parts[1], id(node) in within, node.lineno))
    return found


def points_down(path: Path, text: str) -> list[str]:
    room, wrong = room_of(path), []
    if room and room not in RANK:
        return [f"{path}: the room {room!r} has no place in the order"]
    for target, inside, line in imports(ast.parse(text), path):
        if target == "__version__":
            continue
        if target == "kernels" and room != "kernels" and not inside:
            wrong.append(f"{path}:{line}: kernels are imported inside functions only")
        if target not in RANK:
            wrong.append(f"{path}:{line}: there is no room {target!r}")
        elif room and target != room and RANK[target] >= RANK[room]:
            wrong.append(f"{path}:{line}: {room} may not import {target}")
    return wrong


def named_for_what_it_does(path: Path, _: str) -> list[str]:
    vague = {"util", "utils", "common", "helpers", "misc"}
    return [
        f"{path}: {part!r} says nothing" for part in path.with_suffix("").parts if part in vague
    ]


def equations_match(path: Path, text: str) -> list[str]:
    """Those listed in the docstring (indented lines) are those cited (``# Eq. (n)``)."""
    doc = ast.get_docstring(ast.parse(text), clean=False) or ""
    listed = set(re.findall(r"^ +Eq\. \((\w+)\)", doc, flags=re.M))
    cited = set(re.findall(r"# Eq\. \((\w+)\)", text))
    wrong = [f"{path}: Eq. ({n}) is cited but not listed" for n in sorted(cited - listed)]
    return wrong + [f"{path}: Eq. ({n}) is listed but not cited" for n in sorted(listed - cited)]


def short(path: Path, text: str) -> list[str]:
    lines = text.count("\n")
    return [f"{path}: {lines} lines, more than 300"] if lines > 300 else []


#: Arguments of a constructor, at most. What is given by position is soon given in the wrong order;
#: where every one must be named (a dataclass with ``kw_only``) there may be more; the fields of a
#: configuration are flags of the command, which have defaults and are never given all at once.
ARGUMENTS, NAMED, FLAGS = 8, 12, 24


def few_arguments(path: Path, text: str) -> list[str]:
    wrong = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and (kind := dataclass_of(node)):
            most = NAMED if "kw_only=True" in kind else ARGUMENTS
            if most == NAMED and node.name.endswith("Config"):
                most = FLAGS
            count = sum(map(is_argument, node.body))
            if count > most:
                wrong.append(f"{path}:{node.lineno}: {node.name} has {count} fields, over {most}")
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            a = node.args
            count = len(a.posonlyargs) + len(a.args) + len(a.kwonlyargs) - 1
            if count > ARGUMENTS or a.vararg or a.kwarg:
                wrong.append(f"{path}:{node.lineno}: a constructor with {count} arguments or *")
    return wrong


def dataclass_of(node: ast.ClassDef) -> str:
    """The decorator that makes a class a dataclass, as text; empty if there is none."""
    found = (ast.unparse(decorator) for decorator in node.decorator_list)
    return next((text for text in found if re.match(r"(dataclasses\.)?dataclass\b", text)), "")


def is_argument(statement: ast.stmt) -> bool:
    """Whether a statement of a dataclass is a field that its constructor takes."""
    if not isinstance(statement, ast.AnnAssign):
        return False
    return "ClassVar" not in ast.unparse(statement.annotation) and (
        "init=False" not in ast.unparse(statement)
    )


def calls(text: str) -> list[tuple[str, int]]:
    return [
        (ast.unparse(node.func), node.lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    ]


def silent(path: Path, text: str) -> list[str]:
    if room_of(path) == "cli" or path.name == "__main__.py":
        return []
    talk = {"print", "pprint", "sys.stdout.write", "sys.stderr.write"}
    return [f"{path}:{line}: only the command prints" for name, line in calls(text) if name in talk]


def no_code_in_data(path: Path, text: str) -> list[str]:
    """No pickle, in any of its clothes, and nothing evaluated."""
    banned = {"torch.load", "torch.save", "eval", "exec", "compile", "__import__"}
    wrong = [f"{path}:{line}: {name}" for name, line in calls(text) if name in banned]
    for node in ast.walk(ast.parse(text)):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            if node.module == "torch" and {a.name for a in node.names} & {"load", "save"}:
                wrong.append(f"{path}:{node.lineno}: load or save from torch")
        modules = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
        wrong += [f"{path}:{node.lineno}: {n}" for n in names if n.split(".")[0] in modules]
    return wrong


def no_trail_of_this_machine(path: Path, text: str) -> list[str]:
    found = re.findall(r"/(?:home|root|work|tmp|Users)/\S*", text)
    return [f"{path}: a path of somebody's machine: {p}" for p in found]


Rule = Callable[[Path, str], list[str]]
RULES: list[Rule] = [
    points_down,
    named_for_what_it_does,
    equations_match,
    short,
    few_arguments,
    silent,
    no_code_in_data,
    no_trail_of_this_machine,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule: Rule) -> None:
    assert len(FILES) > 5
    complaints = [c for f in FILES for c in rule(f.relative_to(ROOT), f.read_text("utf-8"))]
    assert not complaints, "\n".join(complaints)


def test_tests_are_short_too() -> None:
    complaints = [c for f in ROOT.glob("tests/**/*.py") for c in short(f, f.read_text("utf-8"))]
    assert not complaints, "\n".join(complaints)


def test_what_pages_are_made_of_is_short_too() -> None:
    kinds = {".js", ".mjs", ".css", ".j2", ".cpp", ".h"}
    found = [f for f in PACKAGE.rglob("*") if f.suffix in kinds]
    assert len(found) > 10
    complaints = [c for f in found for c in short(f, f.read_text("utf-8"))]
    assert not complaints, "\n".join(complaints)


def test_every_mixer_has_a_reference() -> None:
    there = {f.stem for f in ROOT.glob("tests/reference/*.py")} - {"__init__"}
    assert there == set(MIXERS), "one reference per mixer, one mixer per reference"


def fields(count: int) -> str:
    return "".join(f"    x{i}: int = 0\n" for i in range(count))


#: (rule, path, text): the smallest file that breaks the rule.
BAD = [
    (points_down, "subquad/mixers/x.py", "from subquad.models.block import Block"),
    (points_down, "subquad/shapes.py", "def f():\n    import subquad.mixers"),
    (points_down, "subquad/mixers/x.py", "from subquad import kernels"),
    (points_down, "subquad/models/x.py", "from subquad.kernels import attention"),
    (points_down, "subquad/lab/x.py", "from subquad.export import onnx"),
    (points_down, "subquad/errors.py", "from subquad import shapes"),
    (points_down, "subquad/attic/x.py", ""),
    (points_down, "subquad/mixers/x.py", "from subquad.attic import old"),
    (named_for_what_it_does, "subquad/utils.py", ""),
    (named_for_what_it_does, "subquad/data/common/x.py", ""),
    (equations_match, "subquad/mixers/x.py", '"""A.\n\n    Eq. (1)  y = x\n"""'),
    (equations_match, "subquad/mixers/x.py", '"""A."""\ny = 1  # Eq. (2)'),
    (short, "subquad/x.py", "\n" * 301),
    (
        few_arguments,
        "subquad/x.py",
        "class A:\n    def __init__(self, a, b, c, d, e, *, f, g, h, i): ...",
    ),
    (few_arguments, "subquad/x.py", "class A:\n    def __init__(self, **options): ..."),
    (few_arguments, "subquad/x.py", f"@dataclass\nclass A:\n{fields(9)}"),
    (few_arguments, "subquad/x.py", f"@dataclass(frozen=True)\nclass AConfig:\n{fields(9)}"),
    (few_arguments, "subquad/x.py", f"@dataclasses.dataclass\nclass A:\n{fields(9)}"),
    (few_arguments, "subquad/x.py", f"@dataclass(kw_only=True)\nclass A:\n{fields(13)}"),
    (few_arguments, "subquad/x.py", f"@dataclass(kw_only=True)\nclass AConfig:\n{fields(25)}"),
    (silent, "subquad/training.py", "print('step')"),
    (no_code_in_data, "subquad/checkpoint.py", "import pickle"),
    (no_code_in_data, "subquad/checkpoint.py", "torch.load(path)"),
    (no_code_in_data, "subquad/checkpoint.py", "from torch import load"),
    (no_code_in_data, "subquad/data/x.py", "eval('1')"),
    (no_trail_of_this_machine, "subquad/x.py", "DATA = '/home/me/data'"),
]
GOOD = [
    (points_down, "subquad/mixers/x.py", "def f():\n    from subquad.kernels import fast"),
    (points_down, "subquad/cli.py", "from subquad import lab, training, __version__"),
    (few_arguments, "subquad/x.py", f"@dataclass\nclass A:\n{fields(8)}    y: ClassVar[int] = 1"),
    (few_arguments, "subquad/x.py", f"@dataclass(kw_only=True)\nclass A:\n{fields(12)}"),
    (few_arguments, "subquad/x.py", f"@dataclass(kw_only=True)\nclass AConfig:\n{fields(24)}"),
    (few_arguments, "subquad/x.py", f"class A(Protocol):\n{fields(9)}"),
    (silent, "subquad/cli.py", "print('done')"),
    (no_code_in_data, "subquad/training.py", "model.eval(); torch.compile(model); re.compile('a')"),
    (equations_match, "subquad/x.py", '"""A.\n\n    Eq. (1)  y = x\n"""\ny = x  # Eq. (1)'),
]


@pytest.mark.parametrize(("rule", "path", "text"), BAD)
def test_the_rules_bite(rule: Rule, path: str, text: str) -> None:
    assert rule(Path(path), text)


@pytest.mark.parametrize(("rule", "path", "text"), GOOD)
def test_the_rules_bite_nothing_else(rule: Rule, path: str, text: str) -> None:
    assert not rule(Path(path), text)
