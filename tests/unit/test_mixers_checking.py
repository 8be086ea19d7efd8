"""Every mixer's door: what does not fit is named before anything is computed."""

import pytest
import torch

from subquad.mixers import CausalMixer
from tests.cases import ALL


@pytest.mark.parametrize("case", ALL, ids=str)
def test_what_a_mixer_cannot_take_is_named(case):
    mixer = case().float()
    name, width = type(mixer).__name__, mixer.width_given
    x = torch.zeros(2, 3, width)
    wrong = {
        rf"x is torch.float32 of shape \[2, 3, {width + 1}\]; {name} takes .* \[b, t, {width}\]": (
            torch.zeros(2, 3, width + 1),
            None,
        ),
        r"x is torch.float32 of shape \[3, \d+\]": (x[0], None),
        "x is torch.int64": (x.long(), None),
        "mask is torch.int64 .* must be torch.bool": (x, torch.ones(2, 3, dtype=torch.int64)),
        "mask is torch.float32": (x, torch.ones(2, 3)),
        r"mask is torch.bool of shape \[2, 4\]; .* of shape \[2, 3\]": (
            x,
            torch.ones(2, 4, dtype=torch.bool),
        ),
        r"mask is torch.bool of shape \[2, 1, 3\]": (x, torch.ones(2, 1, 3, dtype=torch.bool)),
    }
    for message, (given, mask) in wrong.items():
        with pytest.raises(ValueError, match=message):
            mixer(given, mask)
        if isinstance(mixer, CausalMixer):
            with pytest.raises(ValueError, match=message):
                mixer.scan(given, mask=mask)
    if not isinstance(mixer, CausalMixer):
        with pytest.raises(TypeError, match=f"{name} reads whole rows and has no scan"):
            mixer.scan(x)
