"""Runs and saved states made by version 0.1 (``tests/made_by_0_1``) load and answer as they did."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import subquad
from subquad.cli import run as command
from subquad.generation import Request, Sampling, Saved, images, write

HERE = Path(__file__).parent / "made_by_0_1"
EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text("utf-8"))
TEXTS = ["the bank won the match", "awful loan, é 好"]
FILES = {"digits": "digits", "waves": "digits", "mixture": "digits"} | dict.fromkeys(
    ("bytes", "chars", "words", "masked"), "book.txt"
)
GREEDY = Sampling(temperature=0.0)


@pytest.fixture(autouse=True)
def _from_there(monkeypatch) -> None:
    monkeypatch.chdir(HERE)


def near(found: Any, expected: Any) -> None:
    """Equal, numbers to the rounding of another processor's kernels; new keys may be there."""
    if isinstance(expected, dict):
        for key in expected:
            near(found[key], expected[key])
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    else:
        assert found == expected


@pytest.mark.parametrize("name", EXPECTED)
def test_it_scores_as_it_did(name: str) -> None:
    near(subquad.load(name).evaluate(FILES.get(name, "rows.csv")), EXPECTED[name]["evaluate"])


@pytest.mark.parametrize("name", ["texts", "released", "numbers"])
def test_it_predicts_as_it_did(name: str) -> None:
    for found, expected in zip(
        subquad.load(name).predict(TEXTS), EXPECTED[name]["predict"], strict=True
    ):
        near(found, expected)


@pytest.mark.parametrize("name", ["bytes", "chars", "words"])
def test_it_writes_as_it_did(name: str) -> None:
    made = write(subquad.load(name), Request(prompts=["the bank"], length=12), GREEDY)
    assert made.texts[0].text == EXPECTED[name]["generate"]


@pytest.mark.parametrize("name", ["bytes", "chars", "words"])
def test_its_saved_state_goes_on(name: str) -> None:
    state = Saved.load(Path(f"{name}.state"))
    made = write(subquad.load(name), Request(prompts=[""], length=12, state=state), GREEDY)
    assert made.texts[0].text == EXPECTED[name]["continued"]


@pytest.mark.parametrize("name", ["waves", "mixture"])
def test_it_draws_as_it_did(name: str) -> None:
    made = images(subquad.load(name), 1, GREEDY)
    assert made.pixels.ravel().tolist() == EXPECTED[name]["drawn"]


def test_a_run_that_was_broken_off_is_resumed(tmp_path: Path, monkeypatch) -> None:
    shutil.copytree(HERE, tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    flags = "--task language --steps 24 --evaluations 2 --layers 1 --d 16 --ff 16 --heads 2"
    flags += " --seed 3 --precision fp32 --keep 3 --length 32 --mixer linear --tokenizer chars"
    assert not command(["train", "book.txt", "--out", "broken_off", "--resume", *flags.split()])
    resumed = load_file("broken_off/model.safetensors")
    for tensor, expected in load_file("broken_off/unbroken.safetensors").items():
        torch.testing.assert_close(resumed[tensor], expected, rtol=1e-3, atol=1e-4)
