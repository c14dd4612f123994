"""Random histories of concurrent changes have the outcome of a serial order: see histories.py."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import histories
import pytest
from histories import Runner, explore_seed, stopping_before_swaps
from serial_order import Done, State, Table, serial_order

QUICK, MANY = range(1, 16), range(16, 200)
KNOWN = json.loads((Path(histories.__file__).parent / "known_histories.json").read_text())
MOST = int(os.environ.get("NIMBLEPY_INTERLEAVINGS", "24"))


@pytest.fixture(autouse=True)
def stopping() -> Iterator[None]:
    with stopping_before_swaps():
        yield


def _explore(directory: Path, seed: int) -> None:
    runner = Runner(directory)
    explore_seed(runner, seed, MOST)
    assert runner.executions > 1


@pytest.mark.parametrize("seed", QUICK)
def test_histories_are_serializable(tmp_path: Path, seed: int) -> None:
    _explore(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_many_histories_are_serializable(tmp_path: Path, seed: int) -> None:
    _explore(tmp_path, seed)


@pytest.mark.parametrize("name", KNOWN)
def test_histories_that_were_not_serializable(tmp_path: Path, name: str) -> None:
    """Each gave rows that no order of its operations gives, or an error of the wrong kind."""
    case = KNOWN[name]
    Runner(tmp_path).replay(case["history"], case["schedule"])


def test_the_checker_refuses_what_no_order_explains() -> None:
    table = Table(keyed=False, initial=State(((1, 1, 0),)))
    merge = {
        "op": "merge",
        "rows": [[1, 1, 0], [7, 1, 0]],
        "matched": [],
        "not_matched": [{"if": None}],
        "by_source": [],
    }
    delete = {"op": "delete", "filter": [["v", "=", 1]]}
    done = [Done(merge, ["ok", 1, 0, 0], 1, 4), Done(delete, ["ok", 0, 0, 1], 2, 3)]
    assert serial_order(table, done, [(7, 1, 0)]) is None
    assert serial_order(table, done, []) is None  # it would have deleted two rows
    done[1] = Done(delete, ["ok", 0, 0, 2], 2, 3)
    assert serial_order(table, done, []) == [0, 1]
    # What had ended before another one began comes first.
    done[0] = Done(merge, ["ok", 1, 0, 0], 4, 5)
    assert serial_order(table, done, []) is None
    done = [Done(merge, ["ok", 2, 0, 0], 4, 5), Done(delete, ["ok", 0, 0, 1], 2, 3)]
    assert serial_order(table, done, [(1, 1, 0), (7, 1, 0)]) == [1, 0]
