"""The three standard streams, however the caller has left them: closed, read by nobody any more, or
in an encoding that holds few characters."""

import contextlib
import io
import json
import os
import sys
from typing import Any, TextIO

#: What a shell reports of a program that wrote to a pipe without a reader (128 + SIGPIPE).
NO_READER = 141


def prepare() -> None:
    """Make writing safe.

    A closed stream is replaced by one that leads nowhere: its number would be given to the next
    file that is opened, and a stray message would end up in that. Standard input stays None for
    those who want to read it, so that they can say so. A character that an output cannot hold
    becomes a question mark.
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
    """Let the descriptor lead nowhere, unless somebody has taken it already."""
    with contextlib.suppress(OSError):
        os.fstat(number)
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)


def abandon(stream: TextIO | None) -> None:
    """Let what is still to be written to ``stream`` go nowhere: nobody reads it."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


def as_json_line(document: Any) -> str:
    """One line of JSON that standard output can hold: beside UTF-8, all but ASCII is escaped."""
    text = json.dumps(document, ensure_ascii=False)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate, from the name of a file
            text.encode()
            return text
    return json.dumps(document)
