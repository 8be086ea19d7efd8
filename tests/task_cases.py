"""Every task with data to feed it, and what each verb says where it does not work."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests import outside_task

TINY = "--mixer linear --layers 1 --d 16 --heads 2 --ff 16 --steps 4 --batch 8 --evaluations 1"
TINY += " --precision fp32"
TOKENS = "--tokenizer chars --length 32"
PAIRS = "--pair second --pooling pooler --types 2"
WORDS = "match goal team coach win league bank market stock price trade loan".split()  # noqa: SIM905


def rows(label: str) -> list[str]:
    found = []
    for i in range(40):
        text = f"{WORDS[i % 12]} {WORDS[(i * 5 + 1) % 12]} the {i % 7}"
        second = f"{WORDS[(i * 7) % 12]} of {i % 5}"
        labels = {"class": "ab"[i % 2], "number": str(i % 9 / 4)}
        labels["several"] = ";".join(name for k, name in ((2, "even"), (3, "third")) if not i % k)
        found.append(f"{text},{second},{labels[label]}")
    return found


def csv(label: str, path: Path) -> Path:
    path.write_text("\n".join(["text,second,label", *rows(label)]) + "\n")
    return path


def book(path: Path) -> Path:
    path.write_text("\n".join(" ".join(WORDS[i % 7 : i % 7 + 5]) for i in range(80)) + "\n")
    return path


def tones(path: Path) -> Path:
    outside_task.write(path)
    return path


@dataclass(frozen=True)
class Case:
    """A task, its data, and the flags beside those of all."""

    task: str
    data: Any
    """Writes a file; or the name of a built-in set."""
    flags: str = ""


CASES = {
    "classify": Case("classify", partial(csv, "class"), f"{TOKENS} --text text"),
    "several": Case("classify", partial(csv, "several"), f"{TOKENS} --labels-separator ;"),
    "pairs": Case("classify", partial(csv, "class"), f"{TOKENS} {PAIRS}"),
    "digits": Case("classify", "digits"),
    "regress": Case("regress", partial(csv, "number"), f"{TOKENS} --text text"),
    "language": Case("language", book, TOKENS),
    "masked": Case("masked", book, TOKENS),
    "pixels": Case("pixels", "digits"),
    "tones": Case("tones", tones, "--stride 1"),
    "vectors": Case("embed", partial(csv, "class")),
}

#: What a verb says where it does not work, with exit code 2; everything else works.
NO_GENERATE = "cannot generate; use: subquad predict RUN FILE"
GENERATES = "cannot predict; use: subquad generate RUN"
TUNED = "use: subquad train FILE --task classify --from RUN --out NEW"
UNTRAINED = "'embed' is not one of"
REFUSED = {
    ("classify", "generate"): NO_GENERATE,
    ("several", "generate"): NO_GENERATE,
    ("several", "web"): "the run predicts several labels, but a page only one class",
    ("pairs", "generate"): NO_GENERATE,
    ("pairs", "web"): "the run classifies pairs of texts, but a page only single texts",
    ("digits", "generate"): NO_GENERATE,
    ("digits", "predict"): "it reads pixels, not texts",
    ("digits", "inspect"): "does not read text",
    ("digits", "web"): "the run classifies pixels, but a page can only classify texts",
    ("regress", "generate"): NO_GENERATE,
    ("regress", "web"): "the task is regress; a page shows texts, pictures or classes",
    ("language", "predict"): GENERATES,
    ("masked", "predict"): TUNED,
    ("masked", "generate"): TUNED,
    ("masked", "web"): "the task is masked; a page shows texts, pictures or classes",
    ("masked", "onnx"): "causal models, not Pretraining",
    ("pixels", "predict"): GENERATES,
    ("pixels", "inspect"): "does not read text",
    ("language", "embed"): "a run of the task language cannot embed",
    ("masked", "embed"): "a run of the task masked cannot embed",
    ("pixels", "embed"): "a run of the task pixels cannot embed",
    ("tones", "embed"): "a run of the task tones cannot embed",
    ("digits", "embed"): "it reads pixels, not texts",
    ("digits", "convert"): "it reads pixels, not texts",
    ("pixels", "convert"): "does not read texts; only models of texts are converted",
    ("tones", "convert"): "does not read texts; only models of texts are converted",
    ("vectors", "evaluate"): "a run of the task embed cannot evaluate",
    ("vectors", "predict"): "a run of the task embed cannot predict",
    ("vectors", "generate"): "a run of the task embed cannot generate",
    ("vectors", "compare"): UNTRAINED,
    ("vectors", "resume"): UNTRAINED,
    ("vectors", "from"): UNTRAINED,
    ("vectors", "web"): "the task is embed; a page shows texts, pictures or classes",
    ("tones", "generate"): NO_GENERATE,
    ("tones", "inspect"): "does not read text",
    ("tones", "web"): "the task is tones; a page shows texts, pictures or classes",
    ("tones", "onnx"): "causal models, not Listener",
}
