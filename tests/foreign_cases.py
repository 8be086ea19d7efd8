"""Random bodies of every family in the format of transformers, and what they compute."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from subquad.models import foreign
from subquad.run import Run
from tests.bodies import SPECIAL, WORDS, write_tokenizer

transformers = pytest.importorskip("transformers")

VOCABULARY = len(SPECIAL) + len(WORDS)
PLAIN = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2}
PLAIN |= {"num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 40}
PLAIN |= {"initializer_range": 0.3, "pad_token_id": 0}
ROBERTA = PLAIN | {"type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5}
DISTIL = {"vocab_size": VOCABULARY, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
DISTIL |= {"max_position_embeddings": 40, "initializer_range": 0.3}

GPT2 = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40}
GPT2 |= {"initializer_range": 0.3, "bos_token_id": 2, "eos_token_id": 2}
MODERN = PLAIN | {"num_hidden_layers": 4, "local_attention": 8, "bos_token_id": 2}
MODERN |= {"eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
LLAMA = PLAIN | {"num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 2}
LLAMA |= {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "eos_token_id": 3}

#: model_type → (class of the configuration, class of the model, settings)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertConfig", "BertModel", PLAIN),
    "roberta": ("RobertaConfig", "RobertaModel", ROBERTA),
    "xlm-roberta": ("XLMRobertaConfig", "XLMRobertaModel", ROBERTA),
    "camembert": ("CamembertConfig", "CamembertModel", ROBERTA),
    "distilbert": ("DistilBertConfig", "DistilBertModel", DISTIL),
    "modernbert": ("ModernBertConfig", "ModernBertModel", MODERN),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", GPT2),
    "llama": ("LlamaConfig", "LlamaForCausalLM", LLAMA),
    "mistral": ("MistralConfig", "MistralForCausalLM", LLAMA | {"sliding_window": None}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", LLAMA | {"tie_word_embeddings": True}),
}
CAUSAL = [name for name, family in foreign.FAMILIES.items() if family.causal]
ENCODERS = [name for name in CASES if name not in CAUSAL]


def theirs(kind: str, **settings: Any) -> Any:
    """A random model of transformers, whose norms and biases are random too."""
    torch.manual_seed(3)
    config, model, usual = CASES[kind]
    extra = {"add_pooling_layer": False} if "Roberta" in model or "Bert" in config[:4] else {}
    extra = extra if kind != "distilbert" else {}
    made = getattr(transformers, model)(getattr(transformers, config)(**usual | settings), **extra)
    for name, parameter in made.named_parameters():
        if name.endswith("bias") or "norm" in name.lower() or "ln_" in name:
            torch.nn.init.normal_(parameter, mean=float("bias" not in name), std=0.2)
    return made.eval()


def saved(kind: str, folder: Path, **settings: Any) -> tuple[Any, Path]:
    model = theirs(kind, **settings)
    model.save_pretrained(folder)
    write_tokenizer(folder / "tokenizer.json")
    return model, folder


def changed(folder: Path, **fields: Any) -> Path:
    about = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(about | fields))
    return folder


def batch(pad: int, *, lengths: tuple[int, ...] = (30, 1, 7, 19)) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    tokens = torch.randint(5, VOCABULARY, (len(lengths), max(lengths)), generator=random)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return tokens.masked_fill(~mask, pad), mask


def outputs(model: Any, **given: Any) -> Tensor:
    """Hidden states, or logits of causal models."""
    with torch.no_grad():
        made = model(**given)
    found: Tensor = made.logits if hasattr(made, "logits") else made.last_hidden_state
    return found


def states(run: Run, tokens: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
    with torch.no_grad():
        if run.task.causal:
            found: Tensor = run.model(tokens, mask)
        else:
            found = run.model.get_submodule("encoder")(tokens, mask, types=types)
    return found


def difference(run: Run, model: Any, *, types: bool = False) -> float:
    """The largest difference of hidden states at real tokens."""
    tokens, mask = batch(run.config.model.pad)
    kinds = torch.arange(tokens.shape[1]).ge(10).long().expand(tokens.shape) if types else None
    given = {} if kinds is None else {"token_type_ids": kinds}
    wanted = outputs(model, input_ids=tokens, attention_mask=mask.long(), **given)
    found = states(run, tokens, mask, kinds)
    return float((found - wanted)[mask].abs().max())
