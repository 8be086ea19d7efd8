"""The five equalities and the other promises of a mixer, for everything in the registry."""

import math
from dataclasses import replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from tests import checks
from tests.cases import ALL, CASES, CAUSAL, MIXING, Case

DTYPES = [torch.float64, torch.float32, torch.bfloat16]
LENGTHS = [1, 2, 3, 7, 8, 63, 64, 65, 127, 1000]
PADDING = [("left", math.nan), ("right", 1e4), ("inside", -30.0), ("anywhere", math.nan)]

every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_variant = pytest.mark.parametrize("case", ALL, ids=str)
every_causal = pytest.mark.parametrize("case", CAUSAL, ids=str)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
every_length = pytest.mark.parametrize("t", LENGTHS)


@every_length
@every_dtype
@every_case
def test_padded_is_unpadded(case: Case, dtype: torch.dtype, t: int) -> None:
    where, garbage = PADDING[LENGTHS.index(t) % 4]
    checks.padding_changes_nothing(
        replace(case, dtype=dtype), dtype, t, where=where, garbage=garbage
    )


@pytest.mark.parametrize(("where", "garbage"), PADDING)
@every_variant
def test_padded_is_unpadded_wherever_the_padding(case: Case, where: str, garbage: float) -> None:
    for t, pads in ((1, 1), (5, 3), (70, 60)):
        checks.padding_changes_nothing(
            case, torch.float64, t, where=where, garbage=garbage, pads=pads
        )


@every_length
@every_dtype
@every_case
def test_alone_is_in_a_batch(case: Case, dtype: torch.dtype, t: int) -> None:
    checks.alone_is_in_a_batch(replace(case, dtype=dtype), dtype, t)


@every_length
@every_dtype
@every_causal
def test_one_pass_is_any_split(case: Case, dtype: torch.dtype, t: int) -> None:
    made = replace(case, dtype=dtype)
    tokens = range(t) if t < 1000 else range(t - 20, t)
    checks.splits_change_nothing(made, dtype, t, tokens)
    checks.splits_change_nothing(made, dtype, t, [t // 3, t // 2, t - 1])


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(data=st.data())
@pytest.mark.parametrize("case", [case for case in ALL if case.causal], ids=str)
def test_one_pass_is_any_random_split_under_any_mask(case: Case, data: st.DataObject) -> None:
    t = data.draw(st.integers(1, 140))
    cuts = data.draw(st.lists(st.integers(1, 140), max_size=6))
    real = data.draw(st.lists(st.booleans(), min_size=2 * t, max_size=2 * t))
    mask = torch.tensor(real).reshape(2, t)
    checks.splits_change_nothing(case, torch.float64, t, cuts, mask)


@every_length
@every_dtype
@every_case
def test_reused_is_fresh(case: Case, dtype: torch.dtype, t: int) -> None:
    checks.reused_is_fresh(replace(case, dtype=dtype), dtype, t)


@pytest.mark.parametrize("t", [0, 1, 8, 65])
@every_dtype
@every_causal
def test_a_state_is_never_changed(case: Case, dtype: torch.dtype, t: int) -> None:
    checks.state_is_not_changed(replace(case, dtype=dtype), dtype, t)


@pytest.mark.parametrize("t", [1, 8, 65])
@every_dtype
@every_case
def test_saved_is_kept(case: Case, dtype: torch.dtype, t: int) -> None:
    made = replace(case, dtype=dtype)
    checks.saved_is_kept(made, replace(made, seed=5), dtype, t)


@pytest.mark.parametrize("t", [2, 3, 8, 64, 65, 130])
@pytest.mark.parametrize("case", [case for case in ALL if case.causal], ids=str)
def test_never_looks_ahead(case: Case, t: int) -> None:
    checks.never_looks_ahead(case, torch.float64, t)


@pytest.mark.parametrize("t", [2, 3, 8, 65, 130])
@pytest.mark.parametrize("case", MIXING, ids=str)
def test_looks_everywhere_it_may(case: Case, t: int) -> None:
    checks.looks_everywhere(case, torch.float64, t, causal=case.causal)


@every_variant
def test_gradients(case: Case) -> None:
    checks.gradients_are_right(case)


@pytest.mark.parametrize("t", [1, 3, 65])
@every_dtype
@every_variant
def test_empty_rows(case: Case, dtype: torch.dtype, t: int) -> None:
    checks.empty_rows_are_zero(replace(case, dtype=dtype), dtype, t)


@every_variant
def test_no_tokens_give_no_output(case: Case) -> None:
    """B20: length 0 has one answer, the empty output."""
    for b in (0, 2):
        x = torch.zeros(b, 0, 8, dtype=torch.float64)
        assert case()(x).shape == (b, 0, 8)
        assert case()(x, torch.zeros(b, 0, dtype=torch.bool)).shape == (b, 0, 8)
    assert case()(torch.zeros(0, 5, 8, dtype=torch.float64)).shape == (0, 5, 8)


@every_causal
def test_half_precision_agrees_after_4096_steps(case: Case) -> None:
    checks.long_half_precision_agrees(replace(case, dtype=torch.bfloat16))


def test_half_precision_agrees_with_the_rnn_after_4096_steps() -> None:
    """B14: the parallel form against the recurrent form, one token at a time throughout."""
    parallel = Case("linear", True, dtype=torch.bfloat16)
    x = 2 + checks.rows(2, 4096, torch.bfloat16)
    rnn = replace(parallel, chosen={"form": "recurrent"})
    checks.close(parallel()(x).detach(), rnn()(x).detach(), "chunked = recurrent", 1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("case", [case for case in ALL if case.causal], ids=str)
def test_sums_are_wide(case: Case, dtype: torch.dtype) -> None:
    checks.sums_are_wide(replace(case, dtype=dtype))
