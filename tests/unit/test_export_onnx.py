"""ONNX files compute what torch computes, at sizes that are not their example's, under onnxruntime.

``onnx()`` itself refuses a graph that does not; so what is tested is that it accepts, that others
can use the names, and that its comparison bites. Each export takes half a minute.
"""

import importlib
import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from subquad.data.labels import Labels
from subquad.data.tokenizers import Tokenizer
from subquad.errors import SubquadError, UsageError
from subquad.export import graphs
from subquad.export import onnx as exporting
from subquad.export.onnx import onnx
from subquad.mixers import names
from subquad.tasks import task_class
from subquad.tasks.calibration import Calibration
from subquad.tasks.classify import Classify
from tests.browser.conftest import SMALL, language, made

pytest.importorskip("onnxscript", reason="NOT TESTED: the extra `onnx` is not installed")
runtime = pytest.importorskip("onnxruntime", reason="NOT TESTED: no onnxruntime")

# The graphs are made of the code that users run, without the checks of shapes.
pytestmark = pytest.mark.filterwarnings("ignore")


def classifier(path, mixer, **model):
    config = task_class("classify").defaults()
    config = config.having(
        **SMALL | {"mixers": (mixer,), "length": 320, "precision": "fp32"} | model
    )
    task = Classify(config, Labels(("a", "b", "c")), Tokenizer.train("bytes", ["x"], 300))
    return made(task, config, path, 4.0)


def classes(folder, texts, run):
    """Texts of several lengths in one batch → logits, by onnxruntime alone."""
    session = runtime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    rows = run.task.tokenizer.encode(texts)
    tokens = np.zeros((len(rows), max(map(len, rows))), np.int64)
    mask = np.zeros(tokens.shape, bool)
    for i, row in enumerate(rows):
        tokens[i, : len(row)], mask[i, : len(row)] = row, True
    return session.run(["logits"], {"tokens": tokens, "mask": mask})[0]


def nodes(path, kind):
    """The nodes of a kind in the standard's own domain."""
    model = importlib.import_module("onnx").load(path)
    return [node for node in model.graph.node if (node.domain, node.op_type) == ("", kind)]


FAST = [pytest.param("fnet", {}, id="fnet")]
LONG = [
    *((name, {}) for name in names(causal=False) if name != "fnet"),
    ("fnet", {"pooling": "cls", "norm": "pre", "positions": "sinusoidal"}),
    ("fnet", {"mixer_options": {"fnet": {"padding": "fixed", "length": 320}}}),
    ("fnet", {"mixer_options": {"fnet": {"transform": "hartley"}}}),
    ("linear", {"mixer_options": {"linear": {"window": 16, "feature_map": "hedgehog"}}}),
]


@pytest.mark.parametrize(
    ("mixer", "model"), [*FAST, *(pytest.param(*p, marks=pytest.mark.long) for p in LONG)]
)
def test_a_classifier_answers_as_the_run_does(tmp_path, mixer, model):
    run = classifier(tmp_path / "run", mixer, **model)
    run.task.way.calibration = Calibration(1.7, 1000)
    found = onnx(run, tmp_path / "out")
    about = json.loads((tmp_path / "out" / "about.json").read_text("utf-8"))
    assert about["temperature"] == 1.7
    assert about["outputs"].endswith("softmax(logits / temperature)")
    made = ["about.json", "labels.json", "model.onnx", "selftest.safetensors", "tokenizer.json"]
    assert found.files == made
    assert found.worst < 1e-4
    texts = ["x", "a longer text than that", "é" * 40, "y" * 150]
    logits = torch.from_numpy(classes(tmp_path / "out", texts, run))
    wanted = [list(a["probabilities"].values()) for a in run.predict(texts)]
    chances = (logits / about["temperature"]).softmax(-1)
    torch.testing.assert_close(chances, torch.tensor(wanted), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("mixers", "by_operator"),
    [
        # The states of linear attention stream beside a convolution's too.
        pytest.param(("linear", "linear"), False, marks=pytest.mark.long),
        (("convolution", "linear"), False),
        (("linear",), True),
        # The largest score so far does not begin at zero.
        (("fastformer", "masked_convolution"), False),
    ],
)
def test_a_causal_model_streams(tmp_path, mixers, by_operator):
    run = language(tmp_path / "run", mixers=mixers, layers=len(mixers))
    found = onnx(run, tmp_path / "out", by_operator=by_operator)
    graphs = ["prefill.onnx", "step.onnx"]
    data = ["selftest.safetensors", "start.safetensors", "tokenizer.json"]
    assert found.files == sorted(["about.json", *graphs, *data])
    operators = [node for g in graphs for node in nodes(tmp_path / "out" / g, "LinearAttention")]
    assert len(operators) == 2 * by_operator
    about = json.loads((tmp_path / "out" / "about.json").read_text("utf-8"))
    session = runtime.InferenceSession(tmp_path / "out" / "step.onnx")
    start = load_file(tmp_path / "out" / "start.safetensors")
    names = [i.name for i in session.get_inputs() if i.name.startswith("layers.")]
    states = {name: start[name] for name in names}
    kept = {"convolution": ["inputs"], "linear": ["s", "z"], "masked_convolution": ["inputs"]}
    kept |= {"fastformer": ["largest", "total", "weight"]}
    assert list(states) == [f"layers.{i}.{n}" for i, m in enumerate(mixers) for n in kept[m]]
    token, position, made = np.array([about["start"]]), np.zeros(1, np.int64), []
    for _ in range(12):
        outputs = session.run(None, {"tokens": token, "position": position, **states})
        token, position = outputs[0].argmax(-1), outputs[1]
        states = dict(zip(states, outputs[2:], strict=True))
        made.append(int(token[0]))
    tokens = [about["start"]]
    with torch.no_grad():
        for _ in range(12):
            tokens.append(int(run.model(torch.tensor([tokens]))[0, -1].argmax()))
    assert made == tokens[1:]


@pytest.mark.long
def test_a_window_streams_by_matrix_products_only(tmp_path):
    options = {"linear": {"window": 16, "feature_map": "t2r"}}
    run = language(tmp_path / "run", mixers=("linear",), layers=1, mixer_options=options)
    assert onnx(run, tmp_path / "out").worst < 1e-3
    start = load_file(tmp_path / "out" / "start.safetensors")
    assert {f"layers.0.{name}" for name in ("s", "z", "k", "v", "held")} == set(start)
    with pytest.raises(UsageError, match=r"LinearAttention has no window \(window=16\): omit it"):
        onnx(run, tmp_path / "other", by_operator=True)


def test_a_graph_that_computes_something_else_is_not_kept(tmp_path, monkeypatch):
    class Broken(graphs.Classes):
        def forward(self, tokens, mask):
            return super().forward(tokens, mask) * 1.001

    monkeypatch.setattr(exporting, "Classes", Broken)
    with pytest.raises(SubquadError, match=r"model.onnx differs from torch by"):
        onnx(classifier(tmp_path / "run", "none"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_torch_cannot_export_is_refused_in_one_line(tmp_path, monkeypatch):
    run = classifier(tmp_path / "run", "none")
    mixer = type(run.model.encoder.blocks[0].mixer)
    monkeypatch.setattr(mixer, "forward", lambda _, x, __=None: x.cummax(1).values)
    with pytest.raises(UsageError, match=r"torch cannot export model.onnx: .*cummax") as caught:
        onnx(run, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_what_cannot_become_a_graph_is_refused(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="states have a fixed size"):
        onnx(language(tmp_path / "run", mixers=("softmax",)), tmp_path / "out")
    (tmp_path / "there").mkdir()
    with pytest.raises(SubquadError, match="exists"):
        onnx(language(tmp_path / "run"), tmp_path / "there")
    with pytest.raises(UsageError, match="no layer that can use ONNX's operator LinearAttention"):
        onnx(language(tmp_path / "run", mixers=("none",)), tmp_path / "out", by_operator=True)
    monkeypatch.setattr(importlib.import_module("onnx").defs, "onnx_opset_version", lambda: 26)
    with pytest.raises(
        UsageError, match=r"onnx \S+ supports opsets up to 26, but LinearAttention needs 27"
    ):
        onnx(language(tmp_path / "run"), tmp_path / "out", by_operator=True)
    monkeypatch.setattr(exporting, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'subquad\[onnx\]'"):
        onnx(language(tmp_path / "run"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
