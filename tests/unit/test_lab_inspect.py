"""A look inside runs of every mixer: numbers that mean what the page says, and hostile words."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from subquad.errors import UsageError
from subquad.lab.inspect import inspect
from subquad.lab.inspect.channels import watched
from subquad.lab.inspect.likings import Judgement, Likings, judge
from subquad.lab.inspect.page import document, shade
from subquad.mixers import names
from subquad.run import load
from subquad.tasks import task_class
from subquad.training import train

WORDS = {"sport": "match goal team coach league", "money": "bank stock price trade loan"}


def trained(tmp_path, task, mixers, text, **changes):
    (tmp_path / "data.csv").write_text(text, encoding="utf-8")
    usual = task_class(task).defaults()
    shape = {"mixers": mixers, "layers": len(mixers), "d": 16, "heads": 2, "ff": 16} | changes
    budget = {"minutes": None, "epochs": None, "steps": 3, "evaluations": 1}
    config = usual.having(path=str(tmp_path / "data.csv"), length=24, **shape, **budget)
    return train(config, tmp_path / "run")


def classes():
    rows = [
        f"{' '.join(WORDS[label].split()[i % 4 :])} number {i},{label}"
        for i in range(40)
        for label in WORDS
    ]
    return "\n".join(["text,label", *rows]) + "\n"


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_every_mixer_can_be_looked_into(tmp_path, pooling):
    mixers = tuple(names(causal=False))
    run = trained(tmp_path, "classify", mixers, classes(), pooling=pooling)
    found = inspect(
        run, ["a match of goals", "bank"], file=run.config.data.path, out=tmp_path / "o"
    )
    page = found.page.read_text(encoding="utf-8")
    assert found.rows == 80
    channelled = {found.layers[n] for n, _ in found.texts[0].weights}
    assert channelled == {"softmax", "local_softmax", "linear", "fastformer"}
    for weights in found.texts[0].weights.values():
        np.testing.assert_allclose(weights.sum(0), 1, atol=1e-5)
    for title in ("Which words get weight", "What each head prefers", "Topics of the state"):
        assert title in page
    for title in ("effective rank", "power spectrum", "Attention maps"):
        assert title in page
    assert json.loads((tmp_path / "o/inspect.json").read_text(encoding="utf-8")) == json.loads(
        json.dumps(document(found))
    )
    assert (tmp_path / "o/text-1.png").read_bytes().startswith(b"\x89PNG")
    for ranks in found.texts[0].ranks.values():
        assert (ranks[:, 0] < 1.001).all(), "one token is one direction"


def test_a_causal_run_can_be_looked_into(tmp_path):
    run = trained(tmp_path, "language", tuple(names(causal=True)), "It was a dark night.\n" * 60)
    found = inspect(run, ["It was"], file=run.config.data.path, out=tmp_path / "o")
    assert found.texts[0].tokens == ["‹start›", "I", "t", "␣", "w", "a", "s"]
    assert {found.layers[n] for n, _ in found.texts[0].weights} == {
        "softmax",
        "linear",
        "fastformer",
    }


def test_a_text_that_is_cut_says_so(tmp_path):
    run = trained(tmp_path, "classify", ("fnet",), classes())
    found = inspect(run, ["goal", " ".join(["goal"] * 30)], out=tmp_path / "o")
    assert [text.unread for text in found.texts] == [0, 6]
    page = found.page.read_text(encoding="utf-8")
    assert "text 2 (24 tokens were read, 6 were not)" in page
    assert "text 1:" not in page


def test_looking_changes_nothing(tmp_path):
    run = trained(tmp_path, "classify", ("fastformer",), classes())
    before = run.predict(["a match"])
    inspect(run, ["bank"], out=tmp_path / "o")
    assert run.predict(["a match"]) == before == load(run.path).predict(["a match"])


def test_weights_of_a_fastformer_are_what_pools_its_queries(tmp_path):
    """α from the channel, by hand: it must give the global query that the layer multiplies by."""
    run = trained(tmp_path, "classify", ("fastformer",), classes())
    tokens = torch.randint(3, 9, (1, 7))
    with torch.no_grad(), watched(run.model) as seen:
        run.model(tokens)
    with torch.no_grad():
        alpha, beta = (channel.weights for channel in seen[0].explained().channels.values())
        chain = seen[0].mixer.chain(seen[0].x)
        q, k = (x.unflatten(-1, (2, 8)) for x in chain.columns)
        p = k * torch.einsum("bth,bthk->bhk", alpha, q).unsqueeze(1)
        global_key = torch.einsum("bth,bthk->bhk", beta, p).flatten(1)
        y = run.model.encoder.blocks[0].mixer(seen[0].x)
        u = global_key.unsqueeze(1) * chain.v
        expected = seen[0].mixer.transform(u) + chain.columns[0]
    torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-4)


def test_hostile_words_are_escaped_everywhere(tmp_path):
    evil = '<script>alert(1)</script> "><img src=x onerror=alert(2)> $\\frac{ & ‮'
    rows = [f'"{evil.replace(chr(34), chr(34) * 2)} {w}",{w}' for w in WORDS for _ in range(30)]
    run = trained(
        tmp_path, "classify", ("fastformer", "linear"), "\n".join(["text,label", *rows]) + "\n"
    )
    found = inspect(run, [evil], file=run.config.data.path, out=tmp_path / "o")
    page = found.page.read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;" in page


def test_nothing_to_look_at_and_no_words_are_refused(tmp_path):
    run = trained(tmp_path, "classify", ("fastformer",), classes())
    with pytest.raises(UsageError, match="give a text or --file"):
        inspect(run, out=tmp_path / "o")
    (tmp_path / "o").write_text("mine")
    with pytest.raises(UsageError, match="is a file; inspect needs a directory"):
        inspect(run, ["x"], out=tmp_path / "o")
    blind = replace(run, task=type("Pictures", (), {"tokenizer": None})())
    with pytest.raises(UsageError, match="does not read text"):
        inspect(blind, ["x"], out=tmp_path / "p")


def test_a_static_head_is_told_from_one_that_follows_its_context():
    rng = np.random.default_rng(0)
    kept, own = Likings(200, 2), rng.normal(size=200)
    for _ in range(300):
        tokens = rng.choice(200, 20, replace=False)
        lifts = np.exp(np.stack([own[tokens], rng.normal(size=20)], axis=1))
        kept.add(tokens, lifts, np.log(lifts))
    static, loose = kept.correlations()
    assert static == pytest.approx(1)
    assert abs(loose) < 0.25
    assert [t for t, _ in kept.favourites(0, 3)] == np.argsort(-own)[:3].tolist()
    assert "Static detectors" in judge([static]).headline
    assert "Not static" in judge([loose]).headline
    assert judge([None]) is None
    assert "1 of 2 heads reach 0.9" in Judgement(0.5, 0.5, 2).sentence


def test_shades_are_as_the_legend_says():
    found = [round(shade(x), 2) for x in (0.0, 0.5, 1, 2, 4, 10)]
    assert found == [0.0, 0.0, 0.0, 0.5, 0.75, 0.9]
