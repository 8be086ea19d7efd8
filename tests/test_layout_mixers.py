"""What others ask of a mixer is answered by the mixer: outside their room nobody imports one,
switches on its type, or names it. The rule, and files that break it."""

import ast
import re
from pathlib import Path

import pytest

from subquad import mixers
from subquad.mixers import MIXERS
from tests.test_layout import FILES, ROOT

#: Modules of the room of mixers that are about no mixer in particular.
CONTRACT = {"base", "capabilities", "initialisation", "native", "pooling", "registry", "state"}
#: Names of mixers that mean nothing else in this code.
TELLING = set(MIXERS) - {"dense", "linear", "none", "random"}
#: Experiments about named mixers, and weights of others, whose mixers are what they are.
NAMED = ("tasks/", "lab/bench/", "lab/demo/", "lab/recipes/", "lab/instruments/generation.py")
NAMED += ("models/official.py", "models/huggingface.py", "transfer.py")
#: A scheme of first values is called after FNet too.
SCHEMES = {"models/config.py": {"fnet"}, "models/block.py": {"fnet"}}


def mixers_answer_for_themselves(path: Path, text: str) -> list[str]:
    """Outside their room no mixer is imported, switched on by type, or named; tasks' defaults and
    experiments may name mixers, ``lab/bench`` may import their forms."""
    place = path.relative_to("subquad").as_posix()
    if place.startswith("mixers/"):
        return []
    wrong, tree = [], ast.parse(text)
    telling = set() if place.startswith(NAMED) else TELLING - SCHEMES.get(place, set())
    said_only = {
        id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "__name__"
    }
    for node in ast.walk(tree):
        at = f"{path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ImportFrom | ast.Import) and not place.startswith("lab/bench/"):
            wrong += [f"{at}: {name} is a mixer's own" for name in mixers_own(node)]
        if isinstance(node, ast.Constant) and node.value in telling:
            wrong.append(f"{at}: the mixer {node.value!r} is named")
        if isinstance(node, ast.Call) and id(node) not in said_only and switches(node):
            wrong.append(f"{at}: {ast.unparse(node)} asks what a mixer is, not the mixer")
        if isinstance(node, ast.Match) and "mixer" in ast.unparse(node.subject).lower():
            wrong.append(f"{at}: a match on a mixer")
        if isinstance(node, ast.Attribute) and node.attr == "__class__":
            wrong.append(f"{at}: {ast.unparse(node)}")
    return wrong


def mixers_own(node: ast.Import | ast.ImportFrom) -> list[str]:
    """What is imported of the room of mixers and is not its contract."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
        return [
            n for n in names if n.startswith("subquad.mixers.") and n.split(".")[2] not in CONTRACT
        ]
    module = (node.module or "").split(".")
    if module[:2] != ["subquad", "mixers"] or (len(module) > 2 and module[2] in CONTRACT):
        return []
    if len(module) > 2:
        return [".".join(module)]
    return [a.name for a in node.names if a.name not in {*mixers.__all__, *CONTRACT}]


def switches(call: ast.Call) -> bool:
    """Whether a call asks for the concrete type of a mixer."""
    function, about = ast.unparse(call.func), ast.unparse(call.args[0]) if call.args else ""
    if "mixer" not in about.lower():
        return False
    if function == "type":
        return True
    kinds = set(re.findall(r"\w+", ast.unparse(call.args[1]))) if len(call.args) > 1 else set()
    return function == "isinstance" and not kinds <= {"Mixer", "CausalMixer"}


def test_mixers_answer_for_themselves() -> None:
    assert len(TELLING) > 3
    complaints = [
        complaint
        for f in FILES
        for complaint in mixers_answer_for_themselves(f.relative_to(ROOT), f.read_text("utf-8"))
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("export/x", "from subquad.mixers.linear import LinearAttention"),
        ("export/x", "from subquad.mixers import linear"),
        ("export/x", "import subquad.mixers.softmax"),
        ("tasks/x", "def f():\n    from subquad.mixers.fnet.layer import FNet"),
        ("export/x", "isinstance(block.mixer, LinearAttention)"),
        ("models/x", "isinstance(mixer, Mixer | LinearAttention)"),
        ("lab/inspect/x", "kinds[type(seen.mixer)]"),
        ("lab/inspect/x", "type(mixer) is FNet"),
        ("export/x", "match block.mixer:\n    case FNet(): ..."),
        ("export/x", "module.__class__ = ByOperator"),
        ("models/x", "x = 'softmax' if i in attention else name"),
        ("models/x", "if 'fnet' in model.mixers: ..."),
        ("lab/compare/x", "names == 'fastformer'"),
    ],
)
def test_the_rule_bites(place: str, text: str) -> None:
    assert mixers_answer_for_themselves(Path(f"subquad/{place}.py"), text)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("mixers/x", "isinstance(mixer, FNet); 'softmax'"),
        ("models/x", "isinstance(b.mixer, CausalMixer)"),
        ("models/x", "f'{type(mixer).__name__}'"),
        ("models/x", "from subquad.mixers.base import Mixer"),
        ("tasks/x", "Model(mixers=('fastformer',))"),
    ],
)
def test_the_rule_bites_nothing_else(place: str, text: str) -> None:
    assert not mixers_answer_for_themselves(Path(f"subquad/{place}.py"), text)
