"""What ``inspect`` saw, as data."""

from dataclasses import dataclass, field
from pathlib import Path

from subquad.lab.inspect.likings import Floats, Judgement
from subquad.lab.inspect.state_measures import Topic


@dataclass(frozen=True)
class Text:
    """One row as the model saw it."""

    tokens: list[str]
    answer: str
    """What the run says about it; empty for a causal run."""
    weights: dict[tuple[int, str], Floats]
    """By layer and channel: ``[t, h]``."""
    unread: int = 0
    """Tokens beyond the longest row that the run reads."""
    maps: dict[int, Floats] = field(default_factory=dict)
    """Softmax attention by layer: ``[h, reader, read]``."""
    ranks: dict[int, Floats] = field(default_factory=dict)
    """Effective rank of the state by layer: ``[h, t]``."""
    spectra: dict[int, Floats] = field(default_factory=dict)
    """Power by frequency of what comes to an FNet layer."""


@dataclass(frozen=True)
class Head:
    """One head of a channel, over the data set."""

    layer: int
    channel: str
    head: int
    correlation: float | None
    favourites: list[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What was seen."""

    run: str
    task: str
    layers: list[str]
    """The mixer of each."""
    texts: list[Text]
    heads: list[Head]
    topics: dict[int, list[tuple[Topic, list[str], list[str]]]]
    judgement: Judgement | None
    data: str
    rows: int
    """Rows of the data set that were read."""
    skipped: str
    """Which of its rows were left out, in a sentence."""
    notes: list[str]
    """How it was read, and how many of its texts were cut."""
    page: Path
