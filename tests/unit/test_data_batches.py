"""Batches: the same ones with and without workers, also under spawn, also from a store."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from subquad.data.batches import (
    Batch,
    Examples,
    batches,
    collate,
    endless,
    epoch_batches,
    sorted_batches,
)
from subquad.data.ragged import Ragged
from subquad.data.targets import Classes, ClassSets, Numbers, Sequences, Target

RANDOM = np.random.default_rng(0)
ROWS = [RANDOM.integers(1, 99, size=n) for n in RANDOM.integers(0, 30, size=101)]


@pytest.fixture(params=["memory", "mapped", "view"])
def examples(request: pytest.FixtureRequest, tmp_path: Path) -> Examples:
    return made_as(request.param, tmp_path)


def made_as(kind: str, tmp_path: Path) -> Examples:
    made = Examples(Ragged.of(ROWS), Classes(np.arange(len(ROWS))))
    if kind == "memory":
        return made
    np.save(tmp_path / "v.npy", made.tokens.values)
    np.save(tmp_path / "o.npy", made.tokens.offsets)
    tokens = Ragged(
        np.load(tmp_path / "v.npy", mmap_mode="r"), np.load(tmp_path / "o.npy", mmap_mode="r")
    )
    mapped = Examples(tokens, made.target)
    return mapped if kind == "mapped" else mapped.view(np.arange(len(ROWS)))


def same(a: Batch, b: Batch) -> bool:
    return (
        torch.equal(a.tokens, b.tokens)
        and torch.equal(a.mask, b.mask)
        and torch.equal(a.answers(Classes), b.answers(Classes))
        and a.rows == b.rows
    )


def test_x03_workers_change_nothing(examples: Examples) -> None:
    check_workers(examples, 4, "fork")


def test_x04_nor_does_spawn(tmp_path: Path) -> None:
    check_workers(made_as("view", tmp_path), 2, "spawn")


def check_workers(examples: Examples, workers: int, method: str) -> None:
    plan = epoch_batches(examples.tokens.lengths, 8, seed=1, epoch=2)
    state = torch.random.get_rng_state()
    alone = list(batches(examples, plan, 0))
    shared = list(batches(examples, plan, workers, start_method=method))
    assert all(same(a, b) for a, b in zip(alone, shared, strict=True))
    assert torch.equal(state, torch.random.get_rng_state())  # a resumed run draws the same numbers


def test_a_plan_can_be_resumed(examples: Examples) -> None:
    plan = epoch_batches(examples.tokens.lengths, 8, seed=1, epoch=2)
    rest = list(batches(examples, plan[5:]))
    assert all(same(a, b) for a, b in zip(list(batches(examples, plan))[5:], rest, strict=True))


def test_maps_travel_by_name(examples: Examples) -> None:
    sent = pickle.dumps(examples.tokens)
    received = pickle.loads(sent)
    assert type(received) is type(examples.tokens)
    assert [r.tolist() for r in received] == [r.tolist() for r in ROWS]
    if isinstance(examples.tokens.values, np.memmap):
        assert len(sent) < 2500


def test_a_run_of_a_map_travels_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.arange(10_000, dtype=np.int32))
    stream = np.load(tmp_path / "v.npy", mmap_mode="r")
    for part in (stream[5:], stream[7:9990][3:], stream[::2], stream[:0]):
        rows = Ragged(part, np.array([0, len(part)]))
        sent = pickle.dumps(rows)
        assert np.array_equal(pickle.loads(sent).values, part)
        assert (len(sent) < 2500) == (part.flags.c_contiguous)


def test_a_view_is_a_selection(examples: Examples) -> None:
    rows = np.array([5, 3, 100, 5])
    view, selected = examples.view(rows), examples.select(rows)
    assert [r.tolist() for r in view.tokens] == [r.tolist() for r in selected.tokens]
    assert view.tokens.lengths.tolist() == selected.tokens.lengths.tolist()
    again = examples.view(rows).view(np.array([2, 0]))
    assert [r.tolist() for r in again.tokens] == [ROWS[100].tolist(), ROWS[5].tolist()]
    assert again.answers(Classes).tolist() == [100, 5]
    with pytest.raises(IndexError):
        view.tokens[4]


def test_an_epoch_is_a_function_of_seed_and_epoch() -> None:
    lengths = Ragged.of(ROWS).lengths

    def flat(seed: int, epoch: int) -> list[int]:
        return [int(i) for b in epoch_batches(lengths, 8, seed=seed, epoch=epoch) for i in b]

    assert flat(1, 2) == flat(1, 2)
    assert sorted(flat(1, 2)) == list(range(101))
    assert flat(1, 2) != flat(1, 3) != flat(2, 3)
    made = sorted_batches(lengths, 8, 100)
    assert sorted(int(i) for b in made for i in b) == list(range(101))
    assert all(len(b) <= 8 for b in made)
    assert all(len(b) * lengths[b].max() <= 100 or len(b) == 1 for b in made)
    assert any(len(b) == 8 for b in made)
    assert [len(b) for b in sorted_batches(np.array([7, 7, 7, 50]), 8, 14)] == [2, 1, 1]


def test_collate_pads_on_the_right() -> None:
    batch = collate(Examples(Ragged.of([[1, 2, 3], [], [4]])), np.array([2, 0, 1]))
    assert batch.tokens.tolist() == [[4, 0, 0], [1, 2, 3], [0, 0, 0]]
    assert batch.mask.sum(1).tolist() == [1, 3, 0]
    assert batch.target is None
    assert batch.rows == (2, 0, 1)


def test_frames_are_padded_with_silence_and_travel_as_tokens_do() -> None:
    rows = [RANDOM.normal(size=(n, 5)).astype(np.float32) for n in (3, 0, 7)]
    made = Examples(Ragged.frames(rows, 5), Classes(np.array([2, 0, 1])))
    assert made.lengths.tolist() == [3, 0, 7]
    for part in (made, made.view(np.arange(3)), made.select(np.arange(3))):
        batch = collate(part, np.array([2, 0]))
        assert batch.frames.shape == (2, 7, 5)
        assert batch.frames.dtype == torch.float32
        assert torch.equal(batch.frames[1, :3], torch.from_numpy(rows[0]))
        assert not batch.frames[1, 3:].any()
        assert batch.mask.sum(1).tolist() == [7, 3]
        assert batch.answers(Classes).tolist() == [1, 2]
        assert part.fingerprint() == made.fingerprint()
        with pytest.raises(AssertionError, match="of frames"):
            _ = batch.tokens
    assert pickle.loads(pickle.dumps(made.inputs))[2].shape == (7, 5)
    changed = [rows[0] + 1, *rows[1:]]
    assert Examples(Ragged.frames(changed, 5), made.target).fingerprint() != made.fingerprint()


TARGETS: list[tuple[Target, list[object]]] = [
    (Classes(np.array([4, 5, 6])), [6, 4]),
    (Numbers(np.array([0.5, 1 / 3, -2e9])), [-2e9, 0.5]),
    (ClassSets(np.array([[1, 0], [0, 0], [1, 1]], dtype=bool)), [[True, True], [True, False]]),
    (Sequences(Ragged.of([[1, 2], [], [3]])), [[3, 0], [1, 2]]),
]


@pytest.mark.parametrize(("target", "expected"), TARGETS, ids=lambda t: type(t).__name__)
def test_every_kind_of_target_goes_through_a_batch(target: Target, expected: list[object]) -> None:
    examples = Examples(Ragged.of([[1], [2], [3]]), target)
    for part, rows in ((examples, [2, 0]), (examples.select(np.array([2, 0])), [0, 1])):
        batch = collate(part, np.array(rows)).to("cpu")
        assert batch.answers(type(target)).tolist() == expected
    assert examples.view(np.array([2])).fingerprint() != examples.view(np.array([0])).fingerprint()
    moved = Examples(examples.inputs, target.select(np.array([2, 1, 0])))
    assert moved.fingerprint() != examples.fingerprint()
    if isinstance(target, Sequences):
        assert isinstance(batch.target, Sequences)
        assert batch.target.lengths is not None
        assert batch.target.lengths.tolist() == [1, 2]


def test_numbers_of_version_0_1_have_their_fingerprint() -> None:
    """They were whole millionths; a number that is none counts to its last bit."""
    values = np.array([0.123456, -3.5, 1e9])
    millionths = np.rint(values * 1e6).astype(np.int64)
    tokens = Ragged.of([[1], [2], [3]])
    old = Examples(tokens, Classes(millionths)).fingerprint()
    assert Examples(tokens, Numbers(values)).fingerprint() == old
    near = Examples(tokens, Numbers(values + np.array([1e-9, 0, 0]))).fingerprint()
    assert near != old


@pytest.mark.parametrize("done", [0, 3, 9])
def test_the_rows_of_a_step_do_not_depend_on_how_it_is_cut(examples: Examples, done: int) -> None:
    def steps(size: int, accumulate: int) -> list[list[int]]:
        given = {"accumulate": accumulate, "seed": 3, "done": done, "workers": 0}
        stream = endless(examples, size, **given)
        return [[row for batch in next(stream) for row in batch.rows] for _ in range(12)]

    whole = steps(8, 1)
    assert steps(2, 4) == steps(4, 2) == whole
    assert steps(2, 3) != whole
    stream = endless(examples, 2, accumulate=4, seed=3, done=done, workers=0)
    assert {len(batch.rows) for _ in range(4) for batch in next(stream)} <= {1, 2}
