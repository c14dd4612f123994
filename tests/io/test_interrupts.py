"""A signal may end any call, and no lock stays held after it."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import nimblepy as nb


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGALRM, before)


def interrupted(call: Callable[[], object], times: int) -> int:
    """Calls it, and interrupts it at random moments. Returns how often that happened."""
    rng, count = random.Random(1), 0
    for _ in range(times):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(2e-5, 4e-4))
                call()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            count += 1
    return count


def works_in_another_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


# Python closes the connections of interrupted calls, with a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_calls_of_a_server(tmp_path: Path) -> None:
    nb.write(pa.table({"id": range(1000)}), tmp_path / "m.nimble", cluster_by="id")
    with nb.serve(tmp_path / "m.nimble", "m") as server:
        table = nb.connect(server.address, timeout=5).table("m")
        assert interrupted(lambda: table.get(5), 1500) > 10
        works_in_another_thread(lambda: table.get(5))
        assert table.get(5) == {"id": 5}


def test_calls_of_a_table(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    lake = nb.connect(tmp_path / "lake")
    table = lake.create_table("s.a", [{"id": 1, "v": 0}], primary_key="id")
    assert interrupted(table.refresh, 700) > 10
    works_in_another_thread(lambda: nb.connect(tmp_path / "lake").table("s.a").get(1))
    assert table.refresh().get(1) == {"id": 1, "v": 0}
