"""Figures of classification, whatever the number of classes."""

import json
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from subquad.cli.evaluate import SHOWN, _table
from subquad.data.labels import Labels
from subquad.lab.compare.confusion import _many
from subquad.tasks.metrics import MATRIX, classification, confusion


def drawn(classes: int, rows: int) -> tuple[Labels, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    truth = random.integers(0, classes, rows)
    guess = np.where(random.random(rows) < 0.7, truth, random.integers(0, classes, rows))
    return Labels(tuple(f"c{i:05}" for i in range(classes))), truth, guess


def test_pairs_make_up_the_matrix() -> None:
    labels, truth, guess = drawn(7, 500)
    table = confusion(truth, guess, 7)
    by_hand = np.zeros((7, 7), dtype=int)
    np.add.at(by_hand, (truth, guess), 1)
    assert np.array_equal(table.matrix(), by_hand)
    right, true, guessed = table.sums()
    assert np.array_equal(right, np.diag(by_hand))
    assert np.array_equal(true, by_hand.sum(1))
    assert np.array_equal(guessed, by_hand.sum(0))
    assert classification(table, labels)["confusion"] == by_hand.tolist()


def test_the_pairs_confused_most() -> None:
    labels, truth, guess = drawn(MATRIX + 1, 30_000)
    found = classification(confusion(truth, guess, len(labels)), labels)
    assert "confusion" not in found
    counts = Counter(zip(truth.tolist(), guess.tolist(), strict=True))
    wrong = sorted((n for (a, b), n in counts.items() if a != b), reverse=True)
    assert [pair["count"] for pair in found["confused"]] == wrong[:MATRIX]
    pair = found["confused"][0]
    numbers = (labels.names.index(pair["truth"]), labels.names.index(pair["guess"]))
    assert counts[numbers] == pair["count"]


def test_many_classes_cost_no_square() -> None:
    sizes = []
    for classes in (1000, 8000):
        labels, truth, guess = drawn(classes, 2 * classes)
        tracemalloc.start()
        document = json.dumps(classification(confusion(truth, guess, classes), labels))
        sizes.append((tracemalloc.get_traced_memory()[1], len(document)))
        tracemalloc.stop()
    for small, large in zip(*sizes, strict=True):
        assert large < 12 * small  # 64 times by the square
    assert sizes[1][1] < 2_000_000


@pytest.mark.parametrize("classes", [SHOWN, SHOWN + 1, 1000])
def test_a_table_that_can_be_read(classes: int) -> None:
    labels, truth, guess = drawn(classes, 5 * classes)
    found = classification(confusion(truth, guess, classes), labels)
    lines = _table(found["classes"]).splitlines()
    assert len(lines) == 1 + SHOWN + (classes > SHOWN)
    if classes > SHOWN:
        assert f"of {classes} classes, lowest F1 first" in lines[-1]
        shown = [float(line.split()[-1]) for line in lines[1:-1]]
        seen = [c["f1"] for c in found["classes"].values() if c["examples"]]
        assert shown == pytest.approx(sorted(seen)[:SHOWN], abs=1e-4)


def test_a_report_of_many_classes() -> None:
    labels, truth, guess = drawn(300, 3000)
    found = classification(confusion(truth, guess, 300), labels)
    said = _many("fnet", [found, found])
    wrong = int((truth != guess).sum())
    assert f"{2 * wrong:,} of 6,000 predictions are wrong" in said["sentence"]
    assert f"({2 * found['confused'][0]['count']}×)" in said["sentence"]
    assert len({row["name"] for row in said["worst"]}) == 5
    name = said["worst"][0]["name"]
    f1 = min(c["f1"] for c in found["classes"].values() if c["examples"])
    assert found["classes"][name]["f1"] == f1
    assert said["worst"][0]["f1"] == f"{100 * f1:.1f} %"
    assert said["worst"][0]["examples"] == str(2 * found["classes"][name]["examples"])
