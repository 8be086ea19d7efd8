"""The masked task: what is hidden, what never is, and that it is drawn as promised."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from subquad import checkpoint
from subquad.cli.flags import configure
from subquad.data.batches import collate, endless
from subquad.data.masking import Specials, masked, rows_of
from subquad.data.ragged import Ragged
from subquad.data.targets import Documents
from subquad.data.tokenizers import CLS, MASK, PAIR, SEP, Tokenizer
from subquad.errors import SubquadError, UsageError
from subquad.run import load
from subquad.tasks import check
from subquad.tasks.masked import MaskedText
from subquad.training import train

WORDS = [f"w{i}" for i in range(40)]


@pytest.fixture
def specials():
    return Specials.of(
        Tokenizer.train("words", [" ".join(WORDS)], 60).with_specials(CLS, SEP, MASK)
    )


def documents(lengths):
    """Documents of ordinary ids; every token says which document it is of."""
    return Ragged.of([[3 + i % 40] * n for i, n in enumerate(lengths)])


def config(path, **training):
    c = MaskedText.defaults()
    return replace(
        c,
        data=replace(c.data, path=str(path), tokenizer="words", vocabulary=60, length=19),
        model=replace(c.model, layers=1, d=16, heads=2, ff=16),
        training=replace(c.training, minutes=None, steps=4, batch=4, evaluations=2, **training),
    )


@pytest.fixture
def corpus(tmp_path):
    random = np.random.default_rng(0)
    lines = [" ".join(random.choice(WORDS, size)) for size in random.integers(20, 90, 30)]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f'{{"text": "{line}"}}\n' for line in lines))
    return path


@pytest.mark.parametrize("room", [2, 5, 16])
def test_rows_cover_documents_whole_and_cross_none(room):
    lengths = [1, 7, 2, 0, 33, 16, 17, 1, 5]
    rows = rows_of(documents(lengths), room)
    seen = Counter()
    for i in range(len(rows)):
        row = rows.tokens[i]
        assert 1 <= len(row) <= room
        assert set(row) == {3 + rows.answers(Documents)[i]}
        seen[int(rows.answers(Documents)[i])] += len(row)
    assert seen == {i: n for i, n in enumerate(lengths) if n > 1}
    for document in seen:
        sizes = rows.tokens.lengths[rows.answers(Documents) == document]
        assert np.ptp(sizes) <= 1


@pytest.mark.parametrize("pairs", ["order", "next", "none"])
def test_what_is_hidden(specials, pairs):
    rows = rows_of(documents([40, 50, 30, 60]), 16)
    batch = collate(rows, np.arange(len(rows)))
    hidden = Counter()
    orders = []
    for epoch in range(60):
        made = masked(replace(batch, draw=(0, epoch)), specials, rate=0.15, pairs=pairs)
        flat = made.tokens.flatten()
        assert torch.isin(made.targets, torch.from_numpy(specials.ordinary)).all()
        assert (made.weights.sum() - len(rows)).abs() < 1e-4, "each row counts once"
        now = flat[made.places]
        hidden["mask"] += int((now == specials.mask).sum())
        hidden["kept"] += int((now == made.targets).sum())
        hidden["all"] += len(now)
        share = len(now) / int(batch.mask.sum())
        assert 0.10 < share < 0.20
        whole = flat.clone()
        whole[made.places] = made.targets
        rebuilt = whole.view_as(made.tokens)
        for i in range(len(rows)):
            row = rebuilt[i, made.mask[i]].tolist()
            assert row[0] == specials.cls
            assert row[-1] == specials.sep
            assert row.count(specials.sep) == (1 if pairs == "none" else 2)
            first = row.index(specials.sep) + 1
            types = made.types[i, made.mask[i]].tolist()
            assert types == [0] * first + [1] * (len(row) - first)
            if pairs == "next":
                assert (len(set(row[1 : first - 1] + row[first:-1])) == 2) == bool(made.order[i])
            if pairs == "order":
                assert len(row) == len(rows.tokens[i]) + 3
        assert (made.tokens[~made.mask] == specials.pad).all()
        orders += [] if made.order is None else made.order.tolist()
    assert abs(hidden["mask"] / hidden["all"] - 0.8) < 0.04
    assert abs(hidden["kept"] / hidden["all"] - 0.1) < 0.04
    assert made.order is None if pairs == "none" else 0.35 < np.mean(orders) < 0.65


def test_a_swap_is_a_swap(specials):
    """The order that is to be guessed is the one that the tokens have."""
    rows = rows_of(Ragged.of([list(range(3, 43))]), 10)
    batch = collate(rows, np.arange(len(rows)))
    for epoch in range(20):
        made = masked(replace(batch, draw=(0, epoch)), specials, rate=0.15, pairs="order")
        made.tokens.flatten()[made.places] = made.targets
        for row, swapped in zip(made.tokens.tolist(), made.order.tolist(), strict=True):
            words = [i for i in row if 3 <= i < 43]
            assert (words != sorted(words)) == bool(swapped)


def test_drawn_anew_each_epoch_and_the_same_in_any_batch(specials):
    """X03: by seed, epoch and row; not by batch or worker."""
    rows = rows_of(documents([40, 50, 30, 60]), 16)

    def hide(which, draw):
        made = masked(replace(collate(rows, which), draw=draw), specials, rate=0.3, pairs="order")
        return [made.tokens[i, made.mask[i]].tolist() for i in range(len(which))]

    every = np.arange(len(rows))
    assert hide(every, (0, 0)) == hide(every, (0, 0))
    assert hide(every, (0, 0)) != hide(every, (0, 1))
    assert hide(every, (0, 0)) != hide(every, (1, 0))
    assert hide(every[3:6], (0, 0)) == hide(every, (0, 0))[3:6]
    assert hide(every, None) == hide(every, None)


def test_batches_say_which_epoch_they_are_of():
    rows = rows_of(documents([40, 50]), 16)
    for workers in (0, 2):
        stream = endless(rows, 4, seed=3, done=1, workers=workers)
        draws = [batch.draw for _ in range(4) for batch in next(stream)]
        assert draws == [(3, 0), (3, 1), (3, 1), (3, 2)]
        stream.close()


def test_workers_and_resuming_change_nothing(corpus, tmp_path):
    runs = {}
    for name, workers in (("a", 0), ("b", 2)):
        train(config(corpus, workers=workers), tmp_path / name)
        runs[name] = checkpoint.read_tensors(tmp_path / name / "model.safetensors")
    assert all(torch.equal(runs["a"][key], runs["b"][key]) for key in runs["a"])
    run = load(tmp_path / "a")
    first, again = run.evaluate(str(corpus)), run.evaluate(str(corpus))
    assert first == again
    assert {"masked_accuracy", "order_accuracy", "masked_loss", "order_loss"} <= first.keys()


class Stop(Exception):
    """A crash."""


def test_resume_is_bit_exact_mid_epoch(corpus, tmp_path):
    def crash(line, spent):  # noqa: ARG001
        if line["kind"] == "train" and line["step"] == 3:
            raise Stop

    c = config(corpus, save_every=1)
    whole = train(c, tmp_path / "whole")
    with pytest.raises(Stop):
        train(c, tmp_path / "broken", watch=crash)
    resumed = train(c, tmp_path / "broken", resume=True)
    lines = [checkpoint.read_metrics(run.path) for run in (whole, resumed)]
    losses = [[(m["step"], m["loss"]) for m in found] for found in lines]
    assert losses[0] == losses[1]
    ends = [checkpoint.checkpoints(run.path)[-1] / checkpoint.MODEL for run in (whole, resumed)]
    one, two = map(checkpoint.read_tensors, ends)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_held_out_rows_are_the_end_and_nothing_is_lost(corpus, tmp_path):
    task, training, held_out = MaskedText.fit(config(corpus), tmp_path / "store")
    assert len(held_out) >= 5
    assert max(training.answers(Documents)) <= min(held_out.answers(Documents))
    whole = task.examples(str(corpus), tmp_path / "other")
    assert len(whole) == len(training) + len(held_out)


def test_settings_that_mean_nothing_are_refused(corpus):
    c = config(corpus)
    check(c)
    with pytest.raises(UsageError, match="--tied is an option of language, pixels, not of masked"):
        check(c.having(tied=True))
    with pytest.raises(UsageError, match="pairs='both' is not one of"):
        check(c.having(pairs="both"))
    with pytest.raises(UsageError, match=r"mask_rate=1\.5 must be"):
        check(c.having(mask_rate=1.5))


def test_a_corpus_that_is_too_short(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n')
    with pytest.raises(SubquadError, match="no text has more than one token"):
        MaskedText.fit(config(path), tmp_path / "store")


def test_pairs_are_framed_trimmed_and_typed():
    tokenizer = Tokenizer.train("words", [" ".join(WORDS)], 60).with_specials(CLS, SEP, MASK)
    s = Specials.of(tokenizer)
    framed = tokenizer.framed(s.cls, s.sep)
    a, b = tokenizer.encode(["w1 w2 w3 w4 w5", "w6 w7"])
    pair = "w1 w2 w3 w4 w5" + PAIR + "w6 w7"
    assert framed.encode([pair, "w6 w7", pair]) == [
        [s.cls, *a, s.sep, *b, s.sep],
        [s.cls, *b, s.sep],
        [s.cls, *a, s.sep, *b, s.sep],
    ]
    assert framed.encode([pair], 8) == [[s.cls, *a[:3], s.sep, *b, s.sep]]
    assert framed.encode([pair], 6) == [[s.cls, *a[:2], s.sep, *b[:1], s.sep]]
    assert framed.encode(["w6 w7"], 3) == [[s.cls, b[0], s.sep]]
    assert framed.hash != tokenizer.hash


def test_pairs_of_texts_are_classified(tmp_path):
    rows = [f"w{i} w2,w3 w{i % 7},{'xy'[i % 2]}" for i in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["sentence1,sentence2,label", *rows]) + "\n")
    given = {
        "pair": "sentence2",
        "pooling": "pooler",
        "types": 2,
        "tokenizer": "words",
        "layers": 1,
    }
    given |= {"d": 16, "ff": 16, "steps": 2, "evaluations": 1, "length": 16}
    config = configure("classify", str(tmp_path / "a.csv"), given)
    run = train(config, tmp_path / "run")
    assert {"label", "probabilities"} <= run.predict(["w1 w2" + PAIR + "w3 w4"])[0].keys()
    seen = []
    run.model.encoder.embedding.register_forward_hook(lambda *a: seen.append(a[1][2]))
    run.predict(["w1 w2" + PAIR + "w3 w4"])
    assert seen[0].tolist() == [[0, 0, 0, 0, 1, 1, 1]]
    with pytest.raises(UsageError, match="no column 'third'"):
        train(configure("classify", config.data.path, given | {"pair": "third"}), tmp_path / "no")
    with pytest.raises(UsageError, match="--pair needs --pooling pooler"):
        check(configure("classify", config.data.path, given | {"pooling": "mean"}))
