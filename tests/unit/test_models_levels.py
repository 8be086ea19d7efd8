"""Vectors of levels that share cosines."""

import copy

import pytest
import torch

from subquad.export.graphs import Step, empty_states
from subquad.export.payload import payload
from subquad.generation import EngineDecoder
from subquad.kernels import status
from subquad.models import CausalModel, ModelConfig
from subquad.models.shared_levels import LevelEmbedding, LevelHead, cosines, settle, share
from subquad.optimiser import optimiser
from subquad.tasks import TrainConfig


def model(levels: int = 9, count: int = 4, **changes) -> CausalModel:
    torch.manual_seed(0)
    config = ModelConfig(mixers=("linear",), layers=1, d=16, heads=2, ff=24, dropout=0.0, **changes)
    made = CausalModel(config, inputs=levels + 1, outputs=levels, length=20)
    share(made, levels, count)
    return made.eval()


def tokens(levels: int = 9) -> torch.Tensor:
    return torch.randint(levels + 1, (2, 20))


def test_cosines_are_the_discrete_cosine_transforms() -> None:
    """Orthogonal, of one size, without the constant: every vector has that one of its own."""
    made = cosines(8, 8, 7)
    assert torch.allclose(made.T @ made, 4 * torch.eye(7), atol=1e-5)
    assert torch.allclose(made.sum(0), torch.zeros(7), atol=1e-5)
    assert made[:, 0].diff().lt(0).all(), "the slowest wave falls from the first level to the last"


def test_the_start_token_is_no_level() -> None:
    table = model().embedding.tokens
    assert isinstance(table, LevelEmbedding)
    assert torch.equal(table.weight[9], table.own[9])
    assert not torch.equal(table.weight[8], table.own[8])


def test_a_vector_is_half_shared_with_the_next() -> None:
    """One step from one level alone moves its neighbours' vectors with it, and far ones less."""
    table = model(levels=64, count=16).embedding.tokens
    before = table.weight.detach().clone()
    (table.weight[30] * torch.ones(16)).sum().backward()
    with torch.no_grad():
        for p in table.parameters():
            p -= p.grad
    moved = (table.weight.detach() - before).norm(dim=1)
    assert moved.argmax() == 30
    assert moved[31] > moved[50]


@pytest.mark.parametrize("tied", [False, True])
def test_settled_it_computes_the_same(tied: bool) -> None:
    made, x = model(tied=tied), tokens()
    want = made(x)
    plain = copy.deepcopy(made)
    settle(plain)
    assert not any(isinstance(m, LevelEmbedding | LevelHead) for m in plain.modules())
    assert torch.allclose(plain(x), want, atol=1e-6)


@pytest.mark.skipif(not status().native, reason=f"no native core: {status().reason}")
@pytest.mark.parametrize("weights", ["fp32", "bf16", "int8"])
def test_the_engine_reads_what_they_make(weights) -> None:
    made, x = model(), tokens()
    engine = EngineDecoder(made, rows=2, weights=weights)
    found = torch.stack([engine.read(x[:, i : i + 1]) for i in range(20)], 1)
    want = engine.model(x)
    assert torch.allclose(found, want, atol=1e-5)
    assert torch.allclose(want, made(x), atol=1e-5 if weights == "fp32" else 0.05)


def test_a_graph_holds_ordinary_tables() -> None:
    made, x = model(), tokens()
    step = Step(made)
    assert not any(isinstance(m, LevelEmbedding | LevelHead) for m in step.modules())
    logits, *_ = step(x[:, 0], torch.zeros(2, dtype=torch.long), empty_states(step.model, 2))
    assert torch.allclose(logits, made(x[:, :1])[:, 0], atol=1e-5)


@pytest.mark.parametrize("precision", ["f16", "f32", "int8"])
def test_a_page_holds_what_they_make(precision) -> None:
    made, x = model(), tokens()
    held = payload(made, precision)
    table = made.embedding.tokens.weight
    assert torch.allclose(held.model.embedding.tokens.weight, table, atol=5e-3)
    assert torch.allclose(held.model(x), made(x), atol=0.05)


def test_weights_decay_as_those_of_embeddings_and_heads_do() -> None:
    made = model()
    groups = optimiser(made, TrainConfig()).param_groups
    decayed = {id(p) for g in groups if g["weight_decay"] for p in g["params"]}
    assert not decayed & {id(p) for p in made.embedding.tokens.parameters()}
    assert decayed >= {id(made.head.own), id(made.head.shared)}


def test_one_level_has_none_to_share_with() -> None:
    made = model(levels=1)
    assert type(made.embedding.tokens) is torch.nn.Embedding
    assert made(tokens(1)).isfinite().all()
