"""How files import each other: never in a circle, and nothing heavy before it is needed.

No file imports another in a circle, wherever its imports stand: at the top, inside a function,
under ``TYPE_CHECKING``, or in a string that names a module or is a script of its own.

Python runs a package's ``__init__`` before the modules in it; that is not counted, so the files of
a package may import each other as long as none imports the package that imports it.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def module_name(path: Path) -> str:
    """``subquad/lab/bench/__init__.py`` → ``subquad.lab.bench``."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported(tree: ast.AST, modules: list[str]) -> Iterator[str]:
    """Those of ``modules`` that a file's code may import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (m for alias in node.names for m in inmost(alias.name, modules))
        elif isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (m for name in names for m in inmost(name, modules))
        elif isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "*" for p in node.values)
            yield from in_string("".join(map(str, parts)), modules)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from in_string(node.value, modules)


def inmost(name: str, modules: list[str]) -> list[str]:
    """``package.module.function`` → ``package.module``."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return [name] if name else []


def in_string(text: str, modules: list[str]) -> Iterator[str]:
    """A string counts if it is a script, or nothing but the name of a module, perhaps with
    ``:function`` behind it; ``package.*`` (from an f-string) may be any module of the package, and
    ``*.module:function`` any of that name."""
    if re.fullmatch(r"\w+(\.[\w*]+)+(:\S+)?|\*(\.[\w*]+)+:\S+", text):
        pattern = text.partition(":")[0].replace(".", r"\.").replace("*", r"[\w.]+")
        yield from (m for m in modules if re.fullmatch(pattern, m))
    elif "import" in text:
        try:
            yield from imported(ast.parse(text), modules)
        except SyntaxError:  # prose
            return


def graph(files: dict[str, str]) -> dict[str, set[str]]:
    """Module → the modules that it imports, for sources by path."""
    texts = {module_name(Path(path)): text for path, text in files.items()}
    return {m: {*imported(ast.parse(text), list(texts))} - {m} for m, text in texts.items()}


def circle(files: dict[str, str]) -> str:
    """A circle of imports, as ``a → b → a``; empty if there is none."""
    try:
        TopologicalSorter(graph(files)).prepare()
    except CycleError as error:
        return " → ".join(reversed(error.args[1]))
    return ""


def test_no_circles() -> None:
    files = {
        str(path.relative_to(ROOT)): path.read_text("utf-8")
        for path in ROOT.glob("subquad/**/*.py")
    }
    assert len(files) > 100
    assert not circle(files)


DOWN = "from p.b import f"
BAD = {
    "at the top": "from p.a import g",
    "of the module": "from p import a",
    "plain": "import p.a",
    "inside a function": "def f():\n    from p.a import g",
    "for types": "if TYPE_CHECKING:\n    from p.a import g",
    "by name": "importlib.import_module('p.a')",
    "in a registry": "ENTRIES = {'g': 'p.a:g'}",
    "by a pattern": "importlib.import_module(f'p.{name}')",
    "in a registry's pattern": "ENTRY = f'p.{name}:g'",
    "in a registry, the package by a name": "ENTRY = f'{HERE}.a:g'",
    "in a script": "SCRIPT = '''\nimport json\nfrom p.a import g\ng()\n'''",
    "in one line of a script": "SCRIPT = 'import sys, p.a; p.a.g(sys.argv)'",
}
GOOD = {
    "a lower one": "from p.c import h",
    "in prose": "WHY = 'see p.a, and do not import p.a here'",
    "in a docstring": "'''Nothing like p.a: that imports this.'''",
    "another package": "from q.a import g",
    "something of the same name": "from p.c import a",
    "itself": "NAME = 'p.b'",
    "a file's name": "NAME = f'{stem}.a'",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_circle_is_seen(text: str) -> None:
    assert circle({"p/__init__.py": "", "p/a.py": DOWN, "p/b.py": text, "p/c.py": ""})


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_what_is_no_circle_passes(text: str) -> None:
    assert not circle({"p/__init__.py": "", "p/a.py": DOWN, "p/b.py": text, "p/c.py": ""})


def test_a_circle_through_a_package_is_seen() -> None:
    files = {"p/__init__.py": "from p.a import f", "p/a.py": "from p import g"}
    assert circle(files) == "p → p.a → p"
    assert circle(
        {"p/__init__.py": "", "p/a.py": DOWN, "p/b.py": "import p.c", "p/c.py": "import p.a"}
    )


HEAVY = ["polars", "sklearn", "matplotlib", "tokenizers", "rich", "typer", "jinja2", "PIL"]
HEAVY += ["torch._dynamo", "torch._inductor", "torch.onnx", "sympy", "scipy", "onnx"]


def heavy_after(statement: str) -> str:
    """Heavy modules that a fresh interpreter holds after ``statement``."""
    code = f"import sys; {statement}; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.strip()


@pytest.mark.parametrize("statement", ["import subquad", "import subquad.mixers"])
def test_import_is_light(statement: str) -> None:
    assert heavy_after(statement) == ""


def test_import_is_light_would_notice() -> None:
    assert heavy_after("import jinja2") == "jinja2"
