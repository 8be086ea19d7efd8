"""The bench measures what it says, and its verdicts follow from the numbers."""

import json
import sys

import pytest

from subquad.kernels import status
from subquad.lab.bench import suite
from subquad.lab.bench.attention import forms, peak_memory
from subquad.lab.bench.report import crossover, save
from subquad.lab.bench.result import BenchResult, Row
from subquad.lab.bench.suite import BenchConfig, bench
from subquad.lab.bench.targets import targets
from subquad.lab.instruments.timing import Times

TINY = BenchConfig(
    lengths=(8, 16),
    long_lengths=(),
    step_lengths=(),
    fourier_shapes=((1, 8, 4),),
    batches=(2,),
    seconds=0.01,
    memory=False,
)


@pytest.fixture(scope="module")
def heard():
    return []


@pytest.fixture(scope="module")
def measured(heard):
    return bench(TINY, "subquad bench --out here", watch=heard.append)


def made(rows):
    return BenchResult({"lengths": (64, 128), "step_lengths": ()}, {}, rows, {}, {})


def forward(t, ratio):
    row = {"kind": "forward", "name": "native", "t": t, "seconds": 1.0, "base": "softmax"}
    return Row(**row, ratio=ratio, low=ratio, high=ratio, rounds=3)


def test_every_form_is_measured_both_ways(measured):
    found = {(r.kind, r.name) for r in measured.rows}
    for name in forms():
        assert ("forward", name) in found
        assert ("forward+backward", name) in found
    assert all(r.seconds > 0 for r in measured.rows)
    assert all((r.ratio, r.low, r.high) == (1, 1, 1) for r in measured.rows if r.name == r.base)
    assert measured.environment["command"] == "subquad bench --out here"


def test_a_ratio_is_the_base_s_time_over_its_own_and_in_a_training_step_the_reverse():
    times = Times({"none": [2.0, 8.0, 18.0], "linear": [1.0, 2.0, 3.0]})
    base, row = suite._rows("forward", 64, times, "none")
    assert (base.ratio, row.ratio, row.low, row.high) == (1, 4, 3, 5)
    assert (row.seconds, row.rounds, row.base, row.t) == (2.0, 3, "none", 64)
    _, row = suite._rows("training step", 64, times, "none", over=True)
    assert row.ratio == 1 / 4
    assert row.low < row.ratio < row.high


def test_a_line_is_said_for_every_comparison(measured, heard):
    lines = [progress.line for progress in heard]
    assert len(lines) == len({(r.kind, r.t) for r in measured.rows}) == suite._expected(TINY)
    assert lines[0].startswith("forward, 8: softmax ")
    spent = [progress.spent for progress in heard]
    assert spent == sorted(spent)
    assert spent[-1] == 1


@pytest.mark.skipif(not status().native, reason=f"no native core: {status().reason}")
def test_tokens_are_measured_every_way(measured):
    names = {r.name for r in measured.rows if r.kind == "eight tokens"}
    assert names == {"torch scan", "engine fp32", "engine bf16", "engine int8"}
    assert measured.numbers["token late over early"] > 0


def test_results_are_written_whole(measured, tmp_path):
    save(measured, tmp_path / "out")
    document = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert document["rows"][0]["kind"] == "forward"
    assert "<svg" in (tmp_path / "out" / "bench.svg").read_text()
    assert "crossover" in (tmp_path / "out" / "bench.txt").read_text()
    assert len(list((tmp_path / "out").iterdir())) == 3


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ((1.1, 2.0), "none: faster at every length"),
        ((0.9, 2.0), "faster from 128 tokens on"),
        ((0.9, 0.8), "not faster at any length"),
    ],
)
def test_the_crossover_follows_from_the_ratios(ratios, words):
    rows = [forward(t, ratio) for t, ratio in zip((64, 128), ratios, strict=True)]
    assert crossover(made(rows)).startswith(words)


def test_a_target_passes_only_if_it_was_measured_and_reached():
    by_text = {t.text: t for t in targets(made([forward(64, 1.0), forward(128, 0.99)]))}
    assert by_text["forward, 64, times softmax ≥ 1"].passed
    assert not by_text["forward, 128, times softmax ≥ 1"].passed
    missing = by_text["forward, 256, times softmax ≥ 1"]
    assert missing.found is None
    assert not missing.passed


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_memory_holds_at_least_the_outputs():
    form = "native" if status().native else "chunked"
    t = 2048
    tensor = 8 * t * 64 * 4
    assert 2 * tensor <= peak_memory(form, t, backward=True) < 60 * tensor
