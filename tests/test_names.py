"""Every name that a function uses exists in its module.

Linters and type checkers leave this open here, because shapes in signatures
(``Float[Tensor, "b t"]``) look like undefined names to them.
"""

import builtins
import dis
import importlib
import pkgutil
import types
from collections.abc import Iterator

import pytest

import subquad

MODULES = sorted(m.name for m in pkgutil.walk_packages(subquad.__path__, "subquad."))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _codes(part)


def undefined(source: str, known: set[str]) -> list[str]:
    """Global names that ``source`` loads in functions and that nothing defines."""
    whole = compile(source, "module", "exec")
    loads = (
        i.argval
        for code in _codes(whole)
        if code is not whole
        for i in dis.get_instructions(code)
        if i.opname == "LOAD_GLOBAL"
    )
    return sorted({name for name in loads if name not in known and not hasattr(builtins, name)})


@pytest.mark.parametrize("name", [m for m in MODULES if not m.endswith(("__main__", "._native"))])
def test_every_name_is_defined(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        assert undefined(file.read(), set(vars(module))) == []


def test_the_rule_sees_a_missing_import() -> None:
    assert undefined("def f():\n    return lambda: path\n", {"f"}) == ["path"]
    assert undefined("def f():\n    import os\n    return os, len\n", {"f"}) == []
