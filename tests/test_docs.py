"""Documentation that runs: every block of README and docs/, and the README's tree against git."""

import doctest
import functools
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import subquad
from tests.bodies import tiny_bert

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Pages whose commands use what those before them made.
PAGES = ["README.md", "docs/pretrained.md", "docs/export.md", "CONTRIBUTING.md"]
BLOCKS = [
    (page, language, body)
    for page in PAGES
    for language, body in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
]


def run(arguments, cwd, **kwargs):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        arguments, cwd=cwd, env=env, capture_output=True, text=True, timeout=600, **kwargs
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the README's commands speak of."""
    folder = tmp_path_factory.mktemp("readme")
    words = {"sport": "match goal team coach league", "money": "bank stock price trade loan"}
    for name in ("reviews.csv", "more-reviews.csv"):
        rows = [
            f"{' '.join(words[label].split()[i % 4 :])} number {i},{label}"
            for i in range(40)
            for label in words
        ]
        (folder / name).write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    tags = [
        f"goal match {i},sport\nbank price {i},money\ngoal bank {i},sport;money" for i in range(20)
    ]
    (folder / "tags.csv").write_text("\n".join(["text,label", *tags]) + "\n", encoding="utf-8")
    stars = [f"{'good ' * (i % 5)}match,{i % 5}" for i in range(40)]
    (folder / "ratings.csv").write_text("\n".join(["text,label", *stars]) + "\n", encoding="utf-8")
    tiny_bert(folder / "all-MiniLM-L6-v2")
    (folder / "book.txt").write_text("It was a dark and stormy night. " * 200, encoding="utf-8")
    return folder


def test_every_block_is_of_a_kind_that_runs():
    assert {language for _, language, _ in BLOCKS} == {"console", "bash", "python", "text"}


def test_every_page_that_a_person_wrote_is_run():
    written = {
        str(path.relative_to(ROOT))
        for path in [*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
        if "page made by" not in path.read_text("utf-8").lower()
    }
    assert written == set(PAGES)


RUNNABLE = [i for i, (_, language, _) in enumerate(BLOCKS) if language in ("bash", "python")]


@pytest.mark.parametrize("index", RUNNABLE, ids=lambda i: f"{BLOCKS[i][0]}-{i}")
def test_block_runs(folder, index):
    """In order: later blocks use what earlier ones made."""
    _, language, body = BLOCKS[index]
    if language == "bash":
        done = run(["bash", "-euo", "pipefail", "-c", body], folder)
    else:
        done = run([sys.executable, "-c", body], folder)
    assert done.returncode == 0, f"{body}\n{done.stdout}\n{done.stderr}"


def test_readme_blocks_made_what_they_say(folder):
    assert (folder / "runs" / "mine" / "model.safetensors").exists()
    assert (folder / "report" / "report.html").exists()
    assert (folder / "digits.png").exists()


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^\$ make (\S+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.skipif(shutil.which("make") is None, reason="NO MAKE: its targets are not checked")
@pytest.mark.parametrize(
    ("target", "tools"), [("demo", False), ("bench", False), ("test", True), ("check", True)]
)
def test_a_target_installs_what_it_needs_and_no_more(target, tools, tmp_path):
    """In an environment where nothing has been installed. The core is compiled once."""
    shown = ["make", "--dry-run", "--always-make", target, f"VENV={tmp_path}"]
    installed = re.findall(r"pip install .* (--\w+ \S+)$", run(shown, ROOT).stdout, re.MULTILINE)
    assert installed == ["--editable .", f"--requirement {tmp_path}/tools.txt"][: 1 + tools]


def _tree():
    """The paths of the README's tree, folders with a slash."""
    body = next(
        body
        for page, language, body in BLOCKS
        if (page, language) == ("README.md", "text") and "LICENSE" in body
    )
    paths, folder = set(), ""
    for line in body.splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = name if name.endswith("/") else ""
            paths.add(name)
        else:
            paths.add(folder + name)
    return paths


def test_the_readme_tree_equals_git():
    done = run(["git", "ls-files"], ROOT)
    if done.returncode:
        pytest.skip("not a git checkout")
    real = set()
    for name in done.stdout.splitlines():
        parts = name.split("/")
        if parts[0].startswith("."):
            continue
        real.add(parts[0] + ("/" if len(parts) > 1 else ""))
        if parts[0] == "subquad" and len(parts) > 1 and not parts[1].startswith("__"):
            real.add("subquad/" + parts[1] + ("/" if len(parts) > 2 else ""))
    assert _tree() == real


def test_local_links_of_the_readme_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


def test_generated_pages_follow_from_the_results():
    from docs.generate import pages

    for name, text in pages().items():
        if name.endswith(".md"):
            found = (ROOT / "docs" / name).read_text(encoding="utf-8")
            assert found == text, f"docs/{name} is old: python docs/generate.py"


@pytest.mark.parametrize(
    "module", ["subquad.fitting", "subquad.estimator", "subquad.generation.runs"]
)
def test_examples_in_docstrings_run(module, tmp_path, monkeypatch):
    """Every ``>>>`` of the public functions, on small data and with a small budget."""
    monkeypatch.chdir(tmp_path)
    texts, labels = ["free money", "see you at noon"] * 8, ["spam", "ham"] * 8
    (tmp_path / "book.txt").write_text("It was the best of times. " * 40)
    small = functools.partial(subquad.train, steps=2)
    small("book.txt", task="language", out="runs/book", tokenizer="bytes", length=32)
    monkeypatch.setattr(subquad, "train", small, raising=False)
    names = {"subquad": subquad, "texts": texts, "labels": labels}
    names["TextClassifier"] = functools.partial(subquad.TextClassifier, epochs=1)
    found = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module))
    examples = [example for test in found for example in test.examples]
    assert examples
    for example in examples:
        exec(example.source, names)
