"""CSV and TSV: every row comes out, or its number and the reason do."""

import csv
import io
from pathlib import Path

import pytest

from subquad.data.rows import BadRow
from subquad.data.source import ReadOptions, Record, Source, open_source
from subquad.errors import SubquadError


def opened(path: Path, content: str | bytes, **options: object) -> Source:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_source(path, ReadOptions(**options), labelled=True)  # type: ignore[arg-type]


def pairs(source: Source) -> list[tuple[str, str | None]]:
    return [(record.text, record.label) for record in source.records()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reviews.csv"


def test_b30_bom_before_the_header(path: Path) -> None:
    assert pairs(opened(path, "\ufefftext,label\na,x\n")) == [("a", "x")]
    assert pairs(opened(path, '\ufeff"text","label"\r\na,x\r\n')) == [("a", "x")]


@pytest.mark.parametrize("word", ["null", "None", "NA", "n/a", "nan", "1e5", "007", "True", " x "])
def test_b31_na_words_stay_text(path: Path, word: str) -> None:
    assert pairs(opened(path, f"text,label\n{word},{word}\n")) == [(word, word)]


def test_b31_empty_cell_is_reported_by_row(path: Path) -> None:
    with pytest.raises(SubquadError, match=r"row 2 \(line 3\): the text .* is empty"):
        pairs(opened(path, "text,label\nNA,b\n,a\n"))
    with pytest.raises(SubquadError, match=r"row 1 \(line 2\): the label .* is empty"):
        pairs(opened(path, "text,label\nNA,\n"))


@pytest.mark.parametrize("size", [131_073, 3_000_000])
def test_b33_long_field(path: Path, size: int) -> None:
    text = "wörter, und " * (size // 12) + '"'
    out = io.StringIO()
    csv.writer(out).writerows([("text", "label"), (text, "x"), ("b", "y")])
    assert pairs(opened(path, out.getvalue())) == [(text, "x"), ("b", "y")]


def test_b33_nul_is_a_character(path: Path) -> None:
    assert pairs(opened(path, "text,label\na\0b,x\n")) == [("a\0b", "x")]


@pytest.mark.parametrize("on_bad_row", ["stop", "skip"])
def test_b33_missing_closing_quote_names_its_line(path: Path, on_bad_row: str) -> None:
    rows = "text,label\nfine,x\n" + '"never closed,x\n' + "good,y\n" * 50
    with pytest.raises(SubquadError, match=r"starts on line 3 .* takes in the 50 lines after"):
        pairs(opened(path, rows, on_bad_row=on_bad_row))


def test_b33_quote_after_a_closed_one(path: Path) -> None:
    source = opened(path, 'text,label\n"a" b,x\nc,y\n', on_bad_row="skip")
    assert pairs(source) == [("c", "y")]
    assert "quote" in str(source.skipped.rows[0])


def test_ragged_rows_are_counted_and_listed(path: Path) -> None:
    content = "text,label\na,x\nb\nc,y,z\n\nd,x\n"
    with pytest.raises(SubquadError, match=r"row 2 \(line 3\): has 1 cell where the header has 2"):
        pairs(opened(path, content))
    source = opened(path, content, on_bad_row="skip")
    for _ in range(2):  # each pass counts anew
        assert pairs(source) == [("a", "x"), ("d", "x")]
        assert len(source.skipped) == 2
    assert [(bad.row, bad.line) for bad in source.skipped.rows] == [(2, 3), (3, 4)]
    assert [type(o) for o in source.outcomes()] == [Record, BadRow, BadRow, Record]
    assert [o.row for o in source.outcomes()] == [1, 2, 3, 4]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_system(path: Path, end: str) -> None:
    content = end.join(["text,label", "a,x", "", '"b', '"",c",y', ""])
    assert pairs(opened(path, content)) == [("a", "x"), (f'b{end}",c', "y")]


def test_blank_lines_are_no_rows(path: Path) -> None:
    source = opened(path, "\n\ntext,label\n\na,x\n\n\nb,y")
    assert [(r.row, r.text) for r in source.records()] == [(1, "a"), (2, "b")]


def test_header_alone_and_nothing_at_all(path: Path) -> None:
    with pytest.raises(SubquadError, match=r"holds a header \('text', 'label'\) and no rows"):
        opened(path, "text,label\n")
    for nothing in ("", "\ufeff", "\n\n"):
        with pytest.raises(SubquadError, match="is empty"):
            opened(path, nothing)


def test_duplicate_header_names(path: Path) -> None:
    with pytest.raises(SubquadError, match="2 columns named 'text'"):
        opened(path, "text,text,label\na,b,c\n")
    assert pairs(opened(path, "id,id,text,label\n1,2,a,x\n")) == [("a", "x")]


def test_semicolons_are_seen_and_said(path: Path) -> None:
    source = opened(path, 'text;label\n"a;b";x\nc,d;y\n')
    assert pairs(source) == [("a;b", "x"), ("c,d", "y")]
    assert "semicolon-separated" in source.detected


def test_no_header(path: Path) -> None:
    content = "I loved every minute of it,pos\nA waste of time and money,neg\n"
    with pytest.raises(SubquadError, match=r"looks like a row.*--no-header"):
        opened(path, content)
    source = opened(path, content, header=False)
    assert [label for _, label in pairs(source)] == ["pos", "neg"]
    assert "no header" in source.detected
    assert pairs(opened(path, content, header=False, text="2", label="1"))[0][0] == "pos"


def test_tsv_quotes_with_a_meaning(tmp_path: Path) -> None:
    source = opened(tmp_path / "a.tsv", 'text\tlabel\n"a ""b""\tc\nd"\tx\n')
    assert pairs(source) == [('a "b"\tc\nd', "x")]


def test_tsv_quotes_without_a_meaning(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    source = opened(path, 'text\tlabel\n"frailty" is the word\tx\n"open\ty\n')
    assert pairs(source) == [('"frailty" is the word', "x"), ('"open', "y")]
    assert "quotes are ordinary" in source.detected
    assert pairs(opened(path, 'text\tlabel\n"a"\tx\n', quotes=False)) == [('"a"', "x")]


def test_tsv_quotes_that_change_later_are_told(tmp_path: Path) -> None:
    rows = "text\tlabel\n" + "a\tx\n" * 2000 + '"b" c\tx\n'
    with pytest.raises(SubquadError, match=r"row 2001 .*--no-quotes"):
        pairs(opened(tmp_path / "a.tsv", rows))


def test_places_name_the_file_and_the_row(path: Path) -> None:
    assert opened(path, "text,label\na,x\n").place(7) == f"{path}, row 7"


def test_errors_are_one_line(path: Path) -> None:
    for content in ("text,label\n\n,x\n", 'text,label\n"a\nb', "a,b,c\n1,2,3\n", "text\na\n"):
        with pytest.raises(SubquadError) as caught:
            pairs(opened(path, content))
        assert "\n" not in str(caught.value)


SPACED = 'text, label\n"no, never", "neg"\n"well, yes", "pos"\n'


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_space_before_a_quote(tmp_path: Path, delimiter: str) -> None:
    content = SPACED.replace(", l", f"{delimiter} l").replace('", "', f'"{delimiter} "')
    content = content.replace("no, n", f"no{delimiter} n").replace("well, y", f"well{delimiter} y")
    source = opened(tmp_path / ("a.tsv" if delimiter == "\t" else "a.csv"), content)
    assert pairs(source) == [(f"no{delimiter} never", "neg"), (f"well{delimiter} yes", "pos")]
    assert "spaces before a cell are no part of it" in source.detected
    assert "label = 'label'" in source.detected


def test_spaces_that_belong_to_cells_stay(tmp_path: Path) -> None:
    content = 'text,label\n" ""Yes"", he said",a\n she said,b\n"x, ""y"" z", c\n "No" he said,a\n'
    source = opened(tmp_path / "a.csv", content)
    assert pairs(source) == [
        (' "Yes", he said', "a"),
        (" she said", "b"),
        ('x, "y" z', " c"),
        (' "No" he said', "a"),
    ]


def test_a_space_before_a_quote_far_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquad.data.csvs.SAMPLE", 3)
    content = 'text,label\n"a, b",x\n"c\nd",y\n"e, f", "y"\n' + '" ""g""",x\n'
    source = opened(tmp_path / "a.csv", content, on_bad_row="skip")
    assert pairs(source) == [("a, b", "x"), ("c\nd", "y"), (' "g"', "x")]
    assert "a space stands between a comma and a quote" in source.skipped.rows[0].reason
