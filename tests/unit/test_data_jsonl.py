"""JSON Lines: one object per line, or the line and what it holds instead."""

import json
from pathlib import Path

import pytest

from subquad.data.source import ReadOptions, Source, open_source
from subquad.errors import SubquadError


def opened(path: Path, *lines: object, **options: object) -> Source:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts), encoding="utf-8")
    return open_source(path, ReadOptions(**options), labelled=True)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reviews.jsonl"


GOOD = {"text": "a", "label": "x"}


def test_b30_bom(path: Path) -> None:
    assert [r.text for r in opened(path, "\ufeff" + json.dumps(GOOD)).records()] == ["a"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{bad", "is not JSON"),
        ("[1]", "an array"),
        ('"text"', "a string"),
        ("null", "null"),
        ("3", "a number"),
        ('{"text": 5, "label": "x"}', r"holds 5 \(int\)"),
        ('{"text": {"text": "a"}, "label": "x"}', r"\(dict\), not a string"),
        ('{"text": null, "label": "x"}', "the text .* is empty"),
        ('{"text": "", "label": "x"}', "the text .* is empty"),
        ('{"label": "x"}', "the text .* is empty"),
        ('{"text": NaN, "label": "x"}', "not a string"),
        ('{"text": "a", "label": NaN}', "the label .* is nan"),
        ('{"text": "a", "label": Infinity}', "the label .* is inf"),
        ('{"text": "a", "label": null}', "the label .* is empty"),
        ('{"text": "a"}', "the label .* is empty"),
        ('{"text": "a", "label": ["x"]}', r"\(list\), not a string"),
        ('{"text": "\\ud83d", "label": "x"}', "half a surrogate pair"),
        ('{"text": "a\0", "label": "x"}', "is not JSON"),
        ('{"text": "a", "label": ' + "9" * 5000 + "}", "cannot be read as JSON"),
        ('{"text": "a", "label": ' + "[" * 100_000 + "}", "cannot be read as JSON"),
    ],
)
def test_a_line_that_is_no_record(path: Path, line: str, found: str) -> None:
    with pytest.raises(SubquadError, match=rf"row 2 \(line 2\): .*{found}"):
        list(opened(path, GOOD, line, GOOD).records())
    source = opened(path, GOOD, line, GOOD, on_bad_row="skip")
    assert [r.row for r in source.records()] == [1, 3]
    assert len(source.skipped) == 1


def test_b35_numbers_as_labels(path: Path) -> None:
    labels = [1, 1.0, "1", "1.0", "-0.0", 0.5, "007", "007.0", True, -2, 1e20, "v1.0", "2.10"]
    source = opened(path, *({"text": "a", "label": label} for label in labels))
    assert [r.label for r in source.records()] == [
        *(
            "1",
            "1",
            "1",
            "1",
            "0",
            "0.5",
            "007",
            "007",
            "true",
            "-2",
            "1" + "0" * 20,
            "v1.0",
            "2.10",
        )
    ]


def test_blank_lines_are_no_rows(path: Path) -> None:
    assert [r.row for r in opened(path, "", GOOD, "  ", "", GOOD, "").records()] == [1, 2]


def test_line_separators_of_unicode_stay_in_the_text(path: Path) -> None:
    text = "a\u2028b\x85c"
    path.write_text(json.dumps({"text": text, "label": "x"}, ensure_ascii=False), "utf-8")
    source = open_source(path, ReadOptions(), labelled=True)
    assert [r.text for r in source.records()] == [text]


def test_keys_may_come_in_any_order_and_number(path: Path) -> None:
    source = opened(path, {"label": "x", "more": [1], "text": "a"}, GOOD)
    assert [(r.text, r.label) for r in source.records()] == [("a", "x")] * 2


def test_one_array_says_how_to_make_it_lines(path: Path) -> None:
    with pytest.raises(SubquadError, match=r"one JSON array.*jq"):
        opened(path, "[", json.dumps(GOOD), "]")


def test_nothing(path: Path) -> None:
    for nothing in ([], [""], ["", " "]):
        with pytest.raises(SubquadError, match="holds no rows"):
            opened(path, *nothing)
