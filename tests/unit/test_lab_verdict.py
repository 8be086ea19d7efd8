"""The rule that turns numbers into a recommendation, on numbers made for it."""

import math

import pytest

from subquad.lab.compare.floors import BAG, MAJORITY
from subquad.lab.compare.verdict import Candidate, Figure, differ, judge, noise

ACCURACY = Figure("accuracy", True, 1000, "held-out")
BITS = Figure("bits_per_dim", False, 1000, "test")


def floor(name, *values):
    return Candidate(name, values)


def mixer(name, seconds, *values):
    return Candidate(name, values, seconds)


def test_softmax_is_recommended_when_it_is_best():
    verdict = judge(
        [mixer("linear", 0.1, 0.80, 0.81, 0.80), mixer("softmax", 0.3, 0.90, 0.91, 0.90)], ACCURACY
    )
    assert verdict.choice == "softmax"
    assert verdict.headline == "Use softmax: 90.3 % accuracy, the best of all."
    assert verdict.level == ("softmax",)


def test_the_bag_of_words_is_recommended_when_it_is_best():
    verdict = judge(
        [floor(BAG, 0.92, 0.92), mixer("linear", 0.1, 0.80, 0.81), mixer("none", 0.1, 0.7, 0.7)],
        ACCURACY,
    )
    assert verdict.choice == BAG
    assert verdict.headline.startswith("Use the bag of words: 92.0 % accuracy")


def test_a_level_floor_goes_before_any_model():
    verdict = judge([floor(BAG, 0.90, 0.90), mixer("linear", 0.1, 0.90, 0.91)], ACCURACY)
    assert verdict.choice == BAG
    assert set(verdict.level) == {BAG, "linear"}


def test_within_noise_the_cheapest_model_is_recommended_and_the_others_named():
    verdict = judge(
        [
            mixer("softmax", 0.30, 0.90, 0.92, 0.91),
            mixer("fnet", 0.10, 0.89, 0.92, 0.90),
            mixer("linear", 0.20, 0.91, 0.90, 0.90),
            floor(BAG, 0.70, 0.70, 0.70),
        ],
        ACCURACY,
    )
    assert verdict.choice == "fnet"
    assert "level with softmax (91.0 %)" in verdict.headline
    assert any("0.33× as long as with softmax" in reason for reason in verdict.reasons)
    assert any("bag of words" in reason and "70.0 %" in reason for reason in verdict.reasons)


def test_a_mixer_that_cannot_be_relied_on_is_not_recommended():
    verdict = judge(
        [mixer("softmax", 0.3, 0.93, 0.94, 0.93), mixer("fnet", 0.1, 0.95, 0.94, 0.50)], ACCURACY
    )
    assert verdict.choice == "softmax"
    assert "fnet" in verdict.level
    assert any(
        "Varies too much" in reason and "fnet (± 25.7 %)" in reason for reason in verdict.reasons
    )


def test_no_mixing_is_said_in_words():
    verdict = judge([mixer("none", 0.1, 0.9, 0.9), mixer("linear", 0.2, 0.8, 0.8)], ACCURACY)
    assert verdict.headline.startswith("Use no mixer at all (none): 90.0 %")


def test_one_seed_claims_nothing():
    verdict = judge([mixer("linear", 0.1, 0.5), mixer("softmax", 0.1, 0.9)], ACCURACY)
    assert verdict.headline.startswith("Only one seed, so no claim")
    assert not verdict.claimed


def test_when_the_majority_is_level_nothing_was_learned():
    verdict = judge([floor(MAJORITY, 0.5, 0.5), mixer("linear", 0.1, 0.5, 0.49)], ACCURACY)
    assert verdict.headline.startswith("Nothing was learned")


def test_lower_bits_are_better():
    verdict = judge([mixer("linear", 0.1, 1.70, 1.71), mixer("softmax", 0.1, 1.50, 1.51)], BITS)
    assert verdict.choice == "softmax"
    assert "1.505 bits per pixel" in verdict.headline


def test_noise_is_students_t_and_at_least_a_row():
    a, b = mixer("a", 1, 0.90, 0.92), mixer("b", 1, 0.90, 0.92)
    assert noise(a, b, ACCURACY) == pytest.approx(4.3027 * math.sqrt(0.0002), rel=1e-3)
    still = mixer("c", 1, 0.9, 0.9)
    assert noise(still, still, ACCURACY) == pytest.approx(0.001)
    assert not differ(still, mixer("d", 1, 0.901, 0.901), ACCURACY)
    assert differ(still, mixer("d", 1, 0.903, 0.903), ACCURACY)


def test_no_candidates_is_refused():
    with pytest.raises(ValueError, match="nothing to judge"):
        judge([], ACCURACY)
