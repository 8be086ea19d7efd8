"""Folders of transformers that are not read: what is said of each."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from subquad import transfer
from subquad.errors import SubquadError
from subquad.models import foreign
from tests.bodies import tiny_bert


def changed(folder: Path, **fields: Any) -> Path:
    about = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(about | fields))
    return folder


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("a\n")


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        kept = {n: t for n, t in load_file(path).items() if name not in n}
        save_file(kept, path)

    return change


def with_more(folder: Path) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path) | {"encoder.layer.0.adapter.weight": torch.zeros(2)}, path)


def not_a_number(folder: Path) -> None:
    path = folder / "model.safetensors"
    found = load_file(path)
    found["embeddings.LayerNorm.bias"][0] = float("nan")
    save_file(found, path)


def dense_module(folder: Path) -> None:
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Dense"}]')


FAULTS: list[tuple[Callable[[Path], Any], str]] = [
    (
        no_tokenizer,
        "has no tokenizer.json or spiece.model .vocab.txt alone is not enough",
    ),
    (pickled, "pytorch_model.bin"),
    (without("layer.1.attention.self.key.weight"), "has no encoder.layer.1.attention.self.key.wei"),
    (without("layer.1.output.dense"), "does not fit its config.json: it lacks .*blocks.1.ff.outer"),
    (with_more, "tensors that are not supported: encoder.layer.0.adapter.weight"),
    (not_a_number, "NaN"),
    (dense_module, "the module Dense is not supported"),
    (lambda f: changed(f, hidden_act="swish"), "hidden_act is 'swish', which is not supported"),
    (lambda f: changed(f, position_embedding_type="relative_key"), "position_embedding_type is"),
    (lambda f: changed(f, is_decoder=True), "is_decoder is True"),
    (lambda f: changed(f, hidden_size=17), "config.json: .*17"),
    (lambda f: changed(f, hidden_size="big"), "hidden_size is 'big'; expected a whole number"),
    (lambda f: changed(f, num_hidden_layers=3), "it lacks .*blocks.2"),
    (lambda f: changed(f, intermediate_size=99), r"is \[16, 16\] instead of \[99, 16\]"),
    (lambda f: changed(f, model_type="mpnet"), "model_type is 'mpnet'; supported are bert"),
    (lambda f: (f / "config.json").write_text("{"), "config.json"),
    (lambda f: (f / "model.safetensors").write_bytes(b"x"), "model.safetensors cannot be read"),
]


def test_the_command_that_converts_a_pickle_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_bert(tmp_path / "bert")
    found = {n: t.clone() for n, t in load_file(folder / "model.safetensors").items()}
    (folder / "model.safetensors").unlink()
    torch.save(found, folder / "pytorch_model.bin")
    with pytest.raises(SubquadError, match="convert it there with python -c") as caught:
        foreign.load(folder)
    code = str(caught.value).split('python -c "')[1].removesuffix('"')
    monkeypatch.chdir(folder)
    subprocess.run([sys.executable, "-c", code], check=True)
    again = load_file(folder / "model.safetensors")
    assert again.keys() == found.keys()
    assert all(torch.equal(again[name], found[name]) for name in found)
    assert foreign.load(folder).config.layers == 2


@pytest.mark.parametrize(("spoil", "said"), FAULTS, ids=[said[:24] for _, said in FAULTS])
def test_what_is_refused(spoil: Callable[[Path], Any], said: str, tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "bert")
    spoil(folder)
    for read in (foreign.load, lambda f: transfer.opened(str(f))):
        with pytest.raises(SubquadError, match=said) as caught:
            read(folder)
        assert "\n" not in str(caught.value)
