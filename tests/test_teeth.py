"""Each check, seen to fail: a mixer is broken in one way, and the check named for that must notice
and say what is wrong. The check passes on the sound mixer and fails on the broken one."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.autograd.gradcheck import GradcheckError

from tests import broken as b
from tests import checks
from tests.cases import Case, Make
from tests.reference import dense as paper_dense
from tests.reference import fastformer as paper_fastformer
from tests.reference import fnet as paper_fnet
from tests.reference import linear as paper_linear
from tests.reference import softmax as paper_softmax

F64, BF16 = torch.float64, torch.bfloat16
CAUSAL_LINEAR, LINEAR = Case("linear", True), Case("linear", False)
CAUSAL_SOFTMAX, SOFTMAX = Case("softmax", True), Case("softmax", False)
DENSE, RANDOM = Case("dense", False), Case("random", False)
FNET, FASTFORMER = Case("fnet", False), Case("fastformer", False)
CAUSAL_FASTFORMER = Case("fastformer", True)


@dataclass(frozen=True)
class Broken:
    """A fault: the sound mixer, the class that has it, the check that must fail and its words."""

    sound: Case
    cls: Any
    check: Callable[[Make], None]
    says: str
    dtype: torch.dtype = F64

    def __call__(self):
        torch.manual_seed(0)
        return self.cls(8, **self.sound.options).to(self.dtype)

    def __str__(self) -> str:
        check = getattr(self.check, "func", self.check)
        fault = getattr(self.cls, "fault", None) or self.cls.__name__
        return f"{fault} -> {check.__name__}"


def pad(**how):
    return partial(checks.padding_changes_nothing, dtype=F64, t=6, **how)


left = pad(where="left", garbage=3.0)
batch = partial(checks.alone_is_in_a_batch, dtype=F64, t=6)
split = partial(checks.splits_change_nothing, dtype=F64, t=6, cuts=range(6))
ahead = partial(checks.never_looks_ahead, dtype=F64, t=6)
empty = partial(checks.empty_rows_are_zero, dtype=F64, t=6)
unchanged = partial(checks.state_is_not_changed, dtype=F64, t=6)
reused = partial(checks.reused_is_fresh, dtype=F64, t=6)
looks_back = partial(checks.looks_everywhere, dtype=F64, t=6, causal=True)
looks_both_ways = partial(checks.looks_everywhere, dtype=F64, t=6, causal=False)


def paper(loops, **options):
    whole = torch.ones(2, 6, dtype=torch.bool)
    return partial(checks.agrees_with_reference, reference=loops, options=options, t=6, mask=whole)


def saved(make: Make) -> None:
    def other():
        torch.manual_seed(5)
        made = make()
        options = {"length": made.length} if hasattr(made, "length") else {"heads": 2}
        return type(made)(8, **options).to(F64)

    checks.saved_is_kept(make, other, F64, 6)


linear_paper = paper(paper_linear.causal, heads=2)
softmax_paper = paper(paper_softmax.bidirectional, heads=2)
fastformer_paper = paper(paper_fastformer.bidirectional, heads=2)


def fault(name: str, check, says: str, dtype: torch.dtype = F64) -> Broken:
    return Broken(CAUSAL_LINEAR, b.switched(name), check, says, dtype)


BROKEN = [
    fault("mask before the feature map", left, "real outputs: off"),
    fault("padding stays in the normaliser", left, "real outputs: off"),
    fault("padding gets outputs", left, "outputs at padding are not zero"),
    fault("forgets the state", split, "outputs by pieces: off"),
    fault("looks ahead by one", ahead, "up to 0: off"),
    fault("looks ahead by one", split, "outputs by pieces: off"),
    fault("does not read the token itself", looks_back, "output 0 does not depend on token 0"),
    fault("does not read the token itself", linear_paper, "row 0: off"),
    fault("epsilon in the divisor", linear_paper, "row 0: off"),
    fault("forgets to divide", linear_paper, "row 0: off"),
    fault("divides and spreads NaN", empty, "gradients are not finite"),
    fault("ignores the past", looks_back, "does not depend on token 0"),
    fault("changes the state it was given", unchanged, "state s: not the same"),
    Broken(CAUSAL_LINEAR, b.RoundedState, split, "outputs by pieces: off"),
    Broken(CAUSAL_LINEAR, b.RoundedState, checks.long_half_precision_agrees, "after 4096", BF16),
    fault("a view keeps everything alive", checks.sums_are_wide, "bytes alive", BF16),
    Broken(CAUSAL_LINEAR, b.HalfState, checks.sums_are_wide, "s is torch.bfloat16", BF16),
    Broken(FNET, b.PaddedFFT, left, "real outputs: off"),
    Broken(FNET, b.PaddedFFT, batch, "row of 3 alone: off"),
    Broken(DENSE, b.ReadsByPlace, left, "real outputs: off"),
    Broken(DENSE, b.ForgetsHidden, paper(paper_dense.bidirectional, length=1024), "row 0: off"),
    Broken(RANDOM, b.DrawsAgain, saved, "outputs of loaded weights"),
    Broken(FNET, b.OrthonormalFFT, paper(paper_fnet.bidirectional), "row 0: off"),
    Broken(SOFTMAX, b.BatchOfOneSkipsItsMask, batch, "alone with its padding"),
    Broken(LINEAR, b.NormOverTheBatch, batch, "row of 6 alone: off"),
    Broken(LINEAR, b.Remembers, reused, "reused module"),
    Broken(LINEAR, b.OutsideTheStateDict, saved, "outputs of loaded weights"),
    Broken(LINEAR, b.GradientOffByAHair, checks.gradients_are_right, "Jacobian mismatch"),
    Broken(FASTFORMER, b.MinusTenThousand, pad(where="right", garbage=1e7), "real outputs: off"),
    Broken(FASTFORMER, b.WidthScale, fastformer_paper, "row 0: off"),
    Broken(FASTFORMER, b.PoolsRawKeys, fastformer_paper, "row 0: off"),
    Broken(CAUSAL_FASTFORMER, b.SharedShift, ahead, "gradients from later tokens"),
    Broken(SOFTMAX, b.NoScale, softmax_paper, "row 0: off"),
    Broken(CAUSAL_SOFTMAX, b.SeesItsWholePiece, split, "outputs by pieces: off"),
    Broken(CAUSAL_SOFTMAX, b.SeesItsWholePiece, ahead, "up to 0: off"),
    Broken(SOFTMAX, b.MinusInfinity, empty, "an empty row is not zero"),
    Broken(SOFTMAX, b.MinusInfinity, pad(where="left", garbage=math.nan), "not finite"),
    Broken(LINEAR, b.DoesNotMix, looks_both_ways, "does not depend"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_check_fails_on_the_broken_and_passes_on_the_sound(broken: Broken) -> None:
    broken.check(replace(broken.sound, dtype=broken.dtype))
    with pytest.raises((AssertionError, GradcheckError), match=broken.says):
        broken.check(broken)


@pytest.mark.parametrize("check", [left, split, ahead, linear_paper, empty, looks_back, unchanged])
def test_the_switches_are_sound_when_off(check) -> None:
    """The faulty class without a fault passes, so each fault above is the one that was caught."""
    check(fault("", check, ""))


def test_the_switches_are_sound_when_off_in_half_precision() -> None:
    checks.sums_are_wide(fault("", checks.sums_are_wide, "", BF16))


def test_every_check_has_been_seen_to_fail() -> None:
    """A check is what takes ``make``; ``saved`` stands for ``saved_is_kept``."""
    shown = {getattr(broken.check, "func", broken.check) for broken in BROKEN}
    shown |= {checks.saved_is_kept}
    everything = {f for f in vars(checks).values() if "make" in getattr(f, "__annotations__", {})}
    assert len(everything) > 10
    assert everything <= shown, {f.__name__ for f in everything - shown}
