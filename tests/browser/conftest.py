"""Pages to be tried: runs with random weights, sharp enough that tokens differ."""

import shutil
from dataclasses import replace

import pytest
import torch

from subquad.data.tokenizers import Tokenizer
from subquad.export import chromium
from subquad.export.web import web
from subquad.run import Run
from subquad.tasks import task_class
from subquad.tasks.language import Language
from subquad.tasks.pixels import Format, Pixels

SMALL = {"layers": 2, "d": 48, "heads": 3, "ff": 40, "dropout": 0.0}


def made(task, config, path, scale):
    torch.manual_seed(1)
    model = task.model().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(scale)
    return Run(path, config, task, model)


def language(path, kind="bytes", scale=6.0, length=64, texts=("a <b> & é 漢字 🦊",), **model):
    config = task_class("language").defaults()
    chosen = SMALL | {"positions": "sinusoidal"} | model
    config = replace(
        config, data=replace(config.data, length=length), model=replace(config.model, **chosen)
    )
    return made(Language(config, Tokenizer.train(kind, texts, 300)), config, path, scale)


def pixels(path, shape=(7, 5), levels=9, scale=6.0, **changes):
    config = task_class("pixels").defaults().having(**SMALL | changes)
    return made(Pixels(config, Format(shape, levels)), config, path, scale)


@pytest.fixture(scope="session")
def need_node():
    if shutil.which("node") is None:
        pytest.skip("NOT TESTED: node is not installed, so no page was run")


@pytest.fixture(scope="session")
def need_chromium():
    if chromium.find() is None:
        pytest.skip("NOT TESTED: no Chromium is installed, so no page was opened")


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        "bytes": language(folder / "bytes"),
        "chars": language(folder / "chars", "chars", norm="pre", tied=True),
        "learned": language(folder / "learned", positions="learned"),
        "grey": pixels(folder / "grey"),
        "colours": pixels(folder / "colours", shape=(4, 3, 3), positions="none"),
        "local": language(folder / "local", mixers=("convolution", "linear")),
        "mixture": pixels(folder / "mixture", mixture=3, levels=256),
    }


@pytest.fixture(scope="session")
def pages(runs, tmp_path_factory):
    """A page for each run, f32, so that it draws what the run draws."""
    folder = tmp_path_factory.mktemp("pages")
    for name, run in runs.items():
        web(run, folder / f"{name}.html", "f32")
    return {name: folder / f"{name}.html" for name in runs}
