"""``subquad.train``: what is learned from memory is a run as any other."""

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subquad
from subquad.cli import run as command
from subquad.data import memory
from subquad.errors import SubquadError, UsageError
from subquad.tasks import TASKS

WORDS = ("goal match team", "bank loan price")
TEXTS = [f"{WORDS[i % 2]} {i % 5}" for i in range(40)]
LABELS = ["sport", "money"] * 20
TINY: dict[str, Any] = {"layers": 1, "d": 16, "ff": 16, "heads": 2, "steps": 4, "batch": 8}
TINY |= {"evaluations": 1, "precision": "fp32", "length": 16, "mixer": "linear"}
PICTURES = np.random.default_rng(0).integers(0, 256, (12, 4, 4), dtype=np.uint8)

#: Task → what it learns from, as arguments.
GIVEN: dict[str, dict[str, Any]] = {
    "classify": {"texts": TEXTS, "labels": LABELS},
    "regress": {"texts": TEXTS, "labels": [0.5, 2] * 20},
    "language": {"texts": TEXTS, "tokenizer": "bytes"},
    "masked": {"texts": TEXTS, "tokenizer": "words", "vocabulary": 50},
    "pixels": {"images": PICTURES, "length": None},
}


def trained(task: str, **given: Any) -> Any:
    return subquad.train(task=task, **(TINY | GIVEN[task] | given))


def columns(path: Path) -> Path:
    rows = [json.dumps({"text": t, "label": s}) for t, s in zip(TEXTS, LABELS, strict=True)]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_every_task_that_reads_texts_or_pictures_takes_them_from_memory() -> None:
    assert {name for name, cls in TASKS.items() if cls.takes} >= set(GIVEN)


@pytest.mark.parametrize("task", GIVEN)
def test_what_is_learned_is_a_run(tmp_path: Path, task: str) -> None:
    run = trained(task, out=tmp_path / "run")
    again = subquad.load(tmp_path / "run")
    assert json.loads((tmp_path / "run/config.json").read_text())["data"]["path"] == "in memory"
    assert again.best() == run.best()
    assert again.config == run.config
    assert "in memory" in (tmp_path / "run/README.md").read_text()
    with pytest.raises(UsageError, match="already holds a run"):
        trained(task, out=tmp_path / "run")
    resumed = trained(task, out=tmp_path / "run", resume=True)  # the data are the same
    assert resumed.best() == run.best()


def test_a_file_and_memory_teach_the_same(tmp_path: Path) -> None:
    path = columns(tmp_path / "a.jsonl")
    held = trained("classify")
    read = subquad.train(path, task="classify", **TINY)
    assert held.predict(TEXTS) == read.predict(TEXTS)
    assert held.evaluate(str(path)) == read.evaluate(str(path))


def test_the_command_reads_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = columns(tmp_path / "a.jsonl")
    trained("classify", out=tmp_path / "run")
    assert command(["evaluate", str(tmp_path / "run"), str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 40
    assert command(["predict", str(tmp_path / "run"), str(path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 40


def test_a_temporary_run_lives_as_long_as_it_is_held() -> None:
    run = trained("classify")
    path = run.path
    other = run.reading(on_bad_row="skip")
    del run
    gc.collect()
    assert other.best()
    del other
    gc.collect()
    assert not path.exists()


def test_pairs_and_arguments_called_as_flags() -> None:
    run = trained(
        *("classify",),
        pairs=[text[::-1] for text in TEXTS],
        pooling="pooler",
        types=2,
        mixer=("fnet",),
        mixer_option={"transform": "hartley"},
        d=np.int64(16),
        lr=1,
        steps=1,
    )
    assert run.config.model.mixer_options == {"fnet": {"transform": "hartley"}}
    assert run.config.data.pair == "pair"
    assert type(run.config.model.d) is int
    assert len(run.predict([("a goal", "a loan"), ["b", "c"]])) == 2
    assert len(run.predict(("a goal", "a loan"))) == 1


@pytest.mark.parametrize("kind", [np.array, list, tuple, iter])
def test_any_sequence_will_do(kind: Any) -> None:
    source = memory.held(kind(TEXTS), kind(LABELS))
    assert [record.label for record in source.records()] == LABELS
    values = [0.1, 0.7] * 20
    for dtype in (np.float16, np.float32, np.float64):
        source = memory.held(TEXTS, np.array(values, dtype=dtype))
        assert [record.label for record in source.records()] == ["0.1", "0.7"] * 20
    source = memory.held(TEXTS, np.array([True, False] * 20))
    assert [record.label for record in source.records()] == ["true", "false"] * 20


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"labels": LABELS[:-1]}, "there are 40 texts, 39 labels"),
    ({"labels": None}, "the task classify needs labels"),
    ({"texts": [], "labels": []}, "there are no texts"),
    ({"texts": "goal"}, "texts is a str; a list is wanted"),
    ({"texts": {"a": 1}}, "texts is a dict; a list is wanted"),
    ({"texts": 3}, "texts is a int; a list is wanted"),
    ({"texts": np.array([TEXTS])}, r"texts has shape \[1, 40\]; one dimension"),
    ({"texts": [*TEXTS[:-1], None]}, r"in memory, row 40: the text \(column 'text'\) is empty"),
    ({"texts": [*TEXTS[:-1], ""]}, "in memory, row 40: the text"),
    ({"texts": [*TEXTS[:-1], 1.5]}, r"row 40: .* holds 1.5 \(float\), not a string"),
    ({"labels": [float("nan"), 1.0] * 20}, r"row 1: the label \(column 'label'\) is nan"),
    ({"labels": [None, "a"] * 20}, r"row 1: the label \(column 'label'\) is empty"),
    ({"images": PICTURES}, "images means nothing to the task classify"),
    ({"encoding": "latin-1"}, "encoding says how a file is read"),
    ({"steps": "4"}, "steps='4' must be a whole number"),
    ({"lr": True}, "lr=True must be a number"),
    ({"layer": 1}, "there is no option --layer"),
    ({"path": "x"}, "path"),
    ({"mixture": 3}, "--mixture is an option of pixels, not of classify"),
    ({"mixer": "nobody"}, "nobody"),
]


@pytest.mark.parametrize(("given", "said"), FAULTS)
def test_what_cannot_be_is_said_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SubquadError, match=said) as error:
        trained("classify", **given)
    assert "\n" not in str(error.value)


def test_other_ways_to_give_too_much_or_too_little(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give a file or texts, labels, not both"):
        subquad.train(tmp_path, task="classify", texts=TEXTS, labels=LABELS)
    with pytest.raises(UsageError, match="give a file, or texts and labels"):
        subquad.train(task="classify")
    with pytest.raises(UsageError, match="labels without texts"):
        subquad.train(task="classify", labels=LABELS)
    with pytest.raises(UsageError, match="labels means nothing to the task language"):
        trained("language", labels=LABELS)
    with pytest.raises(SubquadError, match="holds float64 values"):
        trained("pixels", images=PICTURES / 255)
    with pytest.raises(SubquadError, match=r"12 pictures, .* 3 labels"):
        trained("pixels", labels=[1, 2, 3])
    with pytest.raises(SubquadError, match="no such file"):
        subquad.train(Path("digits"), task="pixels", **(TINY | {"length": None}))


def test_rows_that_cannot_be_used_are_skipped_when_asked() -> None:
    said: list[str] = []
    run = trained(
        *("classify",),
        texts=["", *TEXTS[1:]],
        on_bad_row="skip",
        watch=lambda line, _: said.append(line.get("text", "")),
    )
    assert any("1 rows were skipped: row 1" in text for text in said)
    assert json.loads((run.path / "data.json").read_text())["examples"] < 39


def test_a_text_is_a_text_in_python_as_in_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained("classify", out=tmp_path / "run")
    assert run.predict("free money") == run.predict(["free money"])
    assert list(run.stream("free money")) == run.predict(["free money"])
    for inputs, said in (
        ([""], "text 1 is empty"),
        (["a", None], "text 2 is empty"),
        (["a", 3], r"text 2 holds 3 \(int\), not a string"),
        ([("a", "b")], r"text 1 holds \('a', 'b'\) \(tuple\), not a string"),
    ):
        with pytest.raises(SubquadError, match=said):
            run.predict(inputs)
    (tmp_path / "a.txt").write_text("free money\n\n")
    file, where = str(tmp_path / "a.txt"), str(tmp_path / "run")
    assert command(["predict", where, file, "--format", "lines"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers[0]["label"] == run.predict("free money")[0]["label"]
    assert "is empty" in answers[1]["error"]
