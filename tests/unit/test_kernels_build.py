"""A source distribution builds with a compiler, and installs without one."""

import contextlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def compiler() -> str | None:
    """A C++ compiler that runs. The variable CXX names the only one to be used."""
    for name in [given] if (given := os.environ.get("CXX")) else ["g++", "clang++"]:
        with contextlib.suppress(OSError):
            if not subprocess.run([name, "--version"], capture_output=True).returncode:
                return name
    return None


COMPILER = compiler()
pytest.importorskip("scikit_build_core")
pytest.importorskip("nanobind")

SDIST = "import sys; from scikit_build_core.build import build_sdist as b; print(b(sys.argv[1]))"


def run(*command: str, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    made = run(sys.executable, "-c", SDIST, str(folder), cwd=ROOT).split()[-1]
    return folder / made


def wheel_names(sdist: Path, folder: Path, **variables: str) -> list[str]:
    """Unoptimised, in less than half the time: the installed core is the optimised one."""
    command = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    command += ["--config-settings", "cmake.build-type=Debug"]
    command += ["--config-settings", "cmake.args=-DCMAKE_CXX_FLAGS_DEBUG=-O0"]
    run(sys.executable, *command, str(sdist), cwd=folder, **variables)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.mark.skipif(COMPILER is None, reason="NO C++ COMPILER: no wheel was built with the core")
def test_with_a_compiler(sdist: Path, tmp_path: Path) -> None:
    names = wheel_names(sdist, tmp_path)
    assert any(n.startswith("subquad/kernels/_native") for n in names)
    assert not any("csrc" in n for n in names)


def test_without_a_compiler(sdist: Path, tmp_path: Path) -> None:
    names = wheel_names(sdist, tmp_path, CC="/no/compiler", CXX="/no/compiler")
    assert "subquad/kernels/loading.py" in names
    assert not any(n.startswith("subquad/kernels/_native") for n in names)
