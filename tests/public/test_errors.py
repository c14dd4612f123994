"""The tree of errors: each is public, and each is a NimbleError."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import nimblepy as nb
from nimblepy import errors

pytestmark = pytest.mark.sanitizer


@pytest.mark.parametrize("name", [n for n, _ in inspect.getmembers(errors, inspect.isclass)])
def test_every_error_is_public_and_descends_from_nimble_error(name: str) -> None:
    assert name in nb.__all__
    assert issubclass(getattr(nb, name), nb.NimbleError)
    assert not issubclass(nb.NimbleError, OSError)


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (nb.InvalidArgumentError, ValueError),
        (nb.IndexUnavailableError, LookupError),
        (nb.StaleFileError, OSError),
        (nb.MissingExtraError, ImportError),
        (nb.NimbleMissingOnExecutor, ImportError),
    ],
)
def test_errors_are_also_what_python_calls_them(
    error: type[nb.NimbleError], base: type[Exception]
) -> None:
    assert issubclass(error, base)
    assert str(error("what went wrong")) == "what went wrong"


def test_missing_pyspark_names_its_extra() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import nimblepy as nb\n"
        "try:\n"
        "    import nimblepy.spark\n"
        "except nb.MissingExtraError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "nimblepy[spark]" in done.stdout
