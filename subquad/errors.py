"""The exceptions that are meant for users. Each message is one line that says what was found and
what was expected. The command line prints it without a traceback; any other exception is a bug in
subquad."""


class SubquadError(Exception):
    """There is a problem with the user's data, run directory or machine (exit code 1)."""


class UsageError(SubquadError, ValueError):
    """An option or argument is invalid, whatever the data (exit code 2)."""


class Interrupted(SubquadError):
    """A signal stopped the program after its work was saved; the exit code is 128 + ``signal``."""

    def __init__(self, signal: int, message: str) -> None:
        super().__init__(message)
        self.signal = signal
