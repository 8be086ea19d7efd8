"""The one exception meant for people: a single line that names what was found and what would be
right. The command prints it without a traceback; everything else that is raised is our fault."""


class SubquadError(Exception):
    """Something about the user's data, run directory or machine is not as it must be (exit 1)."""


class UsageError(SubquadError, ValueError):
    """An option or argument is wrong, whatever the data (exit 2)."""


class Interrupted(SubquadError):
    """A signal stopped the work after it was saved; the exit code is 128 + ``signal``."""

    def __init__(self, signal: int, message: str) -> None:
        super().__init__(message)
        self.signal = signal
