"""Every mixer equals its paper, written as NumPy loops (``tests/reference/``)."""

import importlib

import pytest
import torch

from tests import checks
from tests.cases import ALL, Case


def masks(t: int) -> dict[str, torch.Tensor]:
    real = torch.ones(3, t, dtype=torch.bool)
    holed = real.clone()
    holed[0, : t // 2] = False  # left
    holed[1, t - t // 3 :] = False  # right
    holed[2, 1::2] = False  # inside
    empty = holed.clone()
    empty[1] = False
    return {"none": real, "holes": holed, "empty row": empty}


@pytest.mark.parametrize("mask", ["none", "holes", "empty row"])
@pytest.mark.parametrize("t", [1, 2, 3, 7, 18, 66])
@pytest.mark.parametrize("case", ALL, ids=str)
def test_equals_the_paper(case: Case, t: int, mask: str) -> None:
    reference = importlib.import_module(f"tests.reference.{case.name}")
    paper = reference.causal if case.causal else reference.bidirectional
    checks.agrees_with_reference(case, paper, case.options, t, masks(t)[mask])


def test_fnet_at_the_papers_fixed_length() -> None:
    """Padding is transformed with the text, so the reference gets the whole row."""
    from tests.reference import fnet

    case = Case("fnet", False, {"padding": "fixed", "length": 12})
    real = torch.ones(2, 12, dtype=torch.bool)
    checks.agrees_with_reference(case, fnet.bidirectional, case.options, 12, real)
    x = checks.rows(2, 12, torch.float64)
    holed = real.clone()
    holed[:, 7:] = False
    checks.same(case()(x, holed), case()(x), "fixed: padding takes part")
    with pytest.raises(ValueError, match="length 12, found 11"):
        case()(x[:, :11])
