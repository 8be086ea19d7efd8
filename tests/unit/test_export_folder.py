"""A folder of ONNX files is checked from itself alone, and found out when a file in it changes."""

import importlib
import json
import shutil

import numpy as np
import pytest

from subquad.cli import run as subquad
from subquad.errors import SubquadError
from subquad.export import answers, folder
from subquad.export.check import check
from subquad.export.folder import check_folder
from subquad.export.onnx import onnx
from tests.browser.conftest import SMALL, language
from tests.unit.test_export_onnx import classifier

pytest.importorskip("onnxscript", reason="NOT TESTED: the extra `onnx` is not installed")
pytest.importorskip("onnxruntime", reason="NOT TESTED: no onnxruntime")

pytestmark = pytest.mark.filterwarnings("ignore")
D = SMALL["d"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A classifier's folder and a causal model's, whose 64 learned positions bound its cases."""
    made = tmp_path_factory.mktemp("exported")
    onnx(classifier(made / "run", "linear"), made / "classes")
    run = language(made / "run", mixers=("linear",), layers=1, positions="learned")
    onnx(run, made / "causal")
    return made


@pytest.fixture
def copied(exported, tmp_path):
    def copy(name):
        return shutil.copytree(exported / name, tmp_path / name)

    return copy


def edit(path, change):
    """Rewrite an .onnx file after ``change`` of its weights, name → array."""
    package = importlib.import_module("onnx")
    model = package.load(path)
    weights = {t.name: package.numpy_helper.to_array(t).copy() for t in model.graph.initializer}
    change(weights)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(package.numpy_helper.from_array(weights[tensor.name], tensor.name))
    package.save(model, path)


def matrix(weights, size):
    return next(w for w in weights.values() if w.dtype == np.float32 and w.size == size)


@pytest.mark.parametrize("name", ["classes", "causal"])
def test_a_folder_passes_as_it_was_made(exported, name):
    found = check(exported / name)["onnxruntime"]
    assert found["passed"]
    about = json.loads((exported / name / "about.json").read_text("utf-8"))
    assert found["worst"] == pytest.approx(about["worst_difference"], abs=1e-6)
    assert 0 < found["worst"] < folder.TOLERANCE


def test_cases_have_the_promised_sizes_as_far_as_the_model_reaches(exported):
    sizes = {
        name: {key.split(".")[0] for key in folder.load_file(exported / name / answers.FILE)}
        for name in ("classes", "causal")
    }
    assert sizes["classes"] == {f"{b}x{t}" for b in (1, 3) for t in (1, 17, 300)}
    longest = language(exported / "run", positions="learned").model.embedding.length - answers.STEPS
    assert sizes["causal"] == {f"{b}x{t}" for b in (1, 3) for t in (1, 17, longest)}


@pytest.mark.parametrize(
    ("name", "file"), [("classes", "model"), ("causal", "prefill"), ("causal", "step")]
)
def test_a_changed_weight_is_found(copied, name, file, capsys):
    path = copied(name)

    def change(weights):
        matrix(weights, 3 * D * D).flat[7] += 1.0  # of the attention's projections

    edit(path / f"{file}.onnx", change)
    assert subquad(["export", "--check", str(path)]) == 1
    out, err = capsys.readouterr()
    assert f"{file}.onnx differs from torch by" in out
    assert f"{file}.onnx differs from torch by" in err
    assert err.count("\n") == 1


def test_a_change_too_small_to_show_is_found(copied):
    path = copied("classes")

    def change(weights):
        matrix(weights, 3 * D * D).flat[7] += 1e-7

    edit(path / "model.onnx", change)
    assert check_folder(path) == {
        "passed": False,
        "error": "model.onnx was changed after the export: its SHA-256 differs",
    }
    path = copied("causal")
    (path / "tokenizer.json").write_text("{}", encoding="utf-8")
    assert check_folder(path)["error"].startswith("tokenizer.json was changed")
    (path / answers.FILE).write_bytes(b"nothing")
    assert check_folder(path)["error"].startswith("selftest.safetensors was changed")


def test_a_graph_that_does_not_run_is_one_line(copied):
    path = copied("classes")
    (path / "model.onnx").write_bytes(b"no graph")
    error = check_folder(path)["error"]
    assert error.startswith("model.onnx does not run in onnxruntime: ")
    assert "\n" not in error
    path = copied("causal")
    shutil.copy(path / "prefill.onnx", path / "step.onnx")
    assert check_folder(path)["error"].startswith("step.onnx does not run in onnxruntime: ")


def test_what_is_no_number_differs():
    graph = folder.Graph.__new__(folder.Graph)
    graph.name = "x.onnx"
    good = {"logits": np.ones((2, 3), np.float32)}
    assert graph.differs(good, good, "2x3") == 0
    with pytest.raises(folder.Differs, match=r"by nan, more than 1e-04 \(logits, 2x3 tokens\)"):
        graph.differs({"logits": good["logits"] * np.nan}, good, "2x3")
    with pytest.raises(folder.Differs, match=r"logits has shape \(0,\), torch's \(2, 3\)"):
        graph.differs({}, good, "2x3")


def test_a_folder_that_is_no_export_is_refused(copied, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        SubquadError, match=r"empty is not a folder made by `subquad export --to onnx"
    ):
        check(tmp_path / "empty")
    (tmp_path / "empty" / "about.json").write_text("[1", encoding="utf-8")
    with pytest.raises(SubquadError, match=r"about.json cannot be read: "):
        check(tmp_path / "empty")
    (tmp_path / "empty" / "about.json").write_text('{"opset": 18}', encoding="utf-8")
    with pytest.raises(
        SubquadError, match=r"does not list selftest.safetensors: export the run again"
    ):
        check(tmp_path / "empty")
    path = copied("causal")
    (path / "step.onnx").unlink()
    with pytest.raises(SubquadError, match=r"step.onnx is missing: export the run again"):
        check(path)
