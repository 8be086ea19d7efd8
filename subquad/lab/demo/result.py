"""The results of the demo, as plain data."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.lab.compare.comparison import REPORT, RESULTS, Comparison
from subquad.lab.compare.floors import Floor
from subquad.lab.demo.recognise import Recognition
from subquad.lab.instruments.generation import Speed


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The images that the pixel model generated, and how good they are."""

    pixels: npt.NDArray[np.int64]
    """The generated digits, ``[n, 8, 8]`` with levels 0 to 16."""
    real: npt.NDArray[np.int64]
    """The same number of held-out digits."""
    temperature: float
    recognition: Recognition
    bits_per_dim: float
    floors: tuple[Floor, ...]
    state_bytes: int
    """Size of the recurrent state for one image."""
    seconds: float
    """Wall-clock training time."""
    rows: int
    """Number of training digits."""

    def to_dict(self) -> dict[str, Any]:
        """All numbers, without the images."""
        kept = {
            "temperature": self.temperature,
            "bits_per_dim": self.bits_per_dim,
            "state_bytes": self.state_bytes,
            "train_seconds": self.seconds,
            "rows": self.rows,
        }
        judged = asdict(self.recognition)
        return kept | {"recognition": judged, "floors": [asdict(f) for f in self.floors]}


@dataclass(frozen=True)
class Demo:
    """The results of ``demo``; ``report`` is the path of its page."""

    out: Path
    comparison: Comparison
    drawing: Drawing
    speeds: tuple[Speed, ...]

    @property
    def report(self) -> Path:
        return self.out / REPORT

    @property
    def results(self) -> Path:
        return self.out / RESULTS

    def to_dict(self) -> dict[str, Any]:
        return {
            "command": self.comparison.command,
            "machine": self.comparison.machine,
            "drawing": self.drawing.to_dict(),
            "generation": [asdict(s) for s in self.speeds],
            "comparison": self.comparison.to_dict(),
        }
