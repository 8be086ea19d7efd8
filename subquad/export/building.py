"""``engine.wasm`` from the step engine's C++: what ``make wasm`` does. The compiler is Zig's, from
the package ``ziglang``, one version of which gives the same bytes on every machine."""

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from subquad.errors import SubquadError

_HERE = Path(__file__).parent
#: The engine as package data.
ENGINE = _HERE / "engine.wasm"
_CORE = _HERE.parent / "kernels" / "csrc"
_SOURCES = (
    _CORE / "engine.cpp",
    _CORE / "sampling.cpp",
    *(_HERE / "wasm" / name for name in ("page.cpp", "memory.cpp", "arithmetic.cpp")),
)
#: As CMakeLists.txt has them for the native engine, where they mean something here.
_COMPILE = [
    "-target",
    "wasm32-wasi",
    "-mcpu=generic+simd128+bulk_memory",
    "-std=c++17",
    "-O3",
    "-DNDEBUG",
    "-Wall",
    "-Wextra",
    "-DSUBQUAD_ISA=wasm",
    "-DSUBQUAD_VECTOR_BYTES=16",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fvisibility=hidden",
]
#: No C library and no start: a page has nothing to supply.
_LINK = [
    "--no-entry",
    "--gc-sections",
    "--strip-all",
    "--export-dynamic",
    "-z",
    "stack-size=65536",
    "--initial-memory=1048576",
]


def build(out: Path) -> None:
    """Compile the engine to ``out``.

    Raises:
        SubquadError: there is no compiler, no source, or it does not compile.
    """
    if find_spec("ziglang") is None:
        raise SubquadError("the page's engine is compiled by the package ziglang, not found here")
    if not _CORE.is_dir():
        raise SubquadError(f"{_CORE} is not there: the engine is built from a source checkout")
    with tempfile.TemporaryDirectory(prefix="subquad-") as scratch:
        objects = []
        for source in _SOURCES:
            objects.append(str(Path(scratch) / f"{source.stem}.o"))
            _zig("c++", *_COMPILE, f"-I{_CORE}", "-c", str(source), "-o", objects[-1])
        _zig("wasm-ld", *_LINK, *objects, "-o", str(out))
    out.chmod(0o644)  # the linker makes it a program


def _zig(*arguments: str) -> None:
    command = [sys.executable, "-m", "ziglang", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SubquadError(f"the engine does not compile: {done.stderr.strip() or arguments}")


if __name__ == "__main__":
    build(ENGINE)
