"""The one memory meter, with its two ways, because neither sees everything.

``allocated_peak`` counts what torch's allocator hands out: exact and repeatable, fit for one row of
one layer, but blind to scratch space that a kernel takes from elsewhere. ``resident_peak`` asks the
system for the whole process: nothing escapes it, but pages and earlier work blur it, so that it
needs large inputs and a process of its own (Linux).
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
    """The most bytes held at once by a forward and backward pass, above what was held before, from
    the allocator's own record of every allocation and release.

    The gradients of the parameters are allocated beforehand: they belong to the layer, not to the
    row.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its log is for its makers, not for people
    for tensor in [*layer.parameters(), x]:
        tensor.grad = torch.zeros_like(tensor)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as record:
        layer(x).sum().backward()
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
prepare(*small)()  # loads what is loaded once
run = prepare(*given)
def kilobytes(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)))
before = kilobytes("VmRSS:")
pathlib.Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
run()
print((kilobytes("VmHWM:") - before) * 1024)
"""


def resident_peak(
    prepare: Callable[..., Callable[[], object]], small: Sequence[Any], given: Sequence[Any]
) -> int:
    """Bytes over the inputs at the peak of one call, in a process of its own (Linux).

    ``prepare`` (a function of a module) makes the inputs and returns the call; ``given`` are its
    arguments, ``small`` those of a cheap call before it. Both must go through JSON.
    """
    asked = json.dumps([prepare.__module__, prepare.__qualname__, small, given])
    command = [sys.executable, "-c", _PEAK, asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)
