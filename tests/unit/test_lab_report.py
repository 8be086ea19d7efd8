"""The page: whole, self-contained, escaped."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from subquad.lab.compare.comparison import Comparison
from subquad.lab.compare.floors import BAG, MAJORITY, Floor
from subquad.lab.compare.report import render
from subquad.lab.compare.runs import Result
from subquad.lab.compare.verdict import Figure, judge
from subquad.lab.drawing.svg import series
from subquad.lab.instruments.layer import Measured, Point
from subquad.tasks import task_class

HOSTILE = "<script>alert('x')</script>"
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Balanced(HTMLParser):
    """Fails on a tag that is closed without having been opened."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def result(mixer, seed, accuracy):
    right = round(accuracy * 50)
    metrics = {
        "examples": 100,
        "accuracy": accuracy,
        "macro_f1": accuracy,
        "confusion": [[right, 50 - right], [50 - right, right]],
    }
    curve = [
        {"kind": "validation", "step": s, "seconds": s / 10, "accuracy": accuracy * s / 20}
        for s in (10, 20)
    ]
    return Result(
        mixer=mixer,
        seed=seed,
        held_out=metrics,
        test=None,
        curve=curve,
        parameters=1000,
        steps=20,
        seconds=2.0,
        seconds_per_step=0.1,
        rows_per_second=320.0,
        tokens_per_second=9000.0,
    )


def comparison(tmp_path, labels=("a", HOSTILE)):
    config = task_class("classify").defaults()
    config = replace(config, data=replace(config.data, path=HOSTILE))
    runs = [
        result(m, s, a - s / 100)
        for s in (0, 1)
        for m, a in (("softmax", 0.9), ("linear", 0.89), ("none", 0.6))
    ]
    bag = Floor(BAG, "counts words", {"examples": 100, "accuracy": 0.8, "macro_f1": 0.8}, None, 1.5)
    points = [
        Point(m, t, t**p * 1e-6, t**p * 1e-6, t**p * 2e-6, t * 1000)
        for m, p in (("softmax", 2), ("linear", 1), ("none", 1))
        for t in (64, 128, 256)
    ]
    machine = dict.fromkeys(
        ("processor", "cores", "threads", "accelerator", "system", "python", "torch"), "x"
    ) | {"subquad": "0", "commit": None, "precision": "fp32", "date": "today"}
    found = Comparison(
        out=tmp_path,
        config=config,
        test=None,
        figure=Figure("accuracy", True, 100, "held-out"),
        runs=tuple(runs),
        floors=((bag,), (bag,)),
        measured=Measured(tuple(points), 8, 8, 2, False, "fp32", 3, 1),
        verdict=None,
        machine=machine,
        command=f"subquad compare '{HOSTILE}'",
        labels=labels,
    )
    return replace(found, verdict=judge(found.candidates(), found.figure))


@pytest.fixture
def page(tmp_path):
    return render(comparison(tmp_path))


def test_what_a_person_typed_is_escaped(page):
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_nothing_is_loaded_from_anywhere(page):
    assert not re.findall(r"(?:https?:)?//[\w.]+", page)
    assert not re.findall(r"@import|@font-face|<link|<iframe|url\((?!#)", page)


def test_tags_are_balanced_and_pictures_described(page):
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    drawings = [attributes for tag, attributes in parser.seen if tag == "svg"]
    assert len(drawings) == 4
    assert all(a["role"] == "img" and len(a["aria-label"]) > 40 for a in drawings)
    assert all(a.get("scope") for tag, a in parser.seen if tag == "th")
    ids = [a["id"] for _, a in parser.seen if "id" in a]
    assert len(ids) == len(set(ids))


def test_text_in_drawings_is_text_in_the_page_s_colours(page):
    assert re.search(r"<text[^>]*>\s*linear\s*</text>", page)
    assert not re.search(r"#0[1-5]0[1-5]0", page)
    assert "font-family: 'DejaVu" not in page


def test_the_numbers_stand_in_the_table(page):
    flat = re.sub(r"<[^>]+>|\s+", " ", page)
    assert re.search(r"softmax.{0,60}89\.5 %\s+±\s+0\.7", flat)
    assert "bag of words" in flat
    assert "examples of the held-out set; mean ± standard deviation over 2 seeds" in flat
    assert "not a git checkout" in flat


def test_growth_is_printed_as_an_exponent(page):
    flat = re.sub(r"<[^>]+>|\s+", " ", page)
    assert re.search(r"2\.00\s+1\.00", flat)


def test_an_exponent_below_one_gets_a_remark(tmp_path):
    found = comparison(tmp_path)
    assert "Exponents below 1" not in render(found)
    flat = [Point("fnet", t, t**0.6 * 1e-6, 1e-6, 1e-6, t) for t in (64, 128, 256)]
    more = replace(found.measured, points=(*found.measured.points, *flat))
    assert "Exponents below 1 (time of fnet) do not hold" in render(replace(found, measured=more))


def test_every_cell_says_what_it_is_where_the_table_is_stacked(page):
    """On a narrow page, cells stand under each other and headings are not shown."""
    for table in re.findall(r'<table class="stack.*?</table>', page, flags=re.S):
        heads = re.findall(r'<th scope="col">(.*?)</th>', table)
        for row in re.findall(r"<tr.*?</tr>", table.partition("<tbody>")[2], flags=re.S):
            labels = re.findall(r'<td data-label="(.+?)">', row)
            assert len(labels) == row.count("<td") == len(heads) - 1
            assert all(a in b or b in a for a, b in zip(labels, heads[1:], strict=True))
    assert page.count('<table class="stack') == page.count("<table") - 1 == 3


def test_names_of_classes_stand_upright_only_if_they_are_short(tmp_path):
    assert 'class="confusion long"' in render(comparison(tmp_path))
    page = render(comparison(tmp_path, labels=("pro", "con")))
    assert 'class="confusion"' in page


def test_what_the_majority_is_of_is_said(tmp_path):
    found = comparison(tmp_path)
    (bag,), _ = found.floors
    assert "fitted to exactly the examples that the models were trained on." in render(found)
    floors = ((bag, replace(bag, name=MAJORITY)),) * 2
    assert "most frequent class among those examples" in render(replace(found, floors=floors))


def test_cautions_stand_below_the_verdict(tmp_path):
    found = comparison(tmp_path)
    assert 'class="caution"' not in render(found)
    warned = replace(found.verdict, cautions=("The budget was 1 epoch.",))
    assert '<p class="caution">The budget was 1 epoch.</p>' in render(
        replace(found, verdict=warned)
    )


def test_without_costs_there_is_no_section_about_them(tmp_path):
    page = render(replace(comparison(tmp_path), measured=None))
    assert "What longer rows cost" not in page


def test_many_classes_get_the_worst_ones_only(tmp_path):
    found = comparison(tmp_path, tuple(f"class {i}" for i in range(30)))
    table = [[4 if i == j else 0 for j in range(30)] for i in range(30)]
    table[7] = [4 if j == 8 else 0 for j in range(30)]
    runs = [replace(r, held_out=r.held_out | {"confusion": table}) for r in found.runs]
    page = render(replace(found, runs=tuple(runs)))
    assert 'class="confusion"' not in page
    assert "class 7 predicted as class 8 (8×)" in page


def test_a_mixer_keeps_its_colour():
    assert series(["softmax", "linear"])["linear"] == series(["linear"])["linear"]
    assert len(set(series(["linear", "new", "newer"]).values())) == 3
