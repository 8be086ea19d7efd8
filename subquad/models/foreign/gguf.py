"""Unpacks a GGUF file of the Llama family into a folder of ``transformers``, through the package
``gguf`` (extra ``gguf``). Quantised weights become fp32: what they stand for, not what they were
before."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from subquad.errors import SubquadError
from subquad.storage import write_tensors, write_text

Array = npt.NDArray[np.float32]
#: Ours in transformers' words → a GGUF's.
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OTHERS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_SPECIAL = 3  # a token's type: control
_BYTES: Callable[[], Any] = lambda: pre_tokenizers.ByteLevel(add_prefix_space=False)  # noqa: E731
#: How texts are split before the merges, by the file's name for it.
_SPLITS: dict[str, Callable[[], Any]] = {
    "gpt-2": _BYTES,
    "smollm": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), _BYTES()]
    ),
}


def unpack(file: str | Path, folder: str | Path) -> None:
    """Write ``config.json``, ``model.safetensors`` and ``tokenizer.json``.

    Raises:
        SubquadError: the package is not installed; the file is damaged; or its architecture or
            tokenizer is not supported, which the message names.
    """
    reader = _opened(Path(file))
    about = {name: field.contents() for name, field in reader.fields.items()}
    kind = about.get("general.architecture")
    if kind != "llama":
        raise SubquadError(f"{file}: the architecture {kind!r} is not supported; expected 'llama'")
    config = _config(about)
    if about.get("llama.rope.scaling.type") is not None:
        raise SubquadError(f"{file}: scaled rotary positions are not supported")
    tokenizer = _tokenizer(about, str(file))
    tensors = _tensors(reader, config, str(file))
    config["tie_word_embeddings"] = "lm_head.weight" not in tensors
    folder = Path(folder)
    tokenizer.save(str(_made(folder) / "tokenizer.json"))
    write_tensors(folder / "model.safetensors", tensors, {"format": "pt"})
    write_text(folder / "config.json", json.dumps(config, indent=2) + "\n")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _opened(file: Path) -> Any:
    try:
        import gguf
    except ImportError:
        raise SubquadError(
            f"{file}: GGUF files are read through the package gguf (the extra `gguf`)"
        ) from None
    try:
        return gguf.GGUFReader(file)
    except FileNotFoundError:
        raise SubquadError(f"{file}: no such file") from None
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise SubquadError(f"{file} cannot be read as GGUF: {error}") from None


def _config(about: Mapping[str, Any]) -> dict[str, Any]:
    heads = about["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(about["tokenizer.ggml.tokens"]),
        "hidden_size": about["llama.embedding_length"],
        "num_hidden_layers": about["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": about.get("llama.attention.head_count_kv", heads),
        "intermediate_size": about["llama.feed_forward_length"],
        "max_position_embeddings": about["llama.context_length"],
        "rms_norm_eps": float(f"{about['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_theta": about.get("llama.rope.freq_base", 10_000.0),
        "hidden_act": "silu",
        "bos_token_id": about.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": about.get("tokenizer.ggml.eos_token_id"),
    }


def _tensors(reader: Any, config: Mapping[str, Any], file: str) -> dict[str, torch.Tensor]:
    from gguf.quants import dequantize

    names = {f"{theirs}.weight": f"{ours}.weight" for theirs, ours in _OTHERS.items()}
    for i in range(config["num_hidden_layers"]):
        for ours, theirs in _LAYER.items():
            names[f"blk.{i}.{theirs}.weight"] = f"model.layers.{i}.{ours}.weight"
    found: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        if tensor.name not in names:
            raise SubquadError(f"{file} has a tensor that is not supported: {tensor.name}")
        values = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        ours = names[tensor.name]
        if ours.endswith(("q_proj.weight", "k_proj.weight")):
            key = "num_attention_heads" if "q_proj" in ours else "num_key_value_heads"
            values = _halves(values, config[key])
        found[ours] = torch.from_numpy(np.ascontiguousarray(values))
    return found


def _halves(values: Array, heads: int) -> Array:
    """GGUF orders the features of a head in pairs for its rotary positions; transformers has all
    first halves before all second ones."""
    rows, width = values.shape
    pairs = values.reshape(heads, rows // heads // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows, width)


def _tokenizer(about: Mapping[str, Any], file: str) -> tokenizers.Tokenizer:
    kind, split = about.get("tokenizer.ggml.model"), about.get("tokenizer.ggml.pre")
    if kind != "gpt2" or split not in _SPLITS:
        raise SubquadError(
            f"{file}: the tokenizer {kind!r} with {split!r} is not supported; expected 'gpt2' with "
            f"{' or '.join(map(repr, _SPLITS))}"
        )
    tokens, types = about["tokenizer.ggml.tokens"], about["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in about["tokenizer.ggml.merges"]]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    made = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    made.pre_tokenizer = _SPLITS[split]()
    made.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, types, strict=True) if kind == _SPECIAL]
    made.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in special]
    )
    return made
