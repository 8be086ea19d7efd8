"""Causal bodies of transformers: read in pieces, and generating."""

from pathlib import Path

import pytest
import torch

from subquad.generation.runs import generate
from subquad.run import load
from tests.foreign_cases import CAUSAL, batch, saved, states


@pytest.mark.parametrize("kind", CAUSAL)
def test_reading_in_pieces_equals_reading_at_once(kind: str, tmp_path: Path) -> None:
    _, folder = saved(kind, tmp_path / kind)
    model = load(folder).model
    tokens, mask = batch(0)
    at_once = states(load(folder), tokens, mask)
    for cut in (1, 7, 29):
        with torch.no_grad():
            first, state = model.scan(tokens[:, :cut], mask=mask[:, :cut])  # type: ignore[operator]
            rest, _ = model.scan(tokens[:, cut:], state, mask[:, cut:])  # type: ignore[operator]
        assert torch.allclose(torch.cat([first, rest], 1)[mask], at_once[mask], atol=1e-5)
    left = torch.nn.functional.pad(tokens, (4, 0)), torch.nn.functional.pad(mask, (4, 0))
    assert torch.allclose(states(load(folder), *left)[:, 4:][mask], at_once[mask], atol=1e-5)


@pytest.mark.parametrize("kind", CAUSAL)
def test_a_folder_generates(kind: str, tmp_path: Path) -> None:
    _, folder = saved(kind, tmp_path / kind)
    run = load(folder)
    assert run.task.tokenizer is not None
    prompt = "a good film"
    (text,) = generate(run, [prompt], length=6, temperature=0.0)
    ids = torch.tensor([run.task.rows([prompt], None)[0].tolist()])
    with torch.no_grad():
        for _ in range(6):
            new = run.model(ids)[:, -1:].argmax(-1)
            if int(new) == run.task.generates().end:  # type: ignore[union-attr]
                break
            ids = torch.cat([ids, new], dim=1)
    assert text == run.task.tokenizer.decode(ids[0, 1:].tolist())
