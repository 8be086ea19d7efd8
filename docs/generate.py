"""Generates those pages of docs/ that follow from results/; run it after a result has changed. A
test checks that the pages are up to date."""

import json
import re
from pathlib import Path
from typing import Any

from subquad.lab.drawing.pages import style
from subquad.lab.recipes import Picture, Table
from subquad.lab.recipes.ablation_page import distance, headline, picture, sentences, tables

ROOT = Path(__file__).parent.parent


def table(made: Table) -> str:
    """A Markdown table."""
    rows = [made.heads, ["---", *["--:"] * (len(made.heads) - 1)], *made.rows]
    return "\n".join(["| " + " | ".join(row) + " |" for row in rows])


def drawing(made: Picture) -> str:
    """A report's figure as a stand-alone SVG file, for light and dark mode."""
    light, dark = (re.findall(r"--[\w-]+: #\w+;", part) for part in _themes(str(style())))
    css = f"svg{{{' '.join(light)} font-family: sans-serif}}"
    css += f"@media (prefers-color-scheme: dark){{svg{{{' '.join(dark)}}}}}"
    head, body = made.svg.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{css}</style>{body}\n'


def _themes(css: str) -> tuple[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    return light, dark


def ablation(document: dict[str, Any]) -> dict[str, str]:
    """The page of the recipe fastformer-ablation and its figure, by path under docs/."""
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
        f"{m['date']}. The numbers are in `results/fastformer-ablation.json`. Page made by "
        "`python docs/generate.py`.",
    ]
    page = "\n\n".join(lines) + "\n"
    return {"fastformer-ablation.md": page} | {n: drawing(p) for n, p in pictures.items()}


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _machine(document: dict[str, Any], folder: str) -> list[str]:
    """The section about one machine on the page about speed."""
    e, rows = document["environment"], document["rows"]
    found = {(r["kind"], r["name"], r["t"]): r for r in rows}
    lengths = document["config"]["lengths"]

    def times(kind: str, t: int) -> list[str]:
        mine, slow = found[kind, "native", t], found[kind, "chunked", t]
        spread = f"{mine['ratio']:.2f} ({mine['low']:.2f} to {mine['high']:.2f})"
        return [spread, f"{slow['seconds'] / mine['seconds']:.1f}"]

    causal = Table(
        "",
        [
            "tokens",
            "forward, over softmax",
            "over torch",
            "forward and backward, over softmax",
            "over torch",
        ],
        [[f"{t:,}", *times("forward", t), *times("forward+backward", t)] for t in lengths],
    )
    steps = document["config"]["step_lengths"]
    mixers = [m for m in document["config"]["mixers"] if m != "none"]
    step = Table(
        "",
        ["mixer", *(f"{t:,}" for t in steps)],
        [[m, *(f"{found['training step', m, t]['ratio']:.2f}" for t in steps)] for m in mixers],
    )
    memory = ", ".join(f"{n} {size / 2**20:.0f}" for n, size in document["memory"].items())
    missed = [f"{t['text']}: {t['found']:.3g}" for t in document["targets"] if not t["passed"]]
    return [
        f"## {e['processor']}, {e['cores']} cores, {e['kernels']['instruction_set']}",
        f"Speed-up of causal linear attention (batch size 1, 8 heads of 64, fp32, {e['threads']} "
        "threads) over torch's own causal softmax attention (median and quartiles), and over "
        "chunked linear attention in torch:",
        table(causal),
        f"![Milliseconds against sequence length](../{folder}/bench.svg)",
        "Time of a training step of four layers (d 256, 8 heads, 8,192 tokens in sequences of the "
        f"given length, {e['precision'].partition('steps in ')[2]}), relative to a step without "
        "mixing:",
        table(step),
        f"Peak memory of a forward and backward pass at {max(lengths):,} tokens in MiB, inputs not "
        f"counted: {memory}.",
        "The project's targets that this run misses:",
        "\n".join(f"* {line}" for line in missed),
        f"`{e['command']}`, commit {e['commit']}, {e['date']}.",
    ]


def speed(*folders: str) -> dict[str, str]:
    """The page about speed, with a section for each machine."""
    lines = [
        "# How fast?",
        "Measured with `subquad bench`: all candidates take turns within one run, with pinned "
        "threads. Don't compare ratios between machines, because the commits differ too; `LOG.md` "
        "has later results. Page made by `python docs/generate.py`.",
    ]
    for folder in folders:
        lines += _machine(_read(ROOT / folder / "bench.json"), folder)
    return {"speed.md": "\n\n".join(lines) + "\n"}


def pages() -> dict[str, str]:
    """All generated pages by path under docs/."""
    found = ROOT / "results" / "fastformer-ablation.json"
    made = ablation(_read(found))
    return made | speed("results/kernels-avx2", "results/kernels")


if __name__ == "__main__":
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
