"""Does an export still compute what torch computed? Its own self-test, run from here."""

import json
import re
import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from subquad.errors import SubquadError
from subquad.export import chromium
from subquad.export.folder import check_folder

#: Seconds that a page may take.
PATIENCE = 300


def check(page: Path) -> dict[str, dict[str, Any]]:
    """The outcome of the page's self-test under node and in Chromium, where they are there:
    ``passed``, ``worst`` (largest relative difference of outputs) and whether tokens are torch's
    (``likeliest`` and ``drawn`` where it generates, ``ids`` where it classifies), or an ``error``.
    A folder is one of ONNX files (``folder``).

    Raises:
        SubquadError: neither is there, or the file is not a page.
    """
    if page.is_dir():
        return {"onnxruntime": check_folder(page)}
    if not page.is_file():
        raise SubquadError(f"{page}: no such file")
    if '<script id="worker"' not in page.read_text("utf-8", errors="replace"):
        raise SubquadError(f"{page} is not a page that `subquad export --to web` has made")
    found: dict[str, dict[str, Any]] = {}
    if shutil.which("node"):
        answer = ask(page, {"kind": "check"})[-1]
        found["node"] = _outcome(answer)
    if chromium.find() is not None:
        with chromium.Chromium() as browser:
            browser.open(page.resolve().as_uri() + "?selftest=1")
            browser.wait("document.documentElement.dataset.selftest", PATIENCE)
            result = browser.run("document.documentElement.dataset.selftestResult")
            error = browser.run("document.documentElement.dataset.error")
        found["chromium"] = _outcome(json.loads(result) if result else {"message": error})
    if not found:
        raise SubquadError("a page is checked by node or Chromium; neither is installed")
    return found


def ask(page: Path, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of the page's worker to messages, under node."""
    with as_file(files("subquad.export").joinpath("page", "check.mjs")) as script:
        done = subprocess.run(
            ["node", str(script), str(page)],
            input=json.dumps(messages),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    if done.returncode:
        reason = next(
            (s for s in done.stderr.splitlines() if re.match(r"\w*Error: ", s)), done.stderr[-300:]
        )
        raise SubquadError(f"{page} does not run: {reason}")
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def _outcome(answer: dict[str, Any]) -> dict[str, Any]:
    if "passed" not in answer:
        return {"passed": False, "error": answer.get("message")}
    names = ("passed", "worst", "likeliest", "drawn", "ids")
    return {name: answer[name] for name in names if name in answer}
