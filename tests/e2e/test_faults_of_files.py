"""What is written can be read by those whom the umask allows; what is no number is not used."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from subquad.errors import SubquadError
from subquad.models import huggingface
from tests.e2e.conftest import TINY, csv, train

LETTERS = ["--tokenizer", "chars", "--mixer", "linear", "--length", "32"]


@pytest.fixture
def writer(cli):
    Path("b.txt").write_text("abcd " * 200)
    flags = ["--task", "language", "--out", "writer", *LETTERS, *TINY, "--steps", "2"]
    assert cli("train", "b.txt", *flags)[0] == 0


@pytest.mark.usefixtures("writer")
def test_every_file_that_a_verb_writes_is_by_the_umask(cli, tmp_path):
    before = os.umask(0o027)
    try:
        csv("a.csv")
        assert train(cli, "a.csv", "run", "--mixer", "fnet")[0] == 0
        pixels = ["--task", "pixels", "--out", "pixels", *TINY, "--steps", "1"]
        assert cli("train", "digits", *pixels)[0] == 0
        for arguments in (
            ["generate", "writer", "--length", "4", "--save-state", "state", "--out", "t.txt"],
            ["generate", "pixels", "--samples", "1", "--out", "drawn.png"],
            ["export", "run", "--to", "web", "--out", "page.html"],
            ["export", "run", "--to", "onnx", "--out", "onnx"],
            ["inspect", "run", "goal match", "--out", "seen"],
        ):
            code, _, err = cli(*arguments)
            assert code == 0, err
        exchanged = huggingface.load(_fnet(tmp_path / "theirs"))
        huggingface.save(exchanged, tmp_path / "hub")
    finally:
        os.umask(before)
    given = {"b.txt", "writer", "theirs"}
    found = [p for p in tmp_path.rglob("*") if p.relative_to(tmp_path).parts[0] not in given]
    assert {"run", "pixels", "onnx", "seen", "hub", "state"} <= {p.name for p in found}
    wrong = {str(p): oct(p.stat().st_mode & 0o777) for p in found if p.is_file()}
    assert {p: mode for p, mode in wrong.items() if mode != "0o640"} == {}
    assert {p.stat().st_mode & 0o777 for p in found if p.is_dir()} == {0o750}


def _fnet(folder):
    """A folder as transformers' FNet has it."""
    from transformers import FNetConfig, FNetModel

    config = FNetConfig(vocab_size=20, hidden_size=16, num_hidden_layers=1, intermediate_size=16)
    FNetModel(config).save_pretrained(folder)
    return folder


def poisoned(path):
    """One value of the file's largest tensor is NaN; its header stays."""
    with safe_open(path, framework="pt") as file:
        about = file.metadata()
    tensors = load_file(path)
    name = max(
        (n for n, t in tensors.items() if t.is_floating_point()), key=lambda n: tensors[n].numel()
    )
    tensors[name].view(-1)[0] = torch.nan
    save_file(tensors, path, metadata=about)


@pytest.mark.usefixtures("writer")
def test_weights_that_are_no_numbers_are_refused_wherever_they_are_read(cli, tmp_path):
    csv("a.csv")
    assert train(cli, "a.csv")[0] == 0
    assert cli("generate", "writer", "--length", "4", "--save-state", "state")[0] == 0
    newest = max(Path("run/checkpoints").iterdir())
    poisoned("state")
    poisoned(newest / "optimizer.safetensors")
    flags = ["--task", "classify", *TINY]
    resumed = ["train", "a.csv", "--out", "run", *flags, "--steps", "6", "--resume"]
    asked = [
        ["generate", "writer", "--state", "state"],
        resumed,
    ]
    for arguments in asked:
        refused(cli(*arguments))
    poisoned("run/model.safetensors")
    poisoned("writer/model.safetensors")
    poisoned(newest / "model.safetensors")
    for arguments in (
        ["predict", "run", "a.csv"],
        ["evaluate", "run", "a.csv", "--json"],
        ["inspect", "run", "goal"],
        ["export", "run", "--to", "web", "--out", "page.html"],
        ["export", "run", "--to", "onnx", "--out", "onnx"],
        ["generate", "writer"],
        ["train", "a.csv", "--out", "new", "--from", "run", *flags],
        resumed,
    ):
        refused(cli(*arguments))
    assert not Path("new").exists()
    poisoned(_fnet(tmp_path / "theirs") / "model.safetensors")
    with pytest.raises(SubquadError, match="not finite numbers"):
        huggingface.load(tmp_path / "theirs")


def refused(done):
    code, out, err = done
    assert code == 1
    assert out == ""
    assert "not finite numbers (NaN or infinity)" in err.splitlines()[-1]


def test_misspelt_options_and_those_of_other_programs(cli):
    csv("a.csv")
    code, _, err = cli("train", "a.csv", "--task", "classify", "--out", "run", "--lenght", "64")
    assert code == 2
    assert "Did you mean --length" in err
    for verb in ("train", "evaluate", "predict", "generate"):
        code, _, err = cli(verb, "a.csv", "--device", "cuda")
        assert code == 2
        assert "A CUDA device is used if there is one, otherwise the CPU" in err
    assert cli("info", "--json")[0] == 0
    assert "device" in json.loads(cli("info", "--json")[1])
