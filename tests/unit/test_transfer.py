"""Starting from another run: the body comes over, the head is new, what does not fit is refused."""

import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from subquad import checkpoint
from subquad.cli.flags import configure
from subquad.errors import SubquadError, UsageError
from subquad.models import ModelConfig, huggingface
from subquad.run import load
from subquad.tasks import check
from subquad.tasks.classify import Classify
from subquad.training import train
from subquad.transfer import SHAPE

SMALL = {"layers": 1, "d": 16, "heads": 2, "ff": 16, "steps": 2, "batch": 4, "evaluations": 1}
PHRASES = ["a good match for the team", "the bank sold its last stock", "rain fell on the old town"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, a labelled file, and a run pretrained on the corpus."""
    folder = tmp_path_factory.mktemp("transfer")
    corpus = [" ".join(PHRASES[(i + j) % 3] for j in range(4)) for i in range(12)]
    (folder / "corpus.jsonl").write_text("".join(f'{{"text": "{c}"}}\n' for c in corpus))
    rows = [f"{PHRASES[i % 3]} {i},{'ab'[i % 2]}" for i in range(30)]
    (folder / "labelled.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    given = SMALL | {"length": 24, "tokenizer": "words"}
    train(configure("masked", str(folder / "corpus.jsonl"), given), folder / "pre")
    return folder


def tuned(folder, name, **given):
    said = []
    given = {"start": str(folder / "pre"), "steps": 1, "batch": 4, "evaluations": 1} | given
    config = configure("classify", str(folder / "labelled.csv"), given)
    train(config, folder / name, watch=lambda line, _: said.append(line.get("text", "")))
    return config, "\n".join(said)


def test_the_body_is_kept_and_the_head_is_new(folder):
    config, said = tuned(folder, "tuned", lr=1e-12)
    assert "body kept; new: head" in said
    before = checkpoint.read_tensors(folder / "pre" / "model.safetensors")
    after = checkpoint.read_tensors(folder / "tuned" / "model.safetensors")
    body = [name for name in after if not name.startswith("head")]
    assert {name.split(".")[0] for name in body} == {"encoder", "pooler"}
    for name in body:
        torch.testing.assert_close(after[name], before[name], atol=1e-7, rtol=1e-5)
    assert config.model.d == 16
    assert config.data.length == 24
    same = (folder / "pre" / "tokenizer.json").read_text()
    assert (folder / "tuned" / "tokenizer.json").read_text() == same
    answers = load(folder / "tuned").predict(["a good match", "the"])
    assert [sorted(a["probabilities"]) for a in answers] == [["a", "b"]] * 2


def test_a_tuned_run_can_be_tuned_again(folder):
    tuned(folder, "first")
    _, said = tuned(folder, "second", start=str(folder / "first"), pooling="pooler")
    assert "new: head" in said


def test_the_same_task_goes_on_with_its_heads(folder):
    said = []
    given = {"start": str(folder / "pre"), "steps": 1, "batch": 4}
    config = configure("masked", str(folder / "corpus.jsonl"), given)
    train(config, folder / "more", watch=lambda line, _: said.append(line.get("text", "")))
    assert "new: nothing" in "\n".join(said)


def test_what_does_not_fit_is_refused_with_the_reason(folder):
    with pytest.raises(UsageError, match="d=16, which cannot become 32"):
        tuned(folder, "no", d=32)
    with pytest.raises(UsageError, match="cannot change its direction"):
        configure("language", "x", {"start": str(folder / "pre")})
    with pytest.raises(
        SubquadError, match=r"nothing: no such folder; it starts from a run of subquad"
    ):
        configure("classify", "x", {"start": str(folder / "nothing")})
    config, _ = tuned(folder, "yes")
    with pytest.raises(UsageError, match="layers=1, which cannot become 3"):
        train(replace(config, model=replace(config.model, layers=3)), folder / "no")
    other = replace(config, data=replace(config.data, tokenizer="chars"))
    with pytest.raises(SubquadError, match=r"cannot start this run: encoder.embedding.tokens"):
        train(other, folder / "no")


def test_longer_rows_repeat_the_learned_positions(folder):
    _, said = tuned(folder, "longer", length=30, lr=1e-12)
    assert "positions 25 to 30 are copies of the first 24" in said
    rows = load(folder / "longer").model.encoder.embedding.positions.weight
    torch.testing.assert_close(rows[24:], rows[:6], atol=1e-6, rtol=0)
    _, said = tuned(folder, "shorter", length=20)
    assert "copies" not in said


def test_other_mixers_by_name_keep_what_has_the_same_name_and_shape(tmp_path):
    (tmp_path / "rows.csv").write_text("text,label\n" + "good,a\nbad,b\n" * 20)
    small = {"steps": 1, "d": 16, "ff": 16, "layers": 2, "heads": 2, "length": 8}
    path = str(tmp_path / "rows.csv")
    train(configure("classify", path, small | {"mixers": "softmax"}), tmp_path / "first")
    said = []
    given = {"steps": 1, "start": str(tmp_path / "first"), "mixers": "linear,fnet", "lr": 1e-12}
    config = configure("classify", path, given)
    train(config, tmp_path / "second", watch=lambda line, _: said.append(line.get("text", "")))
    assert "the mixers of 2 layers (linear, fnet: 1,088 of 1,088 numbers kept)" in "\n".join(said)
    old, new = (load(tmp_path / n).model.encoder for n in ("first", "second"))
    a, b = (m.blocks[0].mixer.projections.qkv.weight for m in (old, new))
    torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("freeze", "still"), [("none", 0), ("1", 2), ("body", 3)])
def test_frozen_weights_do_not_move_and_a_run_resumes(tmp_path, freeze, still):
    """Embedding, two layers, head: ``still`` of them stay as they are."""
    (tmp_path / "rows.csv").write_text("text,label\n" + "good,a\nbad,b\n" * 20)
    small = {"steps": 2, "d": 16, "ff": 16, "layers": 2, "heads": 2, "length": 8}
    path = str(tmp_path / "rows.csv")
    train(configure("classify", path, small), tmp_path / "first")
    given = {"steps": 4, "start": str(tmp_path / "first"), "freeze": freeze, "new_lr": 10.0}
    config = configure("classify", path, given | {"layer_decay": 0.5, "evaluations": 2})
    train(config, tmp_path / "second")
    old, new = (dict(load(tmp_path / n).model.named_parameters()) for n in ("first", "second"))
    parts = ("encoder.embedding", "encoder.blocks.0", "encoder.blocks.1", "head")
    same = [all(torch.equal(old[n], new[n]) for n in old if n.startswith(p)) for p in parts]
    assert same == [i < still for i in range(4)]
    train(config, tmp_path / "second", resume=True)


def test_more_layers_than_there_are_cannot_be_frozen(tmp_path):
    (tmp_path / "rows.csv").write_text("text,label\n" + "good,a\nbad,b\n" * 20)
    small = {"steps": 2, "d": 16, "ff": 16, "layers": 2, "heads": 2, "length": 8}
    path = str(tmp_path / "rows.csv")
    train(configure("classify", path, small), tmp_path / "first")
    given = {"steps": 4, "start": str(tmp_path / "first"), "freeze": "3"}
    with pytest.raises(UsageError, match="--freeze 3: the model has 2 layers; body freezes them"):
        train(configure("classify", path, given), tmp_path / "second")


def test_frozen_rates_mean_nothing_without_a_start():
    with pytest.raises(UsageError, match="--freeze means nothing without --from"):
        check(configure("classify", "x", {"freeze": "body"}))


def test_a_folder_of_transformers_can_be_tuned(folder):
    run = load(folder / "pre")
    given = huggingface.Exchanged(
        "FNetForPreTraining", run.config.model, run.model, len(run.task.tokenizer), 24
    )
    huggingface.save(given, folder / "hf")
    with pytest.raises(SubquadError, match=r"has no tokenizer.json"):
        tuned(folder, "from-hf", start=str(folder / "hf"))
    run.task.tokenizer.save(folder / "hf" / "tokenizer.json")
    config, said = tuned(folder, "from-hf", start=str(folder / "hf"))
    assert "body kept; new: head" in said
    assert config.model.mixer_options["fnet"] == {"padding": "fixed", "length": 24}


def test_every_field_of_the_body_is_taken_over(folder):
    """Whatever shapes a body comes along, however unusual."""
    given = SMALL | {"length": 24, "tokenizer": "words", "layers": 2, "dropout": 0.3}
    shape = {"mixers": "linear", "gelu": "exact", "mixer_dense": True, "share_mixers": True}
    shape |= {"norm": "pre", "positions": "sinusoidal", "projection": False, "types": 3}
    shape |= {"norm_eps": 1e-3, "initialisation": "plain"}
    train(configure("masked", str(folder / "corpus.jsonl"), given | shape), folder / "odd")
    config, said = tuned(folder, "from-odd", start=str(folder / "odd"), lr=1e-12)
    assert "body kept; new: head" in said
    before = load(folder / "odd").config.model
    for name in SHAPE:
        assert getattr(config.model, name) == getattr(before, name), name
    assert set(SHAPE) == set(ModelConfig.__dataclass_fields__) - {"dropout"}
    assert config.options.pooling == "pooler"
    assert config.model.dropout == Classify.defaults().model.dropout
    old = checkpoint.read_tensors(folder / "odd" / "model.safetensors")
    new = checkpoint.read_tensors(folder / "from-odd" / "model.safetensors")
    body = {name for name in old if not name.startswith(("masked.", "order."))}
    assert body == {name for name in new if not name.startswith("head.")}
    assert any("dense" in name and "blocks" in name for name in body)


def test_a_tensor_that_nothing_reads_is_refused(folder):
    config, _ = tuned(folder, "plain")
    start = folder / "extra"
    shutil.copytree(folder / "pre", start)
    tensors = checkpoint.read_tensors(start / "model.safetensors")
    save_file(tensors | {"encoder.blocks.0.extra": torch.zeros(2)}, start / "model.safetensors")
    config = config.having(start=str(start))
    with pytest.raises(SubquadError, match=r"nothing here reads its encoder\.blocks\.0\.extra"):
        train(config, folder / "no")


def test_options_that_shape_a_body_come_along(tmp_path):
    given = SMALL | {"level_cosines": 3, "mixture": 2, "tied": False}
    train(configure("pixels", "digits", given), tmp_path / "first")
    again = configure("pixels", "digits", {"steps": 1, "start": str(tmp_path / "first")})
    assert (again.options.level_cosines, again.options.mixture) == (3, 2)
    said = []
    train(again, tmp_path / "second", watch=lambda line, _: said.append(line.get("text", "")))
    assert "new: nothing" in "\n".join(said)
