"""The results of ``inspect``, as plain data."""

from dataclasses import dataclass, field
from pathlib import Path

from subquad.lab.inspect.likings import Floats, Judgement
from subquad.lab.inspect.state_measures import Topic


@dataclass(frozen=True)
class Text:
    """One text as the model saw it."""

    tokens: list[str]
    answer: str
    """The run's prediction in words; empty for a causal run."""
    weights: dict[tuple[int, str], Floats]
    """Weights of the tokens by (layer, channel): ``[t, h]``."""
    unread: int = 0
    """Number of tokens beyond the run's maximum length, which are not read."""
    maps: dict[int, Floats] = field(default_factory=dict)
    """Softmax attention by layer: ``[h, query, key]``."""
    ranks: dict[int, Floats] = field(default_factory=dict)
    """Effective rank of the state by layer: ``[h, t]``."""
    spectra: dict[int, Floats] = field(default_factory=dict)
    """Power spectrum of the input by layer, for FNet layers."""


@dataclass(frozen=True)
class Head:
    """One head of a channel: the tokens it prefers over the data set, and its rank correlation."""

    layer: int
    channel: str
    head: int
    correlation: float | None
    favourites: list[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Everything that ``inspect`` found out about a run."""

    run: str
    task: str
    layers: list[str]
    """The mixer of each layer."""
    texts: list[Text]
    heads: list[Head]
    topics: dict[int, list[tuple[Topic, list[str], list[str]]]]
    judgement: Judgement | None
    data: str
    rows: int
    """Number of texts read from the data set."""
    skipped: str
    """A sentence about the rows that were skipped, or ""."""
    notes: list[str]
    """How the file was read, and how many of its texts were truncated."""
    page: Path
