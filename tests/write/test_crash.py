"""A writer that dies or fails at any call leaves the old file or the new one, and says why.

``pytest tests/write/test_crash.py -m slow`` dies at more calls, and at random times.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from crash_driver import OPTIONS, table

import nimblepy as nb

SUPPORT = Path(__file__).resolve().parents[1] / "support"
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.crash,
    pytest.mark.no_sanitizer,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="preloads a library"),
    pytest.mark.skipif(COMPILER is None, reason="no C compiler"),
]


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    assert COMPILER is not None
    command = [
        COMPILER,
        "-shared",
        "-fPIC",
        "-O1",
        "-o",
        str(library),
        str(SUPPORT / "faults.c"),
        "-ldl",
    ]
    subprocess.run(command, check=True)
    return library


def driven(faults: Path, folder: Path, most: int) -> dict[str, Any]:
    """What happened at up to `most` points of death (0: at all) and at each kind of failure."""
    environment = {
        **os.environ,
        "LD_PRELOAD": str(faults),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "crash_driver.py"), str(faults), str(folder), str(most)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def outcome(faults: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return driven(faults, tmp_path_factory.mktemp("crash"), 40)


def check_kills(kills: list[dict[str, Any]]) -> None:
    died = [kill for kill in kills if kill["status"] == -signal.SIGKILL]
    assert len(died) >= len(kills) - 2, "the fault did not come"
    assert {kill["state"] for kill in kills} == {"old", "new"}, "torn, or always the same"
    assert not [kill for kill in kills if kill["strange"]], "remains without a recognisable name"
    assert not [kill for kill in kills if kill["left"]], "the next writer did not clean up"


def test_death_at_any_call_leaves_a_whole_file(outcome: dict[str, Any]) -> None:
    assert outcome["calls"] >= 8
    check_kills(outcome["kills"])


def test_failures_are_told_and_leave_the_old_file(outcome: dict[str, Any]) -> None:
    told = {failure["told"].split(":")[0] for failure in outcome["failures"]}
    assert told == {"ENOSPC", "EIO", "EACCES", "EROFS", "nothing"}
    for failure in outcome["failures"]:
        assert failure["status"] == 0
        assert failure["left"] == []
        short = failure["told"] == "nothing"
        directory = (failure["call"], failure["n"]) == ("fsync", 2)
        assert failure["state"] == ("new" if short or directory else "old")
        assert short or "table.nimble" in failure["told"]
        assert ("the new file is in place" in failure["told"]) == directory


@pytest.mark.slow
def test_death_at_every_call(faults: Path, tmp_path: Path) -> None:
    check_kills(driven(faults, tmp_path, 0)["kills"])


@pytest.mark.slow
def test_death_at_a_thousand_moments(tmp_path: Path) -> None:
    path = tmp_path / "table.nimble"
    old, new = table(1).slice(0, 20_000), table(2).slice(0, 20_000)
    states = {"old": 0, "new": 0}
    moments = random.Random(1)
    start = time.perf_counter()
    nb.write(old, path, cluster_by="k", presorted=True, options=OPTIONS)
    longest = 6 * (time.perf_counter() - start)
    for _ in range(1000):
        pid = os.fork()
        if pid == 0:
            while True:
                for rows in (new, old):
                    nb.write(rows, path, cluster_by="k", presorted=True, options=OPTIONS)
        time.sleep(moments.uniform(0, longest))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with nb.open(path, verify="full") as file:
            found = file.to_table()
        state = "old" if found.equals(old) else "new"
        assert state == "old" or found.equals(new), "torn"
        states[state] += 1
    assert min(states.values()) > 100
    nb.write(old, path, cluster_by="k", presorted=True, options=OPTIONS)
    assert os.listdir(tmp_path) == [path.name], "the next writer did not clean up"
