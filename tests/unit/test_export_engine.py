"""The page's engine is what its source says, and asks nothing of the page."""

import json
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from subquad.export.building import ENGINE, build

ROOT = Path(__file__).parent.parent.parent


def test_make_wasm_gives_the_same_bytes(tmp_path):
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = next(s for s in lines if s.startswith("ziglang==")).removeprefix("ziglang==")
    try:
        found = version("ziglang")
    except PackageNotFoundError:
        pytest.skip("NOT TESTED: ziglang is not installed, so engine.wasm was not rebuilt")
    if found != pinned:
        pytest.skip(f"NOT TESTED: ziglang {found} is here, and engine.wasm is made by {pinned}")
    build(tmp_path / "engine.wasm")
    same = (tmp_path / "engine.wasm").read_bytes() == ENGINE.read_bytes()
    assert same, "the engine's source has changed: run `make wasm` and commit engine.wasm"


def test_it_is_small_and_imports_nothing():
    assert len(ENGINE.read_bytes()) < 64 << 10
    if shutil.which("node") is None:
        pytest.skip("NOT TESTED: node is not installed, so engine.wasm was not read")
    script = (
        "const m = new WebAssembly.Module(require('fs').readFileSync(process.argv[1]));"
        "console.log(JSON.stringify(WebAssembly.Module.imports(m)))"
    )
    done = subprocess.run(
        ["node", "-e", script, str(ENGINE)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []
