"""Makes the standard streams safe to use even if they are closed, have lost their reader, or use an
encoding with few characters."""

import contextlib
import io
import json
import os
import sys
from typing import Any, TextIO

#: The exit code that a shell reports after a broken pipe (128 + SIGPIPE).
NO_READER = 141


def prepare() -> None:
    """Make the standard streams safe to write to.

    A closed stream is redirected to the null device; otherwise the next file that is opened would
    get its descriptor, and stray messages would be written into that file. A closed ``sys.stdin``
    stays None, so that code that wants to read it can report that. Characters that the encoding of
    stdout does not have are replaced by question marks.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _occupy(number)
            if number:
                nowhere = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                setattr(sys, name, nowhere)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _occupy(number: int) -> None:
    """Open the null device as this descriptor, unless it is in use."""
    with contextlib.suppress(OSError):
        os.fstat(number)
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)


def abandon(stream: TextIO | None) -> None:
    """Redirect ``stream`` to the null device, because its reader is gone."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


def as_json_line(document: Any) -> str:
    """One line of JSON for standard output; non-ASCII is escaped unless its encoding is UTF-8."""
    text = json.dumps(document, ensure_ascii=False)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate, from the name of a file
            text.encode()
            return text
    return json.dumps(document)
