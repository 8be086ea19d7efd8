"""Checks whether a folder of ONNX files still computes what torch computed. It needs the folder
only: onnxruntime runs the graphs on the cases of ``answers``, and all files are compared with their
checksums from the export."""

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from subquad.errors import SubquadError, UsageError
from subquad.export import answers

#: Largest allowed difference from torch, relative to the largest output if that is above 1.
TOLERANCE = 1e-4
ABOUT = "about.json"
#: The initial states. Folders written by version 0.1 have no such file and start from zeros.
START = "start.safetensors"

Arrays = dict[str, np.ndarray]


class Differs(SubquadError):
    """A file has been changed since the export, or does not compute what torch computed."""


def check_folder(folder: Path) -> dict[str, Any]:
    """Run the self-test of an exported folder.

    Returns:
        ``passed`` and either ``worst``, the largest relative difference from torch, or ``error``.

    Raises:
        SubquadError: the folder is not an export, or one of its files is missing.
        UsageError: onnxruntime is not installed.
    """
    if find_spec("onnxruntime") is None:
        raise UsageError("onnxruntime is not installed: pip install 'subquad[onnx]'")
    digests = _digests(folder)
    changed = [name for name in digests if sha256(folder / name) != digests[name]]
    try:
        worst = np.inf if answers.FILE in changed else compare(folder)
        if changed:
            raise Differs(f"{changed[0]} was changed after the export: its SHA-256 differs")
    except Differs as error:
        return {"passed": False, "error": str(error)}
    return {"passed": True, "worst": worst}


def refuse_existing(out: Path, force: bool) -> None:
    """Check that ``out`` can be written: nothing is replaced without ``force``, and folders only
    if an earlier export wrote them.

    Raises:
        SubquadError: ``out`` exists and may not be replaced.
    """
    if out.exists() and not force:
        raise SubquadError(f"{out} exists: use another name, or --force to replace it")
    if out.is_dir():
        _digests(out)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of an export, after checking that none is missing."""
    try:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
    except FileNotFoundError:
        made = "made by `subquad export --to onnx`"
        raise SubquadError(f"{folder} is not a folder {made}: it has no {ABOUT}") from None
    except (OSError, ValueError) as error:
        raise SubquadError(f"{folder / ABOUT} cannot be read: {error}") from None
    digests = about.get("sha256") if isinstance(about, dict) else None
    if not isinstance(digests, dict) or answers.FILE not in digests:
        raise SubquadError(f"{folder / ABOUT} does not list {answers.FILE}: export the run again")
    for name in digests:
        if not (folder / name).is_file():
            raise SubquadError(f"{folder / name} is missing: export the run again")
    return digests


def compare(folder: Path) -> float:
    """The largest relative difference of any output from torch.

    Raises:
        Differs: the difference is more than ``TOLERANCE``, or a graph does not run.
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
        # The output next_layers.0.s becomes the input layers.0.s.
        carried = {n.removeprefix("next_"): a for n, a in found.items() if n.startswith("next_")}
        found = step.run({"tokens": case[f"steps.{i}.token"]} | carried)
        worst = max(worst, step.differs(found, {"logits": case[f"steps.{i}.logits"]}, size))
    return max(worst, step.differs(found, ends, size))


class Graph:
    """One ONNX file, run by onnxruntime on one thread.

    Raises:
        Differs: onnxruntime rejects the file or its inputs.
    """

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4  # errors are raised anyway
        self.name = path.name
        self._session = self._asked(
            onnxruntime.InferenceSession, path, options, providers=["CPUExecutionProvider"]
        )

    def run(self, feed: Arrays) -> Arrays:
        """Run the graph on ``feed`` and return its outputs by name."""
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._asked(self._session.run, None, feed), strict=True))

    def differs(self, found: Arrays, expected: Arrays, size: str) -> float:
        """The largest relative difference; ``found`` may have more rows than ``expected``.

        Raises:
            Differs: it is more than ``TOLERANCE``, or a shape differs.
        """
        worst = 0.0
        for name, right in expected.items():
            ours = found[name][: len(right)] if name in found else np.empty(0)
            if ours.shape != right.shape:
                raise Differs(f"{self.name}: {name} has shape {ours.shape}, torch's {right.shape}")
            off = np.abs(ours.astype(np.float64) - right).max(initial=0)
            relative = float(off / max(1.0, np.abs(right).max(initial=0)))
            if not relative <= TOLERANCE:  # also catches NaN
                raise Differs(
                    f"{self.name} differs from torch by {relative:.1e}, more than {TOLERANCE:.0e} "
                    f"({name}, {size} tokens)"
                )
            worst = max(worst, relative)
        return worst

    def _asked(self, what: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return what(*arguments, **options)
        except Exception as error:  # onnxruntime's exceptions have no common base class
            reason = str(error).strip().splitlines()[0][:200]
            raise Differs(f"{self.name} does not run in onnxruntime: {reason}") from None
