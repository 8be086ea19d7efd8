"""How the ``tokenizers`` library treats each character, as tables for a page. Its Unicode data is
partly older and partly newer than that of browsers, and its definition of word characters is its
own, so pages use these tables instead of the browser's functions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from tokenizers import Regex, normalizers

#: All code points except surrogates and planes that are unassigned or for private use.
_POINTS = (*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000))

#: Combining marks that are always ordered last and first among other marks.
LAST, FIRST = "\u0345", "\u0334"


@cache
def classes(*patterns: str) -> list[list[int]]:
    """For each pattern (a regular expression of the library), the code points that match it, as
    ``ranges``."""
    return [ranges(_matching(pattern)) for pattern in patterns]


@cache
def foldings() -> dict[str, list[int]]:
    """How NFKC and lower-casing change characters. ``mapped`` are the code points that
    decomposition changes, ``marks`` those that it can reorder among combining marks (``ranges``).
    ``lower`` has runs of code points that are shifted alike: gap, count, stride, shift."""
    compatible, canonical = normalizers.NFKD().normalize_str, normalizers.NFD().normalize_str
    mapped = [c for c, _ in _changed(compatible)]
    marks = [c for c, s in _changed(canonical, f"{LAST}{{}}{FIRST}") if s[0] != LAST]
    lower = _changed(normalizers.Lowercase().normalize_str)
    # Only U+0130 becomes two characters; the page handles it separately.
    shifts = [(c, ord(low)) for c, low in lower if len(low) == 1]
    return {"mapped": ranges(mapped), "marks": ranges(marks), "lower": _shifts(shifts)}


def _changed(change: Callable[[str], str], around: str = "{}") -> Iterator[tuple[int, str]]:
    """The code points that ``change`` changes, each with the result."""
    for start in range(0, len(_POINTS), 128):
        some = [(c, around.format(chr(c))) for c in _POINTS[start : start + 128]]
        together = "".join(text for _, text in some)
        if change(together) != together:
            pairs = ((c, text, change(text)) for c, text in some)
            yield from ((c, after) for c, before, after in pairs if after != before)


def ranges(points: Iterable[int]) -> list[int]:
    """Ascending code points as gap, count, gap, count, …: skip ``gap``, then take ``count``."""
    found: list[int] = []
    end = 0
    for point in points:
        if not found or point > end:
            found += [point - end, 0]
        found[-1] += 1
        end = point + 1
    return found


def _matching(pattern: str) -> list[int]:
    """The code points that match; each match is replaced by one character, so positions stay."""
    mark = "\0"
    text = "".join(map(chr, _POINTS[1:]))
    found = normalizers.Replace(Regex(pattern), mark).normalize_str(text)
    return [c for c, after in zip(_POINTS[1:], found, strict=True) if after == mark]


def _shifts(pairs: Sequence[tuple[int, int]]) -> list[int]:
    found: list[int] = []
    runs: list[list[int]] = []  # first, last, count, stride, shift
    for point, low in pairs:
        run = runs[-1] if runs else None
        if run is not None and low - point == run[4] and point - run[1] in (1, 2):
            step = point - run[1]
            if run[2] == 1 or run[3] == step:
                run[1], run[2], run[3] = point, run[2] + 1, step
                continue
        runs.append([point, point, 1, 1, low - point])
    end = 0
    for first, last, count, stride, shift in runs:
        found += [first - end, count, stride, shift]
        end = last + 1
    return found
