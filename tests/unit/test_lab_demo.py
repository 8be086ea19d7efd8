"""The demo, tiny: everything is there, and nothing is claimed that was not measured."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from subquad.generation import Sampling, images
from subquad.lab.compare.floors import matrix
from subquad.lab.demo.page import NEXT, picture
from subquad.lab.demo.recognise import recognise
from subquad.lab.demo.stages import MIXERS, Settings, compare_config, demo, pixel_config
from subquad.lab.instruments.generation import CACHED, RECOMPUTED, RECURRENT, generation_speed
from subquad.models import ModelConfig
from subquad.tasks import task_class
from subquad.training import train

TINY = Settings(
    epochs=0.01, seeds=1, pixel_epochs=0.01, lengths=(16, 32), speeds=((8, 2, 1), (12, 1, 1))
)


@pytest.fixture(scope="module")
def rows():
    config = task_class("classify").defaults()
    _, training, held_out = task_class("classify").fit(
        replace(config, data=replace(config.data, path="digits")),
        Path("store"),
    )
    return training, held_out


@pytest.fixture(scope="module")
def heard():
    return []


@pytest.fixture(scope="module")
def made(tmp_path_factory, heard):
    out = tmp_path_factory.mktemp("demo") / "out"
    return demo(out, settings=TINY, watch=heard.append)


@pytest.mark.usefixtures("made")
def test_a_line_is_said_for_every_stage(heard):
    lines = [progress.line for progress in heard if progress.line]
    for said in ("pixel model: ", *(f"{m}, seed 0: " for m in MIXERS), "images of 8 "):
        assert sum(said in line for line in lines) == 1, said
    spent = [progress.spent for progress in heard]
    assert spent == sorted(spent)
    assert spent[-1] == 1


def test_one_report_tells_the_story(made):
    page = made.report.read_text()
    assert [p.name for p in made.out.rglob("*.html")] == ["report.html"]
    assert page.count("data:image/png;base64,") == 2
    assert all(command in page for command in NEXT)
    assert all(f">{mixer}<" in page for mixer in MIXERS)
    assert "317×" in page
    assert "19×" in page
    assert "temperature 0.7" in page
    assert not re.findall(r"(?:https?:)?//\w[\w.]+\.\w+", re.sub(r"base64,[^\"]+", "", page))
    assert re.search(r"images whose pixels are sampled independently", page)


def test_the_numbers_are_in_the_results(made):
    results = json.loads(made.results.read_text())
    assert {r["mixer"] for r in results["comparison"]["runs"]} == set(MIXERS)
    assert results["drawing"]["recognition"]["samples"] == 64
    assert len(results["generation"]) == 6
    assert results["machine"]["torch"]


def test_a_finished_demo_is_used_again(made, monkeypatch):
    from subquad.lab.compare import runs

    monkeypatch.setattr(runs, "train", None)
    again = demo(made.out, settings=TINY)
    assert again.comparison.runs == made.comparison.runs
    np.testing.assert_array_equal(again.drawing.pixels, made.drawing.pixels)


def test_the_contest_holds_a_quarter_out():
    config = compare_config(Settings())
    assert config.data.validation == 0.25
    config.model.check(causal=False)


def test_real_digits_are_recognised_and_structureless_images_less(rows):
    training, held_out = rows
    judged = recognise(matrix(held_out), training, held_out)
    assert judged.accuracy > 0.95
    assert judged.recognised == judged.real > 0.9
    assert judged.noise < 0.5
    assert judged.classes == 10
    assert judged.nearest == judged.nearest_real


def test_copies_of_training_digits_are_counted(rows):
    training, held_out = rows
    images = np.concatenate([matrix(training)[:3], matrix(held_out)[:2] * 0 + 16])
    judged = recognise(images, training, held_out)
    assert judged.copies == 3
    assert judged.samples == 5


def test_generation_is_timed_three_ways_and_only_the_cache_grows():
    config = ModelConfig(layers=1, d=8, heads=2, ff=8)
    short, long = (
        {s.method: s for s in generation_speed(config, levels=3, length=n, batch=2, rounds=1)}
        for n in (8, 80)
    )
    assert short.keys() == {RECURRENT, CACHED, RECOMPUTED}
    assert short[RECURRENT].state_bytes == long[RECURRENT].state_bytes > 0
    assert long[CACHED].state_bytes > 5 * short[CACHED].state_bytes
    assert long[RECOMPUTED].sampled
    assert not short[RECOMPUTED].sampled
    assert all(s.slowest <= s.median <= s.fastest for s in long.values())


def test_pictures_keep_every_pixel():
    import base64
    import io

    from PIL import Image

    images = np.arange(2 * 64).reshape(2, 8, 8) % 17
    uri = picture(images, columns=2)
    sheet = Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))
    alpha = np.asarray(sheet.convert("RGBA"))[::6, ::6, 3]
    assert alpha.shape == (8, 18)
    np.testing.assert_array_equal(alpha[:, 10:], images[1] * 255 // 16)


@pytest.mark.long
def test_digits_drawn_after_a_reduced_training_are_recognised(tmp_path, rows):
    """Half the training of the demo; its figure for the whole is in ``results/``."""
    run = train(pixel_config(Settings(pixel_epochs=12)), tmp_path / "pixels")
    drawn = images(run, 256, Sampling(temperature=Settings().temperature)).pixels
    judged = recognise(drawn.reshape(256, -1), *rows)
    assert judged.recognised >= 0.6
    assert judged.classes >= 8
    assert judged.copies == 0
