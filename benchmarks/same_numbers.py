"""Checks that a change does not change any numbers: trains every task with every mixer for a few
steps, and records the loss of each step and a digest of the weights.

    python benchmarks/same_numbers.py --out before.json      # in the checkout before the change
    python benchmarks/same_numbers.py --out after.json       # in the one after it
    python benchmarks/same_numbers.py --compare before.json after.json

Results are only bit-identical on the same machine with the same number of threads.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: do not spin next to other work

import subquad.cli
from subquad.mixers import names

STEPS = 20
TINY = [
    "--layers",
    "2",
    "--d",
    "32",
    "--ff",
    "64",
    "--heads",
    "2",
    "--seed",
    "7",
    "--evaluations",
    "2",
    "--precision",
    "fp32",
]
TEXT = ["--length", "48"]
WORDS = [
    "a",
    "match",
    "the",
    "bank",
    "won",
    "lost",
    "raised",
    "price",
    "goal",
    "team",
    "rate",
    "loan",
    "fine",
    "awful",
    "of",
    "to",
]

#: (name, task, flags) of cases in addition to every mixer of every task with default settings.
SPECIAL = [
    ("pairs", "classify", ["--pair", "second", "--pooling", "pooler", "--types", "2"]),
    ("weights", "classify", ["--class-weights", "--label-smoothing", "0.2"]),
    ("attention pooling", "classify", ["--pooling", "attention", "--token-dropout", "0.3"]),
    ("cls", "classify", ["--pooling", "cls", "--positions", "sinusoidal"]),
    ("official", "classify", ["--gelu", "exact", "--mixer-dense", "--share-mixers"]),
    ("hybrid", "classify", ["--mixer", "fnet", "--hybrid", "top:1"]),
    ("hartley", "classify", ["--mixer", "fnet", "--mixer-option", "transform=hartley"]),
    ("accumulate", "classify", ["--batch", "4", "--accumulate", "2"]),
    ("bpe", "classify", ["--tokenizer", "bpe", "--vocabulary", "300"]),
    ("radam", "language", ["--optimizer", "radam", "--schedule", "drop", "--tied"]),
    ("mixture", "pixels", ["--mixture", "3"]),
    ("unmixed levels", "pixels", ["--optimizer", "muon"]),
    ("next", "masked", ["--pairs", "next"]),
    ("no pairs", "masked", ["--pairs", "none", "--mask-rate", "0.3"]),
]


def data(folder: Path) -> None:
    """Write a table with classes and numbers, and a text file, always with the same contents."""
    draw = random.Random(1)

    def sentence() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randrange(3, 40)))

    rows = [
        f"{sentence()},{sentence()},{draw.choice(['sport', 'money', 'other'])},{draw.random():.3f}"
        for _ in range(200)
    ]
    (folder / "rows.csv").write_text("\n".join(["text,second,label,score", *rows]) + "\n")
    (folder / "book.txt").write_text("\n".join(sentence() for _ in range(300)) + "\n")


def cases() -> Iterator[tuple[str, str, list[str]]]:
    """All cases as (name, task, flags)."""
    for task in ("classify", "regress", "masked", "language", "pixels"):
        for mixer in names(causal=task in ("language", "pixels")):
            yield f"{task} {mixer}", task, ["--mixer", mixer]
        yield f"{task} by default", task, ["--layers", "4"]
    yield "digits", "classify", ["--mixer", "linear"]
    for name, task, flags in SPECIAL:
        yield f"{task} {name}", task, flags


def where(name: str, task: str) -> list[str]:
    """The arguments for the data and how it is read."""
    if task == "pixels" or name == "digits":
        return ["digits"]
    if task in ("masked", "language"):
        return ["book.txt", *TEXT]
    label = "score" if task == "regress" else "label"
    return ["rows.csv", *TEXT, "--text", "text", "--label", label]


def taken(folder: Path) -> dict[str, Any]:
    """Train every case; return its metrics and the digest of its weights."""
    found: dict[str, Any] = {}
    for number, (name, task, flags) in enumerate(cases()):
        out = folder / f"run{number}"
        first, *rest = where(name, task)
        file = first if first == "digits" else str(folder / first)
        argv = ["train", file, "--task", task, "--steps", str(STEPS), "--out", str(out)]
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = subquad.cli.run([*argv, *TINY, *rest, *flags])
        if code:
            raise SystemExit(f"{name}: {said.getvalue()}")
        lines = map(json.loads, (out / "metrics.jsonl").read_text("utf-8").splitlines())
        clock = ("seconds",)
        found[name] = {
            "metrics": [{k: v for k, v in line.items() if k not in clock} for line in lines],
            "weights": hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest(),
        }
        print(f"{name:32} {found[name]['weights'][:12]}", file=sys.stderr)
    return found


def compare(before: Path, after: Path) -> int:
    """Print which cases differ and return the exit code."""
    old, new = (json.loads(p.read_text("utf-8")) for p in (before, after))
    moved = [name for name in old if old[name] != new.get(name)]
    same = len(old) - len(moved)
    print(f"{same} of {len(old)} identical" + (f"; moved: {', '.join(moved)}" if moved else ""))
    return int(bool(moved))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--compare", type=Path, nargs=2, help="two JSON files to compare")
    given = parser.parse_args()
    if given.compare:
        sys.exit(compare(*given.compare))
    with tempfile.TemporaryDirectory() as scratch:
        data(Path(scratch))
        found = taken(Path(scratch))
    text = json.dumps(found, indent=1)
    if given.out:
        given.out.write_text(text + "\n", "utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
