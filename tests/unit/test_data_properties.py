"""Whatever the file: as many records and reasons as rows, or one error meant for people."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from subquad.data.rows import BadRow
from subquad.data.source import ReadOptions, Record, open_source
from subquad.errors import SubquadError

SETTINGS = settings(max_examples=150, deadline=None)

cell = st.one_of(
    st.sampled_from(
        ["", "NA", "null", "nan", "a,b", 'say "hi"', "a\nb", "\r", "\ufeff", "1.0", "é"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("properties")


def outcomes(path: Path, **options: object) -> list[Record | BadRow]:
    options = {"text": "text", "label": "label", **options}
    source = open_source(path, ReadOptions(**options), labelled=True)  # type: ignore[arg-type]
    return list(source.outcomes())


@SETTINGS
@given(
    rows=st.lists(st.tuples(cell, cell), min_size=1, max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_csv_count_in_is_count_out(folder: Path, rows: list[tuple[str, str]], end: str) -> None:
    out = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if end == "\n" else csv.QUOTE_MINIMAL  # which misses a \r before \n
    writer = csv.writer(out, lineterminator=end, quoting=quoting)
    writer.writerows([("text", "label"), *rows])
    (folder / "a.csv").write_bytes(out.getvalue().encode())
    found = outcomes(folder / "a.csv")
    assert [o.row for o in found] == list(range(1, len(rows) + 1))
    for outcome, (text, label) in zip(found, rows, strict=True):
        if isinstance(outcome, Record):
            assert outcome.text == text
            assert outcome.label in (label, whole := label.partition(".")[0], whole.lstrip("-"))
        else:
            assert "" in (text, label), outcome


@SETTINGS
@given(
    rows=st.lists(
        st.one_of(
            st.fixed_dictionaries({"text": st.text(max_size=9), "label": value}),
            st.fixed_dictionaries({"text": value}, optional={"label": value}),
            value,
        ),
        min_size=1,
        max_size=8,
    ),
    ascii_only=st.booleans(),
)
def test_jsonl_count_in_is_count_out(folder: Path, rows: list[object], ascii_only: bool) -> None:
    rows = [{"text": "first", "label": "x"}, *rows]
    lines = "\n".join(json.dumps(row, ensure_ascii=ascii_only) for row in rows)
    (folder / "a.jsonl").write_bytes(lines.encode("utf-8", "surrogatepass"))
    found = outcomes(folder / "a.jsonl")
    assert [o.row for o in found] == list(range(1, len(rows) + 1))
    for outcome, row in zip(found, rows, strict=True):
        if isinstance(outcome, Record):
            assert isinstance(row, dict)
            assert outcome.text == row["text"]
            outcome.text.encode()


bits = st.sampled_from([b",", b'"', b"\n", b"\r", b"\t", b"{", b"}", b":", b"[", b"\0", b"\xff"])
soup = st.lists(bits | st.binary(max_size=4) | cell.map(str.encode), max_size=30).map(b"".join)
headers = {
    "csv": b"text,label\n",
    "tsv": b"text\tlabel\n",
    "jsonl": b'{"text": "a", "label": "b"}\n',
    "json": b"",
    "parquet": b"PAR1",
    "csv.gz": b"\x1f\x8b",
    "csv.zst": b"\x28\xb5\x2f\xfd",
}


@pytest.mark.parametrize("name", headers)
@settings(max_examples=60, deadline=None)
@given(content=soup, with_header=st.booleans(), skip=st.booleans())
@example(content=b'a,"b', with_header=True, skip=True)
def test_any_bytes_give_records_or_one_clear_error(
    folder: Path, name: str, content: bytes, with_header: bool, skip: bool
) -> None:
    path = folder / f"soup.{name}"
    path.write_bytes(headers[name] * with_header + content)
    error = read_twice(path, ReadOptions(on_bad_row="skip" if skip else "stop"))
    if error is not None:
        assert str(path) in str(error)
        assert "\n" not in str(error)


def read_twice(path: Path, options: ReadOptions) -> SubquadError | None:
    """Read all records and all outcomes; the error meant for people if there was one."""
    try:
        source = open_source(path, options, labelled=True)
        records = list(source.records())
    except SubquadError as e:
        return e
    assert len(records) + len(source.skipped) == len(list(source.outcomes()))
    for record in records:
        record.text.encode()
        assert record.text
        assert record.label
    return None


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(max_size=9), min_size=1, max_size=9))
def test_encodings_agree(folder: Path, kind: str, texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    if kind == "csv":
        out = io.StringIO(newline="")
        csv.writer(out).writerows([("text", "label"), *((t, "x") for t in texts)])
        content = out.getvalue()
    else:
        lines = (json.dumps({"text": t, "label": "x"}, ensure_ascii=False) for t in texts)
        content = "\n".join(lines)
    results = []
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        path = folder / f"{encoding}.{kind}"
        path.write_bytes(content.encode(encoding))
        results.append(outcomes(path, encoding=encoding))
    assert all(result == results[0] for result in results)
