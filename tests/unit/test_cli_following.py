"""Without a terminal, the laboratory's progress is lines; the bar is for terminals."""

from subquad.cli.following import following
from subquad.lab.progress import Progress, of_training, part


def test_a_log_gets_the_lines_and_nothing_else(capsys):
    with following("comparing") as watch:
        watch(Progress(0.1, "training linear-seed0"))
        watch(Progress(0.5, "training", "1 of 2: linear [seed 0]: 90.0 %"))
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "1 of 2: linear [seed 0]: 90.0 %\n"


def test_a_part_reports_within_its_share_of_the_whole():
    heard = []
    piece = part(part(heard.append, 0.5, 0.5), 0.0, 0.5)
    for spent in (0.0, 1.0, 7.0):
        piece(Progress(spent, "x"))
    assert [p.spent for p in heard] == [0.5, 0.75, 0.75]


def test_of_a_training_only_the_notes_are_lines():
    heard = []
    note = of_training(heard.append, "training")
    note({"kind": "note", "text": "3 rows skipped"}, 0.0)
    note({"kind": "train", "step": 1, "loss": 1.0, "lr": 1.0}, 0.5)
    assert heard == [Progress(0.0, "training", "3 rows skipped"), Progress(0.5, "training")]
