"""Temperature scaling: what is fitted, what it leaves alone, and where it is told."""

import csv
import json
import math
import random

import numpy as np
import pytest
import torch

from subquad.cli import run as command
from subquad.cli.flags import configure
from subquad.data.label_sets import LabelSets
from subquad.data.labels import Labels
from subquad.errors import SubquadError
from subquad.run import load
from subquad.tasks.calibration import FILE, LEAST, Calibration, calibrated, calibration_error
from subquad.tasks.one_label import OneLabel
from subquad.tasks.several_labels import SeveralLabels
from subquad.training import train

NAMES = Labels(("a", "b", "c"))
SMALL = {"layers": 1, "d": 16, "heads": 2, "ff": 16, "mixers": "none", "precision": "fp32"}
SMALL |= {"steps": 60, "batch": 16, "evaluations": 2, "length": 16, "lr": 0.02}


def drawn(kind, temperature, rows=20_000):
    """(a way, truth, logits): the truth is drawn from the logits divided by ``temperature``."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, 3, generator=draw) * 3
    if kind == "one":
        chances = (logits / temperature).softmax(-1)
        return OneLabel(NAMES), torch.multinomial(chances, 1, generator=draw)[:, 0], logits
    truth = torch.rand(rows, 3, generator=draw) < (logits / temperature).sigmoid()
    return SeveralLabels(LabelSets(NAMES)), truth, logits


def pairs(truth, logits, size=64):
    return zip(truth.split(size), logits.split(size), strict=True)


@pytest.mark.parametrize("kind", ["one", "several"])
@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_a_known_temperature_is_found(kind, temperature):
    way, truth, logits = drawn(kind, temperature)
    found = calibrated(way, pairs(truth, logits))
    assert found.temperature == pytest.approx(temperature, rel=0.05)
    assert found.rows == len(truth)
    assert found.nll_after < found.nll_before or found.temperature == 1
    assert found.ece_after < 0.01
    if temperature != 1:
        assert found.ece_before > 5 * found.ece_after
    near = [calibrated_nll(way, truth, logits, found.temperature * f) for f in (0.99, 1.01)]
    assert min(near) > found.nll_after


def calibrated_nll(way, truth, logits, temperature):
    return float(way.loss(logits.double() / temperature, truth, None, 0.0)) / len(truth)


@pytest.mark.parametrize("kind", ["one", "several"])
@pytest.mark.parametrize("rows", [LEAST, LEAST + 1, 300])
@pytest.mark.parametrize("temperature", [0.9, 1.1, 50.0])
def test_the_held_out_likelihood_never_gets_worse(kind, rows, temperature):
    way, truth, logits = drawn(kind, temperature, rows)
    found = calibrated(way, pairs(truth, logits))
    assert found.nll_after <= found.nll_before
    assert 0.05 <= found.temperature <= 20


@pytest.mark.parametrize("kind", ["one", "several"])
def test_too_few_rows_and_none(kind):
    way, truth, logits = drawn(kind, 3.0, LEAST - 1)
    found = calibrated(way, pairs(truth, logits))
    assert (found.temperature, found.rows) == (1.0, LEAST - 1)
    assert found.nll_after == found.nll_before
    assert f"{LEAST - 1} rows are held out" in found.sentence()
    assert calibrated(way, iter(())) == Calibration()
    assert "0 rows are held out" in Calibration().sentence()


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_where_all_answers_are_right_no_probability_becomes_one(size):
    truth = torch.arange(300) % 3
    logits = torch.nn.functional.one_hot(truth, 3).float() * size
    found = calibrated(OneLabel(NAMES), pairs(truth, logits))
    assert found.temperature == 1
    assert "no temperature minimises" in found.sentence()


def test_the_calibration_error_by_a_loop_over_the_bins():
    draw = np.random.default_rng(0)
    for p in (draw.random(500), np.array([0.0, 1.0, 1 / 15, 2 / 15, 0.5])):
        right = draw.random(len(p)) < p**2
        expected = 0.0
        for low in range(15):
            within = [i for i, x in enumerate(p) if low / 15 < x <= (low + 1) / 15]
            within += [i for i, x in enumerate(p) if x == 0] if low == 0 else []
            if within:
                accuracy = sum(bool(right[i]) for i in within) / len(within)
                confidence = sum(p[i] for i in within) / len(within)
                expected += len(within) / len(p) * abs(accuracy - confidence)
        assert calibration_error(p, right) == pytest.approx(expected)
    at_an_edge = calibration_error(np.array([0.2, 0.21]), np.array([False, True]))
    assert at_an_edge == pytest.approx((0.2 + 0.79) / 2), "3/15 ends a bin"


def test_batches_make_no_difference():
    way, truth, logits = drawn("one", 2.0, 500)
    whole, cut = (calibrated(way, pairs(truth, logits, size)) for size in (500, 7))
    assert whole == cut


@pytest.mark.parametrize("kind", ["one", "several"])
@pytest.mark.parametrize("temperature", [0.2, 0.77, 1.3, 6.0])
def test_what_is_told_stays(kind, temperature):
    way, truth, logits = drawn(kind, 1.0, 2000)
    model = torch.nn.Module()
    way.prepare(model)
    if kind == "several":
        model.threshold.fill_(0.37)
    told = [a.get("label", a.get("labels")) for a in way.answers(model, logits)]
    before = way.evaluate(model, pairs(truth, logits), learning=False)
    way.calibration = Calibration(temperature, 2000)
    answers = way.answers(model, logits)
    after = way.evaluate(model, pairs(truth, logits), learning=False)
    assert [a.get("label", a.get("labels")) for a in answers] == told
    moved = {name for name in after if after[name] != before[name]}
    assert moved == {"ece"} | ({"threshold"} if kind == "several" else set())
    scaled = logits / temperature
    wanted = scaled.softmax(-1) if kind == "one" else scaled.sigmoid()
    chances = torch.tensor([list(a["probabilities"].values()) for a in answers])
    torch.testing.assert_close(chances, wanted)
    if kind == "several":
        for answer in answers:
            reached = {n for n, p in answer["probabilities"].items() if p >= after["threshold"]}
            assert set(answer["labels"]) == reached
        assert way.about(model)["threshold"] == after["threshold"]
    assert way.about(model)["temperature"] == temperature


WORDS = {"sport": ["match", "goal", "team"], "money": ["bank", "loan", "price"]}


def table(path, several, rows=900, seed=0):
    """Texts whose labels are wrong now and then, so that a temperature can be fitted."""
    draw = random.Random(seed)
    lines = ["text,label"]
    for _ in range(rows):
        name = draw.choice(list(WORDS))
        words = [draw.choice(WORDS[name]) for _ in range(3)]
        label = name if draw.random() < 0.8 else draw.choice(list(WORDS))
        more = ";".join(WORDS) if several and draw.random() < 0.2 else label
        lines.append(f"{' '.join(words)},{more}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module", params=[False, True], ids=["one", "several"])
def trained(tmp_path_factory, request):
    folder, said = tmp_path_factory.mktemp("calibrated"), []
    more = {"labels_separator": ";"} if request.param else {}
    data = table(folder / "a.csv", request.param)
    config = configure("classify", data, SMALL | more | {"validation": 0.2})
    run = train(config, folder / "run", watch=lambda line, _: said.append(line))
    return run, said, folder, request.param


def test_a_run_keeps_its_temperature(trained):
    run, said, folder, several = trained
    found = Calibration.load(run.path)
    assert found == run.task.way.calibration
    assert found.rows == 180
    assert found.temperature != 1
    assert found.nll_after < found.nll_before
    assert said[-1] == {"kind": "note", "text": found.sentence()}
    card = (run.path / "README.md").read_text()
    assert f"T = {found.temperature:.3f}, expected calibration error {found.ece_before:.4f}" in card
    again = load(run.path)
    assert again.task.way.temperature == found.temperature
    assert not [line for line in said if "ece" in line], "training has no calibrated probabilities"
    measured = again.evaluate(table(folder / "b.csv", several, seed=1))
    assert 0 <= measured["ece"] < 0.2
    assert (found.nll_before, found.temperature) == (
        pytest.approx(run.best()["loss"], rel=1e-4),
        pytest.approx(found.temperature),
    )
    resumed = train(run.config, run.path, resume=True)
    assert Calibration.load(run.path) == found == resumed.task.way.calibration


def test_every_way_of_asking_gives_calibrated_probabilities(trained, tmp_path, capsys):
    run, _, folder, several = trained
    texts = ["match goal team", "bank loan", "match bank", "nothing known"]
    batch = run.task.batch(run.model, texts)
    with torch.inference_mode():
        scaled = run.task.outputs(run.model, batch) / run.task.way.temperature
    wanted = scaled.sigmoid() if several else scaled.softmax(-1)
    found = [list(a["probabilities"].values()) for a in run.predict(texts)]
    torch.testing.assert_close(torch.tensor(found), wanted)
    (tmp_path / "t.txt").write_text("\n".join(texts) + "\n")
    asked = ["predict", str(run.path), str(tmp_path / "t.txt"), "--format", "lines", "--to", "csv"]
    assert command(asked) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    column = "p(money)" if several else "probability"
    for row, chances in zip(rows, wanted, strict=True):
        expected = chances[0] if several else chances.max()
        assert float(row[column]) == pytest.approx(float(expected), rel=1e-4)
    errors = tmp_path / "e.jsonl"
    data = str(folder / "a.csv")
    assert command(["evaluate", str(run.path), data, "--errors", str(errors), "--json"]) == 0
    assert "ece" in json.loads(capsys.readouterr().out)
    wrong = json.loads(errors.read_text().splitlines()[0])
    (answer,) = run.predict([wrong["text"]])
    if not several:
        assert wrong["probability"] == answer["probabilities"][wrong["guess"]]


def test_a_run_without_one_has_temperature_1(trained, tmp_path):
    run, _, _, several = trained
    path = run.path / FILE
    text = path.read_text()
    try:
        path.unlink()
        old = load(run.path)
        assert (old.task.way.temperature, old.task.remarks()) == (1.0, ())
        logits = old.task.outputs(old.model, old.task.batch(old.model, ["match bank"]))
        wanted = logits.sigmoid() if several else logits.softmax(-1)
        (answer,) = old.predict(["match bank"])
        assert list(answer["probabilities"].values()) == pytest.approx(wanted[0].tolist())
        for bad in (
            "",
            "[]",
            "{}x",
            '{"temperature": 0}',
            '{"temperature": NaN}',
            '{"temperature": "2"}',
            '{"t": 1}',
        ):
            path.write_text(bad)
            with pytest.raises(SubquadError, match="is not a calibration"):
                load(run.path)
    finally:
        path.write_text(text)
    start = SMALL | {"start": str(run.path), "steps": 1}
    start = {n: v for n, v in start.items() if n in ("start", "steps", "precision", "length")}
    more = {"labels_separator": ";"} if several else {}
    config = configure("classify", table(tmp_path / "few.csv", several, 200), start | more)
    new = train(config, tmp_path / "new")
    assert new.task.way.temperature == 1, "another run's temperature is not its own"
    assert not math.isclose(run.task.way.temperature, 1)
    assert new.task.way.calibration.rows == 20


def test_digits_have_one_too(tmp_path):
    flags = SMALL | {"steps": 5}
    del flags["length"]
    run = train(configure("classify", "digits", flags), tmp_path / "run")
    assert Calibration.load(run.path).rows >= LEAST
    assert "ece" in run.evaluate("digits")
    assert "ece" not in run.best()


def test_no_other_task_keeps_a_temperature(tmp_path):
    (tmp_path / "n.csv").write_text("text,y\n" + "".join(f"a {i},{i}\n" for i in range(60)))
    config = configure("regress", str(tmp_path / "n.csv"), SMALL | {"steps": 2})
    run = train(config, tmp_path / "run")
    assert not (run.path / FILE).exists()
    assert run.task.remarks() == ()
