"""Pages of docs/ that are made from results/: run after a result has changed. A test compares."""

import json
import re
from pathlib import Path
from typing import Any

from subquad.lab.pages import style
from subquad.lab.recipes import Picture, Table
from subquad.lab.recipes.ablation_page import distance, headline, picture, sentences, tables

ROOT = Path(__file__).parent.parent


def table(made: Table) -> str:
    """A Markdown table."""
    rows = [made.heads, ["---", *["--:"] * (len(made.heads) - 1)], *made.rows]
    return "\n".join(["| " + " | ".join(row) + " |" for row in rows])


def drawing(made: Picture) -> str:
    """The drawing of a report as a file of its own, in light and dark."""
    light, dark = (re.findall(r"--[\w-]+: #\w+;", part) for part in _themes(str(style())))
    css = f"svg{{{' '.join(light)} font-family: sans-serif}}"
    css += f"@media (prefers-color-scheme: dark){{svg{{{' '.join(dark)}}}}}"
    head, body = made.svg.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{css}</style>{body}\n'


def _themes(css: str) -> tuple[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    return light, dark


def ablation(document: dict[str, Any]) -> dict[str, str]:
    """The page of the recipe fastformer-ablation and its drawing, by path under docs/."""
    results, m = document["results"], document["machine"]
    pictures = {f"pictures/fastformer-ablation-{i}.svg": p for i, p in enumerate(picture(results))}
    lines = [
        "# What makes Fastformer work?",
        f"**{headline(results)}**",
        *sentences(results),
        *filter(None, [document.get("note")]),
        *(f"![{p.caption}]({name})\n\n{p.caption}" for name, p in pictures.items()),
        *(
            "\n\n".join(filter(None, (f"## {t.caption}", t.note, table(t))))
            for t in tables(results)
        ),
        "## How this was measured",
        "\n".join(f"* {line}" for line in distance(results, full=document["full"])),
        f"`{document['command']}`, commit {m['commit']}, {m['processor']}, {m['threads']} thread, "
        f"{m['date']}. Numbers: `results/fastformer-ablation.json`; page made by "
        "`python docs/generate.py`.",
    ]
    page = "\n\n".join(lines) + "\n"
    return {"fastformer-ablation.md": page} | {n: drawing(p) for n, p in pictures.items()}


def pages() -> dict[str, str]:
    """Every generated page by its path under docs/."""
    found = ROOT / "results" / "fastformer-ablation.json"
    return ablation(json.loads(found.read_text(encoding="utf-8")))


if __name__ == "__main__":
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
