"""Bodies of transformers: equal hidden states, round trips, and what is refused."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from subquad import transfer
from subquad.configuring import configure
from subquad.errors import SubquadError
from subquad.models import foreign
from subquad.models.foreign import hub
from subquad.run import load
from tests.bodies import texts, tiny_bert, write_tokenizer
from tests.foreign_cases import (
    CASES,
    CAUSAL,
    ENCODERS,
    VOCABULARY,
    batch,
    changed,
    difference,
    outputs,
    saved,
    states,
)

transformers = pytest.importorskip("transformers")


def test_every_family_has_a_case() -> None:
    assert set(CASES) == set(foreign.FAMILIES)


@pytest.mark.parametrize("kind", CASES)
def test_hidden_states_are_equal(kind: str, tmp_path: Path) -> None:
    model, folder = saved(kind, tmp_path / kind)
    assert difference(load(folder), model) < 1e-5


def test_token_types_count(tmp_path: Path) -> None:
    model, folder = saved("bert", tmp_path / "bert")
    run = load(folder)
    assert difference(run, model, types=True) < 1e-5
    tokens, mask = batch(0)
    assert not torch.allclose(
        states(run, tokens, mask), states(run, tokens, mask, torch.ones_like(tokens)), atol=0.1
    )


@pytest.mark.parametrize("kind", CASES)
def test_round_trip(kind: str, tmp_path: Path) -> None:
    model, folder = saved(kind, tmp_path / kind)
    body = foreign.load(folder)
    foreign.save(body, tmp_path / "back")
    again = type(model).from_pretrained(tmp_path / "back").eval()
    about = json.loads((tmp_path / "back" / "config.json").read_text())
    assert about["architectures"] == [type(model).__name__]
    tokens, mask = batch(body.config.pad)
    given = {"input_ids": tokens, "attention_mask": mask.long()}
    assert torch.equal(outputs(model, **given)[mask], outputs(again, **given)[mask])
    write_tokenizer(tmp_path / "back" / "tokenizer.json")
    back = foreign.load(tmp_path / "back")
    assert back.shape == body.shape
    assert all(torch.equal(back.tensors[name], body.tensors[name]) for name in body.tensors)


@pytest.mark.parametrize("kind", ENCODERS)
def test_alone_equals_in_a_batch(kind: str, tmp_path: Path) -> None:
    _, folder = saved(kind, tmp_path / kind)
    run = load(folder)
    rows = texts(6, 30)
    together = run.embed(rows)
    for i, row in enumerate(rows):
        assert np.allclose(run.embed([row])[0], together[i], atol=1e-5)


@pytest.mark.parametrize("kind", CASES)
def test_a_body_starts_a_run(kind: str, tmp_path: Path) -> None:
    _, folder = saved(kind, tmp_path / kind)
    start = transfer.opened(str(folder))
    assert start.pretrained
    assert set(start.model.layer_mixers()) <= set(foreign.FAMILIES[kind].mixers)
    assert start.task == ("language" if kind in CAUSAL else "embed")
    assert start.options.get("special_tokens") or start.options["start_token"] == "[CLS]"


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("mixer", ["softmax", "linear"])
def test_a_mixer_that_is_named_has_the_options_of_the_attention(
    kind: str, mixer: str, tmp_path: Path
) -> None:
    """Without rotary positions and biases as they were, copied weights mean nothing."""
    _, folder = saved(kind, tmp_path / kind)
    task = "language" if kind in CAUSAL else "classify"
    values = {"start": str(folder), "mixers": mixer}
    found = configure(task, "x", values).model.mixer_options.get(mixer, {})
    assert found == transfer.opened(str(folder)).model.mixer_options.get("softmax", {})


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
@pytest.mark.parametrize("act", ["gelu", "gelu_new"])
def test_gelu_is_exact_or_tanh_as_it_says(kind: str, act: str, tmp_path: Path) -> None:
    name = "activation" if kind == "distilbert" else "hidden_act"
    model, folder = saved(kind, tmp_path / kind, **{name: act})
    assert difference(load(folder), model) < 1e-5
    other = {"gelu": "gelu_new", "gelu_new": "gelu"}[act]
    assert difference(load(changed(folder, **{name: other})), model) > 1e-5


@pytest.mark.parametrize("eps", [1e-12, 1e-2])
def test_the_epsilon_of_the_norms_is_taken(eps: float, tmp_path: Path) -> None:
    model, folder = saved("bert", tmp_path / "bert", layer_norm_eps=eps)
    assert load(folder).config.model.norm_eps == eps
    assert difference(load(folder), model) < 1e-5


def test_roberta_counts_positions_from_behind_the_padding(tmp_path: Path) -> None:
    model, folder = saved("roberta", tmp_path / "roberta")
    body = foreign.load(folder)
    assert body.shape.length == 38
    table = model.embeddings.position_embeddings.weight
    assert torch.equal(body.tensors["encoder.embedding.positions.weight"], table[2:])


def test_old_names_prefixes_and_constants(tmp_path: Path) -> None:
    model, folder = saved("bert", tmp_path / "bert")
    path = folder / "model.safetensors"
    old = {"bert.embeddings.position_ids": torch.arange(40)}
    for name, tensor in load_file(path).items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        old["bert." + name.replace("LayerNorm.bias", "LayerNorm.beta")] = tensor
    old["cls.predictions.bias"] = torch.zeros(VOCABULARY)
    save_file(old, path)
    assert foreign.load(folder).heads == 1
    assert difference(load(folder), model) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_weights_are_widened(dtype: torch.dtype, tmp_path: Path) -> None:
    model, folder = saved("bert", tmp_path / "bert")
    path = folder / "model.safetensors"
    save_file({name: tensor.to(dtype) for name, tensor in load_file(path).items()}, path)
    run = load(folder)
    assert {p.dtype for p in run.model.parameters()} == {torch.float32}
    assert difference(run, model.to(dtype).float()) < 1e-5


def test_shards(tmp_path: Path) -> None:
    model, folder = saved("bert", tmp_path / "bert")
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="4KB")
    assert len([*folder.glob("*.safetensors")]) > 1
    assert difference(load(folder), model) < 1e-5


def test_a_vocabulary_padded_beyond_the_tokenizer(tmp_path: Path) -> None:
    model, folder = saved("bert", tmp_path / "bert", vocab_size=64)
    run = load(folder)
    assert run.model.get_submodule("encoder.embedding.tokens").weight.shape[0] == VOCABULARY  # type: ignore[union-attr]
    assert difference(run, model) < 1e-5
    saved("bert", tmp_path / "small", vocab_size=8)
    with pytest.raises(SubquadError, match="vectors for 8 tokens, but its tokenizer has 25"):
        load(tmp_path / "small")


def test_lower_case_accents_and_pairs(tmp_path: Path) -> None:
    run = load(tiny_bert(tmp_path / "bert"))
    assert run.task.tokenizer is not None
    rows = run.task.rows(["A GÓOD Film", "a good film"], None)
    assert rows[0].tolist() == rows[1].tolist()
    assert rows[0].tolist()[0] == 2
    assert rows[0].tolist()[-1] == 3


def sentences(folder: Path, inner: str, mode: str = "pooling_mode_mean_tokens") -> Path:
    """The layout of sentence-transformers."""
    tiny_bert(folder / inner)
    (folder / "1_Pooling").mkdir()
    modes = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False, mode: True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    types = [f"sentence_transformers.models.{n}" for n in ("Transformer", "Pooling", "Normalize")]
    listed = [{"idx": i, "type": name} for i, name in enumerate(types)]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / inner / "sentence_bert_config.json").write_text('{"max_seq_length": 20}')
    return folder


@pytest.mark.parametrize("inner", ["", "0_Transformer"])
def test_sentence_transformers(inner: str, tmp_path: Path) -> None:
    run = load(sentences(tmp_path / "body", inner))
    assert run.config.options.pooling == "mean"
    assert run.config.data.length == 20
    assert transfer.opened(str(tmp_path / "body")).length == 20
    first = load(sentences(tmp_path / "first", inner, "pooling_mode_cls_token"))
    assert first.config.options.pooling == "first"


def test_a_converted_body_does_not_go_back(tmp_path: Path) -> None:
    body = foreign.load(tiny_bert(tmp_path / "bert"))
    linear = replace(body.config, mixers=("linear",))
    other = replace(body, shape=replace(body.shape, config=linear))
    with pytest.raises(SubquadError, match="transformers' bert has no layers of linear"):
        foreign.save(other, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_name_is_fetched_where_that_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_bert(tmp_path / "bert")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SubquadError, match=r"someone/bert: no such folder; .* extra `hub`"):
        hub.folder_of("someone/bert")
    asked: list[Any] = []

    def fetch(name: str, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        if "away" in name:
            raise OSError("no network\nmore")
        return str(folder)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=fetch))
    assert transfer.opened("someone/bert").pretrained
    assert not any("bin" in pattern for pattern in asked[0][1])
    with pytest.raises(SubquadError, match=r"someone/away cannot be fetched \(no network\): down"):
        hub.folder_of("someone/away")
    (tmp_path / "runs").mkdir()
    with pytest.raises(SubquadError, match="--from runs/typo: no such folder"):
        transfer.opened("runs/typo")
    assert len(asked) == 2
