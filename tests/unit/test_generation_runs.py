"""``subquad.generate``: a run generates in one call, or says why not."""

from pathlib import Path

import numpy as np
import pytest

import subquad
from subquad.errors import UsageError
from subquad.generation import Request, Sampling, images, write

MADE = Path(__file__).parent.parent / "made_by_0_1"


@pytest.fixture(scope="module")
def runs():
    return {name: subquad.load(MADE / name) for name in ("chars", "waves", "texts")}


def test_texts_are_those_of_write(runs):
    made = subquad.generate(
        runs["chars"], "the bank", length=9, samples=2, seed=3, temperature=0.5, stop=["zz"]
    )
    request = Request(prompts=["the bank"], length=9, samples=2, stop=["zz"])
    written = write(runs["chars"], request, Sampling(seed=3, temperature=0.5))
    assert made == [text.text for text in written.texts]
    assert all(text.startswith("the bank") for text in made)
    assert made[0] != made[1]


def test_several_prompts_and_none(runs):
    made = subquad.generate(runs["chars"], ("the", "a"), length=5, temperature=0.0)
    assert [text[:1] for text in made] == ["t", "a"]
    assert len(subquad.generate(runs["chars"], length=5)) == 1


def test_images_are_those_of_images(runs):
    made = subquad.generate(runs["waves"], samples=2, seed=4)
    np.testing.assert_array_equal(made, images(runs["waves"], 2, Sampling(seed=4)).pixels)
    completed = subquad.generate(runs["waves"], given=made, keep=0.5, samples=3, seed=5)
    assert completed.shape == (6, 8, 8)
    np.testing.assert_array_equal(completed[::3, :4], made[:, :4])


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("texts", {}, "classify cannot generate; use: subquad predict RUN FILE"),
        ("waves", {"prompt": "a"}, "prompt is for texts"),
        ("waves", {"length": 3}, "length is not an option of generate for .* generates images"),
        ("chars", {"keep": 0.5}, "keep is not an option of generate for .* generates texts"),
        ("chars", {"temprature": 0.5}, "temprature is not an option .* temperature"),
        ("chars", {"temperature": -1.0}, "temperature=-1.0 must be"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_line(runs, name, options, why):
    with pytest.raises(UsageError, match=why) as refused:
        subquad.generate(runs[name], **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", sorted(p.parent.name for p in MADE.glob("*/model.safetensors")))
def test_every_run_generates_or_names_predict(name):
    run = subquad.load(MADE / name)
    if run.task.causal:
        assert len(subquad.generate(run, samples=1)) == 1
    else:
        with pytest.raises(
            UsageError, match=r"cannot generate; use: subquad (predict RUN|train FILE)"
        ):
            subquad.generate(run)
