"""Compiles the step engine's C++ to ``engine.wasm``, for ``make wasm``. The compiler is Zig's, from
the package ``ziglang``; the same version produces the same bytes on every machine."""

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
#: The same flags as for the native engine in CMakeLists.txt, as far as they apply here.
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
#: No C library and no start function, so that the page does not have to provide anything.
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
        SubquadError: the compiler or the source is missing, or compilation fails.
    """
    if find_spec("ziglang") is None:
        raise SubquadError("building the page's engine needs a compiler: pip install ziglang")
    if not _CORE.is_dir():
        raise SubquadError(f"{_CORE} does not exist: build the engine in a source checkout")
    with tempfile.TemporaryDirectory(prefix="subquad-") as scratch:
        objects = []
        for source in _SOURCES:
            objects.append(str(Path(scratch) / f"{source.stem}.o"))
            _zig("c++", *_COMPILE, f"-I{_CORE}", "-c", str(source), "-o", objects[-1])
        _zig("wasm-ld", *_LINK, *objects, "-o", str(out))
    out.chmod(0o644)  # the linker makes it executable


def _zig(*arguments: str) -> None:
    command = [sys.executable, "-m", "ziglang", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SubquadError(f"the engine does not compile: {done.stderr.strip() or arguments}")


if __name__ == "__main__":
    build(ENGINE)
