"""Measuring: candidates interleaved in one run, ratios per round, memory in a fresh process."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Seconds of each candidate in each round; a round runs every candidate once."""

    rounds: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def ratio(self, slow: str, fast: str) -> tuple[float, float, float]:
        """How many times as long ``slow`` takes: median over rounds, lower and upper quartile."""
        pairs = zip(self.rounds[slow], self.rounds[fast], strict=True)
        ratios = [a / b for a, b in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return middle, low, high


def interleave(candidates: Mapping[str, Callable[[], object]], seconds: float) -> Times:
    """Run all candidates in turn for about ``seconds`` (3 to 300 rounds), after one warm-up."""
    rounds: dict[str, list[float]] = {name: [] for name in candidates}
    for run in candidates.values():
        run()
    started, n = time.perf_counter(), 0
    while n < 3 or (n < 300 and time.perf_counter() - started < seconds):
        for name, run in candidates.items():
            begun = time.perf_counter()
            run()
            rounds[name].append(time.perf_counter() - begun)
        n += 1
    return Times(rounds)


_PEAK = """
import json, pathlib, sys
from subquad.lab.bench.measuring import attention_inputs, attention_run
form, t, backward = json.loads(sys.argv[1])
attention_run(form, attention_inputs(32, backward), backward)()  # loads what is loaded once
inputs = attention_inputs(t, backward)
def kilobytes(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)))
before = kilobytes("VmRSS:")
pathlib.Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
attention_run(form, inputs, backward)()
print((kilobytes("VmHWM:") - before) * 1024)
"""


def peak_memory(form: str, t: int, backward: bool) -> int:
    """Bytes over the inputs at the peak of one call, in a process of its own (Linux)."""
    command = [sys.executable, "-c", _PEAK, json.dumps([form, t, backward])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)
