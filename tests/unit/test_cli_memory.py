"""Freed memory stays with the process, unless the user has set the allocator up."""

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from subquad.cli.memory import keep_freed_memory
kept = keep_freed_memory() if sys.argv[1] == "keep" else False
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytearray(64 << 20)
before = faults()
for _ in range(10):
    bytearray(b"x") * (64 << 20)
print(kept, faults() - before)
"""


def run(how: str, **extra: str) -> tuple[bool, int]:
    """Whether it said that memory is kept, and the pages that ten large blocks cost."""
    env = {n: v for n, v in os.environ.items() if not n.startswith(("MALLOC_", "GLIBC_"))} | extra
    command = [sys.executable, "-c", SCRIPT, how]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator only")
def test_what_is_freed_is_used_again() -> None:
    kept, faults = run("keep")
    assert kept
    without = run("leave")[1]
    assert without > 10 * 1000  # a large block costs a thousand pages and more each time
    assert faults < without / 3


def test_the_users_settings_have_the_last_word() -> None:
    assert run("keep", MALLOC_TRIM_THRESHOLD_="131072")[0] is False
    assert run("keep", GLIBC_TUNABLES="glibc.malloc.check=0")[0] is False
