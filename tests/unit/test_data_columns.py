"""Which column is the text and which the label, and that it is said."""

from pathlib import Path

import pytest

from subquad.data.source import ReadOptions, open_source
from subquad.errors import SubquadError, UsageError


def chosen(path: Path, content: str, *, labelled: bool = True, **options: str) -> tuple[str, ...]:
    path.write_text(content, encoding="utf-8")
    source = open_source(path, ReadOptions(**options), labelled=labelled)  # type: ignore[arg-type]
    assert f"text = {source.text!r}" in source.detected
    if labelled:
        assert f"label = {source.label!r}" in source.detected
    return (source.text, source.label or "")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


@pytest.mark.parametrize(
    ("header", "text", "label"),
    [
        ("text,label", "text", "label"),
        ("label,text", "text", "label"),
        ("id,Review,Sentiment", "Review", "Sentiment"),
        (" content ,category,title", " content ", "category"),
        ("index,sentence,target", "sentence", "target"),
        ("id,text,opinion", "text", "opinion"),
        (",words,label", "words", "label"),
        ("a,b", "b", "a"),  # by their lengths
    ],
)
def test_detection(path: Path, header: str, text: str, label: str) -> None:
    cells = {text: "a long enough text", label: "x"}
    row = ",".join(cells.get(name, "1") for name in header.split(","))
    assert chosen(path, f"{header}\n{row}\n{row}\n") == (text, label)


def test_asked_columns_win(path: Path) -> None:
    content = "text,label,body,topic\na,b,c,d\n"
    assert chosen(path, content, text="body", label="topic") == ("body", "topic")
    assert chosen(path, content, text="label") == ("label", "topic")
    assert chosen(path, content, labelled=False) == ("text", "")
    assert chosen(path, "words\na\n", labelled=False) == ("words", "")


def test_refusals_list_the_columns(path: Path) -> None:
    content = "a,b,c\n1,2,3\n"
    with pytest.raises(UsageError, match=r"no column 'text' \(--text\); it has: 'a', 'b', 'c'"):
        chosen(path, content, text="text")
    with pytest.raises(UsageError, match=r"which column is the text .* 'a', 'b', 'c'"):
        chosen(path, content)
    with pytest.raises(UsageError, match=r"which column is the label .* 'text', 'b', 'c'"):
        chosen(path, "text,b,c\n1,2,3\n")
    with pytest.raises(UsageError, match="cannot be both"):
        chosen(path, content, text="a", label="a")


@pytest.mark.parametrize(("pair", "what"), [("a", "text"), ("b", "label")])
def test_a_pair_is_a_column_of_its_own(path: Path, pair: str, what: str) -> None:
    path.write_text("a,b,c\n1,2,3\n")
    options = ReadOptions(text="a", label="b", pair=pair)
    with pytest.raises(UsageError, match=f"column '{pair}' cannot be both {what} and pair"):
        open_source(str(path), options, labelled=True)


@pytest.mark.parametrize("first", ["terrible film,neg", "so good,1", "word,2.5"])
def test_a_row_is_never_lost_as_a_header(path: Path, first: str) -> None:
    rows = "".join(f"a much longer text number {i},{'neg' if i % 2 else 1}\n" for i in range(9))
    with pytest.raises(UsageError, match="looks like a row"):
        chosen(path, f"{first}\n{rows}")


@pytest.mark.parametrize("name", ["a.xlsx", "a.zip", "a.pkl", "a.npz", "a.pdf"])
def test_formats_that_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(UsageError, match="is not read as text; "):
        open_source(tmp_path / name, ReadOptions(), labelled=False)


def test_options_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}')
    cases = (
        ({"header": False}, "--no-header"),
        ({"quotes": True}, "--quotes"),
        ({"format": "x"}, "--format 'x' is not one of csv"),
    )
    for options, found in cases:
        with pytest.raises(UsageError, match=found):
            open_source(path, ReadOptions(**options), labelled=False)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'ignore' is not one of stop, skip"):
        ReadOptions(on_bad_row="ignore")


def test_format_overrules_the_name(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text,label\na,x\n")
    source = open_source(path, ReadOptions(format="csv"), labelled=True)
    assert [r.text for r in source.records()] == ["a"]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SubquadError, match="no such file"):
        open_source(tmp_path / "none.csv", ReadOptions(), labelled=True)
