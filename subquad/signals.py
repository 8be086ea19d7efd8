"""Signals that ask a process to end, answered where the work stands well."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def caught() -> Iterator[list[int]]:
    """Collect the first SIGINT or SIGTERM; a second one acts as if nobody had caught the first."""
    received: list[int] = []
    old: dict[int, Any] = {}

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        for caught, handler in old.items():
            signal.signal(caught, handler)

    try:
        for which in (signal.SIGINT, signal.SIGTERM):
            old[which] = signal.signal(which, note)
    except ValueError:  # not the main thread: signals are somebody else's
        pass
    try:
        yield received
    finally:
        for caught, handler in old.items():
            signal.signal(caught, handler)
