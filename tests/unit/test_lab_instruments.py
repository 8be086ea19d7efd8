"""The timer and the memory meter, and what one layer costs by them: exact where the answer is
known."""

import sys
import time

import pytest
import torch
from torch import nn

from subquad.errors import UsageError
from subquad.lab.instruments import layer as measuring
from subquad.lab.instruments.layer import Measured, Point, measure
from subquad.lab.instruments.memory import allocated_peak, resident_peak
from subquad.lab.instruments.timing import Prepared, Times, in_turns, interleave
from subquad.models import ModelConfig

TINY = ModelConfig(d=8, heads=2, ff=8)


class Known(nn.Module):
    """Holds x + 1 (twice: forward keeps it), its square, and a gradient at the end."""

    def forward(self, x):
        y = x + 1
        return (y * y).exp()


def test_candidates_take_turns_after_a_warm_up():
    order = []
    found = interleave({name: lambda n=name: order.append(n) for name in "ab"}, seconds=0.0)
    assert "".join(order) == "ab" * 4
    assert {name: len(taken) for name, taken in found.rounds.items()} == {"a": 3, "b": 3}


def test_what_is_prepared_is_made_for_every_round_and_not_timed():
    made = []

    def make():
        made.append(time.sleep(0.05))
        return lambda: None

    taken = in_turns({"a": Prepared(make)}, rounds=3).rounds["a"]
    assert len(made) == 3
    assert max(taken) < 0.05


def test_ratios_are_taken_round_by_round():
    times = Times({"slow": [2.0, 20.0, 6.0], "fast": [1.0, 10.0, 2.0]})
    assert times.ratio("slow", "fast")[0] == 2.0


def kept(count):
    """A call that holds so many numbers until it ends."""
    x = torch.ones(count)
    return lambda: x.add(1).sum()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_resident_peak_is_that_of_the_call_alone():
    count = 1 << 24
    found = resident_peak(kept, (8,), (count,))
    assert 4 * count * 0.98 < found < 4 * count * 1.3


def test_peak_memory_is_counted_from_allocations():
    x = torch.randn(1, 1000, 256, requires_grad=True)
    row = 1000 * 256 * 4
    assert allocated_peak(Known(), x) / row == pytest.approx(4, abs=0.01)


def test_peak_memory_says_the_same_twice_and_says_nothing(capfd):
    layer, x = nn.Linear(16, 16), torch.randn(1, 64, 16, requires_grad=True)
    allocated_peak(layer, x)
    assert allocated_peak(layer, x) == allocated_peak(layer, x) > 0
    assert capfd.readouterr() == ("", "")


def test_every_mixer_at_every_length():
    found = measure(["linear", "none"], TINY, lengths=(256, 512), rounds=2)
    assert [(p.length, p.mixer) for p in found.points] == [
        (256, "linear"),
        (256, "none"),
        (512, "linear"),
        (512, "none"),
    ]
    assert all(0 < p.fastest <= p.seconds <= p.slowest for p in found.points)
    assert found.to_dict()["slopes"]["linear"]["memory"] == pytest.approx(1, abs=0.2)


def test_a_mixer_that_is_too_slow_drops_out_and_no_other():
    found = measure(["linear", "none"], TINY, lengths=(16, 32), rounds=1, budget=0.0)
    assert found.points == ()


def test_a_mixer_whose_first_use_alone_is_slow_stays(monkeypatch):
    usual, seen = measuring.seconds_of, set()

    def loading(run):
        fresh = id(run) not in seen
        seen.add(id(run))
        return 60.0 if fresh else usual(run)

    monkeypatch.setattr(measuring, "seconds_of", loading)
    found = measure(["linear", "none"], TINY, lengths=(64,), rounds=2)
    assert [p.mixer for p in found.points] == ["linear", "none"]


def test_slopes_are_exponents():
    points = [
        Point(name, t, t**power * 1e-6, 1.0, 1.0, t)
        for name, power in (("a", 1), ("b", 2))
        for t in (64, 128, 256, 512)
    ]
    found = Measured(tuple(points), 8, 8, 2, False, "fp32", 1, 1)
    assert found.slope("a") == pytest.approx(1)
    assert found.slope("b") == pytest.approx(2)
    assert found.slope("absent") is None


def test_unknown_mixers_and_lengths_are_refused():
    with pytest.raises(UsageError, match="'liner' is not one of"):
        measure(["liner"], TINY, lengths=(16,))
    with pytest.raises(UsageError, match="at least 1"):
        measure(["linear"], TINY, lengths=(0,))
