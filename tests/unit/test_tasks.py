"""Tasks: what is learned from the data besides weights, losses and their units."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from subquad.data.batches import Batch, TokenInput, collate
from subquad.data.labels import Labels
from subquad.data.targets import Classes
from subquad.errors import SubquadError, UsageError
from subquad.run import score
from subquad.tasks import TASKS, Config, load_config, task_class
from subquad.tasks.causal import next_token_nats
from subquad.tasks.classify import Classify
from subquad.tasks.language import Language
from subquad.tasks.metrics import classification, confusion
from subquad.training import train

SMALL = {"layers": 1, "d": 16, "heads": 2, "ff": 16, "dropout": 0.0}


def config(task, path, **data) -> Config:
    c = task_class(task).defaults()
    return replace(
        c,
        data=replace(c.data, path=str(path), **data),
        model=replace(c.model, mixers=c.model.mixers[-1:], **SMALL),
    )


@pytest.fixture
def csv(tmp_path):
    rows = [f"w{i} {'good' if i % 2 else 'bad'},{i % 2}" for i in range(40)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def test_every_task_has_a_complete_configuration():
    for name, cls in TASKS.items():
        c = cls.defaults()
        assert c.task == name
        budget = [c.training.steps, c.training.epochs, c.training.minutes]
        assert sum(b is not None for b in budget) == 1
        c.model.check(causal=cls.causal)


def test_a_configuration_survives_json(tmp_path):
    c = replace(Classify.defaults(), model=replace(Classify.defaults().model, mixers=("fnet",)))
    (tmp_path / "config.json").write_text(c.to_json())
    assert load_config(tmp_path / "config.json") == c
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SubquadError, match="not a subquad configuration"):
        load_config(tmp_path / "config.json")


def test_the_tokenizer_sees_the_training_split_only(csv, tmp_path):
    task, training, held_out = Classify.fit(config("classify", csv), tmp_path / "store")
    seen = {int(t) for i in range(len(training)) for t in training.tokens[i]}
    assert max(seen) < len(task.tokenizer)
    assert len(training) + len(held_out) == 40
    assert sorted(np.bincount(held_out.answers(Classes))) == [2, 2]


def test_class_weights_are_in_the_loss(csv, tmp_path):
    c = config("classify", csv)
    c = c.having(class_weights=True)
    task, training, _ = Classify.fit(c, tmp_path / "store")
    model = task.model().eval()
    batch = collate(training, np.arange(8))
    plain = task.loss(model, batch).total
    task.weights = torch.tensor([3.0, 3.0])
    torch.testing.assert_close(task.loss(model, batch).total, 3 * plain)


def test_notes_name_repeated_texts_and_rare_classes(tmp_path):
    path = tmp_path / "a.csv"
    rows = ["same,0"] * 20 + [f"x{i},1" for i in range(20)] + ["alone,2"]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    task, training, _ = Classify.fit(config("classify", path), tmp_path / "store")
    said = "\n".join(task.notes)
    assert "2 of 4 held-out texts also occur in training" in said
    assert "a single row" in said
    assert 2 in training.answers(Classes)


def test_metrics_against_scikit_learn():
    from sklearn.metrics import f1_score, precision_recall_fscore_support

    random = np.random.default_rng(0)
    truth, guess = random.integers(0, 4, 200), random.integers(0, 4, 200)
    table = confusion(truth, guess, 5)
    found = classification(table, Labels(tuple("abcde")))
    assert found["accuracy"] == (truth == guess).mean()
    assert found["macro_f1"] == pytest.approx(f1_score(truth, guess, average="macro"))
    assert found["majority"] == np.bincount(truth).max() / 200
    p, r, f, n = precision_recall_fscore_support(truth, guess)
    for i, name in enumerate("abcd"):
        mine = found["classes"][name]
        assert (mine["precision"], mine["recall"], mine["f1"], mine["examples"]) == pytest.approx(
            (p[i], r[i], f[i], n[i])
        )
    assert found["classes"]["e"]["f1"] == 0


def test_next_token_loss_counts_real_tokens_only():
    logits, target = torch.randn(2, 5, 7), torch.randint(0, 7, (2, 5))
    counted = torch.tensor([[True] * 5, [True, True, False, False, False]])
    by_hand = -sum(
        logits[i, j].log_softmax(-1)[target[i, j]]
        for i in range(2)
        for j in range(5)
        if counted[i, j]
    )
    torch.testing.assert_close(next_token_nats(logits, target, counted), by_hand)


@pytest.mark.parametrize("kind", ["bytes", "chars", "bpe"])
def test_language_reads_every_token_once(tmp_path, kind):
    text = "hällo wörld, " * 60
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    c = config("language", path, tokenizer=kind, length=16, vocabulary=400, validation=0.2)
    task, training, held_out = Language.fit(c, tmp_path / "store")
    stream = [int(training.tokens[0][0])]
    for part in (training, held_out):
        for i in range(len(part)):
            assert stream[-1] == part.tokens[i][0], "a window begins with the last token read"
            stream += part.tokens[i][1:].tolist()
    assert stream[0] == task.start
    assert task.tokenizer.decode(stream[1:]) == text
    assert held_out.bytes == len(text[round(len(text) * 0.8) :].encode())


def test_held_out_texts_of_one_length_lie_in_their_windows_as_those_learned(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n".join(f"{i:04}#{i:04}" for i in range(100)) + "\n")
    c = config("language", path, format="lines", tokenizer="chars", length=10, validation=0.1)
    task, training, held_out = Language.fit(c, tmp_path / "store")
    assert (len(training), len(held_out)) == (90, 10)
    for part, first in ((training, 0), (held_out, 90)):
        assert all(part.tokens[i][0] == task.start for i in range(len(part)))
        assert task.tokenizer.decode(part.tokens[0][1:].tolist()).startswith(f"{first:04}#")


def test_bits_per_byte_are_total_bits_over_bytes(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("abc " * 100)
    c = config("language", path, length=16)
    task, _, held_out = Language.fit(c, tmp_path / "store")
    model = task.model()
    found = score(task, model, held_out, c)
    assert found["tokens"] == held_out.bytes == 40
    assert found["bits_per_byte"] == pytest.approx(found["loss"] / math.log(2), rel=1e-6)
    assert found["perplexity_per_token"] == pytest.approx(math.exp(found["loss"]), rel=1e-6)


def test_a_short_last_window_is_masked_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("abcdefghijk" * 7)
    task, training, _ = Language.fit(config("language", path, length=16), tmp_path / "store")
    model = task.model().eval()
    whole = collate(training, np.arange(len(training)))
    alone = [collate(training, np.array([i])) for i in range(len(training))]
    assert not whole.mask.all()
    together, apart = task.loss(model, whole), [task.loss(model, batch) for batch in alone]
    assert together.count == sum(loss.count for loss in apart)
    torch.testing.assert_close(together.total, sum(loss.total for loss in apart))


def test_standard_input_is_refused_for_training(tmp_path):
    with pytest.raises(UsageError, match="give a file instead"):
        Classify.fit(config("classify", "-"), tmp_path / "store")


def test_a_batch_moves_whole():
    inputs = TokenInput(torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))
    batch = Batch(inputs, Classes(torch.zeros(1)), (0,)).to("meta")
    assert batch.rows == (0,)
    for part in (batch.tokens, batch.mask, batch.answers(Classes)):
        assert part.device.type == "meta"


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 3)])
def test_pixels_learn_from_arrays_of_any_shape(tmp_path, shape):
    pixels = np.random.default_rng(0).integers(0, 256, (12, *shape)).astype(np.uint8)
    np.save(tmp_path / "a.npy", pixels)
    c = config("pixels", tmp_path / "a.npy", validation=0.25)
    task, training, held_out = task_class("pixels").fit(c, tmp_path / "store")
    assert (len(training), len(held_out)) == (9, 3)
    row = training.tokens[0]
    assert row[0] == task.start == 256
    assert any(np.array_equal(row[1:].reshape(shape), image) for image in pixels)
    task.save(tmp_path)
    again = type(task).load(tmp_path, task.config)
    assert again.images == task.images
    np.save(tmp_path / "b.npy", pixels[:, :2])
    with pytest.raises(UsageError, match=r"2×3.*trained on 4×3"):
        again.examples(str(tmp_path / "b.npy"), tmp_path / "other")


@pytest.mark.parametrize(("said", "row"), [({}, 12), ({"above": 1}, 12), ({"row": 6}, 6)])
def test_a_masked_convolution_knows_a_pictures_row(tmp_path, said, row):
    """4 pixels of three channels, unless one says otherwise; and after loading it is the same."""
    np.save(tmp_path / "a.npy", np.zeros((12, 5, 4, 3), np.uint8))
    c = config("pixels", tmp_path / "a.npy", validation=0.25)
    options = {"masked_convolution": said} if said else {}
    c = replace(c, model=replace(c.model, mixers=("masked_convolution",), mixer_options=options))
    task, *_ = task_class("pixels").fit(c, tmp_path / "store")
    assert task.config.model == c.model, "what was said is what a run is continued with"
    above = said.get("above", 4)
    assert task.model().blocks[0].mixer.past == above * row - 1 + 3
    task.save(tmp_path)
    again = task_class("pixels").load(tmp_path, task.config)
    assert again.model().blocks[0].mixer.lags() == task.model().blocks[0].mixer.lags()


def test_a_masked_convolution_in_narrow_pictures(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((12, 5, 2), np.uint8))
    c = config("pixels", tmp_path / "a.npy", validation=0.25)
    c = replace(c, model=replace(c.model, mixers=("masked_convolution",)))
    task, *_ = task_class("pixels").fit(c, tmp_path / "store")
    assert task.model().blocks[0].mixer.lags() == (0, 1, 2, 3, 4, 5, 6, 7, 8)
    c = replace(c, model=replace(c.model, mixer_options={"masked_convolution": {"side": 2}}))
    task, *_ = task_class("pixels").fit(c, tmp_path / "store")
    with pytest.raises(UsageError, match="side=2 must be less than row=2"):
        task.model()


def test_a_masked_convolution_run_goes_on_with_the_same_command(tmp_path):
    c = config("pixels", "digits")
    c = c.having(mixers=("masked_convolution",), level_cosines=4, steps=2, epochs=None)
    train(c, tmp_path / "run")
    assert train(c, tmp_path / "run", resume=True).best()["step"] == 2


def test_pixels_of_the_digits_are_evaluated_on_unseen_ones(tmp_path):
    task, training, held_out = task_class("pixels").fit(config("pixels", "digits"), tmp_path)
    assert np.array_equal(task.examples("digits", tmp_path).tokens.values, held_out.tokens.values)
    assert len(training) + len(held_out) == 1797


def test_a_contact_sheet_of_grey_and_coloured_images():
    from subquad.tasks.pictures import contact_sheet

    grey = contact_sheet(np.zeros((5, 2, 2), dtype=int), 17)
    assert grey.mode == "L"
    assert set(np.unique(np.asarray(grey))) == {255}
    ink = contact_sheet(np.full((1, 2, 2), 16), 17)
    assert np.asarray(ink).min() == 0
    colour = contact_sheet(np.full((2, 2, 2, 3), [255, 0, 0]), 256)
    assert colour.mode == "RGB"
    assert (np.asarray(colour)[30, 30] == [255, 0, 0]).all()


@pytest.mark.parametrize(
    ("mixers", "asked", "found"),
    [
        (("convolution", "linear"), None, "none"),
        (("linear",), None, "learned"),
        (("convolution", "linear"), "sinusoidal", "sinusoidal"),
    ],
)
def test_positions_are_settled_by_the_mixers_and_said(tmp_path, mixers, asked, found):
    path = tmp_path / "book.txt"
    path.write_text("abcd " * 100)
    c = config("language", path, length=16)
    c = replace(c, model=replace(c.model, mixers=mixers, layers=2, positions=asked))
    task, _, _ = Language.fit(c, tmp_path / "store")
    assert task.config.model.positions == found
    said = [
        note
        for note in task.notes
        if note.startswith(("no positional encoding", "learned positions"))
    ]
    assert bool(said) == (asked is None)
