"""Released Fastformer weights: random ones, against the released layers written as NumPy loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from subquad.mixers.fastformer import Fastformer
from subquad.models import Classifier, ModelConfig
from subquad.models.official import load_released, mixer_weights, released

D, HEADS, FF, WORDS, LENGTH, CLASSES = 8, 2, 12, 11, 9, 3
SIZES = ModelConfig(layers=2, d=D, heads=HEADS, ff=FF, dropout=0.0)


def shapes():
    """The parameters of the released classifier."""
    linear = {"dense_linear": (CLASSES, D)}
    norms = {"fastformer_model.LayerNorm"}
    for n in range(2):
        layer = f"fastformer_model.encoders.{n}."
        for name in ("query", "key", "transform"):
            linear[f"{layer}attention.self.{name}"] = (D, D)
        for name in ("query_att", "key_att"):
            linear[f"{layer}attention.self.{name}"] = (HEADS, D)
        linear[f"{layer}attention.output.dense"] = (D, D)
        linear[f"{layer}intermediate.dense"] = (FF, D)
        linear[f"{layer}output.dense"] = (D, FF)
        norms |= {f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"}
    linear["fastformer_model.poolers.0.att_fc1"] = (D, D)
    linear["fastformer_model.poolers.0.att_fc2"] = (1, D)
    found = {f"{name}.weight": shape for name, shape in linear.items()}
    found |= {f"{name}.bias": shape[:1] for name, shape in linear.items()}
    found |= {f"{name}.{kind}": (D,) for name in norms for kind in ("weight", "bias")}
    found["fastformer_model.position_embeddings.weight"] = (LENGTH, D)
    found["word_embedding.weight"] = (WORDS, D)
    return found


def weights():
    return {name: torch.randn(shape, dtype=torch.float64) / 2 for name, shape in shapes().items()}


def apply(w, name, x):
    return w[f"{name}.weight"] @ x + w[f"{name}.bias"]


def norm(w, name, x):
    centred = x - x.mean()
    scaled = centred / math.sqrt((centred**2).mean() + 1e-12)
    return w[f"{name}.weight"] * scaled + w[f"{name}.bias"]


def softmax(scores):
    powers = [math.exp(s - max(scores)) for s in scores]
    return [p / sum(powers) for p in powers]


def self_attention(w, name, xs):
    """FastSelfAttention, with the biases of the scores."""
    k = D // HEADS
    q = [apply(w, f"{name}query", x) for x in xs]
    key = [apply(w, f"{name}key", x) for x in xs]

    def pooled(vectors, scorer):
        out = np.zeros(D)
        scores = [apply(w, name + scorer, v) / math.sqrt(k) for v in vectors]
        for h in range(HEADS):
            for a, v in zip(softmax([s[h] for s in scores]), vectors, strict=True):
                out[h * k : (h + 1) * k] += a * v[h * k : (h + 1) * k]
        return out

    global_query = pooled(q, "query_att")
    global_key = pooled([global_query * v for v in key], "key_att")
    return [apply(w, f"{name}transform", global_key * v) + v for v in q]


def classifier(w, tokens):
    model = "fastformer_model."
    xs = [
        norm(w, f"{model}LayerNorm", w["word_embedding.weight"][token] + place)
        for token, place in zip(tokens, w[f"{model}position_embeddings.weight"], strict=False)
    ]
    for n in range(2):
        layer = f"{model}encoders.{n}."
        mixed = self_attention(w, f"{layer}attention.self.", xs)
        for i, (x, y) in enumerate(zip(xs, mixed, strict=True)):
            attention = f"{layer}attention.output."
            a = norm(w, f"{attention}LayerNorm", apply(w, f"{attention}dense", y) + x)
            inner = apply(w, f"{layer}intermediate.dense", a)
            inner = np.array([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in inner])
            xs[i] = norm(w, f"{layer}output.LayerNorm", apply(w, f"{layer}output.dense", inner) + a)
    pooler = f"{model}poolers.0."
    powers = [
        math.exp(apply(w, f"{pooler}att_fc2", np.tanh(apply(w, f"{pooler}att_fc1", x)))[0])
        for x in xs
    ]
    text = sum(p * x for p, x in zip(powers, xs, strict=True)) / (sum(powers) + 1e-8)
    return apply(w, "dense_linear", text)


def ours():
    sizes = {"vocabulary": WORDS, "length": LENGTH, "classes": CLASSES}
    model = Classifier(released(SIZES), **sizes, pooling="attention")
    return model.double().eval()


def test_a_released_layer_is_ours():
    prefix = "fastformer_model.encoders.0.attention.self."
    w = {n.removeprefix(prefix): t for n, t in weights().items() if n.startswith(prefix)}
    mixer = Fastformer(D, heads=HEADS).double()
    mixer.load_state_dict(mixer_weights(w))
    x = torch.randn(1, 6, D, dtype=torch.float64)
    loops = self_attention({n: t.numpy() for n, t in w.items()}, "", x[0].numpy())
    torch.testing.assert_close(mixer(x)[0], torch.tensor(np.array(loops)), atol=1e-12, rtol=1e-10)


def test_a_released_classifier_is_ours():
    w, model = weights(), ours()
    load_released(model, w)
    tokens = torch.randint(1, WORDS, (3, LENGTH))
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [4], [1]])
    loops = [
        classifier({n: t.numpy() for n, t in w.items()}, row[real].tolist())
        for row, real in zip(tokens, mask, strict=True)
    ]
    # The released pooler adds 1e-8 to its divisor.
    torch.testing.assert_close(
        model(tokens, mask), torch.tensor(np.array(loops)), atol=1e-6, rtol=1e-6
    )


def test_an_encoder_alone_leaves_words_and_head():
    w, model = weights(), ours()
    alone = {
        name.removeprefix("fastformer_model."): tensor
        for name, tensor in w.items()
        if name.startswith("fastformer_model.")
    }
    head = model.head.weight.clone()
    load_released(model, alone)
    assert torch.equal(model.head.weight, head)
    assert torch.equal(
        model.encoder.blocks[1].dense.weight, alone["encoders.1.attention.output.dense.weight"]
    )


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda w: w.pop("fastformer_model.LayerNorm.bias"), "missing encoder.embedding.norm.bias"),
        (lambda w: w.update({"bert.x.weight": torch.zeros(1)}), "'bert.x.weight' is not a param"),
        (
            lambda w: w.pop("fastformer_model.encoders.1.attention.self.key.bias"),
            "missing key.bias; unexpected none",
        ),
        (
            lambda w: w.update({"dense_linear.bias": torch.zeros(5)}),
            r"wrong shape: head.bias: \(5,\) for \(3,\)",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(spoil, words):
    w, model = weights(), ours()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    spoil(w)
    with pytest.raises(ValueError, match=words):
        load_released(model, w)
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


def test_a_model_of_another_form_is_refused():
    model = Classifier(
        replace(released(SIZES), mixer_dense=False),
        vocabulary=WORDS,
        length=LENGTH,
        classes=CLASSES,
        pooling="attention",
    )
    with pytest.raises(ValueError, match=r"unexpected encoder\.blocks\.0\.dense\.bias"):
        load_released(model, weights())
