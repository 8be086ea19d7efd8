"""FNet's recipes, small: what they take, what they count, what they say."""

import json
from dataclasses import replace

import pytest
import torch

from subquad.errors import UsageError
from subquad.lab.instruments import flops, timing
from subquad.lab.recipes import Job, fnet_glue, fnet_ladder, fnet_speed, run
from subquad.models import Classifier, ModelConfig
from subquad.tasks import TrainConfig


def tiny(config):
    model = replace(config.model, layers=2, d=16, heads=2, ff=16)
    data = replace(config.data, tokenizer="words", vocabulary=60, length=24)
    training = TrainConfig(steps=2, batch=4, evaluations=1)
    return replace(config, model=model, data=data, training=training)


def test_the_ladder(tmp_path, monkeypatch):
    lines = [
        json.dumps({"text": " ".join(f"w{(i * j) % 7}" for j in range(40))}) for i in range(12)
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    settings = fnet_ladder.settings
    monkeypatch.setattr(fnet_ladder, "settings", lambda *a: tiny(settings(*a)))
    monkeypatch.setattr(fnet_ladder, "SECONDS", 0.0)
    heard = []
    job = Job(tmp_path / "out", (str(tmp_path / "corpus.jsonl"),), seeds=2, watch=heard.append)
    made = run("fnet-ladder", job, "")
    assert sum("masked accuracy" in p.line for p in heard) == 2 * len(fnet_ladder.LADDER)
    found = made.document["results"]
    assert set(found) == set(fnet_ladder.LADDER)
    assert found["Hybrid"]["mixers"] == "softmax,softmax"
    assert all(len(rung["masked_accuracy"]) == 2 for rung in found.values())
    assert (
        found["FF-only"]["parameters"]
        == found["FNet"]["parameters"]
        < found["Linear"]["parameters"]
    )
    assert found["FF-only"]["gflop_per_example"] < found["FNet"]["gflop_per_example"]
    assert found["FNet"]["gflop_per_example"] < found["BERT"]["gflop_per_example"]
    assert found["BERT"]["paper"]["masked_accuracy"] == 0.68
    assert "the paper's order" in made.outcome.headline
    again = run("fnet-ladder", job, "")
    again_found = again.document["results"]
    for rung in (*found.values(), *again_found.values()):
        assert rung.pop("seconds_per_step") > 0
    assert again_found == found, "finished runs are reused"


def test_the_documentation_is_a_corpus_on_every_machine(tmp_path):
    fnet_ladder.documentation(tmp_path)
    text = (tmp_path / "documentation.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) > 50
    assert sum(len(row["text"]) for row in rows) > 100_000


def test_arithmetic_is_counted():
    def count(mixer, **changes):
        config = ModelConfig(mixers=(mixer,), layers=1, d=8, heads=2, ff=16, **changes)
        model = Classifier(config, vocabulary=5, length=32, classes=2).eval()
        return flops.per_example(model, lambda: model(torch.zeros(1, 32).long()), 32)

    plain = count("none")
    assert plain == 2 * 32 * (8 * 16 * 2) + 2 * 8 * 2
    assert count("softmax") - plain == 32 * 2 * 8 * 8 * 4 + 2 * 2 * 32 * 32 * 8
    assert count("dense") - plain == 2 * 32 * 32 * 8 + 2 * 32 * 8 * 8
    assert count("fnet") - plain == 2.5 * 256 * 8
    products = {"fnet": {"form": "products"}}
    assert count("fnet", mixer_options=products) - plain == 2 * (2 * 32 * 32 * 8 + 2 * 32 * 8 * 8)


@pytest.mark.parametrize(
    ("path", "task"),
    [
        ("sst2-train.tsv", "sst2"),
        ("SST-2/train.tsv", "sst2"),
        ("CoLA/dev.tsv", "cola"),
        ("glue_mrpc.csv", "mrpc"),
        ("MNLI/dev_matched.tsv", "mnli"),
    ],
)
def test_a_task_is_known_by_its_file(path, task):
    assert fnet_glue.task_of(path) == task


def test_what_is_no_task_is_refused():
    with pytest.raises(UsageError, match="not named after a GLUE task: put one of sst2, cola"):
        fnet_glue.task_of("reviews.csv")
    assert fnet_glue.task_of("STS-B/train.tsv") == "stsb"
    with pytest.raises(UsageError, match="TRAIN DEV"):
        fnet_glue.recipe(Job(fnet_glue.Path("x"), ("sst2.tsv",)))


def test_metrics_are_glues():
    table = {"accuracy": 0.75, "confusion": [[40, 10], [15, 35]]}
    assert fnet_glue.metric("accuracy", table) == 0.75
    assert fnet_glue.metric("accuracy-f1", table) == pytest.approx((0.75 + 70 / 95) / 2)
    from sklearn.metrics import matthews_corrcoef

    truth, guess = [0] * 50 + [1] * 50, [0] * 40 + [1] * 10 + [0] * 15 + [1] * 35
    assert fnet_glue.metric("matthews", table) == pytest.approx(matthews_corrcoef(truth, guess))


@pytest.mark.parametrize("name", ["sst2", "mrpc", "stsb"])
def test_glue_small(name, tmp_path, monkeypatch):
    pair = fnet_glue.TASKS[name].pair
    head = "sentence1\tsentence2\tlabel" if pair else "sentence\tlabel"
    rows = [f"w{i % 5} w{i % 3}" + f"\tw{i % 2} w3" * pair + f"\t{i % 2}" for i in range(40)]
    for part in ("train", "dev"):
        (tmp_path / f"{name}-{part}.tsv").write_text("\n".join([head, *rows]) + "\n")
    corpus = [" ".join(f"w{(i * j) % 7}" for j in range(40)) for i in range(12)]
    (tmp_path / "corpus.jsonl").write_text(
        "\n".join(json.dumps({"text": c}) for c in corpus) + "\n"
    )
    usual = fnet_glue.train

    def quick(config, out, **how):
        training = replace(config.training, epochs=None, steps=2, batch=4, evaluations=1)
        shape = {} if config.task != "masked" else {"layers": 1, "d": 16, "heads": 2, "ff": 16}
        model = replace(config.model, **shape)
        return usual(replace(config, training=training, model=model), out, **how)

    monkeypatch.setattr(fnet_glue, "train", quick)
    data = [str(tmp_path / f"{name}-{part}.tsv") for part in ("train", "dev")]
    heard = []
    given = (*data, str(tmp_path / "corpus.jsonl"))
    made = run("fnet-glue", Job(tmp_path / "out", given, seeds=2, watch=heard.append), "")
    assert sum(p.line.startswith(("pretrained, ", "scratch, ")) for p in heard) == 4
    found = made.document["results"]
    assert found["task"] == name
    assert len(found["pretrained"]) == len(found["scratch"]) == 2
    assert found["rows"] == 40
    assert "noise between seeds" in made.outcome.headline


def test_speed_small(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setattr(fnet_speed, "interleave", lambda runs, _: timing.interleave(runs, 0.0))
    heard = []
    job = Job(tmp_path, watch=heard.append)
    made = fnet_speed.recipe(job, shape=fnet_speed.SMALL, length=16, rows=2)
    assert [p.line.partition(",")[0] for p in heard if p.line] == ["training", "inference"]
    assert set(made.results["training"]) >= {"transformers", "ours", "ours, fp32"}
    assert all(row["rounds"] == 3 for row in made.results["inference"].values())
    assert "transformers (" in made.headline
