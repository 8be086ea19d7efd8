"""Drawing: torch's way, the C++ way, and what the options mean."""

import numpy as np
import pytest
import torch

from subquad.errors import UsageError
from subquad.generation import Head, Sampling, draw
from subquad.generation.sampling import core_arguments, uniform
from subquad.kernels.loading import CORE, REASON

native = pytest.mark.skipif(CORE is None, reason=f"no native core: {REASON}")


def many(logits, how, n=20_000, **more):
    rows = torch.tensor(logits).expand(n, -1)
    samples, step = np.arange(n, dtype=np.uint64), np.zeros(n, np.uint64)
    return torch.bincount(draw(rows, how, samples, step, **more), minlength=rows.shape[1]) / n


def test_draw_follows_the_distribution():
    p = torch.tensor([0.5, 0.3, 0.2])
    torch.testing.assert_close(many(p.log().tolist(), Sampling()), p, atol=0.01, rtol=0)
    assert many([0.0, 1.0, 0.5], Sampling(temperature=0.0)).tolist() == [0, 1, 0]
    assert many([0.0, -np.inf, 0.0], Sampling())[1] == 0


@pytest.mark.parametrize(
    ("how", "left"),
    [
        (Sampling(top_k=2), [0.5, 0.3, 0, 0]),
        (Sampling(top_k=9), [0.5, 0.3, 0.15, 0.05]),
        (Sampling(top_p=0.5), [1, 0, 0, 0]),
        (Sampling(top_p=0.51), [0.5, 0.3, 0, 0]),
        (Sampling(top_p=1e-9), [1, 0, 0, 0]),
        (Sampling(min_p=0.29), [0.5, 0.3, 0.15, 0]),
        (Sampling(top_k=3, top_p=0.8), [0.5, 0.3, 0, 0]),
        (Sampling(min_p=1.0), [1, 0, 0, 0]),
    ],
)
def test_what_is_left_out(how, left):
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().tolist()
    expected = torch.tensor(left, dtype=torch.float32)
    torch.testing.assert_close(many(logits, how), expected / expected.sum(), atol=0.015, rtol=0)


def test_repetition_penalty():
    seen = torch.tensor([[True, True, False]]).expand(4, 3)
    logits = torch.tensor([2.0, -1.0, 1.1]).expand(4, 3)
    n = np.zeros(4, np.uint64)
    how = Sampling(temperature=0.0, repetition_penalty=2.0)
    assert draw(logits, how, n, n, seen=seen).tolist() == [2] * 4
    assert draw(logits, how, n, n).tolist() == [0] * 4


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", float("nan")),
        ("min_p", -0.1),
        ("repetition_penalty", 0.0),
        ("seed", -1),
    ],
)
def test_options_that_cannot_be_are_refused(option, value):
    with pytest.raises(UsageError, match=f"{option}={value} must be"):
        Sampling(**{option: value})


def test_uniform_numbers_are_uniform_and_unrelated():
    samples = np.arange(1000, dtype=np.uint64)
    u = np.stack([uniform(7, samples, np.full(1000, t, np.uint64)) for t in range(50)])
    assert abs(u.mean() - 0.5) < 0.005
    assert np.all((u >= 0) & (u < 1))
    assert abs(np.corrcoef(u[0], u[1])[0, 1]) < 0.1
    assert abs(np.corrcoef(u[:, 0], u[:, 1])[0, 1]) < 0.4
    assert len(np.unique(u)) == u.size


@native
def test_the_core_has_the_same_numbers():
    for seed, sample, step, which in ((0, 0, 0, 0), (2**62 + 3, 5, 2**40, 1), (7, 2**63, 1, 0)):
        ours = uniform(seed, np.array([sample], np.uint64), np.array([step], np.uint64), which)
        assert CORE.uniform(seed, sample, step, which) == ours[0]


def core_draw(outputs, how, head, seen, sample, step):
    outputs = outputs.contiguous()
    address = 0 if seen is None else seen.data_ptr()
    arguments = core_arguments(how, head)
    return CORE.draw(arguments, outputs.data_ptr(), len(outputs), address, sample, step)


@native
@pytest.mark.parametrize("n", [1, 2, 31, 257])
def test_the_core_draws_the_same_tokens(n):
    generator = torch.Generator().manual_seed(n)
    for trial in range(60):
        r = torch.rand(5, generator=generator).tolist()
        how = Sampling(
            temperature=[0.0, 0.3, 1.0, 2.0][trial % 4],
            top_k=int(r[0] * n),
            top_p=1.0 if trial % 3 else max(r[1], 0.01),
            min_p=0.0 if trial % 5 else r[2],
            repetition_penalty=1.0 if trial % 2 else 0.5 + r[3],
            seed=trial,
        )
        outputs = (torch.randn(n, generator=generator) * 3).round(decimals=trial % 3)  # with ties
        seen = torch.rand(n, generator=generator) < 0.3
        used = None if how.repetition_penalty == 1 else seen
        one, step = np.array([trial], np.uint64), np.array([3], np.uint64)
        expected = draw(
            outputs[None], how, one, step, seen=None if used is None else used[None]
        ).item()
        assert core_draw(outputs, how, Head(), used, trial, 3) == expected


@native
def test_the_core_draws_the_same_levels():
    head = Head(mixture=4, levels=256)
    generator, found = torch.Generator().manual_seed(0), set()
    for trial in range(300):
        outputs = torch.randn(12, generator=generator)
        how = Sampling(temperature=[1.0, 0.0, 0.6][trial % 3])
        one, step = np.array([trial], np.uint64), np.array([trial], np.uint64)
        expected = draw(outputs[None], how, one, step, head=head).item()
        assert core_draw(outputs, how, head, None, trial, trial) == expected
        found.add(expected)
    assert {0, 255} < found  # the edges are drawn too
    assert len(found) > 40
