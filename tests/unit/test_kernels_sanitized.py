"""The C++ core under AddressSanitizer and UBSan: no access out of bounds, nothing undefined."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "subquad" / "kernels" / "csrc"
COMPILER = shutil.which("g++") or shutil.which("clang++")
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.mark.skipif(COMPILER is None, reason="NO C++ COMPILER: the core is not checked for safety")
def test_core_under_sanitizers(tmp_path: Path) -> None:
    def compile_to(name: str, source: Path, *options: str) -> str:
        made = tmp_path / name
        command = [COMPILER, "-std=c++17", "-O1", *SANITIZE, *options, "-w", f"-I{SOURCES}"]
        subprocess.run([*command, "-c", str(source), "-o", str(made)], check=True)
        return str(made)

    objects = [
        compile_to("isa.o", SOURCES / "isa.cpp"),
        *(
            compile_to(f"{n}.o", SOURCES / f"{n}.cpp")
            for n in ("runtime", "crew", "engine", "sampling")
        ),
        compile_to("test.o", ROOT / "tests" / "native" / "core_test.cpp"),
    ]
    program = str(tmp_path / "core_test")
    subprocess.run([COMPILER, *SANITIZE, *objects, "-pthread", "-ldl", "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "baseline done" in done.stdout
