"""Two ways to measure peak memory, because neither sees everything.

``allocated_peak`` counts what torch's allocator hands out. It is exact and repeatable, so it suits
a single sequence and layer, but it misses scratch space that a kernel allocates elsewhere.
``resident_peak`` asks the operating system about the whole process. It misses nothing, but page
granularity and earlier allocations blur it, so it needs large inputs and a new process (Linux).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile


def allocated_peak(layer: nn.Module, x: Tensor) -> int:
    """Peak memory in bytes of a forward and backward pass, above what was allocated before,
    computed from the allocator's record of every allocation and release.

    The parameters' gradients are allocated beforehand, because they do not depend on the sequence.
    """
    for tensor in [*layer.parameters(), x]:
        tensor.grad = torch.zeros_like(tensor)
    return allocated_by(lambda: layer(x).sum().backward())


def allocated_by(run: Callable[[], object]) -> int:
    """Peak memory in bytes of one call, above what was allocated before it."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # silences the profiler's own log
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as record:
        run()
    assert record.profiler is not None
    events = record.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    held = most = 0
    for _, change in sorted(changes, key=lambda c: c[0]):
        held += change
        most = max(most, held)
    return int(most)


_PEAK = """
import importlib, json, pathlib, sys
module, function, small, given = json.loads(sys.argv[1])
prepare = getattr(importlib.import_module(module), function)
prepare(*small)()  # warm-up
run = prepare(*given)
def kilobytes(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)))
before = kilobytes("VmRSS:")
pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets the peak
run()
print((kilobytes("VmHWM:") - before) * 1024)
"""


def resident_peak(
    prepare: Callable[..., Callable[[], object]], small: Sequence[Any], given: Sequence[Any]
) -> int:
    """Peak memory of one call in bytes, inputs not counted, measured in a new process (Linux only).

    ``prepare`` is a module-level function that creates the inputs and returns the call to measure.
    It is called with ``given``, after a warm-up call with the arguments ``small``; both must be
    JSON-serialisable.
    """
    asked = json.dumps([prepare.__module__, prepare.__qualname__, small, given])
    command = [sys.executable, "-c", _PEAK, asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)
