"""Does a folder of ONNX files still compute what torch computed? From the folder alone: the graphs
are run by onnxruntime on the cases of ``answers``, and every file is the one that was exported."""

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from subquad.errors import SubquadError, UsageError
from subquad.export import answers

#: Largest difference from torch, relative to the largest output where that is above 1.
TOLERANCE = 1e-4
ABOUT = "about.json"
#: States of which nothing has been read; folders of version 0.1 have none, and begin with zeros.
START = "start.safetensors"

Arrays = dict[str, np.ndarray]


class Differs(SubquadError):
    """A file is not the one that was exported, or does not compute what torch computed."""


def check_folder(folder: Path) -> dict[str, Any]:
    """``passed``, and ``worst``, the largest relative difference from torch, or the ``error``.

    Raises:
        SubquadError: the folder is no export, or a file of it is missing.
        UsageError: onnxruntime is not installed.
    """
    if find_spec("onnxruntime") is None:
        raise UsageError("onnxruntime is missing: pip install 'subquad[onnx]'")
    digests = _digests(folder)
    changed = [name for name in digests if sha256(folder / name) != digests[name]]
    try:
        worst = np.inf if answers.FILE in changed else compare(folder)
        if changed:
            raise Differs(f"{changed[0]} was changed after the export: its SHA-256 is another")
    except Differs as error:
        return {"passed": False, "error": str(error)}
    return {"passed": True, "worst": worst}


def refuse_existing(out: Path, force: bool) -> None:
    """Nothing is replaced unasked; by ``force``, a page's file, or a folder that an export made.

    Raises:
        SubquadError: something else, or something unasked, has this name.
    """
    if out.exists() and not force:
        raise SubquadError(f"{out} exists: name another, or replace it by --force")
    if out.is_dir():
        _digests(out)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the files that an export has written, all of which are there."""
    made = "`subquad export --to onnx` has made"
    try:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
    except FileNotFoundError:
        raise SubquadError(f"{folder} is not a folder that {made}: no {ABOUT}") from None
    except (OSError, ValueError) as error:
        raise SubquadError(f"{folder / ABOUT} cannot be read: {error}") from None
    digests = about.get("sha256") if isinstance(about, dict) else None
    if not isinstance(digests, dict) or answers.FILE not in digests:
        raise SubquadError(f"{folder / ABOUT} names no {answers.FILE}: export the run again")
    for name in digests:
        if not (folder / name).is_file():
            raise SubquadError(f"{folder / name} is missing: export the run again")
    return digests


def compare(folder: Path) -> float:
    """The largest relative difference of any output from torch.

    Raises:
        Differs: it is more than ``TOLERANCE``, or a graph does not run.
    """
    cases: dict[str, Arrays] = {}
    for name, array in load_file(folder / answers.FILE).items():
        size, _, rest = name.partition(".")
        cases.setdefault(size, {})[rest] = array
    causal = (folder / "step.onnx").exists()
    names = ("prefill.onnx", "step.onnx") if causal else ("model.onnx",)
    graphs = [Graph(folder / name) for name in names]
    start = load_file(folder / START) if (folder / START).exists() else {}
    return max(_case(graphs, size, case, start) for size, case in cases.items())


def _case(graphs: list["Graph"], size: str, case: Arrays, start: Arrays) -> float:
    feed = {name: case[name] for name in ("tokens", "mask")}
    if len(graphs) == 1:
        return graphs[0].differs(graphs[0].run(feed), {"logits": case["logits"]}, size)
    prefill, step = graphs
    ends = {n.removeprefix("end."): a for n, a in case.items() if n.startswith("end.")}
    for next_name, end in ends.items():
        name = next_name.removeprefix("next_")
        feed[name] = np.repeat(start.get(name, np.zeros_like(end)), len(feed["tokens"]), axis=0)
    found = prefill.run(feed)
    worst = prefill.differs(found, {"logits": case["logits"]}, size)
    for i in range(answers.STEPS):
        # What comes out as next_layers.0.s goes in as layers.0.s.
        carried = {n.removeprefix("next_"): a for n, a in found.items() if n.startswith("next_")}
        found = step.run({"tokens": case[f"steps.{i}.token"]} | carried)
        worst = max(worst, step.differs(found, {"logits": case[f"steps.{i}.logits"]}, size))
    return max(worst, step.differs(found, ends, size))


class Graph:
    """One ONNX file, run by onnxruntime on one thread.

    Raises:
        Differs: onnxruntime refuses the file, or what it is given.
    """

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4  # what is wrong is raised
        self.name = path.name
        self._session = self._asked(
            onnxruntime.InferenceSession, path, options, providers=["CPUExecutionProvider"]
        )

    def run(self, feed: Arrays) -> Arrays:
        """Outputs by name."""
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._asked(self._session.run, None, feed), strict=True))

    def differs(self, found: Arrays, expected: Arrays, size: str) -> float:
        """The largest relative difference; ``found`` may have more rows than ``expected``."""
        worst = 0.0
        for name, right in expected.items():
            ours = found[name][: len(right)] if name in found else np.empty(0)
            if ours.shape != right.shape:
                raise Differs(f"{self.name}: {name} has shape {ours.shape}, torch's {right.shape}")
            off = np.abs(ours.astype(np.float64) - right).max(initial=0)
            relative = float(off / max(1.0, np.abs(right).max(initial=0)))
            if not relative <= TOLERANCE:  # nor NaN
                raise Differs(
                    f"{self.name} differs from torch by {relative:.1e}, more than {TOLERANCE:.0e} "
                    f"({name}, {size} tokens)"
                )
            worst = max(worst, relative)
        return worst

    def _asked(self, what: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return what(*arguments, **options)
        except Exception as error:  # onnxruntime's have no class in common
            reason = str(error).strip().splitlines()[0][:200]
            raise Differs(f"{self.name} does not run in onnxruntime: {reason}") from None
