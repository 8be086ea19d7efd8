"""Every task through every verb: it works, or it refuses in one line with the right exit code.

A task of another package (``outside_task``), found by its entry point, goes the same way.
"""

import contextlib
import io
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import subquad
from subquad.cli import run as command
from subquad.lab import convert as converting
from subquad.lab.compare import experiment
from subquad.run import load
from subquad.tasks import TASKS, task_class, task_names
from tests import outside_task
from tests.bodies import tiny_bert
from tests.task_cases import CASES, REFUSED, TINY, Case, book


@dataclass(frozen=True)
class Said:
    """What a command left."""

    code: int
    out: str
    err: str


def call(*argv: object) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command([str(a) for a in argv])
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module", autouse=True)
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Another package is installed, which adds a task."""
    folder = tmp_path_factory.mktemp("site")
    outside_task.entry_point(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(folder)])
        yield
    TASKS.pop("tones", None)


@dataclass(frozen=True)
class Trained:
    name: str
    case: Case
    file: str
    run: Path

    def train(self, *more: object) -> Said:
        flags = f"{TINY} {self.case.flags}"
        if "--from" in more:  # a body brings its tokenizer along
            flags = flags.replace("--tokenizer chars", "")
        return call("train", self.file, "--task", self.case.task, *flags.split(), *more)


@pytest.fixture(scope="module", params=CASES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    case = CASES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    file = case.data if isinstance(case.data, str) else str(case.data(folder / "data.json"))
    if isinstance(case.data, partial):
        file = str(case.data(folder / "data.csv"))
    elif case.data is book:
        file = str(case.data(folder / "book.txt"))
    made = Trained(request.param, case, file, folder / "run")
    if case.task == "embed":  # a folder of transformers
        tiny_bert(made.run, layers=1)
        return made
    said = made.train("--out", made.run)
    assert said.code == 0, said.err
    return made


def works(trained: Trained, verb: str, said: Said) -> bool:
    """Whether it has worked; where it may not, that it says so as it should."""
    assert "Traceback" not in said.err
    why = REFUSED.get((trained.name, verb))
    if why is None:
        assert said.code == 0, said.err
        return True
    assert said.code == 2, said.err
    assert why in said.err
    assert said.err.strip().splitlines()[-1].startswith("subquad: ")
    assert not said.out
    return False


def test_every_task_is_here() -> None:
    assert {case.task for case in CASES.values()} == set(task_names()), "say how it is fed"
    assert {name for name, _ in REFUSED} <= set(CASES)


def test_evaluate(trained: Trained) -> None:
    said = call("evaluate", trained.run, trained.file, "--json")
    if not works(trained, "evaluate", said):
        return
    found = json.loads(said.out)
    score = load(trained.run).task.score.name
    assert math.isfinite(found[score])
    assert math.isfinite(load(trained.run).best()[score])
    assert found["examples"] > 0


def test_predict(trained: Trained) -> None:
    said = call("predict", trained.run, trained.file)
    if works(trained, "predict", said):
        lines = [json.loads(line) for line in said.out.splitlines()]
        assert [line["row"] for line in lines] == list(range(1, len(lines) + 1))
        assert len(lines) in (40, 60)
        assert not any("error" in line for line in lines)


def test_generate(trained: Trained) -> None:
    flags = ["--length", 5] if trained.case.task == "language" else []
    said = call("generate", trained.run, "--samples", 1, *flags)
    if works(trained, "generate", said):
        assert said.out.strip()
    else:
        with pytest.raises(subquad.errors.UsageError, match="cannot generate"):
            load(trained.run).task.generates()


def test_compare(trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "_measure", lambda *_: None)
    flags = [*TINY.split()[2:], *trained.case.flags.split(), "--seeds", 1, "--out", tmp_path / "c"]
    mixers = ["--mixers", "none,linear"]
    said = call("compare", trained.file, "--task", trained.case.task, *mixers, *flags, "--json")
    if not works(trained, "compare", said):
        return
    found = json.loads(said.out)
    table = {row["name"]: row["mean"] for row in found["table"]}
    assert {"none", "linear"} <= table.keys()
    assert all(math.isfinite(value) for value in table.values())
    floors = load(trained.run).task.floors()
    assert set(table) == {"none", "linear", *floors}
    assert "</html>" in (tmp_path / "c" / "report.html").read_text("utf-8")


def test_embed(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "vectors.npy"
    if works(trained, "embed", call("embed", trained.run, trained.file, "--out", out)):
        vectors = np.load(out)
        assert vectors.shape == (40, 16)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    else:
        assert not out.exists()


def test_convert(trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converting, "LENGTHS", (8,))
    flags = ["--texts", trained.file, "--mixer", "fastformer", "--minutes", 0.02]
    out = tmp_path / "converted"
    said = call("convert", trained.run, *flags, "--out", out)
    if works(trained, "convert", said):
        assert load(out).config.model.layer_mixers()[0] == "fastformer"
        assert "</html>" in (out / "report.html").read_text("utf-8")
        again = {"evaluate", "predict", "generate"} - {v for n, v in REFUSED if n == trained.name}
        for verb in again:
            given = [trained.file] if verb != "generate" else ["--samples", 1, "--length", 5]
            assert call(verb, out, *given).code == 0, verb
    else:
        assert not (out / "config.json").exists()


def test_inspect(trained: Trained, tmp_path: Path) -> None:
    said = call("inspect", trained.run, "match goal the 3", "--out", tmp_path / "seen")
    if works(trained, "inspect", said):
        assert (tmp_path / "seen" / "inspect.html").exists()


def test_web(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    works(trained, "web", call("export", trained.run, "--to", "web", "--out", out))
    assert out.exists() == ((trained.name, "web") not in REFUSED)


@pytest.mark.filterwarnings("ignore")
def test_onnx(trained: Trained, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    out = tmp_path / "graph"
    works(trained, "onnx", call("export", trained.run, "--to", "onnx", "--out", out))
    assert out.exists() == ((trained.name, "onnx") not in REFUSED)


def test_resume(trained: Trained) -> None:
    before = (trained.run / "model.safetensors").read_bytes()
    if not works(trained, "resume", trained.train("--out", trained.run, "--resume")):
        return
    assert (trained.run / "model.safetensors").read_bytes() == before
    said = trained.train("--out", trained.run, "--resume", "--d", "32")
    assert said.code == 2
    assert "d was 16, is 32" in said.err


def test_from(trained: Trained, tmp_path: Path) -> None:
    said = trained.train("--from", trained.run, "--out", tmp_path / "next")
    assert not works(trained, "from", said) or "of its body kept" in said.err


def test_the_help_of_a_task_has_its_options_only(trained: Trained) -> None:
    if not task_class(trained.case.task).learns:
        return
    said = call("train", "--task", trained.case.task, "--help")
    assert said.code == 0
    cls = task_class(trained.case.task)
    own = set(cls.Options.__dataclass_fields__)
    others = {f for n in task_names() for f in task_class(n).Options.__dataclass_fields__}
    for name in others | cls.unused - {"columns"}:
        assert (f"--{name.replace('_', '-')}" in said.out.split()) == (name in own), name
    assert "None" not in said.out
