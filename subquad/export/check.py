"""Runs the self-test of an export: does it still compute what torch computed?"""

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

#: Timeout for a page's self-test, in seconds.
PATIENCE = 300


def check(page: Path) -> dict[str, dict[str, Any]]:
    """Run an export's self-test: a page's in Node and in Chromium, as far as they are installed, or
    a folder's of ONNX files in onnxruntime.

    Returns:
        For each program, ``passed``, ``worst`` (the largest relative difference of outputs) and
        whether the tokens equal torch's (``likeliest`` and ``drawn`` for pages that generate,
        ``ids`` for pages that classify), or ``passed`` and an ``error``.

    Raises:
        SubquadError: the file does not exist or is not a page, or neither Node nor Chromium is
            installed.
    """
    if page.is_dir():
        return {"onnxruntime": check_folder(page)}
    if not page.is_file():
        raise SubquadError(f"{page} does not exist; name a page or a folder of ONNX files")
    if '<script id="worker"' not in page.read_text("utf-8", errors="replace"):
        raise SubquadError(f"{page} is not a page made by `subquad export --to web`")
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
        raise SubquadError("checking a page needs Node or Chromium, and neither is installed")
    return found


def ask(page: Path, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Send messages to the page's worker, run by Node, and return all its replies."""
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
