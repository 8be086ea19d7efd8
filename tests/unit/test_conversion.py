"""Conversion: what is copied, what is learned, and what happens when it is interrupted."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from subquad import conversion
from subquad.conversion import Plan, convert, losses
from subquad.conversion.recording import blocks_of, recorded
from subquad.conversion.stage import Stage
from subquad.conversion.student import build, chosen_layers, lengthened
from subquad.data.batches import Batch, TokenInput
from subquad.errors import Interrupted, SubquadError, UsageError
from subquad.mixers import MIXERS
from subquad.run import Run, load
from tests.bodies import texts, tiny_bert
from tests.foreign_cases import CAUSAL, batch, saved

HEDGEHOG = {"feature_map": "hedgehog"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("bert"), layers=3)


@pytest.fixture(scope="module")
def teacher(folder: Path) -> Run:
    return load(folder)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    rows = texts(60, 24)
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    return str(path)


def plan(file: str, **changes: object) -> Plan:
    usual = Plan(source="bert", texts=file, mixer="linear", options=HEDGEHOG, minutes=0.05)
    return replace(usual, **changes)  # type: ignore[arg-type]


def silent(line: dict[str, object], spent: float) -> None:
    pass


def test_linear_keeps_every_number_and_all_else_is_equal(teacher: Run) -> None:
    student = build(teacher, "linear", HEDGEHOG)
    assert student.kept == student.of > 0
    assert student.changed == (0, 1, 2)
    ours, theirs = student.model.state_dict(), teacher.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("kind", [*CAUSAL, "bert"])
def test_options_of_the_old_attention_are_taken_over(kind: str, tmp_path: Path) -> None:
    _, folder = saved(kind, tmp_path / kind)
    old = load(folder)
    student = build(old, "linear", HEDGEHOG | {"window": 16})
    assert student.kept == student.of > 0
    tokens, mask = batch(0, lengths=(30, 7))
    with torch.no_grad():  # within two blocks, the window is softmax attention
        a = student.task.outputs(student.model, Batch(TokenInput(tokens, mask), None, (0, 1)))
        b = old.task.outputs(old.model, Batch(TokenInput(tokens, mask), None, (0, 1)))
    real = mask if a.dim() == 3 else slice(None)
    assert torch.allclose(a[real], b[real], atol=1e-4)


@pytest.mark.parametrize("mixer", [n for n in MIXERS if MIXERS[n].cls(False) is not None])
def test_every_mixer_can_replace_attention_or_says_why_not(teacher: Run, mixer: str) -> None:
    if mixer == "softmax":
        with pytest.raises(UsageError, match="nothing would be converted"):
            build(teacher, mixer, {})
        return
    student = build(teacher, mixer, {})
    tokens = torch.randint(5, 20, (2, 12))
    vectors = student.model(tokens, torch.ones(2, 12, dtype=torch.bool))
    assert vectors.isfinite().all()
    if student.kept * 2 < student.of:
        assert "most of what pretraining taught these layers" in student.sentence()


def test_a_layer_that_keeps_its_mixer_stays_as_it_is(teacher: Run) -> None:
    student = build(teacher, "linear", HEDGEHOG, keep=(1,))
    assert student.changed == (0, 2)
    assert student.task.config.model.layer_mixers() == ("linear", "softmax", "linear")


def test_what_is_new_is_drawn_from_the_seed(
    teacher: Run, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stage, "run", lambda self, received: None)  # noqa: ARG005
    made = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.rand(len(made) + 1)  # what was drawn before does not matter
        wanted = plan(file, mixer="fastformer", options={}, seed=seed)
        student = convert(teacher, wanted, tmp_path / name, silent).student
        made[name] = student.model.state_dict()
    assert all(torch.equal(made["a"][n], made["b"][n]) for n in made["a"])
    assert not all(torch.equal(made["a"][n], made["c"][n]) for n in made["a"])


def test_fewer_layers_are_evenly_spaced_with_the_last() -> None:
    assert chosen_layers(3, 6) == (1, 3, 5)
    assert chosen_layers(2, 3) == (0, 2)
    assert chosen_layers(6, 6) == (0, 1, 2, 3, 4, 5)
    with pytest.raises(UsageError, match="--layers 7: the model has 6 layers"):
        chosen_layers(7, 6)


def test_the_record_has_each_layers_input_and_output(teacher: Run) -> None:
    tokens, mask = torch.randint(5, 20, (2, 9)), torch.ones(2, 9, dtype=torch.bool)
    with torch.no_grad(), recorded(teacher.model) as record:
        teacher.model(tokens, mask)
    assert len(record.mixed) == len(record.blocks) == 3
    for block, mixed in zip(blocks_of(teacher.model), record.mixed, strict=True):
        with torch.no_grad():
            assert torch.equal(block.mixer(mixed.x, mixed.mask), mixed.y)
    assert all("forward" not in b.__dict__ for b in blocks_of(teacher.model))


def test_the_error_is_relative_and_does_not_see_padding() -> None:
    wanted = torch.randn(2, 5, 4)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    y = wanted * 1.5
    y[1, 3:] = 99
    assert float(losses.relative_error(y, wanted, mask)) == pytest.approx(0.25)
    assert float(losses.relative_error(wanted, wanted, mask)) == 0


def test_learning_brings_every_layer_nearer_and_the_run_opens(
    teacher: Run, file: str, tmp_path: Path
) -> None:
    made = convert(teacher, plan(file, minutes=0.2), tmp_path / "out", silent)
    stage = made.stages["transfer"]
    pairs = zip(stage["before"]["errors"], stage["after"]["errors"], strict=True)
    assert all(after < before for before, after in pairs)
    assert made.stages["together"]["after"]["cosine"] > stage["before"]["cosine"]
    opened = load(tmp_path / "out")
    ours = opened.embed(["a good film", "the plot was not very good"])
    theirs = made.student.model.state_dict()
    assert all(torch.equal(t, theirs[n]) for n, t in opened.model.state_dict().items())
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
    with pytest.raises(UsageError, match="already holds a run"):
        convert(teacher, plan(file), tmp_path / "out", silent)


def test_a_mixer_without_weights_is_met_by_the_other_parts(
    teacher: Run, file: str, tmp_path: Path
) -> None:
    made = convert(teacher, plan(file, mixer="fnet", options={}, minutes=0.2), tmp_path, silent)
    assert list(made.stages) == ["together"]
    stage = made.stages["together"]
    assert stage["after"]["cosine"] > stage["before"]["cosine"]


def test_the_layers_learned_worst_get_their_mixer_back(
    teacher: Run, file: str, tmp_path: Path
) -> None:
    made = convert(teacher, plan(file, keep_worst=1), tmp_path / "out", silent)
    errors = made.stages["transfer"]["after"]["errors"]
    assert made.kept == (max(range(3), key=lambda i: errors[i]),)
    kept = blocks_of(made.student.model)[made.kept[0]]
    old = blocks_of(teacher.model)[made.kept[0]]
    assert type(kept.mixer) is type(old.mixer)


def test_an_interrupted_conversion_goes_on(teacher: Run, file: str, tmp_path: Path) -> None:
    seen: list[dict[str, object]] = []

    def stop(line: dict[str, object], spent: float) -> None:  # noqa: ARG001
        seen.append(line)
        if line["kind"] == "transfer" and line["step"]:
            os.kill(os.getpid(), signal.SIGINT)

    out = tmp_path / "out"
    with pytest.raises(Interrupted, match="the same command continues"):
        convert(teacher, plan(file), out, stop)
    assert not (out / "config.json").exists()
    with pytest.raises(UsageError, match="holds another conversion: seed was 0, is 1"):
        convert(teacher, plan(file, seed=1), out, silent)
    made = convert(teacher, plan(file), out, silent)
    assert made.stages["transfer"]["seconds"] >= seen[-1]["seconds"]  # type: ignore[operator]
    assert not (out / conversion.WORK).exists()


def test_longer_rows_repeat_the_positions(teacher: Run) -> None:
    longer = lengthened(teacher, 100)
    table = longer.model.state_dict()["encoder.embedding.positions.weight"]
    assert len(table) == 100
    assert torch.equal(table[64:], table[:36])
    text = "a good film " * 10
    assert np.allclose(longer.embed([text]), teacher.embed([text]), atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"minutes": 0}, "--minutes is 0; it must be above zero"),
        ({"keep": (7,)}, "layers are 1 to 3"),
        ({"layers": 4}, "the model has 3 layers"),
        ({"layers": 1, "keep": (0,)}, "--keep-softmax 1: --layers 1 keeps only layers 3"),
        ({"mixer": "nothing"}, "nothing"),
        ({"length": 0}, "--length 0"),
        ({"keep_worst": 3}, "auto:3 would keep all 3 layers that are converted: at most auto:2"),
        ({"mixer": "fnet", "options": {}, "keep_worst": 1}, "fnet has no weights, so that nothing"),
    ],
)
def test_what_cannot_be_done_is_said_before_any_work(
    teacher: Run, file: str, tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(SubquadError, match=said):
        convert(teacher, plan(file, **changes), tmp_path / "out", silent)
    assert not (tmp_path / "out").exists()


def test_too_few_texts_are_refused(teacher: Run, tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text('{"text": "a good film"}\n' * 5)
    with pytest.raises(SubquadError, match="makes 5 rows; a conversion needs 20 or more"):
        convert(teacher, plan(str(few)), tmp_path / "out", silent)
    assert not (tmp_path / "out").exists()
