"""The command line: one module per command (``VERBS``), each imported only when it is called.

This package is the only place that prints. Results go to stdout; messages, progress bars and
warnings to stderr. Exit codes: 0 success, 1 failure, 2 wrong usage, 130/143 interrupted, 141 the
reader of our output is gone (broken pipe).
"""

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import click

import subquad
from subquad.cli import streams
from subquad.cli.memory import keep_freed_memory
from subquad.errors import Interrupted, SubquadError, UsageError

#: Verb → its one line in ``subquad --help``.
VERBS = {
    "train": "Train a model on your own data.",
    "evaluate": "Evaluate a trained run on another file.",
    "predict": "Predict classes or numbers for the rows of a file or of standard input.",
    "convert": "Replace a model's softmax attention by another mixer, and teach it.",
    "embed": "Write one vector per text, for search or other programs.",
    "generate": "Generate images or continue texts with a causal run.",
    "compare": "Train several mixers with the same budget and write a report.",
    "bench": "Benchmark mixers and kernels against softmax attention on this machine.",
    "recipe": "Reproduce a paper's experiment and compare the results.",
    "inspect": "Show which words each head attends to, and whether context matters.",
    "export": "Export a run as one HTML page that works in any browser, or as ONNX.",
    "mixers": "List the mixers with their cost and options.",
    "info": "Show what this machine supports and what subquad will use.",
    "demo": "A quick tour on built-in data, in a few minutes.",
}


class _NoReader(Exception):
    """The reader of our output is gone. (Click would turn a BrokenPipeError into exit code 1.)"""


@contextmanager
def _no_reader_said() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _NoReader from error


class _Lazy(click.Group):
    """Imports a command's module only when it is called, so that ``--help`` is fast."""

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        with _no_reader_said():
            return super().make_context(*given, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _no_reader_said():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"subquad.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(subquad.__version__, prog_name="subquad")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
def app(debug: bool) -> None:
    """Sequence models whose cost does not grow quadratically with the sequence length.

    To get started, run `subquad demo`, then `subquad train FILE --task classify --out RUN`.
    """
    if debug:
        os.environ["SUBQUAD_DEBUG"] = "1"


def main(argv: list[str] | None = None) -> None:
    """Run the command and exit."""
    streams.prepare()
    signal.signal(signal.SIGTERM, _terminated)
    keep_freed_memory()
    sys.exit(run(argv))


def _terminated(number: int, _: FrameType | None) -> NoReturn:
    """Leave as Ctrl-C does, so that whatever is half-written is removed on the way out."""
    raise SystemExit(128 + number)  # no library swallows that


def run(argv: list[str] | None = None) -> int:
    """Run the command; return the exit code. No traceback reaches a user without ``--debug``."""
    # Waiting threads yield their core instead of spinning: spinning made training up to twelve
    # times slower on a busy machine (LOG.md). torch reads this when it is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        app.main(argv, prog_name="subquad", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.NoSuchOption as error:
        return _fail(_no_such_option(error), 2, error)
    except click.ClickException as error:
        return _fail(error.format_message(), 2, error)
    except Interrupted as error:
        return _fail(str(error), 128 + error.signal, error)
    except (KeyboardInterrupt, click.Abort) as error:
        return _fail("interrupted", 130, error)
    except SystemExit as error:
        return _fail("terminated", int(error.code or 0), error)
    except (_NoReader, BrokenPipeError):  # as with `| head`: there is nobody to tell
        streams.abandon(sys.stdout)
        return streams.NO_READER
    except UsageError as error:
        return _fail(str(error), 2, error)
    except SubquadError as error:
        return _fail(str(error), 1, error)
    except UnicodeDecodeError as error:
        return _fail(f"the input is not valid {error.encoding}: {error}", 1, error)
    except OSError as error:
        if error.filename is None:  # or Python would try again to write it on exit
            streams.abandon(sys.stdout)
        return _fail(f"{error.filename or 'input or output'}: {error.strerror or error}", 1, error)
    except Exception as error:
        return _fail(_unexpected(error), 1, error)
    return 0


#: Options that users may know from other programs, and what to do instead.
_ELSEWHERE = {
    "--device": "A CUDA device is used if there is one, otherwise the CPU; put "
    "CUDA_VISIBLE_DEVICES= (empty) before the command to use the CPU, or CUDA_VISIBLE_DEVICES=1 to "
    "use the second device",
}


def _no_such_option(error: click.NoSuchOption) -> str:
    """Click's message, with suggestions."""
    if error.option_name in _ELSEWHERE:
        return f"{error.message} {_ELSEWHERE[error.option_name]}"
    nearest = error.possibilities or []
    return f"{error.message} Did you mean {' or '.join(nearest)}?" if nearest else error.message


def _unexpected(error: BaseException) -> str:
    return f"unexpected {type(error).__name__}: {error} (run again with --debug for the details)"


def _fail(message: str, code: int, error: BaseException) -> int:
    if os.environ.get("SUBQUAD_DEBUG"):
        import traceback

        traceback.print_exception(error)
    one_line: Any = " ".join(message.split())
    try:
        click.echo(f"subquad: {one_line}", err=True)
    except OSError:  # nobody reads this either
        streams.abandon(sys.stderr)
    return code
