"""Pages of docs/ that are made from results/: run after a result has changed. A test compares."""

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


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _machine(document: dict[str, Any], folder: str) -> list[str]:
    """One machine's section of the page about speed."""
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
            "forward, times softmax",
            "times torch",
            "both ways, times softmax",
            "times torch",
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
        f"Causal linear attention, one row, 8 heads of 64, fp32, {e['threads']} threads: how "
        "many times as fast as causal softmax (torch's own), and as the same in chunks of torch. "
        "Median and quartiles.",
        table(causal),
        f"![Milliseconds over tokens](../{folder}/bench.svg)",
        "A training step of four layers (d 256, 8 heads, 8,192 tokens in rows of this length, "
        f"{e['precision'].partition('steps in ')[2]}), in times of the same without any mixing:",
        table(step),
        f"MiB over the inputs, forward and backward at {max(lengths):,} tokens: {memory}.",
        "Aims of the project that this run does not reach:",
        "\n".join(f"* {line}" for line in missed),
        f"`{e['command']}`, commit {e['commit']}, {e['date']}.",
    ]


def speed(*folders: str) -> dict[str, str]:
    """The page about speed, a section for each machine."""
    lines = [
        "# How fast?",
        "Measured by `subquad bench`, candidates in turn in one run, threads pinned. Ratios of "
        "different machines are not to be compared, and the commits differ: what came later is in "
        "`LOG.md`. Page made by `python docs/generate.py`.",
    ]
    for folder in folders:
        lines += _machine(_read(ROOT / folder / "bench.json"), folder)
    return {"speed.md": "\n\n".join(lines) + "\n"}


def pages() -> dict[str, str]:
    """Every generated page by its path under docs/."""
    found = ROOT / "results" / "fastformer-ablation.json"
    made = ablation(_read(found))
    return made | speed("results/kernels-avx2", "results/kernels")


if __name__ == "__main__":
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
