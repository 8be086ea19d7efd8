"""``subquad mixers``."""

import inspect
from typing import Any

import click

from subquad.cli.console import json_flag, result


@click.command()
@json_flag
def command(as_json: bool) -> None:
    """List the mixers with direction, cost per layer, options and source."""
    from subquad.mixers import MIXERS

    rows = [_row(name) for name in MIXERS]
    width = {key: max(len(str(row[key])) for row in [*rows, _HEAD]) for key in _HEAD}
    lines = ["  ".join(f"{row[key]:<{width[key]}}" for key in _HEAD) for row in [_HEAD, *rows]]
    result(rows, as_json=as_json, text="\n".join(line.rstrip() for line in lines))


_HEAD = {
    "name": "mixer",
    "whole": "whole rows",
    "streams": "streams",
    "cost": "cost",
    "options": "options",
    "source": "source",
}


def _row(name: str) -> dict[str, Any]:
    from subquad.mixers import MIXERS, options

    entry = MIXERS[name]
    shown: dict[str, str] = {}
    for causal in (False, True):
        if entry.cls(causal):
            for option, default in options(name, causal=causal).items():
                given = default is inspect.Parameter.empty
                shown[option] = option if given else f"{option}={default}"
    return {
        "name": name,
        "whole": "yes" if entry.bidirectional else "no",
        "streams": "yes" if entry.causal else "no",
        "cost": entry.cost,
        "options": ", ".join(shown.values()) or "none",
        "source": entry.source,
    }
