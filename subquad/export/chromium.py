"""Controls a headless Chromium through the DevTools protocol: opens a page, evaluates JavaScript,
takes screenshots. It communicates over two pipes, so it needs neither a port nor a driver."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from subquad.errors import SubquadError

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_OPTIONS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
]

#: The browser reads from file descriptor 3 and writes to file descriptor 4.
_MOVE = """import fcntl, os, sys
high = [fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]]
for descriptor, copy in zip((3, 4), high):
    os.dup2(copy, descriptor)
os.execv(sys.argv[3], sys.argv[3:])"""


def find() -> str | None:
    """The path of an installed browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """A browser with one tab. Use it in a ``with`` statement, which closes the browser.

    Raises:
        SubquadError: no browser is installed.
    """

    def __init__(self, *, width: int = 1000, height: int = 900, dark: bool = False) -> None:
        program = find()
        if program is None:
            raise SubquadError(f"no browser found: install one of {', '.join(NAMES)}")
        self._size, self._dark = (width, height), dark
        self._home = tempfile.TemporaryDirectory(prefix="subquad-", ignore_cleanup_errors=True)
        ours, theirs = os.pipe(), os.pipe()
        self._out, self._in = ours[1], theirs[0]
        start = [sys.executable, "-c", _MOVE, str(ours[0]), str(theirs[1]), program, *_OPTIONS]
        self._process = subprocess.Popen(
            [*start, f"--user-data-dir={self._home.name}", "about:blank"],
            pass_fds=(ours[0], theirs[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._count, self._left, self._session = 0, b"", None

    def __enter__(self) -> Self:
        tabs = self._call("Target.getTargets")["targetInfos"]
        tab = next(t["targetId"] for t in tabs if t["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=tab, flatten=True)
        self._session = attached["sessionId"]
        self._call("Page.enable")
        width, height = self._size
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if self._dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._out)
        os.close(self._in)
        self._home.cleanup()

    def open(self, url: str) -> None:
        """Navigate to ``url``, without waiting until it has loaded (see ``wait``)."""
        self._call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        done = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in done:
            raised = done["exceptionDetails"]
            raise SubquadError(f"the page raised {raised['exception']['description']}")
        return done["result"].get("value")

    def wait(self, script: str, seconds: float = 120) -> Any:
        """Wait until a JavaScript expression is truthy, and return its value.

        Raises:
            SubquadError: it is still not truthy after ``seconds``.
        """
        end = time.monotonic() + seconds
        whole = f"(() => {{ try {{ return {script} }} catch {{ return null }} }})()"
        while time.monotonic() < end:
            if value := self.run(whole):
                return value
            time.sleep(0.05)
        raise SubquadError(f"the page did not reach {script} within {seconds} s")

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"Space": " "}.get(key, "")
        named = {"key": text or key, "code": key, "text": text}
        self._call("Input.dispatchKeyEvent", type="keyDown", **named)
        self._call("Input.dispatchKeyEvent", type="keyUp", **named)

    def picture(self, out: Path) -> None:
        """The whole page as a PNG file."""
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self._call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        out.write_bytes(base64.b64decode(shot["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        try:
            left = json.dumps(message).encode() + b"\0"
            while left:
                left = left[os.write(self._out, left) :]
            while (answer := self._read()).get("id") != self._count:
                pass
        except BrokenPipeError:
            raise SubquadError("the browser has exited unexpectedly") from None
        if "error" in answer:
            raise SubquadError(f"the browser rejected {method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._in, 1 << 16)
            if not more:
                raise SubquadError("the browser has exited unexpectedly")
            self._left += more
        message, self._left = self._left.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found
