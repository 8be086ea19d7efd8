"""The frame that all recipes share: what they write, what they refuse."""

import json
import sys
import types

import pytest

from subquad.errors import UsageError
from subquad.lab import recipes
from subquad.lab.recipes import Entry, Job, Outcome, Picture, Table, run


@pytest.fixture
def toy(monkeypatch):
    """A recipe that measures nothing."""
    module = types.ModuleType("toy_recipe")
    module.recipe = lambda job: Outcome(
        headline="<b>headline",
        lead=["It follows."],
        tables=[Table("A table", ["method", "figure"], [["ours", "1.0"], ["paper", "2.0"]])],
        results={"figure": 1.0, "data": list(job.data)},
        pictures=[Picture("noise", png=b"\x89PNG", alt='a "picture"')],
        distance=["The paper's own settings."],
        settings={"d": 8},
    )
    monkeypatch.setitem(sys.modules, "toy_recipe", module)
    entry = Entry("toy_recipe:recipe", "A toy.", "nobody", "nothing")
    monkeypatch.setitem(recipes.RECIPES, "toy", entry)


@pytest.mark.usefixtures("toy")
def test_a_recipe_writes_its_report_and_its_numbers(tmp_path):
    made = run("toy", Job(tmp_path / "out", ("a.csv",)), "subquad recipe toy a.csv")
    page = made.report.read_text(encoding="utf-8")
    assert "&lt;b&gt;headline" in page
    assert 'alt="a &#34;picture&#34;"' in page
    document = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))
    assert document["results"] == {"figure": 1.0, "data": ["a.csv"]}
    assert document["command"] == "subquad recipe toy a.csv"
    assert document["machine"]["torch"]


@pytest.mark.usefixtures("toy")
def test_a_file_in_the_way_is_refused_before_work(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UsageError, match="is a file; a recipe needs a directory"):
        run("toy", Job(tmp_path / "out"), "")


@pytest.mark.usefixtures("toy")
def test_an_unknown_recipe_lists_the_known(tmp_path):
    with pytest.raises(UsageError, match=r"no recipe 'nope'; choose one of .*toy"):
        run("nope", Job(tmp_path / "out"), "")
