"""The results of ``bench`` as text: the crossover, a table, and the three files it writes."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

from subquad.lab.bench.plot import plot
from subquad.lab.bench.result import BenchResult
from subquad.lab.bench.targets import targets
from subquad.storage import write_atomically, write_text


def crossover(result: BenchResult) -> str:
    """From which length linear attention is faster than softmax (forward pass), in words."""
    ahead = {r.t: r.ratio >= 1 for r in result.rows if (r.kind, r.name) == ("forward", "native")}
    lengths = sorted(t for t in ahead if t in result.config["lengths"])
    behind = [t for t in lengths if not ahead[t]]
    if not lengths:
        return "not measured"
    if not behind:
        return "none: faster at every length measured"
    later = [t for t in lengths if t > behind[-1]]
    return f"faster from {later[0]} tokens on" if later else "not faster at any length measured"


def table(result: BenchResult) -> str:
    """All measurements, memory, the crossover, and every target with PASS or FAIL."""
    lines = [f"{'':21}{'':16}{'tokens':>8}{'ms':>12}{'ratio':>10}  quartiles"]
    for r in result.rows:
        spread = f"{r.low:.2f} to {r.high:.2f}"
        ms = f"{r.seconds * 1e3:.3f}"
        lines.append(f"{r.kind:21}{r.name:16}{r.t:>8}{ms:>12}{r.ratio:>10.2f}  {spread}")
    for name, size in result.memory.items():
        lines.append(f"{'memory':21}{name:16}{size / 2**20:>20.0f} MiB over the inputs")
    lines.append(f"crossover with softmax: {crossover(result)}")
    for target in targets(result):
        found = "not measured" if target.found is None else f"{target.found:.3g}"
        lines.append(f"{'PASS' if target.passed else 'FAIL'}  {target.text}: {found}")
    return "\n".join(lines)


def save(result: BenchResult, folder: str | Path) -> None:
    """Write ``bench.json``, ``bench.txt`` and ``bench.svg`` into ``folder``."""
    folder = Path(folder)
    everything = asdict(result) | {
        "crossover": crossover(result),
        "targets": [asdict(t) for t in targets(result)],
    }
    write_text(folder / "bench.json", json.dumps(everything, indent=1) + "\n")
    write_text(folder / "bench.txt", table(result) + "\n")
    write_atomically(folder / "bench.svg", partial(plot, result.rows))
