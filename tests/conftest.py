"""Hypothesis profiles, the `slow` marker and fixtures shared by all Python tests.

Profiles: `quick` (default, the same examples every run) and `deep` (many random examples, prints
how to reproduce a failure): NIMBLEPY_TEST_PROFILE=deep. Tests marked `slow` run only with `-m
slow` or NIMBLEPY_SLOW=1.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from bench.s3_server import Server

    import nimblepy as nb

TESTS = Path(__file__).resolve().parent
for folder in (TESTS, TESTS / "support"):  # importable under every import mode of pytest
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

# Files of tests go to memory where there is room: thousands of small writes wait for no disk.
_SHM = Path("/dev/shm")
_SLOW = bool(os.environ.get("NIMBLEPY_SLOW"))
if not _SLOW and os.access(_SHM, os.W_OK) and shutil.disk_usage(_SHM).free > 2 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_SHM))

_COMMON: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
}
# Not shrunk: the quick suite must also fail quickly. The deep profile shrinks.
settings.register_profile(
    "quick",
    max_examples=20,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    **_COMMON,
)
settings.register_profile("deep", max_examples=1000, **_COMMON)
settings.load_profile(os.environ.get("NIMBLEPY_TEST_PROFILE", "quick"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _SLOW or "slow" in (config.option.markexpr or ""):
        return
    skip = pytest.mark.skip(reason="slow: run with -m slow or NIMBLEPY_SLOW=1")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


def pytest_collection_finish(session: pytest.Session) -> None:
    _leave_to_no_collection()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is not None and nextitem.path != item.path:
        _leave_to_no_collection()


def _leave_to_no_collection() -> None:
    """Keeps all objects that live now out of later garbage collections.

    With all tests and what they leave behind, one `gc.collect()` took a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a test writes its file. Writing again replaces it atomically, so hypothesis may
    reuse it.
    """
    return str(tmp_path / "t.nimble")


@pytest.fixture
def store(path: str) -> Callable[..., Any]:
    """store(data, **write_keywords) -> nb.File: write and open again."""
    import nimblepy as nb

    def write_and_open(
        data: Any, *, open_with: dict[str, Any] | None = None, **keywords: Any
    ) -> Any:
        nb.write(data, path, **keywords)
        return nb.open(path, **(open_with or {}))

    return write_and_open


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nb.Catalog:
    """The catalog of an empty directory; NIMBLEPY_TEST_CATALOG=files makes it one of pointers."""
    pytest.importorskip("pyiceberg")
    import nimblepy as nb

    kind = os.environ.get("NIMBLEPY_TEST_CATALOG")
    if kind == "files":
        reason = "a catalog of files cannot rename tables"
        monkeypatch.setattr(nb.Catalog, "rename_table", lambda *_: pytest.skip(reason))
    return nb.connect(tmp_path / "lake", catalog=kind)


@pytest.fixture(scope="session")
def running_server() -> Iterator[Server]:
    pytest.importorskip("moto.server")
    pytest.importorskip("obstore")
    from bench.s3_server import serve

    with serve() as started:
        yield started


@pytest.fixture
def server(running_server: Server) -> Server:
    """A server that speaks S3's protocol; tests may tell it to fail."""
    running_server.faults.reset()
    return running_server
