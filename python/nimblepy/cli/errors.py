"""Prints errors that a user can act on in one line. Other errors keep their traceback."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from nimblepy.errors import NimbleError

# Patterns for Python arguments and methods in errors, and their replacements on the command line.
_OPTIONS = [
    (re.compile(call), option)
    for call, option in (
        (r"if_exists='ignore' returns it", "--if-not-exists keeps it"),
        (r"new_columns='(\w+)'", r"--new-columns \1"),
        (r"\bcast=True", "--cast"),
        (r"\bexact=True", "--exact"),
        (r"\bpass (metric|on)=", r"pass --\1"),
        (r"\breplace=True", "--replace"),
        (r"(table\.)?snapshots\(\)", "nimble table history"),
        (r"\bupsert\(\) replaces", "nimble table upsert replaces"),
        (r"; merge\(data, on=\.\.\.\) does not need one", ""),
        (r"drop_reference\(\) and make it again with branch\(\)", "--drop and make it again"),
    )
]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Prints expected errors as ``nimble: error: ...`` and exits with status 2."""
    try:
        yield
    except BrokenPipeError:
        # The reader of a pipe has closed it (`nimble scan ... | head`), which is not an error.
        # Python would fail again when it flushes at exit, so redirect the output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except (NimbleError, OSError, ImportError) as error:
        raise _fail(_message(error)) from error
    except Exception as error:
        # Does not import pyarrow only for its error classes: without it they cannot occur.
        arrow = sys.modules.get("pyarrow")
        if arrow is None or not isinstance(error, arrow.ArrowException):
            raise
        raise _fail(_message(error)) from error


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fspath(error.filename)}: {error.strerror}"
    text = str(error) or type(error).__name__
    for call, option in _OPTIONS:
        text = call.sub(option, text)
    return text


def _fail(message: str) -> typer.Exit:
    typer.echo(f"nimble: error: {message}", err=True)
    return typer.Exit(2)
