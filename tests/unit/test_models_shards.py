"""Folders of ``transformers`` as they are found: weights in shards, and configurations with holes;
and what is said of a folder that cannot be started from."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from subquad import transfer
from subquad.errors import SubquadError
from subquad.models import huggingface
from subquad.run import load

transformers = pytest.importorskip("transformers")

SHAPE = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 24}
SHAPE |= {"max_position_embeddings": 19}
INDEX = "model.safetensors.index.json"


def saved(folder: Path, **options: Any) -> Path:
    torch.manual_seed(7)
    model = transformers.FNetForPreTraining(transformers.FNetConfig(**SHAPE))
    model.save_pretrained(folder, **options)
    return folder


def changed(folder: Path, **fields: Any) -> Path:
    about = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(about | fields))
    return folder


def test_shards_are_one_model(tmp_path: Path) -> None:
    whole = huggingface.load(saved(tmp_path / "whole")).model.state_dict()
    folder = saved(tmp_path / "parts", max_shard_size="4KB")
    assert len([*folder.glob("*.safetensors")]) > 1
    parts = huggingface.load(folder).model.state_dict()
    assert parts.keys() == whole.keys()
    assert all(torch.equal(parts[name], whole[name]) for name in whole)


@pytest.mark.parametrize("fault", ["missing", "damaged", "lost", "extra", "outside", "broken"])
def test_shards_that_are_not_whole(tmp_path: Path, fault: str) -> None:
    folder = saved(tmp_path / "parts", max_shard_size="4KB")
    first = sorted(folder.glob("*.safetensors"))[0]
    index = json.loads((folder / INDEX).read_text())
    said = f"{first.name} is missing"
    if fault == "missing":
        first.unlink()
    elif fault == "damaged":
        first.write_bytes(first.read_bytes()[:-9])
        said = f"{first.name} cannot be read"
    elif fault == "broken":
        index = {"weights": 1}
        said = "is not an index of weights"
    elif fault == "outside":
        index["weight_map"] = dict.fromkeys(index["weight_map"], f"../{first.name}")
        said = "not a file in the same folder"
    else:
        tensors = load_file(first)
        name = next(iter(tensors))
        save_file({n: t for n, t in tensors.items() if n != name or fault == "extra"}, first)
        if fault == "extra":
            del index["weight_map"][name]
        said = f"does not list all tensors of its files: {name}"
        said = f"lists tensors that are not in its files: {name}" if fault == "lost" else said
    (folder / INDEX).write_text(json.dumps(index))
    with pytest.raises(SubquadError) as error:
        huggingface.load(folder)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_fields_that_are_null_are_the_usual_ones(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    before = huggingface.load(folder)
    nothing = dict.fromkeys(("pad_token_id", "hidden_act", "id2label", "layer_norm_eps"))
    assert huggingface.load(changed(folder, **nothing)).config == before.config


@pytest.mark.parametrize("name", [*huggingface._FIELDS, "vocab_size", "max_position_embeddings"])
@pytest.mark.parametrize("value", ["16", True, [1], -1, {}])
def test_fields_that_are_no_numbers_are_named(tmp_path: Path, name: str, value: object) -> None:
    folder = changed(saved(tmp_path), **{name: value})
    with pytest.raises(SubquadError, match=rf"config\.json: {name} is .*expected a .*number"):
        huggingface.load(folder)


def test_other_faults_of_a_configuration(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    for fields, said in (
        ({"num_hidden_layers": 0}, "layers"),
        ({"hidden_dropout_prob": 3}, "dropout"),
        ({"id2label": ["a"]}, "id2label is"),
        ({"architectures": "FNetForEverything"}, "architecture 'FNetForEverything'"),
    ):
        about = (folder / "config.json").read_text()
        with pytest.raises(SubquadError, match=said):
            huggingface.load(changed(folder, **fields))
        (folder / "config.json").write_text(about)


READS = "it starts from a run of subquad, or from a folder of transformers"


def test_what_is_said_of_a_folder_that_is_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    bert = tmp_path / "bert"
    bert.mkdir()
    with pytest.raises(SubquadError, match=rf"bert: it has no config\.json; {READS}"):
        transfer.opened(str(bert))
    (bert / "config.json").write_text(json.dumps({"model_type": "t5"}))
    for opened in (load, lambda folder: transfer.opened(str(folder))):
        with pytest.raises(SubquadError, match="model_type is 't5'; supported are bert, roberta"):
            opened(bert)
    for name in ("bert-base-uncased", str(bert / "config.json")):
        with pytest.raises(SubquadError, match=rf"--from {name}: no such folder; {READS}"):
            transfer.opened(name)
    with pytest.raises(SubquadError, match="google/fnet-base: no such folder; to fetch a model"):
        transfer.opened("google/fnet-base")
