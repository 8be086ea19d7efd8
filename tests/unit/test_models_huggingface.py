"""FNet exchanged with ``transformers``, whose classes get random weights here: the same logits, and
tensors that come back equal to the byte."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from subquad.errors import SubquadError
from subquad.models import Classifier, ModelConfig, choices, huggingface

transformers = pytest.importorskip("transformers")

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "intermediate_size": 24,
    "max_position_embeddings": 19,
    "num_labels": 3,
}
PAD = 3
every_architecture = pytest.mark.parametrize("name", list(huggingface.ARCHITECTURES))


def theirs(name, folder, **changes):
    """A model of theirs, every parameter random, saved in ``folder``."""
    torch.manual_seed(7)
    model = getattr(transformers, name)(transformers.FNetConfig(**(SHAPE | changes))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


def batch(rows=4, t=19):
    """Rows of several lengths: (tokens, types, mask), padded as theirs to the full length."""
    lengths = torch.tensor([t, 11, 1, 6])[:rows]
    mask = torch.arange(t) < lengths.unsqueeze(1)
    tokens = torch.randint(4, 40, (rows, t)).masked_fill(~mask, PAD)
    types = torch.randint(0, 4, (rows, t)).masked_fill(~mask, 0)
    return tokens, types, mask


@torch.no_grad()
def outputs(name, loaded, tokens, types, mask):
    model = loaded.model
    if name == "FNetForMultipleChoice":
        options = [part.unflatten(0, (2, 2)) for part in (tokens, mask, types)]
        return {"logits": choices(model, *options)}
    if name == "FNetForQuestionAnswering":
        start, end = model(tokens, mask, types).unbind(-1)
        return {"start_logits": start, "end_logits": end}
    if isinstance(model, huggingface.Pretraining):
        x, pooled = model(tokens, mask, types)
        if name == "FNetModel":
            return {"last_hidden_state": x, "pooler_output": pooled}
        masked, order = "logits", "logits"
        if name == "FNetForPreTraining":
            masked, order = "prediction_logits", "seq_relationship_logits"
        found = {} if model.masked is None else {masked: model.masked_logits(x)}
        return found | ({} if model.order is None else {order: model.order_logits(pooled)})
    return {"logits": model(tokens, mask, types)}


@every_architecture
def test_logits_are_theirs_under_padding(name, tmp_path):
    changes = {"num_labels": 2} if name.endswith("Answering") else {}
    model = theirs(name, tmp_path, **changes)
    loaded = huggingface.load(tmp_path)
    tokens, types, mask = batch()
    several = name == "FNetForMultipleChoice"
    ids, kinds = (p.unflatten(0, (2, 2)) if several else p for p in (tokens, types))
    with torch.no_grad():
        expected = model(input_ids=ids, token_type_ids=kinds)
    found = outputs(name, loaded, tokens, types, mask)
    assert found
    for key, value in found.items():
        want = expected[key]
        error = (value - want).abs().max().item() / max(1.0, want.abs().max().item())
        assert error < 1e-5, f"{key}: off by {error:.1e}"


def test_short_batches_are_filled_up_to_the_length_of_pretraining(tmp_path):
    """Theirs gives another answer for every width of the batch; ours the one of the full width."""
    model = theirs("FNetForSequenceClassification", tmp_path)
    loaded = huggingface.load(tmp_path)
    tokens, types, mask = batch()
    with torch.no_grad():
        expected = model(input_ids=tokens, token_type_ids=types).logits[1:]
        short = loaded.model(tokens[1:, :11], mask[1:, :11], types[1:, :11])
    torch.testing.assert_close(short, expected, atol=1e-5, rtol=1e-5)
    own = huggingface.load(tmp_path, padding="own-length").model
    with torch.no_grad():
        row = own(tokens[3:, :6], mask[3:, :6], types[3:, :6])
        torch.testing.assert_close(own(tokens, mask, types)[3:], row, atol=1e-5, rtol=1e-5)


@every_architecture
def test_tensors_come_back_equal_to_the_byte(name, tmp_path):
    model = theirs(name, tmp_path / "theirs")
    loaded = huggingface.load(tmp_path / "theirs")
    huggingface.save(loaded, tmp_path / "ours")
    before = load_file(tmp_path / "theirs" / "model.safetensors")
    after = load_file(tmp_path / "ours" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    again, info = getattr(transformers, name).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[key]), key


def rewritten(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({key: tensor.clone() for key, tensor in tensors.items()}, path)


def test_old_files_are_read(tmp_path):
    theirs("FNetForPreTraining", tmp_path)
    expected = huggingface.load(tmp_path).model.state_dict()

    def age(tensors):
        words = tensors["fnet.embeddings.word_embeddings.weight"]
        tensors["cls.predictions.decoder.weight"] = words
        tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
        tensors["fnet.embeddings.position_ids"] = torch.arange(19).unsqueeze(0)
        tensors["fnet.encoder.layer.0.fourier.self.dft_mat_seq"] = torch.zeros(3)
        for key in [key for key in tensors if "LayerNorm" in key]:
            old = key.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(key)

    rewritten(tmp_path, age)
    found = huggingface.load(tmp_path).model.state_dict()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_what_does_not_fit_is_refused_by_name(tmp_path):
    theirs("FNetForMaskedLM", tmp_path)
    rewritten(tmp_path, lambda t: t.pop("fnet.pooler.dense.bias"))
    with pytest.raises(SubquadError, match=r"missing \['pooler.dense.bias'\]"):
        huggingface.load(tmp_path)
    theirs("FNetForMaskedLM", tmp_path)
    rewritten(tmp_path, lambda t: t.update({"cls.predictions.decoder.weight": torch.ones(40, 16)}))
    with pytest.raises(SubquadError, match="not tied"):
        huggingface.load(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    for key, value, says in (
        ("hidden_act", "relu", "hidden_act 'relu'"),
        ("architectures", ["FNetForSpeech"], "architecture 'FNetForSpeech' is not one of"),
        ("model_type", "bert", "type 'bert', not 'fnet'"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(about | {key: value}))
        with pytest.raises(SubquadError, match=says):
            huggingface.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(about))
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(SubquadError, match="a pickle could run code"):
        huggingface.load(tmp_path)


def test_another_model_is_not_written_as_theirs(tmp_path):
    config = ModelConfig(mixers=("linear",), d=16, ff=24, projection=True)
    for changed, says in (
        (config, "layers of linear"),
        (replace(config, mixers=("fnet",), hybrid="top:1", types=4), "layers of softmax"),
        (replace(config, mixers=("fnet",), norm="pre", types=4), "norm is 'pre'"),
    ):
        model = Classifier(changed, vocabulary=9, length=8, classes=2, pooling="pooler")
        given = huggingface.Exchanged("FNetForSequenceClassification", changed, model, 9, 8)
        with pytest.raises(SubquadError, match=says):
            huggingface.save(given, tmp_path / "no")
